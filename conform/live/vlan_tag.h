// Tags of IEEE 802.1Q: the port takes and puts them, cases see frames without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "conform/case/bench.h"
#include "rnic/wire/layout.h"

namespace urnic::conform {

/// Returns whether a frame is on that VLAN (0: none); a tag without a VLAN says a priority alone.
[[nodiscard]] inline bool is_of_vlan(const SeenFrame& frame, std::uint16_t vlan) {
    constexpr std::uint16_t kVlanIdMask = 0xfff;
    return (frame.vlan_tci.value_or(0) & kVlanIdMask) == vlan;
}

/// The priority (PCP) in a tag's control information.
[[nodiscard]] constexpr unsigned priority_of_tag(std::uint16_t tci) { return tci >> 13U; }

/// The frame with a tag behind its MACs.
[[nodiscard]] inline FrameBytes with_vlan_tag(std::span<const std::byte> frame, std::uint16_t tci) {
    constexpr std::size_t kMacs = wire::kEthernetBytes - 2;
    FrameBytes tagged(frame.begin(), frame.begin() + kMacs);
    tagged.resize(kMacs + wire::kVlanTagBytes);
    wire::store_be16(tagged.data() + kMacs, wire::kEtherTypeVlan);
    wire::store_be16(tagged.data() + kMacs + 2, tci);
    tagged.insert(tagged.end(), frame.begin() + kMacs, frame.end());
    return tagged;
}

}  // namespace urnic::conform
