#include "rnic/wire/icrc.h"

#include "base/bytes.h"
#include "rnic/wire/crc/crc32.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"

namespace urnic::wire {

bool icrc_ok(const PacketView& view) {
    const std::byte* const data = view.l3.data();
    const std::size_t length = view.l3.size();
    // What is masked ends with the BTH. A packet hardly longer than that is quicker as one head.
    constexpr std::size_t kShortBytes = 80;
    const std::size_t least = (view.is_ipv4 ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes + kBthBytes;
    const std::size_t head = length <= kShortBytes ? length : least;
    const std::uint32_t crc =
        crc32_headed_update(icrc_head(data, head, view.is_ipv4), data + head, length - head);
    return ~crc == load_le32(data + length);
}

}  // namespace urnic::wire
