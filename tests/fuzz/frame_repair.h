// Makes the checks of a frame right again after its bytes were changed, so that what lies behind them is
// reached.
#pragma once

#include <cstddef>
#include <span>

namespace urnic::fuzz {

/// IPv4 header checksum of an untagged or tagged Ethernet frame with an IPv4 header; nothing for another one.
void repair_ip_checksum(std::span<std::byte> frame);

/// The last four bytes of the frame become the ICRC of the RoCEv2 packet that it holds; nothing when it holds
/// none.
void repair_icrc(std::span<std::byte> frame);

}  // namespace urnic::fuzz
