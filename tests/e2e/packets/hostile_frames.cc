#include "tests/e2e/packets/hostile_frames.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/bytes.h"
#include "conform/case/reference_icrc.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/layout.h"

namespace urnic::test {

namespace {

using wire::load_be16;
using wire::store_be16;
using wire::store_be32;

constexpr std::size_t kL3 = wire::kEthernetBytes;
constexpr std::uint16_t kRocePort = 4791;

bool is_ipv4(const Bytes& frame) { return load_be16(frame.data() + 12) == wire::kEtherTypeIpv4; }

std::size_t bth_of(const Bytes& frame) {
    return kL3 + (is_ipv4(frame) ? wire::kIpv4Bytes : wire::kIpv6Bytes) + wire::kUdpBytes;
}

bool is_roce(const Bytes& frame) {
    if (frame.size() < kL3 + wire::kIpv6Bytes + wire::kUdpBytes + wire::kBthBytes + wire::kIcrcBytes ||
        (!is_ipv4(frame) && load_be16(frame.data() + 12) != wire::kEtherTypeIpv6)) {
        return false;
    }
    return load_be16(frame.data() + bth_of(frame) - wire::kUdpBytes + wire::kUdpDestinationPort) == kRocePort;
}

void seal(Bytes& frame) {
    if (is_ipv4(frame)) {
        std::byte* ip = frame.data() + kL3;
        store_be16(ip + wire::kIpv4Checksum, 0);
        store_be16(ip + wire::kIpv4Checksum, wire::checksum_fold(wire::checksum_sum({ip, wire::kIpv4Bytes})));
    }
    const std::size_t end = frame.size() - wire::kIcrcBytes;
    const std::uint32_t icrc = conform::reference_icrc({frame.data() + kL3, end - kL3});
    std::memcpy(frame.data() + end, &icrc, sizeof icrc);
}

void insert(Bytes& frame, std::size_t at, const Bytes& bytes) {
    frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(std::min(at, frame.size())), bytes.begin(),
                 bytes.end());
}

}  // namespace

HostileFrames::HostileFrames(std::vector<Bytes> captures, Victim victim, Random& random)
    : captures_(std::move(captures)), victim_(std::move(victim)), random_(random) {
    captures_.erase(std::remove_if(captures_.begin(), captures_.end(),
                                   [this](const Bytes& frame) {
                                       return !is_roce(frame) || frame.size() > victim_.max_frame_bytes;
                                   }),
                    captures_.end());
    if (captures_.empty()) {
        throw std::runtime_error("none of the captures has a RoCEv2 frame that fits the interface");
    }
}

/// A captured packet with the victim's addresses and a QP number of its own, of the capture or of nobody,
/// bits turned over, and then, unless it is for one of the victim's QPs, a right ICRC.
Bytes HostileFrames::aimed() {
    Bytes frame = captures_[random_.below(captures_.size())];
    if (random_.below(16) != 0) {
        std::memcpy(frame.data(), victim_.mac.data(), victim_.mac.size());
    } else {
        frame[0] |= std::byte{1};
    }
    if (is_ipv4(frame)) {
        std::memcpy(frame.data() + kL3 + wire::kIpv4Destination, victim_.ipv4.data(), 4);
        if (random_.below(2) != 0) {
            std::memcpy(frame.data() + kL3 + wire::kIpv4Source, victim_.peer_ipv4.data(), 4);
        }
    }
    std::byte* bth = frame.data() + bth_of(frame);
    const auto kind = random_.below(3);
    if (kind == 0) {
        store_be32(bth + wire::kBthDestQp - 1, static_cast<std::uint32_t>(random_.next()));
    }
    for (auto bits = random_.below(4); bits > 0; --bits) {
        const std::size_t at = bth_of(frame) + random_.below(frame.size() - bth_of(frame) - wire::kIcrcBytes);
        frame[at] ^= static_cast<std::byte>(1U << random_.below(8));
    }
    seal(frame);
    if (kind == 1 && !victim_.qp_nums.empty()) {
        const std::uint32_t qp = victim_.qp_nums[random_.below(victim_.qp_nums.size())];
        store_be32(bth + wire::kBthDestQp - 1,
                   std::to_integer<std::uint32_t>(bth[wire::kBthDestQp - 1]) << 24U | qp);
    }
    const std::uint32_t qp = wire::load_be32(bth + wire::kBthDestQp - 1) & 0xff'ffffU;
    if (std::find(victim_.qp_nums.begin(), victim_.qp_nums.end(), qp) != victim_.qp_nums.end()) {
        frame.back() ^= std::byte{0x40};
    }
    return frame;
}

