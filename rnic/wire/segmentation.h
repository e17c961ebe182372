// Several frames as one, for UDP segmentation offload (UDP_SEGMENT of udp(7)): Ethernet, IP and UDP headers
// once, with the lengths of all together, and the UDP payloads behind each other. Who cuts it gives each
// segment these headers with its own lengths and, over IPv4, an identification one above that before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "rnic/wire/layout.h"

namespace urnic::wire {

/// As many as Linux takes (UDP_MAX_SEGMENTS before 6.10).
inline constexpr std::uint32_t kMaxSegments = 64;
/// As many as it makes (UDP_MAX_SEGMENTS since).
inline constexpr std::uint32_t kMaxSegmentsReceived = 128;
/// Of all together, Ethernet included: more than an interface takes at once (GSO_MAX_SIZE) the kernel cuts
/// itself.
inline constexpr std::size_t kMaxSegmentedBytes = 65535;

/// struct virtio_net_hdr (virtio 1.2, 5.1.6), which a packet socket with PACKET_VNET_HDR has in front of each
/// frame: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset. All zero: a frame as it is.
inline constexpr std::size_t kVnetHeaderBytes = 10;
/// UDP payload of each segment but the last; 0: what follows the header does not consist of segments.
[[nodiscard]] std::size_t segment_bytes_of(std::span<const std::byte, kVnetHeaderBytes> vnet_header);

/// Ethernet, IP and UDP headers of a frame.
struct UdpFront {
    static constexpr std::size_t kMaxBytes = kEthernetBytes + kVlanTagBytes + kIpv6Bytes + kUdpBytes;
    std::array<std::byte, kMaxBytes> bytes;
    std::uint8_t length = 0;
    std::uint8_t l3_offset = 0;
    bool is_ipv4 = true;
};

/// Puts frames together.
class SegmentRun {
  public:
    /// Begins again with this frame. Returns whether others may follow it: it is RoCEv2 without IP options
    /// and UDP checksum, and what its headers say is right.
    bool begin(std::span<const std::byte> frame);
    /// Takes the frame if it is the next segment: to the same QP, and its headers are those that a segment in
    /// this place gets, bit for bit. Returns whether it did.
    bool extend(std::span<const std::byte> frame);

    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::size_t front_bytes() const { return front_.length; }
    /// Writes the headers of all together: front_bytes(). The UDP checksum is the pseudo header's sum, from
    /// which the kernel goes on.
    void write_front(std::byte* to) const;
    void write_vnet_header(std::byte* to) const;

  private:
    [[nodiscard]] bool is_next(std::span<const std::byte> frame) const;

    UdpFront front_;
    std::uint32_t count_ = 0;
    std::size_t segment_bytes_ = 0;
    std::size_t payload_bytes_ = 0;
    bool is_ended_ = false;  // the last one was shorter
    std::array<std::byte, 3> dest_qp_{};
};

/// Cuts a frame that stands for several.
class SegmentedFrame {
  public:
    /// `beginning`: its first bytes, UdpFront::kMaxBytes if it has them. `segment_bytes` as above. Nothing:
    /// it is not RoCEv2, its lengths contradict each other, or there are too many segments.
    [[nodiscard]] static std::optional<SegmentedFrame> parse(std::span<const std::byte> beginning,
                                                             std::size_t frame_bytes,
                                                             std::size_t segment_bytes);

    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] std::size_t front_bytes() const { return front_.length; }
    /// Where the payload of a segment lies behind the front, and its length.
    [[nodiscard]] std::size_t payload_offset(std::uint32_t index) const { return index * segment_bytes_; }
    [[nodiscard]] std::size_t payload_bytes(std::uint32_t index) const;
    /// Writes the headers of a segment: front_bytes(). Its UDP checksum is 0, none.
    void write_front(std::uint32_t index, std::byte* to) const;

  private:
    UdpFront front_;
    std::uint32_t count_ = 0;
    std::size_t segment_bytes_ = 0;
    std::size_t payload_bytes_ = 0;
};

}  // namespace urnic::wire
