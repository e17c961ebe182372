#include "rnic/qp/captured_work.h"

namespace urnic {

// An application can have written its next WQE there only when this one has completed.
abi::CapturedWqe captured_send(const Qp& qp, std::uint32_t index) {
    abi::CapturedWqe wqe{};
    wqe.wqe_index = index;
    wqe.first_psn = qp.first_psn_of(index).value();
    SendWork work;
    if (qp.config().sq.fetch(index, work) == Fetch::kOk) {
        wqe.wr_id = work.wr_id;
        wqe.opcode = work.opcode;
        wqe.length_bytes = work.length_bytes;
    } else {
        wqe.is_reused = 1;
    }
    return wqe;
}

abi::CapturedCompletion captured_completion(const Completion& completion) {
    abi::CapturedCompletion shown{};
    shown.wr_id = completion.wr_id;
    shown.wqe_index = completion.wqe_index;
    shown.byte_len = completion.byte_len;
    shown.status = static_cast<std::uint8_t>(completion.status);
    shown.opcode = static_cast<std::uint8_t>(completion.opcode);
    shown.is_recv = completion.is_recv ? 1 : 0;
    shown.is_solicited = completion.solicited ? 1 : 0;
    return shown;
}

abi::CapturedTimer captured_timer(const TimerExpiry& expiry) {
    abi::CapturedTimer shown{};
    shown.timer = static_cast<std::uint8_t>(expiry.timer);
    shown.retries = expiry.retries;
    shown.retry_limit = expiry.retry_limit;
    return shown;
}

void RateWatch::begin(const FlowRate& flow) {
    rate_ = rate_of(flow);
    starts_ = flow.starts();
    timer_stage_ = flow.control().dcqcn().timer_stage();
    byte_stage_ = flow.control().dcqcn().byte_stage();
}

// A cut sets both stages to 0. Between two looks both can have risen: the timer is named then.
abi::RateCause RateWatch::cause_of(const FlowRate& flow) const {
    if (flow.starts() != starts_) {
        return abi::RateCause::kSettings;
    }
    if (flow.settings()->rate.algorithm == congestion::Algorithm::kTimely) {
        return abi::RateCause::kRtt;
    }
    const std::uint32_t timer_stage = flow.control().dcqcn().timer_stage();
    const std::uint32_t byte_stage = flow.control().dcqcn().byte_stage();
    if (flow.rate() < rate_) {
        return abi::RateCause::kCnp;
    }
    const bool was_cut = timer_stage < timer_stage_ || byte_stage < byte_stage_;
    return timer_stage > (was_cut ? 0 : timer_stage_) ? abi::RateCause::kTimer : abi::RateCause::kByteCounter;
}

std::optional<abi::CapturedRate> RateWatch::look(const FlowRate& flow) {
    if (rate_of(flow) == rate_) {
        begin(flow);
        return std::nullopt;
    }
    abi::CapturedRate shown{};
    shown.old_bits_per_s = rate_;
    shown.bits_per_s = rate_of(flow);
    shown.cause = cause_of(flow);
    if (flow.settings() != nullptr && flow.settings()->rate.algorithm == congestion::Algorithm::kDcqcn) {
        constexpr BitsPerSecond kMillion = 1'000'000;
        shown.target_bits_per_s = flow.control().target();
        shown.alpha_ppm = static_cast<std::uint32_t>(flow.control().alpha().of_rate(kMillion));
    }
    begin(flow);
    return shown;
}

}  // namespace urnic
