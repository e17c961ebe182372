// Frames that no honest peer sends, made of captured ones: cut, stretched, retagged, with lies in every
// length, and bits turned over before or after the ICRC was made.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/random_bytes.h"

namespace urnic::test {

using Bytes = std::vector<std::byte>;

struct Victim {
    std::array<std::uint8_t, 6> mac{};
    std::array<std::uint8_t, 4> ipv4{};
    std::array<std::uint8_t, 4> peer_ipv4{};  // whom it talks to
    /// QPs that frames may be aimed at. None of these frames has a right ICRC: with one, the next PSN and the
    /// peer's address it would be the peer's packet.
    std::vector<std::uint32_t> qp_nums;
    std::size_t max_frame_bytes = 1514;
};

class HostileFrames {
  public:
    /// `captures`: RoCEv2 frames over IPv4 or IPv6; others are left out.
    HostileFrames(std::vector<Bytes> captures, Victim victim, Random& random);
    [[nodiscard]] Bytes next();

  private:
    [[nodiscard]] Bytes aimed();
    void damage(Bytes& frame);
    void lie(Bytes& frame);
    [[nodiscard]] Bytes arp();

    std::vector<Bytes> captures_;
    Victim victim_;
    Random& random_;
};

}  // namespace urnic::test
