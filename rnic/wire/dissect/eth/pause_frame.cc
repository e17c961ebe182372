#include "rnic/wire/dissect/eth/pause_frame.h"

#include <algorithm>

namespace urnic::wire {

namespace {

constexpr std::size_t kEtherTypeOffset = 12;
constexpr auto kGroupBit = std::uint8_t{1};  // of a MAC's first byte

}  // namespace

bool is_mac_control(std::span<const std::byte> frame) {
    return frame.size() >= kEthernetBytes &&
           frame[kEtherTypeOffset] == std::byte{kEtherTypeMacControl >> 8U} &&
           frame[kEtherTypeOffset + 1] == std::byte{kEtherTypeMacControl & 0xffU};
}

bool parse_pause_frame(std::span<const std::byte> frame, Pfc& pause) {
    if (frame.size() < kEthernetBytes + kPfcBytes) {
        return false;
    }
    Ethernet ethernet;
    read_fields(kEthernetTable, frame.data(), &ethernet);
    read_fields(kPfcTable, frame.data() + kEthernetBytes, &pause);
    return ethernet.dst_mac == kMacControlAddress && (ethernet.src_mac[0] & kGroupBit) == 0 &&
           pause.opcode == kMacControlPfc;
}

void build_pause_frame(const Mac& source, const Pfc& pause, std::span<std::byte, kPauseFrameBytes> frame) {
    const Ethernet ethernet{kMacControlAddress, source, kEtherTypeMacControl};
    std::fill(frame.begin(), frame.end(), std::byte{0});
    write_fields(kEthernetTable, &ethernet, frame.data());
    write_fields(kPfcTable, &pause, frame.data() + kEthernetBytes);
}

}  // namespace urnic::wire
