#include "rnic/wire/segmentation.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/peek.h"

namespace urnic::wire {

namespace {

// virtio 1.2, 5.1.6, in the machine's order, which is that of little-endian ones.
constexpr std::size_t kVnetFlags = 0;
constexpr std::size_t kVnetGsoType = 1;
constexpr std::size_t kVnetHeaderLength = 2;
constexpr std::size_t kVnetGsoSize = 4;
constexpr std::size_t kVnetChecksumStart = 6;
constexpr std::size_t kVnetChecksumOffset = 8;
constexpr std::byte kNeedsChecksum{1};
constexpr std::byte kGsoUdpL4{5};
constexpr std::byte kGsoEcn{0x80};  // a flag beside the type

bool is_ipv4_udp(const std::byte* ip, std::size_t ip_bytes) {
    return ip[0] == std::byte{0x45} && ip[kIpv4Protocol] == std::byte{kProtocolUdp} &&
           (load_be16(ip + kIpv4Fragment) & kIpv4FragmentMask) == 0 &&
           load_be16(ip + kIpv4TotalLength) == ip_bytes && checksum_fold(checksum_sum({ip, kIpv4Bytes})) == 0;
}

bool is_ipv6_udp(const std::byte* ip, std::size_t ip_bytes) {
    return (ip[0] >> 4U) == std::byte{6} && ip[kIpv6NextHeader] == std::byte{kProtocolUdp} &&
           load_be16(ip + kIpv6PayloadLength) == ip_bytes - kIpv6Bytes;
}

/// Of a frame of that length, of which `beginning` is at least the beginning. Returns whether it is RoCEv2
/// with some payload, and its headers tell the truth.
bool read_front(std::span<const std::byte> beginning, std::size_t frame_bytes, UdpFront& front) {
    const Peek link = peek(beginning);
    const std::size_t udp_offset = link.l3_offset + (link.is_ipv4 ? kIpv4Bytes : kIpv6Bytes);
    const std::size_t length = udp_offset + kUdpBytes;
    if (!link.is_ip || beginning.size() < length || frame_bytes <= length ||
        frame_bytes > kMaxSegmentedBytes) {
        return false;
    }
    const std::byte* const ip = &beginning[link.l3_offset];
    const std::byte* const udp = &beginning[udp_offset];
    const std::size_t ip_bytes = frame_bytes - link.l3_offset;
    if (!(link.is_ipv4 ? is_ipv4_udp(ip, ip_bytes) : is_ipv6_udp(ip, ip_bytes)) ||
        load_be16(udp + kUdpDestinationPort) != kRocev2UdpPort ||
        load_be16(udp + kUdpLength) != frame_bytes - udp_offset) {
        return false;
    }
    std::memcpy(front.bytes.data(), beginning.data(), length);
    front.length = static_cast<std::uint8_t>(length);
    front.l3_offset = static_cast<std::uint8_t>(link.l3_offset);
    front.is_ipv4 = link.is_ipv4;
    return true;
}

void write_segment_front(const UdpFront& front, std::uint32_t index, std::size_t payload_bytes,
                         std::byte* to) {
    std::memcpy(to, front.bytes.data(), front.length);
    std::byte* const ip = to + front.l3_offset;
    std::byte* const udp = to + front.length - kUdpBytes;
    const auto udp_bytes = static_cast<std::uint16_t>(payload_bytes + kUdpBytes);
    if (front.is_ipv4) {
        store_be16(ip + kIpv4TotalLength, static_cast<std::uint16_t>(udp_bytes + kIpv4Bytes));
        store_be16(ip + kIpv4Id, static_cast<std::uint16_t>(load_be16(ip + kIpv4Id) + index));
        store_be16(ip + kIpv4Checksum, 0);
        store_be16(ip + kIpv4Checksum, checksum_fold(checksum_sum({ip, kIpv4Bytes})));
    } else {
        store_be16(ip + kIpv6PayloadLength, udp_bytes);
    }
    store_be16(udp + kUdpLength, udp_bytes);
    store_be16(udp + kUdpChecksum, 0);
}

}  // namespace

std::size_t segment_bytes_of(std::span<const std::byte, kVnetHeaderBytes> vnet_header) {
    return (vnet_header[kVnetGsoType] & ~kGsoEcn) == kGsoUdpL4 ? load_le16(&vnet_header[kVnetGsoSize]) : 0;
}

bool SegmentRun::begin(std::span<const std::byte> frame) {
    count_ = 0;
    is_ended_ = false;
    if (!read_front(frame, frame.size(), front_)) {
        front_.length = 0;
        return false;
    }
    segment_bytes_ = frame.size() - front_.length;
    payload_bytes_ = segment_bytes_;
    if (segment_bytes_ < kBthBytes) {
        return false;
    }
    std::memcpy(dest_qp_.data(), &frame[front_.length + kBthDestQp], dest_qp_.size());
    count_ = is_next(frame) ? 1 : 0;
    return count_ != 0;
}

bool SegmentRun::is_next(std::span<const std::byte> frame) const {
    std::array<std::byte, UdpFront::kMaxBytes> expected;
    write_segment_front(front_, count_, frame.size() - front_.length, expected.data());
    return std::memcmp(expected.data(), frame.data(), front_.length) == 0 &&
           std::memcmp(dest_qp_.data(), &frame[front_.length + kBthDestQp], dest_qp_.size()) == 0;
}

bool SegmentRun::extend(std::span<const std::byte> frame) {
    if (count_ == 0 || count_ == kMaxSegments || is_ended_ || frame.size() < front_.length + kBthBytes) {
        return false;
    }
    const std::size_t added = frame.size() - front_.length;
    if (added > segment_bytes_ || front_.length + payload_bytes_ + added > kMaxSegmentedBytes ||
        !is_next(frame)) {
        return false;
    }
    ++count_;
    payload_bytes_ += added;
    is_ended_ = added < segment_bytes_;
    return true;
}

void SegmentRun::write_front(std::byte* to) const {
    write_segment_front(front_, 0, payload_bytes_, to);
    const std::byte* const ip = to + front_.l3_offset;
    const std::span<const std::byte> addresses = front_.is_ipv4
                                                     ? std::span<const std::byte>(ip + kIpv4Source, 8)
                                                     : std::span<const std::byte>(ip + kIpv6Source, 32);
    const std::uint64_t sum = checksum_sum(addresses, kProtocolUdp + payload_bytes_ + kUdpBytes);
    store_be16(to + front_.length - kUdpBytes + kUdpChecksum,
               static_cast<std::uint16_t>(~checksum_fold(sum)));
}

void SegmentRun::write_vnet_header(std::byte* to) const {
    to[kVnetFlags] = kNeedsChecksum;  // which the kernel makes for UDP segments alone
    to[kVnetGsoType] = kGsoUdpL4;
    store_le16(to + kVnetHeaderLength, front_.length);
    store_le16(to + kVnetGsoSize, static_cast<std::uint16_t>(segment_bytes_));
    store_le16(to + kVnetChecksumStart, static_cast<std::uint16_t>(front_.length - kUdpBytes));
    store_le16(to + kVnetChecksumOffset, kUdpChecksum);
}

std::optional<SegmentedFrame> SegmentedFrame::parse(std::span<const std::byte> beginning,
                                                    std::size_t frame_bytes, std::size_t segment_bytes) {
    SegmentedFrame frame;
    if (segment_bytes == 0 || !read_front(beginning, frame_bytes, frame.front_)) {
        return {};
    }
    frame.segment_bytes_ = segment_bytes;
    frame.payload_bytes_ = frame_bytes - frame.front_.length;
    const std::size_t count = (frame.payload_bytes_ + segment_bytes - 1) / segment_bytes;
    if (count > kMaxSegmentsReceived) {
        return {};
    }
    frame.count_ = static_cast<std::uint32_t>(count);
    return frame;
}

std::size_t SegmentedFrame::payload_bytes(std::uint32_t index) const {
    return std::min(segment_bytes_, payload_bytes_ - payload_offset(index));
}

void SegmentedFrame::write_front(std::uint32_t index, std::byte* to) const {
    write_segment_front(front_, index, payload_bytes(index), to);
}

}  // namespace urnic::wire
