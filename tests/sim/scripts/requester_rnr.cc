// The requester and a receiver that is not ready (IBA 9.7.5.2.8).
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

// The wait that each timer code asks for, as the specification's table 45 has it, in hundredths of a
// millisecond.
constexpr std::uint32_t kRnrTable45[32] = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr TimeNs kCentiMs = 10'000;
constexpr std::uint8_t kShort = 1;  // 0.01 ms

RC_SCRIPT(RequesterRnr, RepeatedNakIsOneWait, "9.7.5.2.8",
          "RNR NAKs that the network doubled neither lengthen the wait nor use up retries") {
    connect({.rnr_retry = 1});
    post(send(1, 8));
    sends(send_only(1000, 8));
    peer({rnr_nak(1000, 0, 12), rnr_nak(1000, 0, 12)});
    wait(30 * kCentiMs);
    peer(rnr_nak(1000, 0, 12));
    sends_within(34 * kCentiMs, 64 * kCentiMs, send_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
}

RC_SCRIPT(
    RequesterRnr, WhatIsHeldStays, "9.7.5.2.8",
    "an RNR NAK of the request for a gap: the gap is asked for again after the wait, and ends the READ") {
    connect({.mtu = 256, .timeout = 0});
    post(read(1, 1024));
    sends(read_request(1000, 1024));
    peer({response_first(1000, 1, 256), response_last(1003, 1, 256, 768)});
    const std::uint32_t length = asks_again(1001, 256, 512, 768);
    peer({response_first(1001, 1, 256, 256), rnr_nak(1001, 1, kShort)});
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1002, 512, 512));
    if (is_selective()) {
        EXPECT_EQ(length, 512U);  // what is missing, and no more
        peer(response_last(1002, 1, 256, 512));
    } else {
        peer({response_middle(1002, 256, 512), response_last(1003, 1, 256, 768)});
    }
    completes(ok(1));
    holds_peer_data(0, 1024, 0);
}

}  // namespace
}  // namespace urnic::sim
