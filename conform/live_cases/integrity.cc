// What changes on the way: every bit that the ICRC covers.
#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

struct Covered {
    const char* what;
    std::size_t first;
    std::size_t last;
    std::uint8_t mask;
};

// Lengths, version, protocol, fragment fields, addresses and destination port decide who gets the frame at
// all, so they are left out; so is what the ICRC leaves out: TOS, TTL, both checksums, BTH byte 4 (annex
// A17.3.3).
constexpr Covered kCovered[] = {
    {"IP identification", kIpAt + 4, kIpAt + 5, 0xff}, {"IP flag DF", kIpAt + 6, kIpAt + 6, 0x40},
    {"UDP source port", kUdpAt, kUdpAt + 1, 0xff},     {"BTH", kBthAt, kBthAt + 3, 0xff},
    {"BTH DestQP", kBthAt + 5, kBthAt + 7, 0xff},      {"BTH AckReq and PSN", kBthAt + 8, kBthAt + 11, 0xff},
    {"RETH", kBthAt + 12, kBthAt + 27, 0xff},          {"payload", kBthAt + 28, kBthAt + 35, 0xff},
    {"ICRC", kBthAt + 36, kBthAt + 39, 0xff},
};

}  // namespace

LIVE_CASE(LiveIntegrity, EachBitThatTheIcrcCovers, "7.8.1 (A17.3.3)",
          "a packet of which one bit that the ICRC covers changed on the way is dropped without an answer") {
    need_ipv4();
    connect({.mtu = 256});
    const FrameBytes good = built(write_only(2000, 8));
    require(good.size() == kBthAt + 40, "the tester's packet has another length than its table");
    for (const Covered& part : kCovered) {
        given(part.what, part.last - part.first + 1);
        std::vector<FrameBytes> burst;
        for (std::size_t at = part.first; at <= part.last; ++at) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                if ((part.mask >> bit & 1U) != 0) {
                    FrameBytes frame = good;
                    frame[at] ^= static_cast<std::byte>(1U << bit);
                    if (at < kUdpAt) {
                        mend_ip_checksum(frame);
                    }
                    burst.push_back(std::move(frame));
                }
            }
        }
        bench().transmit(burst);
        sends_nothing();
    }
    holds_own_data(0, 64);
    peer(write_only(2000, 8));
    sends(ack(2000, 1).any_credits());
    holds_peer_data(0, 8, 0);
}

}  // namespace urnic::conform
