// What no stock program measures: many connections, registration, and the first packet after a pause. Runs
// under `urnic run`; prints lines of JSON.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "bench/verbs/load.h"
#include "bench/verbs/pairs.h"
#include "bench/verbs/turns.h"
#include "bench/verbs/waiting.h"
#include "os/command_line.h"

namespace urnic::bench {
namespace {

using Clock = std::chrono::steady_clock;

double micros_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void exactly(ssize_t moved, std::size_t wanted, const char* what) {
    if (moved != static_cast<ssize_t>(wanted)) {
        give_up(what);
    }
}
/// Whole messages through a pipe, however long.
void give(int fd, const void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
        const ssize_t put = write(fd, static_cast<const std::byte*>(data) + at, bytes - at);
        if (put <= 0) {
            give_up("write to the other process");
        }
        at += static_cast<std::size_t>(put);
    }
}
void take(int fd, void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
        const ssize_t got = read(fd, static_cast<std::byte*>(data) + at, bytes - at);
        if (got <= 0) {
            give_up("read from the other process");
        }
        at += static_cast<std::size_t>(got);
    }
}

struct Pipe {
    int read_end = -1;
    int write_end = -1;
    Pipe() {
        int ends[2];
        exactly(pipe(ends), 0, "pipe");
        read_end = ends[0];
        write_end = ends[1];
    }
};

/// Both directions between the process that sends and the one that is written to.
SideAddress meet(const Side& side, int to, int from) {
    const SideAddress own = side.address();
    const std::vector<std::uint32_t> numbers = side.numbers();
    give(to, &own, sizeof own);
    give(to, numbers.data(), numbers.size() * sizeof numbers[0]);
    SideAddress peer;
    std::vector<std::uint32_t> peers(numbers.size());
    take(from, &peer, sizeof peer);
    take(from, peers.data(), peers.size() * sizeof peers[0]);
    side.connect(peer, peers);
    return peer;
}

/// Connections between two processes; reads `ACTIVE BYTES IN_FLIGHT SECONDS` a line and answers each.
int many_qps(std::uint32_t connected) {
    const Pipe to_child;
    const Pipe to_parent;
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == -1) {
        give_up("fork");
    }
    char ready = 1;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            std::_Exit(1);
        }
        const Side side("urnic1", connected);
        (void)meet(side, to_parent.write_end, to_child.read_end);
        give(to_parent.write_end, &ready, 1);
        take(to_child.read_end, &ready, 1);
        return 0;
    }
    const auto begin = Clock::now();
    const Side side("urnic0", connected);
    const SideAddress peer = meet(side, to_child.write_end, to_parent.read_end);
    take(to_parent.read_end, &ready, 1);
    std::printf("{\"connected\": %u, \"setup_seconds\": %.3f}\n", connected, micros_since(begin) / 1e6);
    std::fflush(stdout);
    WriteLoad load(side, peer);
    std::uint32_t active = 0;
    std::uint32_t bytes = 0;
    std::uint32_t in_flight = 0;
    double seconds = 0;
    while (std::cin >> active >> bytes >> in_flight >> seconds) {
        if (active == 0 || active > connected || bytes == 0 || bytes > Side::kBufferBytes ||
            in_flight < WriteLoad::kBatch || in_flight > Side::kQueueDepth || !(seconds > 0)) {
            errno = EINVAL;
            give_up("ACTIVE BYTES IN_FLIGHT SECONDS");
        }
        std::printf("{\"messages_per_second\": %.1f}\n", load.run(active, bytes, in_flight, seconds));
        std::fflush(stdout);
    }
    give(to_child.write_end, &ready, 1);
    waitpid(child, nullptr, 0);
    return 0;
}

/// Threads that write to the memory as fast as they can, each from a place of its own on.
class Writing {
  public:
    Writing(std::byte* at, std::size_t bytes, std::uint32_t threads) {
        for (std::uint32_t i = 0; i < threads; ++i) {
            threads_.emplace_back([=](const std::stop_token& stop) {
                constexpr std::size_t kStride = 64;
                for (std::size_t next = bytes / threads * i; !stop.stop_requested(); next += kStride) {
                    next = next + kStride > bytes ? 0 : next;
                    *static_cast<volatile std::byte*>(at + next) = std::byte{1};
                }
            });
        }
    }

  private:
    std::vector<std::jthread> threads_;
};

