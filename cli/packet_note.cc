#include "cli/packet_note.h"

#include <charconv>
#include <iterator>

#include "abi/verbs_values.h"

namespace urnic::cli {

PacketNote::PacketNote(const abi::CaptureRecord& record) {
    const auto fate = static_cast<std::size_t>(record.fate);
    put("fate=");
    put(fate < std::size(abi::kPacketFates) ? abi::kPacketFates[fate] : "unknown");
    if (record.fate == abi::PacketFate::kDropped && record.drop < std::size(abi::kPacketDrops)) {
        put(" drop=");
        put(abi::kPacketDrops[record.drop]);
    }
    if (record.qpn != abi::kNoQp) {
        put(" qpn=0x");
        put(record.qpn, 16);
    }
    if (record.state != abi::kNoState) {
        put(" state=");
        put(qp_state_name(QpState{record.state}));
        put(" expected_psn=");
        put(record.expected_psn);
        put(" next_psn=");
        put(record.next_psn);
    }
}

void PacketNote::put(std::uint32_t number, int base) {
    const auto made = std::to_chars(text_.data() + size_, text_.data() + text_.size(), number, base);
    URNIC_CHECK(made.ec == std::errc{});
    size_ = static_cast<std::size_t>(made.ptr - text_.data());
}

}  // namespace urnic::cli
