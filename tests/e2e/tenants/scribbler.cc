// A program that writes into everything that it shares with the daemon (rings, doorbells, what says how far
// it has polled) while its own transfers run, and makes its queues anew again and again.
//   scribbler SECONDS SEED
// Goes on as another user. Prints "running" after the first round and the number of rounds at the end.
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace {

using urnic::e2e::Endpoint;

struct Range {
    std::uint64_t* words;
    std::size_t count;
};

/// This process's mappings of files that it shares with the daemon, as far as it can write there.
std::vector<Range> shared_ranges() {
    std::vector<Range> ranges;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        const bool is_shared = line.find("memfd:urnic-rings") != std::string::npos ||
                               line.find("memfd:urnic-doorbells") != std::string::npos;
        char* rest = nullptr;
        const std::uint64_t begin = std::strtoull(line.c_str(), &rest, 16);
        const std::uint64_t end = std::strtoull(rest + 1, &rest, 16);
        if (is_shared && line.find(" rw-s ") != std::string::npos) {
            ranges.push_back({reinterpret_cast<std::uint64_t*>(begin),
                              (end - begin) / sizeof(std::uint64_t)});  // NOLINT(performance-no-int-to-ptr)
        }
    }
    return ranges;
}

/// Single words, and now and then counts and flags as they could be.
void scribble(const std::vector<Range>& ranges, std::mt19937_64& random) {
    for (const Range& range : ranges) {
        for (int i = 0; i < 64; ++i) {
            auto& word = reinterpret_cast<std::atomic<std::uint64_t>&>(range.words[random() % range.count]);
            const std::uint64_t value = random() % 4 == 0 ? random() % 64 : random();
            random() % 2 == 0 ? word.store(value) : static_cast<void>(word.fetch_xor(1ULL << (value % 64)));
        }
    }
}

void post(const Endpoint& from, const Endpoint& to, std::mt19937_64& random) {
    ibv_sge sge = from.sge(random() % 4096, random() % 4096);
    static constexpr ibv_wr_opcode kOpcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
    ibv_send_wr send = urnic::e2e::rdma(kOpcodes[random() % 3], 1, &sge, 1, to, 8192);
    ibv_send_wr* bad_send = nullptr;
    (void)ibv_post_send(from.qp, &send, &bad_send);
    ibv_recv_wr receive{2, nullptr, &sge, 1};
    ibv_recv_wr* bad_receive = nullptr;
    (void)ibv_post_recv(from.qp, &receive, &bad_receive);
    ibv_wc completions[16];
    (void)ibv_poll_cq(from.cq, 16, completions);
    if (random() % 16 == 0) {
        (void)ibv_req_notify_cq(from.cq, 0);
    }
}

void round(std::mt19937_64& random) {
    urnic::e2e::EndpointOptions options;
    options.buffer_bytes = 1U << 16U;
    options.with_channel = true;
    const Endpoint a("urnic0", options);
    const Endpoint b("urnic1", options);
    if (!a.ok() || !b.ok()) {
        return;
    }
    urnic::e2e::connect(a, b);
    const std::vector<Range> ranges = shared_ranges();
    for (int i = 0; i < 2000; ++i) {
        post(a, b, random);
        post(b, a, random);
        if (i > 100) {
            scribble(ranges, random);
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    constexpr uid_t kOtherUser = 65534;
    if (argc != 3) {
        std::fprintf(stderr, "usage: scribbler SECONDS SEED\n");
        return 2;
    }
    if (geteuid() == 0 && setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) {
        return 1;
    }
    std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[1]));
    int rounds = 0;
    while (rounds == 0 || std::chrono::steady_clock::now() < end) {
        round(random);
        if (rounds++ == 0) {
            std::puts("running");
            std::fflush(stdout);
        }
    }
    std::printf("%d rounds\n", rounds);
    return 0;
}
