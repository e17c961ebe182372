// A user who wants nothing but his transfers: SENDs, WRITEs and READs between two RNICs, each looked at byte
// by byte.
//   verified [small]
// `small`: with a path MTU of 256, so that PSNs come round after some 140,000 exchanges.
// Prints how many there were, once a second, until it is ended; exit status 1 with what was wrong.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/e2e/verbs/endpoint.h"

namespace {

using urnic::e2e::Endpoint;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxBytes = 20'000;

/// One message of each kind. Returns whether all arrived as they were.
bool exchange(const Endpoint& a, const Endpoint& b, std::uint32_t seed) {
    const std::size_t bytes = 1 + seed * 7919ULL % kMaxBytes;
    ibv_sge from = a.sge(0, bytes);
    b.post_recv(seed, {b.sge(0, bytes)});
    urnic::e2e::fill(a.at(0), bytes, seed);
    ibv_send_wr send = urnic::e2e::request(IBV_WR_SEND, seed, &from, 1);
    a.post(send);
    a.expect_success(seed, IBV_WC_SEND);
    b.expect_success(seed, IBV_WC_RECV);
    ibv_send_wr write = urnic::e2e::rdma(IBV_WR_RDMA_WRITE, seed, &from, 1, b, kMaxBytes);
    a.post(write);
    a.expect_success(seed, IBV_WC_RDMA_WRITE);
    ibv_sge back = a.sge(2 * kMaxBytes, bytes);
    ibv_send_wr read = urnic::e2e::rdma(IBV_WR_RDMA_READ, seed, &back, 1, b, kMaxBytes);
    a.post(read);
    a.expect_success(seed, IBV_WC_RDMA_READ);
    return urnic::e2e::first_difference(b.at(0), bytes, seed) < 0 &&
           urnic::e2e::first_difference(b.at(kMaxBytes), bytes, seed) < 0 &&
           urnic::e2e::first_difference(a.at(2 * kMaxBytes), bytes, seed) < 0;
}

}  // namespace

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    if (!a.ok() || !b.ok()) {
        return 1;
    }
    urnic::e2e::PathOptions path;
    if (argc == 2 && std::strcmp(argv[1], "small") == 0) {
        path.mtu = IBV_MTU_256;
    }
    urnic::e2e::connect(a, b, path);
    auto next = Clock::now();
    for (std::uint32_t count = 0;; ++count) {
        if (!exchange(a, b, count) || testing::Test::HasFailure()) {
            std::printf("wrong: exchange %u\n", count);
            return 1;
        }
        if (Clock::now() >= next) {
            next += std::chrono::seconds(1);
            std::printf("%u\n", count);
            std::fflush(stdout);
        }
    }
}
