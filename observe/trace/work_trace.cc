// The events of a trace that are no packets: WQEs, completions, rates, timers, pauses.
#include <bit>

#include "abi/verbs_values.h"
#include "observe/trace/packet_trace.h"

namespace urnic::trace {

namespace {

constexpr double kMillion = 1e6;

/// ibv_wc_status without its prefix.
const char* status_name(std::uint8_t status) {
    switch (static_cast<WcStatus>(status)) {
        case WcStatus::kSuccess:
            return "SUCCESS";
        case WcStatus::kLocLenErr:
            return "LOC_LEN_ERR";
        case WcStatus::kLocQpOpErr:
            return "LOC_QP_OP_ERR";
        case WcStatus::kLocProtErr:
            return "LOC_PROT_ERR";
        case WcStatus::kWrFlushErr:
            return "WR_FLUSH_ERR";
        case WcStatus::kMwBindErr:
            return "MW_BIND_ERR";
        case WcStatus::kBadRespErr:
            return "BAD_RESP_ERR";
        case WcStatus::kLocAccessErr:
            return "LOC_ACCESS_ERR";
        case WcStatus::kRemInvReqErr:
            return "REM_INV_REQ_ERR";
        case WcStatus::kRemAccessErr:
            return "REM_ACCESS_ERR";
        case WcStatus::kRemOpErr:
            return "REM_OP_ERR";
        case WcStatus::kRetryExcErr:
            return "RETRY_EXC_ERR";
        case WcStatus::kRnrRetryExcErr:
            return "RNR_RETRY_EXC_ERR";
        case WcStatus::kRemAbortErr:
            return "REM_ABORT_ERR";
        case WcStatus::kFatalErr:
            return "FATAL_ERR";
        case WcStatus::kGeneralErr:
            return "GENERAL_ERR";
    }
    return "unknown";
}

/// ibv_wr_opcode without its prefix.
const char* request_name(std::uint8_t opcode) {
    switch (static_cast<WrOpcode>(opcode)) {
        case WrOpcode::kWrite:
            return "RDMA_WRITE";
        case WrOpcode::kWriteWithImm:
            return "RDMA_WRITE_WITH_IMM";
        case WrOpcode::kSend:
            return "SEND";
        case WrOpcode::kSendWithImm:
            return "SEND_WITH_IMM";
        case WrOpcode::kRead:
            return "RDMA_READ";
        case WrOpcode::kCompareSwap:
            return "ATOMIC_CMP_AND_SWP";
        case WrOpcode::kFetchAdd:
            return "ATOMIC_FETCH_AND_ADD";
        case WrOpcode::kLocalInvalidate:
            return "LOCAL_INV";
        case WrOpcode::kBindMw:
            return "BIND_MW";
        case WrOpcode::kSendWithInvalidate:
            return "SEND_WITH_INV";
        case WrOpcode::kFlush:
            return "FLUSH";
        case WrOpcode::kAtomicWrite:
            return "ATOMIC_WRITE";
    }
    return "unknown";
}

/// ibv_wc_opcode without its prefix.
const char* work_name(std::uint8_t opcode) {
    switch (static_cast<WcOpcode>(opcode)) {
        case WcOpcode::kSend:
            return "SEND";
        case WcOpcode::kRdmaWrite:
            return "RDMA_WRITE";
        case WcOpcode::kRdmaRead:
            return "RDMA_READ";
        case WcOpcode::kCompSwap:
            return "COMP_SWAP";
        case WcOpcode::kFetchAdd:
            return "FETCH_ADD";
        case WcOpcode::kBindMw:
            return "BIND_MW";
        case WcOpcode::kLocalInv:
            return "LOCAL_INV";
        case WcOpcode::kFlush:
            return "FLUSH";
        case WcOpcode::kAtomicWrite:
            return "ATOMIC_WRITE";
        case WcOpcode::kRecv:
            return "RECV";
        case WcOpcode::kRecvRdmaWithImm:
            return "RECV_RDMA_WITH_IMM";
    }
    return "unknown";
}

}  // namespace

void PacketTrace::add_completion(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                                 const abi::CapturedCompletion& completion) {
    if (!is_wanted(device, qpn)) return;
    EventData data = {{"queue", completion.is_recv != 0 ? "receive" : "send"},
                      {"wqe_index", completion.wqe_index},
                      {"wr_id", HexText{completion.wr_id}},
                      {"status", status_name(completion.status)}};
    // A completion with an error says neither (ibv_poll_cq(3)).
    if (completion.status == static_cast<std::uint8_t>(WcStatus::kSuccess)) {
        data["opcode"] = work_name(completion.opcode);
        data["byte_len"] = completion.byte_len;
    }
    if (completion.is_solicited != 0) data["solicited"] = true;
    emit(time_ns, qp_of(device, qpn).group, "completion_written", data);
}

void PacketTrace::add_wqe(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                          const abi::CapturedWqe& wqe) {
    if (!is_wanted(device, qpn)) return;
    EventData data = {{"queue", wqe.is_recv != 0 ? "receive" : "send"}, {"wqe_index", wqe.wqe_index}};
    if (wqe.is_recv == 0) {
        if (wqe.is_reused == 0) {
            data["wr_id"] = HexText{wqe.wr_id};
            data["opcode"] = request_name(wqe.opcode);
            data["length"] = wqe.length_bytes;
        }
        data["psn"] = wqe.first_psn;
    }
    QueuePair& qp = qp_of(device, qpn);
    if (wqe.is_recv == 0) {
        std::deque<FetchedSend>& fetched = qp.fetched;
        // Of PSNs that were left, by RESET, nothing is taken any more.
        if (fetched.size() == kMostMessages) fetched.clear();
        fetched.push_back({wqe.first_psn, time_ns});
    }
    emit(time_ns, qp.group, "wqe_fetched", data);
}

void PacketTrace::add_rate(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                           const abi::CapturedRate& rate) {
    if (!is_wanted(device, qpn)) return;
    EventData data = {{"cause", abi::kRateCauses[static_cast<std::size_t>(rate.cause)]}};
    if (rate.bits_per_s != 0) data["bits_per_s"] = rate.bits_per_s;
    if (rate.old_bits_per_s != 0) data["old_bits_per_s"] = rate.old_bits_per_s;
    if (rate.target_bits_per_s != 0) {
        data["target_bits_per_s"] = rate.target_bits_per_s;
        data["alpha"] = rate.alpha_ppm / kMillion;
    }
    emit(time_ns, qp_of(device, qpn).group, "rate_changed", data);
}

void PacketTrace::add_timer(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                            const abi::CapturedTimer& timer) {
    if (!is_wanted(device, qpn)) return;
    emit(time_ns, qp_of(device, qpn).group, "timer_expired",
         {{"timer", abi::kTimerNames[timer.timer]},
          {"retries", timer.retries},
          {"retry_limit", timer.retry_limit}});
}

void PacketTrace::add_pause(std::string_view device, std::uint64_t time_ns, const abi::CapturedPause& pause) {
    if (!is_wanted(device, 0)) return;
    PausedPriorities& known = paused_[std::string(device)];
    std::uint8_t& paused = pause.is_sent != 0 ? known.sent : known.received;
    const auto now = static_cast<std::uint8_t>((paused | pause.paused) & ~pause.resumed);
    // One that was paused before the trace began is resumed, too.
    const auto resumed = static_cast<std::uint8_t>((paused & ~now) | (pause.resumed & ~paused));
    const auto say = [&](std::uint8_t priorities, const char* name) {
        for (; priorities != 0; priorities &= static_cast<std::uint8_t>(priorities - 1)) {
            emit(time_ns, device, name,
                 {{"priority", std::countr_zero(priorities)},
                  {"direction", pause.is_sent != 0 ? "sent" : "received"}});
        }
    };
    say(resumed, "pfc_resumed");
    say(static_cast<std::uint8_t>(now & ~paused), "pfc_paused");
    paused = now;
}

void PacketTrace::add_error_state(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns) {
    if (!is_wanted(device, qpn)) return;
    set_state(time_ns, qp_of(device, qpn), qp_state_name(QpState::kErr));
}

}  // namespace urnic::trace
