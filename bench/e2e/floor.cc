// The floor: the copies, CRCs and ring hops that the product cannot do without, and nothing else: no verbs,
// no transport protocol, no DPDK. What the product is measured against, together with TCP over loopback.

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "bench/e2e/floor_daemon.h"
#include "bench/e2e/processes.h"
#include "bench/e2e/tcp.h"
#include "bench/e2e/wake.h"
#include "os/command_line.h"

namespace urnic::bench {
namespace {

struct Options {
    std::string mode;
    double seconds = 1;
    std::uint32_t size_bytes = 0;  // 0: what the mode is named for
    int cpu_daemon = kAnyCpu;
    int cpu_a = kAnyCpu;
    int cpu_b = kAnyCpu;
    std::uint32_t pause_ms = 0;
    bool apart = false;
    bool yields = false;

    /// A poller that shares its CPU, or does not know, must give it away on a miss.
    [[nodiscard]] Miss miss_on(int cpu) const {
        const int sharers = (cpu == cpu_daemon ? 1 : 0) + (cpu == cpu_a ? 1 : 0) + (cpu == cpu_b ? 1 : 0);
        return Miss(yields || sharers > 1);
    }
};

/// Waits until the last byte of `app`'s buffer is `expected`, as ib_write_lat does. Returns false when told
/// to stop.
bool wait_for_last_byte(const FloorMemory& memory, const FloorApp& app, std::uint32_t size,
                        std::uint8_t expected, const Miss& miss) {
    const auto* last = reinterpret_cast<const std::atomic<std::uint8_t>*>(app.target + size - 1);
    while (last->load(std::memory_order_acquire) != expected) {
        if (memory.stop.load(std::memory_order_relaxed)) {
            return false;
        }
        miss();
    }
    return true;
}

void post_ping(FloorPoster& poster, FloorApp& app, std::uint32_t size, std::uint8_t value) {
    app.source[size - 1] = static_cast<std::byte>(value);
    poster.post(size, true);
}

void ping(FloorMemory& memory, std::uint32_t size, double seconds, const Miss& miss) {
    FloorApp& app = memory.apps[0];
    FloorPoster poster(app);
    Results& results = memory.results;
    const std::uint64_t begin = now_ns();
    const std::uint64_t end = deadline_after(seconds);
    std::uint8_t value = 0;
    for (std::uint64_t now = begin; now < end;) {
        post_ping(poster, app, size, ++value);
        (void)wait_for_last_byte(memory, app, size, value, miss);
        while (poster.poll()) {
        }
        const std::uint64_t after = now_ns();
        results.add_sample(after - now);
        results.messages += 2;
        now = after;
    }
    results.elapsed_ns = now_ns() - begin;
    memory.stop.store(true);
}

void pong(FloorMemory& memory, std::uint32_t size, const Miss& miss) {
    FloorApp& app = memory.apps[1];
    FloorPoster poster(app);
    for (std::uint8_t value = 1; wait_for_last_byte(memory, app, size, value, miss); ++value) {
        post_ping(poster, app, size, value);
        while (poster.poll()) {
        }
    }
}

/// Keeps kDepth WRITEs in flight; of small ones every kSignalEvery-th is signaled.
void stream(FloorMemory& memory, std::uint32_t size, double seconds, const Miss& miss) {
    FloorPoster poster(memory.apps[0]);
    Results& results = memory.results;
    const std::uint64_t begin = now_ns();
    for (const std::uint64_t end = deadline_after(seconds); now_ns() < end;) {
        while (poster.has_room()) {
            poster.post(size, size > kSignalAllAbove || (poster.posted() + 1) % kSignalEvery == 0);
        }
        if (!poster.poll()) {
            miss();
        }
    }
    results.elapsed_ns = now_ns() - begin;
    results.messages = poster.done();
    results.bytes = std::uint64_t{poster.done()} * size;
    memory.stop.store(true);
}

/// One core copies a message to another place, again and again, out of its caches: nothing that copies once
/// is faster. Both begin on a cache line: elsewhere the C library's memcpy() has a twentieth of this on some
/// processors of AMD.
void copy_again(std::uint32_t size, double seconds, Results& results) {
    constexpr std::size_t kLineBytes = 64;
    const std::size_t room = (size + kLineBytes - 1) / kLineBytes * kLineBytes;
    std::byte* const source = shared_memory(2 * room);
    std::byte* const target = source + room;
    std::memset(source, 1, size);
    constexpr std::uint32_t kCopiesBetweenLooks = 64;
    const std::uint64_t begin = now_ns();
    for (const std::uint64_t end = deadline_after(seconds); now_ns() < end;) {
        for (std::uint32_t i = 0; i < kCopiesBetweenLooks; ++i) {
            std::memcpy(target, source, size);
            asm volatile("" : : "r"(target) : "memory");  // so that no copy is left out
        }
        results.messages += kCopiesBetweenLooks;
    }
    results.elapsed_ns = now_ns() - begin;
    results.bytes = results.messages * size;
}

/// One daemon and two applications, each a process of its own.
void run_floor(const Options& options, std::uint32_t size, FloorMemory& memory) {
    const bool is_latency = options.mode == "latency";
    const pid_t daemon = start_child(options.cpu_daemon,
                                     [&] { FloorDaemon(memory).run(options.miss_on(options.cpu_daemon)); });
    const pid_t a = start_child(options.cpu_a, [&] {
        const Miss miss = options.miss_on(options.cpu_a);
        if (is_latency) {
            ping(memory, size, options.seconds, miss);
        } else {
            stream(memory, size, options.seconds, miss);
        }
    });
    // In a one-way stream the receiving application sleeps until its peer is done; ib_write_bw's does too.
    if (is_latency) {
        wait_for(start_child(options.cpu_b, [&] { pong(memory, size, options.miss_on(options.cpu_b)); }));
    }
    wait_for(a);
    wait_for(daemon);
}

int run(int argc, char** argv) {
    CommandLine app(
        "The floor that urnic is measured against, and TCP over loopback. Prints one line of JSON.");
    Options options;
    app.option(
           "mode", options.mode,
           "latency (8 B ping-pong), bandwidth (64 KiB WRITEs), rate (64 B WRITEs), tcp-latency, "
           "tcp-bandwidth, wake (sleepers on the CPUs of the first application and of the daemon), memcpy "
           "(64 KiB by one core, on the daemon's CPU)")
        .required()
        .one_of({"latency", "bandwidth", "rate", "tcp-latency", "tcp-bandwidth", "wake", "memcpy"});
    app.option("--seconds", options.seconds, "how long to measure").in_range(0.01, 600.0);
    app.option("--size", options.size_bytes, "message size in bytes instead of the mode's own")
        .in_range(1U, kMaxMessage);
    app.option("--pause-ms", options.pause_ms, "silence before each wake-up").in_range(0U, 10'000U);
    app.option("--cpu-daemon", options.cpu_daemon, "CPU of the daemon");
    app.option("--cpu-a", options.cpu_a, "CPU of the sending application");
    app.option("--cpu-b", options.cpu_b, "CPU of the other application");
    app.flag("--apart", options.apart, "of TCP: the other application is on the daemon's CPU");
    app.flag("--yield", options.yields,
             "every poller yields on a miss; those that share a CPU given above do so anyway");
    if (const auto status = app.parse(argc, argv)) return *status;
    // Whatever goes wrong, no poller stays behind: children end with this process.
    alarm(static_cast<unsigned>(options.seconds) + 30);

    auto& memory = *reinterpret_cast<FloorMemory*>(shared_memory(sizeof(FloorMemory)));
    if (options.mode == "tcp-latency") {
        tcp_latency(options.cpu_a, options.apart ? options.cpu_daemon : options.cpu_b, options.seconds,
                    memory.results);
    } else if (options.mode == "tcp-bandwidth") {
        tcp_bandwidth(options.cpu_a, options.cpu_b, options.seconds, memory.results);
    } else if (options.mode == "wake") {
        wake_latency(options.cpu_a, options.cpu_daemon, options.seconds, options.pause_ms, memory.results);
    } else if (options.mode == "memcpy") {
        const std::uint32_t size = options.size_bytes != 0 ? options.size_bytes : kMaxMessage;
        wait_for(start_child(options.cpu_daemon, [&] { copy_again(size, options.seconds, memory.results); }));
    } else {
        const std::uint32_t own = options.mode == "latency" ? 8 : options.mode == "rate" ? 64 : kMaxMessage;
        run_floor(options, options.size_bytes != 0 ? options.size_bytes : own, memory);
    }
    print_json(options.mode.c_str(), memory.results);
    return 0;
}

}  // namespace
}  // namespace urnic::bench

int main(int argc, char** argv) {
    try {
        return urnic::bench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "floor: %s\n", error.what());
        return 1;
    }
}
