#include "tests/fuzz/frame_repair.h"

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"
#include "rnic/wire/crc/crc32.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/icrc.h"
#include "rnic/wire/layout.h"

namespace urnic::fuzz {

void repair_ip_checksum(std::span<std::byte> frame) {
    std::size_t offset = wire::kEthernetBytes;
    if (frame.size() >= offset + wire::kVlanTagBytes &&
        wire::load_be16(&frame[offset - 2]) == wire::kEtherTypeVlan) {
        offset += wire::kVlanTagBytes;
    }
    if (frame.size() < offset + wire::kIpv4Bytes ||
        wire::load_be16(&frame[offset - 2]) != wire::kEtherTypeIpv4) {
        return;
    }
    const std::span<std::byte> ip = frame.subspan(offset, wire::kIpv4Bytes);
    wire::store_be16(&ip[wire::kIpv4Checksum], 0);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < ip.size(); i += 2) {
        sum += wire::load_be16(&ip[i]);
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    wire::store_be16(&ip[wire::kIpv4Checksum], static_cast<std::uint16_t>(~sum));
}

void repair_icrc(std::span<std::byte> frame) {
    wire::PacketView view;
    if (wire::parse_frame(frame, view) == wire::ParseError::kNone) {
        const auto at = static_cast<std::size_t>(view.l3.data() + view.l3.size() - frame.data());
        const std::size_t head = std::min(view.l3.size(), wire::kMaxIcrcHeadBytes);
        const std::uint32_t crc =
            wire::crc32_headed_update(wire::icrc_head(view.l3.data(), head, view.is_ipv4),
                                      view.l3.data() + head, view.l3.size() - head);
        wire::store_le32(&frame[at], ~crc);
    }
}

}  // namespace urnic::fuzz