/// Bytes turned over, cut off or added anywhere.
void HostileFrames::damage(Bytes& frame) {
    switch (random_.below(4)) {
        case 0:
            for (auto bytes = 1 + random_.below(8); bytes > 0; --bytes) {
                frame[6 + random_.below(frame.size() - 6)] = static_cast<std::byte>(random_.next());
            }
            break;
        case 1:
            frame.resize(wire::kEthernetBytes + random_.below(frame.size() - wire::kEthernetBytes));
            break;
        case 2:
            insert(frame, frame.size(), random_.bytes(1 + random_.below(64)));
            break;
        default: {
            const std::size_t room = victim_.max_frame_bytes - frame.size();
            insert(frame, 12 + random_.below(frame.size() - 12), random_.bytes(random_.below(room + 1)));
        }
    }
}

/// Fields of IP and UDP that say what is not so, tags, options and fragments.
void HostileFrames::lie(Bytes& frame) {
    std::byte* ip = frame.data() + kL3;
    std::byte* udp = frame.data() + bth_of(frame) - wire::kUdpBytes;
    const auto value = static_cast<std::uint16_t>(random_.next());
    switch (random_.below(8)) {
        case 0:
            store_be16(ip + (is_ipv4(frame) ? wire::kIpv4TotalLength : wire::kIpv6PayloadLength), value);
            break;
        case 1:
            store_be16(udp + wire::kUdpLength, value);
            break;
        case 2:
            store_be16(udp + wire::kUdpChecksum, value);
            break;
        case 3:  // a fragment; IPv6: another next header
            is_ipv4(frame) ? store_be16(ip + wire::kIpv4Fragment, value | 1U)
                           : void(ip[wire::kIpv6NextHeader] = static_cast<std::byte>(value));
            break;
        case 4:  // options; IPv6: another version
            ip[0] = static_cast<std::byte>(value);
            break;
        case 5:
            store_be16(udp + wire::kUdpDestinationPort, value);
            break;
        case 6:
            for (auto tags = 1 + random_.below(3); tags > 0; --tags) {
                insert(frame, 12,
                       {std::byte{0x81}, std::byte{0}, static_cast<std::byte>(random_.next()), std::byte{7}});
            }
            break;
        default:
            ip[is_ipv4(frame) ? wire::kIpv4Protocol : wire::kIpv6HopLimit] = static_cast<std::byte>(value);
    }
    if (is_ipv4(frame) && random_.below(2) != 0 && load_be16(frame.data() + 12) == wire::kEtherTypeIpv4) {
        store_be16(ip + wire::kIpv4Checksum, 0);
        store_be16(ip + wire::kIpv4Checksum, wire::checksum_fold(wire::checksum_sum({ip, wire::kIpv4Bytes})));
    }
}

/// Questions and answers of nobody in particular, whole or cut short.
Bytes HostileFrames::arp() {
    Bytes frame(42);
    std::fill_n(frame.begin(), 6, std::byte{0xff});
    const Bytes sender = random_.bytes(6);
    std::copy(sender.begin(), sender.end(), frame.begin() + 6);
    frame[6] &= std::byte{0xfe};
    store_be16(frame.data() + 12, 0x0806);
    constexpr std::array<std::uint8_t, 8> kEthernetIpv4{0, 1, 8, 0, 6, 4, 0, 1};
    std::memcpy(frame.data() + kL3, kEthernetIpv4.data(), kEthernetIpv4.size());
    frame[kL3 + 7] = static_cast<std::byte>(1 + random_.below(2));
    std::copy_n(frame.begin() + 6, 6, frame.begin() + kL3 + 8);
    // Never the peer's address: to those who keep ARP's rules that would be news.
    const Bytes address = random_.bytes(4);
    std::copy(address.begin(), address.end(), frame.begin() + kL3 + 14);
    std::memcpy(frame.data() + kL3 + 24, victim_.ipv4.data(), 4);
    if (random_.below(4) == 0) {
        frame.resize(wire::kEthernetBytes + random_.below(frame.size() - wire::kEthernetBytes));
    }
    return frame;
}

Bytes HostileFrames::next() {
    if (random_.below(16) == 0) {
        return arp();
    }
    Bytes frame = aimed();
    if (random_.below(2) != 0) {
        random_.below(2) != 0 ? lie(frame) : damage(frame);
    }
    frame.resize(std::clamp(frame.size(), wire::kEthernetBytes, victim_.max_frame_bytes));
    return frame;
}

}  // namespace urnic::test
