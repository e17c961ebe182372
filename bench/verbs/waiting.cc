#include "bench/verbs/waiting.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <iostream>
#include <thread>
#include <vector>

#include "base/yield_monitor.h"
#include "bench/verbs/computing.h"
#include "bench/verbs/side.h"

namespace urnic::bench {

namespace {

using WaitClock = std::chrono::steady_clock;

/// One connection within this process.
struct Connection {
    Connection() {
        from.connect(to.address(), to.numbers());
        to.connect(from.address(), from.numbers());
    }
    void post(std::uint32_t bytes) const {
        ibv_sge piece{reinterpret_cast<std::uint64_t>(from.buffer()), bytes, from.mr().lkey};
        ibv_send_wr request{};
        request.sg_list = &piece;
        request.num_sge = 1;
        request.opcode = IBV_WR_RDMA_WRITE;
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.rdma.remote_addr = to.address().buffer;
        request.wr.rdma.rkey = to.address().rkey;
        ibv_send_wr* bad = nullptr;
        if (const int error = ibv_post_send(from.qp(0), &request, &bad); error != 0) {
            errno = error;
            give_up("ibv_post_send");
        }
    }
    void wait() const {
        ibv_wc done{};
        int count = 0;
        while ((count = ibv_poll_cq(from.cq(), 1, &done)) == 0) {
        }
        if (count < 0 || done.status != IBV_WC_SUCCESS) {
            give_up(count < 0 ? "ibv_poll_cq" : ibv_wc_status_str(done.status));
        }
    }
    Side from{"urnic0", 1};
    Side to{"urnic1", 1};
};

/// Times of all WRITEs of one thread, in microseconds.
using Times = std::vector<float>;

void write_until(const Connection& connection, std::uint32_t bytes, WaitClock::time_point end, Times& times) {
    for (auto now = WaitClock::now(); now < end;) {
        connection.post(bytes);
        connection.wait();
        const auto after = WaitClock::now();
        times.push_back(std::chrono::duration<float, std::micro>(after - now).count());
        now = after;
    }
}

struct Mix {
    std::uint32_t writing = 0;    // threads with a WRITE going
    std::uint32_t polling = 0;    // threads that poll CQs to which nothing ever comes
    std::uint32_t computing = 0;  // processes
};

void poll_until(const Connection& connection, WaitClock::time_point end) {
    ibv_wc done{};
    while (WaitClock::now() < end) {
        if (ibv_poll_cq(connection.from.cq(), 1, &done) != 0) {
            give_up("ibv_poll_cq");
        }
    }
}

void measure(const std::deque<Connection>& connections, const Mix& mix, std::uint32_t bytes, double seconds) {
    std::vector<Times> times(mix.writing);
    const auto begin = WaitClock::now();
    const auto end =
        begin + std::chrono::duration_cast<WaitClock::duration>(std::chrono::duration<double>(seconds));
    {
        std::vector<std::jthread> running;
        for (std::uint32_t i = 0; i < mix.writing; ++i) {
            running.emplace_back([&, i] { write_until(connections[i], bytes, end, times[i]); });
        }
        for (std::uint32_t i = mix.writing; i < mix.writing + mix.polling; ++i) {
            running.emplace_back([&, i] { poll_until(connections[i], end); });
        }
    }
    const double took = std::chrono::duration<double>(WaitClock::now() - begin).count();
    Times all;
    for (const Times& some : times) {
        all.insert(all.end(), some.begin(), some.end());
    }
    std::sort(all.begin(), all.end());
    const auto quantile = [&all](double part) {
        return static_cast<double>(all[static_cast<std::size_t>(part * static_cast<double>(all.size() - 1))]);
    };
    std::printf("{\"messages_per_second\": %.1f, \"p50_us\": %.2f, \"p99_us\": %.2f, \"max_us\": %.2f}\n",
                static_cast<double>(all.size()) / took, quantile(0.5), quantile(0.99), quantile(1));
    std::fflush(stdout);
}

/// What a thread found that only yields, and sleeps while it takes the others for computing.
struct Yields {
    double contended_s = 0;
    Times took;  // us
};

void yield_until(WaitClock::time_point end, Yields& found) {
    constexpr auto kNap = std::chrono::milliseconds(1);  // what a poll sleeps at most
    YieldMonitor monitor;
    for (auto now = WaitClock::now(); now < end;) {
        const auto before = now;
        const auto now_ns = static_cast<std::uint64_t>(now.time_since_epoch() / std::chrono::nanoseconds(1));
        if (monitor.contended(now_ns)) {
            std::this_thread::sleep_for(kNap);
            now = WaitClock::now();
            found.contended_s += std::chrono::duration<double>(now - before).count();
            continue;
        }
        sched_yield();
        now = WaitClock::now();
        const auto took_ns = static_cast<std::uint64_t>((now - before) / std::chrono::nanoseconds(1));
        monitor.on_yield(now_ns + took_ns, took_ns);
        found.took.push_back(static_cast<float>(took_ns) / 1e3F);
    }
}

void measure_yields(std::uint32_t yielding, double seconds) {
    std::vector<Yields> found(yielding);
    const auto end = WaitClock::now() +
                     std::chrono::duration_cast<WaitClock::duration>(std::chrono::duration<double>(seconds));
    {
        std::vector<std::jthread> running;
        running.reserve(found.size());
        for (Yields& one : found) {
            running.emplace_back([&one, end] { yield_until(end, one); });
        }
    }
    double contended_s = 0;
    Times all;
    for (const Yields& one : found) {
        contended_s += one.contended_s;
        all.insert(all.end(), one.took.begin(), one.took.end());
    }
    std::sort(all.begin(), all.end());
    const auto slow = all.end() - std::upper_bound(all.begin(), all.end(), YieldMonitor::kSlowNs / 1e3F);
    std::printf(
        "{\"contended_percent\": %.2f, \"yields\": %zu, \"slow\": %td, \"p50_us\": %.2f, "
        "\"p99_us\": %.2f, \"max_us\": %.2f}\n",
        100 * contended_s / (seconds * yielding), all.size(), slow, static_cast<double>(all[all.size() / 2]),
        static_cast<double>(all[all.size() * 99 / 100]), static_cast<double>(all.back()));
    std::fflush(stdout);
}

constexpr std::uint32_t kMaxThreads = 64;

}  // namespace

int yield_beside_computing() {
    std::uint32_t yielding = 0;
    std::uint32_t computing = 0;
    double seconds = 0;
    while (std::cin >> yielding >> computing >> seconds) {
        if (yielding == 0 || yielding > kMaxThreads || computing > kMaxThreads || !(seconds > 0)) {
            errno = EINVAL;
            give_up("YIELDING COMPUTING SECONDS");
        }
        const Computing beside(computing);
        measure_yields(yielding, seconds);
    }
    return 0;
}

int poll_beside_computing() {
    std::deque<Connection> connections;
    std::printf("{\"connected\": 1}\n");
    std::fflush(stdout);
    Mix mix;
    std::uint32_t bytes = 0;
    double seconds = 0;
    while (std::cin >> mix.writing >> mix.polling >> mix.computing >> bytes >> seconds) {
        if (mix.writing == 0 || mix.writing > kMaxThreads || mix.polling > kMaxThreads ||
            mix.computing > kMaxThreads || bytes == 0 || bytes > Side::kBufferBytes || !(seconds > 0)) {
            errno = EINVAL;
            give_up("WRITING POLLING COMPUTING BYTES SECONDS");
        }
        while (connections.size() < mix.writing + mix.polling) {
            connections.emplace_back();
        }
        const Computing beside(mix.computing);
        measure(connections, mix, bytes, seconds);
    }
    return 0;
}

}  // namespace urnic::bench
