#include "bench/e2e/wake.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "bench/e2e/processes.h"

namespace urnic::bench {

namespace {

constexpr const char* kPartWake = "wake";

int make_eventfd() {
    const int fd = eventfd(0, EFD_CLOEXEC);
    if (fd == -1) {
        fail(kPartWake, "eventfd");
    }
    return fd;
}

void wake(int fd, std::uint64_t value) {
    if (write(fd, &value, sizeof value) != sizeof value) {
        fail(kPartWake, "write");
    }
}

std::uint64_t sleep_on(int fd) {
    std::uint64_t value = 0;
    if (read(fd, &value, sizeof value) != sizeof value) {
        fail(kPartWake, "read");
    }
    return value;
}

}  // namespace

void wake_latency(int cpu_a, int cpu_b, double seconds, std::uint32_t pause_ms, Results& results) {
    constexpr std::uint64_t kGoOn = 1;
    constexpr std::uint64_t kEnd = 2;
    const int there = make_eventfd();
    const int back = make_eventfd();
    const pid_t answers = start_child(cpu_b, [&] {
        while (sleep_on(there) == kGoOn) {
            wake(back, kGoOn);
        }
    });
    wait_for(start_child(cpu_a, [&] {
        const std::uint64_t until = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
        for (std::uint64_t now = now_ns(); now < until; now = now_ns()) {
            if (pause_ms != 0) {
                std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
            }
            const std::uint64_t begin = now_ns();
            wake(there, kGoOn);
            (void)sleep_on(back);
            results.add_sample(now_ns() - begin);
        }
        wake(there, kEnd);
    }));
    wait_for(answers);
}

}  // namespace urnic::bench
