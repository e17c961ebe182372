#include "bench/verbs/turns.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "bench/verbs/computing.h"
#include "bench/verbs/side.h"

namespace urnic::bench {

namespace {

using TurnClock = std::chrono::steady_clock;

enum class Wait : std::uint8_t { kSpin, kYield, kSleep, kLook };
enum class Place : std::uint8_t { kAnywhere, kTogether, kApart };

constexpr auto kLookFor = std::chrono::microseconds(25);
constexpr std::uint32_t kMostComputing = 64;

/// One direction between two processes.
struct alignas(128) Word {
    std::atomic<std::uint32_t> value{0};
    std::atomic<std::uint32_t> sleepers{0};
};
/// From the first application to the daemon, on to the second, and the same way back.
struct Words {
    Word there, on, back, home;
};

void enqueue(Word& word, std::uint32_t value) {
    word.value.store(value);
    if (word.sleepers.load() != 0) {
        syscall(SYS_futex, &word.value, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
}

void sleep_until(Word& word, std::uint32_t value) {
    word.sleepers.store(1);
    for (std::uint32_t seen = word.value.load(); seen != value; seen = word.value.load()) {
        syscall(SYS_futex, &word.value, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    }
    word.sleepers.store(0, std::memory_order_relaxed);
}

void wait_for(Word& word, std::uint32_t value, Wait how) {
    const auto arrived = [&] { return word.value.load(std::memory_order_acquire) == value; };
    if (how == Wait::kSleep) {
        sleep_until(word, value);
        return;
    }
    const auto end = TurnClock::now() + kLookFor;
    while (!arrived()) {
        if (how == Wait::kYield) {
            sched_yield();
        } else if (how == Wait::kLook && TurnClock::now() > end) {
            sleep_until(word, value);
        } else {
            _mm_pause();
        }
    }
}

/// The daemon has another CPU than the applications, or all have one.
void take_place(Place place, bool is_daemon) {
    if (place != Place::kAnywhere) {
        pin_this_process(place == Place::kApart && is_daemon ? 1 : 0);
    }
}

/// A process that passes on what it gets, in both directions, until it is killed.
template <typename Turn>
pid_t start_process(Place place, bool is_daemon, const Turn& turn) {
    const pid_t child = fork();
    if (child == -1) {
        give_up("fork");
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        take_place(place, is_daemon);
        for (std::uint32_t i = 1;; ++i) {
            turn(i);
        }
    }
    return child;
}

void measure_turns(Wait how, Place place, double seconds) {
    void* memory = mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        give_up("mmap");
    }
    Words& words = *new (memory) Words;
    // The daemon serves two directions by turns: it knows which one is next.
    const std::array children = {start_process(place, true,
                                               [&](std::uint32_t i) {
                                                   wait_for(words.there, i, how);
                                                   enqueue(words.on, i);
                                                   wait_for(words.back, i, how);
                                                   enqueue(words.home, i);
                                               }),
                                 start_process(place, false, [&](std::uint32_t i) {
                                     wait_for(words.on, i, how);
                                     enqueue(words.back, i);
                                 })};
    const CpusOfThisProcess cpus;
    take_place(place, false);
    const auto began = TurnClock::now();
    auto now = began;
    std::uint32_t rounds = 0;
    double longest = 0;
    while (std::chrono::duration<double>(now - began).count() < seconds) {
        ++rounds;
        enqueue(words.there, rounds);
        wait_for(words.home, rounds, how);
        const auto end = TurnClock::now();
        longest = std::max(longest, std::chrono::duration<double, std::micro>(end - now).count());
        now = end;
    }
    for (const pid_t child : children) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
    munmap(memory, sizeof(Words));
    const double total = std::chrono::duration<double, std::micro>(now - began).count();
    std::printf("{\"one_way_us\": %.3f, \"longest_us\": %.1f}\n", total / rounds / 2, longest);
    std::fflush(stdout);
}

}  // namespace

int take_turns() {
    constexpr std::array kNames = {"spin", "yield", "sleep", "look"};
    constexpr std::array kPlaces = {"anywhere", "together", "apart"};
    std::printf("{\"ready\": 1}\n");
    std::fflush(stdout);
    std::string how, where;
    std::uint32_t computing = 0;
    double seconds = 0;
    while (std::cin >> how >> where >> computing >> seconds) {
        const auto* const name = std::find(kNames.begin(), kNames.end(), how);
        const auto* const place = std::find(kPlaces.begin(), kPlaces.end(), where);
        if (name == kNames.end() || place == kPlaces.end() || computing > kMostComputing || !(seconds > 0)) {
            errno = EINVAL;
            give_up("spin|yield|sleep|look anywhere|together|apart COMPUTING SECONDS");
        }
        const auto placed = static_cast<Place>(place - kPlaces.begin());
        const Computing beside(computing, placed != Place::kAnywhere);
        measure_turns(static_cast<Wait>(name - kNames.begin()), placed, seconds);
    }
    return 0;
}

}  // namespace urnic::bench
