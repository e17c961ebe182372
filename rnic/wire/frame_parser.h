// parse_frame() for whoever receives many frames of few peers: what is the same in every frame of a peer is
// looked at once, as header prediction does for TCP (RFC 7323).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rnic/wire/frame.h"

namespace urnic::wire {

/// Says of every frame what parse_frame() says. A frame whose Ethernet and IPv4 headers are those of the last
/// good one, but for total length, identification and checksum, has its addresses as well: these stay in the
/// view, and nothing of what they were checked for is checked again. Everything else is checked in each
/// frame.
class FrameParser {
  public:
    /// The view refers into `frame`.
    [[nodiscard]] ParseError parse(std::span<const std::byte> frame);
    /// Of the frame that was parsed last, if that was without an error.
    [[nodiscard]] const PacketView& view() const { return view_; }
    /// view().l3 is empty until a frame was parsed without an error.
    void forget() { view_.l3 = {}; }
    /// What view().frame is from here on.
    void set_frame(void* frame) { view_.frame = frame; }

  private:
    /// Of an untagged frame with IPv4: the bytes that are compared, and the sum of IPv4's (RFC 1071).
    struct Front {
        std::uint64_t macs = 0;           // the destination's, two bytes of the source's
        std::uint64_t source_to_tos = 0;  // the rest of it, EtherType, version, header length, TOS
        std::uint32_t fragment_to_protocol = 0;
        std::uint64_t addresses = 0;
        std::uint64_t sum = 0;
    };
    [[nodiscard]] bool is_known(const std::byte* frame) const;
    void remember(const std::byte* frame);

    PacketView view_;  // its addresses are those of the last good frame
    Front front_;
    bool has_front_ = false;
};

}  // namespace urnic::wire