/// Registers a range of fresh pages, and the same range a second time.
int registration(std::size_t bytes, std::uint32_t writers, std::uint32_t content) {
    const Side side("urnic0", 0);
    const Pages pages(bytes);
    std::memset(pages.data(), static_cast<int>(content), pages.size());
    const auto reg = [&](double& micros) {
        const auto begin = Clock::now();
        ibv_mr* mr = ibv_reg_mr(side.pd(), pages.data(), pages.size(),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
        micros = micros_since(begin);
        if (mr == nullptr) {
            give_up("ibv_reg_mr");
        }
        return Owned<ibv_mr, ibv_dereg_mr>(mr);
    };
    // The daemon has just done a lot for the first, and its control thread sleeps again before the second;
    // more of them show what a request costs.
    constexpr std::size_t kAgain = 21;
    double first_us = 0;
    std::array<double, kAgain> again_us{};
    const auto first = [&] {
        const Writing beside(pages.data(), pages.size(), writers);
        return reg(first_us);
    }();
    for (double& micros : again_us) {
        const auto again = reg(micros);
    }
    const double second_us = again_us.front();
    std::sort(again_us.begin(), again_us.end());
    std::printf("{\"first_us\": %.2f, \"second_us\": %.2f, \"again_us\": %.2f}\n", first_us, second_us,
                again_us[kAgain / 2]);
    return 0;
}

/// One connection within this process, and WRITEs of 8 bytes with pauses between them, each watched until the
/// bytes are there. Reads `COUNT PAUSE_MS` a line and answers each; waits quietly in between.
int after_pause() {
    const Side a("urnic0", 1);
    const Side b("urnic1", 1);
    a.connect(b.address(), b.numbers());
    b.connect(a.address(), a.numbers());
    const SideAddress target = b.address();
    const auto* seen = reinterpret_cast<const std::atomic<std::uint64_t>*>(b.buffer());
    auto* source = reinterpret_cast<std::uint64_t*>(a.buffer());
    std::printf("{\"connected\": 1}\n");
    std::fflush(stdout);
    std::uint32_t count = 0;
    std::uint32_t pause_ms = 0;
    while (std::cin >> count >> pause_ms) {
        std::printf("{\"one_way_us\": [");
        for (std::uint32_t i = 0; i < count; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
            ++*source;
            ibv_sge piece{reinterpret_cast<std::uint64_t>(source), sizeof *source, a.mr().lkey};
            ibv_send_wr request{};
            request.sg_list = &piece;
            request.num_sge = 1;
            request.opcode = IBV_WR_RDMA_WRITE;
            request.send_flags = IBV_SEND_SIGNALED;
            request.wr.rdma.remote_addr = target.buffer;
            request.wr.rdma.rkey = target.rkey;
            ibv_send_wr* bad = nullptr;
            const auto begin = Clock::now();
            exactly(ibv_post_send(a.qp(0), &request, &bad), 0, "ibv_post_send");
            while (seen->load(std::memory_order_acquire) != *source) {
                std::this_thread::yield();
            }
            const double one_way_us = micros_since(begin);
            ibv_wc done{};
            while (ibv_poll_cq(a.cq(), 1, &done) == 0) {
            }
            if (done.status != IBV_WC_SUCCESS) {
                give_up(ibv_wc_status_str(done.status));
            }
            std::printf("%s%.2f", i == 0 ? "" : ", ", one_way_us);
        }
        std::printf("]}\n");
        std::fflush(stdout);
    }
    return 0;
}

int run(int argc, char** argv) {
    CommandLine app("Measures over libibverbs, between urnic0 and urnic1, what no stock program does.");
    app.requires_command();
    std::uint32_t connected = 1;
    const Command qps =
        app.command("qps", "WRITEs over many connections; lines: ACTIVE BYTES IN_FLIGHT SECONDS");
    qps.option("--connected", connected, "connections").in_range(1, 16384);
    std::uint32_t threads = 1;
    bool apart = false;
    const Command pairs = app.command(
        "pairs",
        "WRITEs of several threads, each with connections of its own; lines: BYTES IN_FLIGHT SECONDS");
    pairs.option("--threads", threads, "threads that write").in_range(1, 64);
    pairs.option("--connected", connected, "connections of each").in_range(1, 1024);
    pairs.flag("--apart", apart, "both ends of each connection on neighbouring workers, instead of on one");
    std::size_t bytes = 1U << 20U;
    const Command reg = app.command("registration", "a memory region made, and made again and again");
    reg.option("--bytes", bytes, "its length").in_range(std::size_t{1}, std::size_t{1} << 40U);
    std::uint32_t writers = 0;
    reg.option("--writers", writers, "threads that write to it when it is made for the first time")
        .in_range(0, 64);
    std::uint32_t content = 0;
    reg.option("--content", content, "what each of its bytes is; zeros are not copied").in_range(0, 255);
    app.command("pause", "8 B WRITEs after pauses; lines: COUNT PAUSE_MS");
    const Command waiting = app.command(
        "waiting",
        "threads that poll beside processes that compute; lines: WRITING POLLING COMPUTING BYTES SECONDS");
    const Command yields = app.command(
        "yields", "what threads that only yield take each other for; lines: YIELDING COMPUTING SECONDS");
    const Command turns = app.command("turns",
                                      "three processes that hand each other a word, without RDMA; lines: "
                                      "spin|yield|sleep|look anywhere|together|apart COMPUTING SECONDS");
    if (const auto status = app.parse(argc, argv)) return *status;
    if (turns.parsed()) {
        return take_turns();
    }
    if (waiting.parsed()) {
        return poll_beside_computing();
    }
    if (yields.parsed()) {
        return yield_beside_computing();
    }
    if (qps.parsed()) {
        return many_qps(connected);
    }
    if (pairs.parsed()) {
        return write_in_threads(threads, connected, apart);
    }
    return reg.parsed() ? registration(bytes, writers, content) : after_pause();
}

}  // namespace
}  // namespace urnic::bench

int main(int argc, char** argv) {
    try {
        return urnic::bench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "verbs_bench: %s\n", error.what());
        return 1;
    }
}
