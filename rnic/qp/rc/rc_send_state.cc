#include "rnic/qp/rc/rc_send_state.h"

#include <algorithm>

#include "rnic/qp/completions.h"
#include "rnic/qp/timing.h"
#include "rnic/qp/wr_opcodes.h"

namespace urnic {

namespace {
constexpr std::uint8_t kRetryForEver = 7;  // rnr_retry alone (IBA 9.7.5.2.8)
}  // namespace

void RcSendState::reset(Psn first_psn) {
    window.reset(first_psn);
    recovery.reset(early_responses.is_enabled());
    early_responses.clear();
    ack_timer_start_ = 0;
    rnr_until_ = kNever;
    rtt_.reset();
    ack_requested_at_ = 0;
    ack_requested_psn_ = first_psn - 1;
    retries_left_ = common_.attr.retry_cnt;
    rnr_retries_left_ = common_.attr.rnr_retry;
    credits_limited_ = false;
    recovering_response = peer_refused_read = false;
    local_error_ = WcStatus::kSuccess;
    limit_ = Psn(0);
}

void RcSendState::on_progress(TimeNs now, const Outbox& outbox) {
    retries_left_ = common_.attr.retry_cnt;
    rnr_retries_left_ = common_.attr.rnr_retry;
    recovering_response = false;
    recovery.on_progress();
    ack_timer_start_ = now;
    if (rtt_.on_ack(now, window.una_psn(), recovery.retransmitted_at()) &&
        common_.self.flow().is_rtt_needed()) [[unlikely]] {
        common_.self.flow().on_rtt(outbox.clock(now), rtt_.latest_ns());
    }
}

bool RcSendState::consume_retry(TimeNs now, Outbox& outbox) {
    if (retries_left_ == 0) {
        ++common_.config.counters->retry_exceeded_err;
        ++common_.config.counters->req_transport_retries_exceeded;
        fail_oldest(WcStatus::kRetryExcErr, outbox);
        return false;
    }
    --retries_left_;
    ++common_.config.counters->completer_retry_err;
    ack_timer_start_ = now;
    return true;
}

bool RcSendState::retry(TimeNs now, Outbox& outbox) {
    if (!consume_retry(now, outbox)) {
        return false;
    }
    window.rewind();
    rtt_.cancel_sample();
    recovery.cancel(now);
    return true;
}

TimerExpiry RcSendState::expiry_of(RcTimer timer) const {
    const bool is_rnr = timer == RcTimer::kRnr;
    const std::uint8_t limit = is_rnr ? common_.attr.rnr_retry : common_.attr.retry_cnt;
    // A limit that modify_qp() lowered does not take retries back.
    const std::uint8_t left = std::min(is_rnr ? rnr_retries_left_ : retries_left_, limit);
    return {timer, static_cast<std::uint8_t>(limit - left), limit};
}

bool RcSendState::has_rnr_retry() const {
    return common_.attr.rnr_retry == kRetryForEver || rnr_retries_left_ != 0;
}

void RcSendState::retry_after_rnr(TimeNs now, std::uint8_t timer_code, Outbox& outbox) {
    peer_refused_read = peer_refused_read || window.oldest().has_response;
    if (is_waiting_for_rnr()) {
        return;  // a duplicate: the wait that it asks for has begun
    }
    if (common_.attr.rnr_retry != kRetryForEver) {
        if (!has_rnr_retry()) {
            ++common_.config.counters->retry_rnr_exceeded_err;
            ++common_.config.counters->req_rnr_retries_exceeded;
            fail_oldest(WcStatus::kRnrRetryExcErr, outbox);
            return;
        }
        --rnr_retries_left_;
    }
    ++common_.config.counters->rnr_nak_retry_err;
    // The peer answers: the transport works, whatever was lost before.
    retries_left_ = common_.attr.retry_cnt;
    rnr_until_ = now + rnr_timer_ns(timer_code);
    window.rewind();
    rtt_.cancel_sample();
    recovery.cancel(now);
    recovery.on_progress();
}

TimeNs RcSendState::ack_deadline() const {
    const TimeNs timeout = ack_timeout_ns(common_.attr.timeout);
    if (!window.is_awaiting_answer() || timeout == kNever) {
        return kNever;
    }
    // Between the time that the application set and four times that (IBA 9.9.2.1.1): a peer with a long round
    // trip gets longer.
    return ack_timer_start_ + std::clamp(2 * rtt_.max_any_ns(), timeout, 4 * timeout);
}

void RcSendState::update_credits(std::uint8_t syndrome, std::uint32_t msn) {
    const std::uint8_t code = syndrome & wire::kSyndromeValueMask;
    credits_limited_ = code != wire::kCreditsUnlimited;
    if (credits_limited_) {
        limit_ = Psn(msn) + kCreditsOfCode[code];
    }
}

void RcSendState::report_success(const InflightWqe& wqe, std::uint32_t index, Outbox& outbox) {
    const WcOpcode opcode = rc_wr_opcode_info(wqe.opcode).completion;
    count_send(common_, opcode);
    if (wqe.signaled) {
        complete_send(common_, wqe.wr_id, index, wqe.length_bytes, opcode, outbox);
    }
}

void RcSendState::complete_error(std::uint64_t wr_id, std::uint32_t index, WcStatus status, Outbox& outbox) {
    complete_send_error(common_, wr_id, index, status, outbox);
}

void RcSendState::fail_oldest(WcStatus status, Outbox& outbox) {
    const std::uint32_t index = window.una_index();
    const std::uint64_t wr_id = window.oldest().wr_id;
    window.drop_oldest();
    complete_error(wr_id, index, status, outbox);
    common_.enter_error();
}

void RcSendState::set_local_error(std::uint32_t index, std::uint64_t wr_id, WcStatus status, Outbox& outbox) {
    local_error_ = status;
    local_error_index_ = index;
    local_error_wr_id_ = wr_id;
    report_local_error(outbox);
}

void RcSendState::report_local_error(Outbox& outbox) {
    if (!has_local_error_at(window.una_index()) || common_.state == QpState::kErr) [[likely]] {
        return;
    }
    const std::uint32_t index = window.una_index();
    window.drop_oldest();
    complete_error(local_error_wr_id_, index, local_error_, outbox);
    common_.enter_error();
}

bool RcSendState::flush(std::uint32_t most, Outbox& outbox) {
    const SendQueue& sq = common_.config.sq;
    for (std::uint32_t done = 0; done < most; ++done) {
        const std::uint32_t index = window.una_index();
        std::uint64_t wr_id = 0;
        if (static_cast<std::int32_t>(window.tail_index() - index) > 0) {
            wr_id = window.oldest().wr_id;
        } else {
            SendWork work;
            if (sq.fetch(index, work) == Fetch::kEmpty) {
                return false;
            }
            wr_id = work.wr_id;
        }
        window.drop_oldest();
        complete_error(wr_id, index, WcStatus::kWrFlushErr, outbox);
    }
    return true;
}

}  // namespace urnic
