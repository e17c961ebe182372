#include "rnic/qp/rc/measured_rc_qp.h"

#include "rnic/device/message_histograms.h"

namespace urnic {

bool MeasuredRcQp::progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) {
    const SendWindow& window = send_window();
    std::uint32_t index = window.tail_index();
    const bool more = RcQp::progress(now, max_packets, outbox);
    if (index != window.tail_index()) {
        const TimeNs time = outbox.clock(now);
        for (; index != window.tail_index(); ++index) {
            begun_at_ns_[index % kMaxInFlightWqes] = time;
        }
    }
    return more;
}

// Nothing else than a packet completes a message with success, and what leaves the window without success is
// counted as an error, behind those that had it.
void MeasuredRcQp::handle_packet(TimeNs now, const wire::PacketView& packet, Outbox& outbox) {
    const SendWindow& window = send_window();
    const std::uint32_t first = window.una_index();
    const std::uint64_t errors = config_.counters->req_cqe_error.value();
    ImitatingRcQp::handle_packet(now, packet, outbox);
    if (const std::uint32_t retired = window.una_index() - first; retired != 0) {
        const auto failed = static_cast<std::uint32_t>(config_.counters->req_cqe_error.value() - errors);
        count_messages(first, retired - failed, outbox.clock(now));
    }
}

void MeasuredRcQp::count_messages(std::uint32_t index, std::uint32_t number, TimeNs time) {
    constexpr std::uint64_t kAtomicWriteBytes = 8;  // its response, which is what the window knows, has none
    for (; number != 0; ++index, --number) {
        const InflightWqe& wqe = send_window().at(index);
        if (wqe.is_local_op()) {
            continue;
        }
        const WrOpcodeInfo& info = rc_wr_opcode_info(wqe.opcode);
        MessageHistograms::OfOperation& histograms =
            config_.histograms->of(message_operation(info.completion));
        histograms.size_bytes.add(info.is(WrOpcodeInfo::kIsAtomicWrite) ? kAtomicWriteBytes
                                                                        : wqe.length_bytes);
        // A device's clock changes where an emulated network comes or goes (Outbox::clock()).
        const TimeNs begun = begun_at_ns_[index % kMaxInFlightWqes];
        histograms.latency_ns.add(time > begun ? time - begun : 0);
    }
}

}  // namespace urnic
