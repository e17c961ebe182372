/// Cuts what the kernel hands over in one piece into packets of the link: TCP segmentation and UDP
/// segmentation, as a NIC does them. Bounded, without allocation.
#pragma once

#include <array>
#include <cstdint>

#include "ulp/ipoib/codec/offload.h"
#include "ulp/ipoib/codec/transport.h"

namespace urnic::ipoib {

/// One IP packet in two pieces.
struct Segment {
    /// The prefix, and all headers up to the data.
    ConstOctets header;
    ConstOctets data;
};

class Segmenter {
  public:
    enum class Start : std::uint8_t {
        kDone,
        kMalformed,  ///< `offload` and the headers of `packet` do not fit together
        kTooLong,    ///< segments would be longer than the MTU
    };
    /// Each segment's header begins with the octets of `prefix`; `packet` is an IP packet whose Ethernet
    /// header was cut off, and stays where it is until is_done().
    [[nodiscard]] Start start(ConstOctets prefix, ConstOctets packet, const Offload& offload,
                              std::size_t mtu);
    [[nodiscard]] bool is_done() const { return at_ == data_.size(); }
    /// The next segment, the same until advance(). Not to be called when is_done().
    [[nodiscard]] Segment segment();
    void advance();
    /// Forgets what is left.
    void drop() { at_ = data_.size(); }

  private:
    void write_lengths(Octets packet, std::size_t octets) const;

    /// IPv4 60 and TCP 60; IPv6 40, TCP 60, and as much again of extension headers; a prefix.
    std::array<std::byte, 256> header_{};
    std::size_t prefix_octets_ = 0;
    Transport transport_;
    ConstOctets packet_;
    ConstOctets data_;
    std::size_t segment_octets_ = 0;
    std::size_t at_ = 0;
    std::uint16_t index_ = 0;
};

}  // namespace urnic::ipoib
