#include "bench/e2e/processes.h"

#include <emmintrin.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace urnic::bench {

std::byte* shared_memory(std::size_t bytes) {
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        std::fprintf(stderr, "floor: no shared memory of %zu bytes: %s\n", bytes, std::strerror(errno));
        std::exit(1);
    }
    return static_cast<std::byte*>(memory);
}

void pin_to(int cpu) {
    if (cpu == kAnyCpu) {
        return;
    }
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<std::size_t>(cpu), &cpus);
    if (sched_setaffinity(0, sizeof cpus, &cpus) != 0) {
        std::fprintf(stderr, "floor: cannot run on CPU %d: %s\n", cpu, std::strerror(errno));
        std::exit(1);
    }
}

pid_t start_child(int cpu, const std::function<void()>& body) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == -1) {
        fail("child", "fork");
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            std::_Exit(1);
        }
        pin_to(cpu);
        body();
        std::_Exit(0);
    }
    return child;
}

void wait_for(pid_t child) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        std::fprintf(stderr, "floor: a child process failed (wait status %d)\n", status);
        std::exit(1);
    }
}

std::uint64_t now_ns() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
}

std::uint64_t deadline_after(double seconds) { return now_ns() + static_cast<std::uint64_t>(seconds * 1e9); }

void fail(const char* part, const char* what) {
    std::fprintf(stderr, "floor: %s: %s: %s\n", part, what, std::strerror(errno));
    std::exit(1);
}

void Miss::operator()() const {
    if (yields_) {
        sched_yield();
    } else {
        _mm_pause();
    }
}

}  // namespace urnic::bench
