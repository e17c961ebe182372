#include "rnic/wire/checksum.h"

#include "base/bytes.h"
#include "rnic/wire/layout.h"

namespace urnic::wire {

std::uint64_t checksum_sum(std::span<const std::byte> data, std::uint64_t sum) {
    std::size_t i = 0;
    for (; i + 2 <= data.size(); i += 2) {
        sum += load_be16(&data[i]);
    }
    return i < data.size() ? sum + (std::to_integer<std::uint64_t>(data[i]) << 8U) : sum;
}

std::uint16_t checksum_fold(std::uint64_t sum) {
    while (sum > 0xffffU) {
        sum = (sum & 0xffffU) + (sum >> 16U);
    }
    return static_cast<std::uint16_t>(~sum);
}

std::uint16_t udp_checksum(std::span<const std::byte> addresses, std::span<const std::byte> datagram) {
    const std::uint64_t pseudo = checksum_sum(addresses, kProtocolUdp + datagram.size());
    return checksum_fold(checksum_sum(datagram, pseudo));
}

}  // namespace urnic::wire
