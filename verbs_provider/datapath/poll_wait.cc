#include "verbs_provider/datapath/poll_wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "base/spin_wait.h"
#include "base/yield_monitor.h"
#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

/// A thread that comes back after longer than this did something else meanwhile.
constexpr std::uint64_t kOtherWorkNs = 10'000;
constexpr std::uint64_t kMaxSleepNs = 1'000'000;
constexpr std::uint64_t kPollNsPerSecond = 1'000'000'000;
/// Where others compute a thread looks again and again for so long before it sleeps, as long as that pays: a
/// worker that runs on another core needs less.
constexpr std::uint64_t kSpinNs = 25'000;
/// Where others only yield, a thread sleeps after so many yields in vain that let somebody else run: those
/// that have work to do get on faster without it. A yield that let nobody run takes about as long as the
/// shortest one.
constexpr std::uint32_t kVainYields = 400;
constexpr std::uint64_t kOthersRanNs = 500;
/// The bits of abi::CqHeader::sleepers. Threads that have the same one are woken together.
constexpr std::uint32_t kSleeperBits = 32;

/// What a thread knows about its own waiting. It sleeps in three turns through the CQs that it polls: in the
/// first it says in each that it will sleep, in the second it looks into each once more, and when it comes to
/// the first again it sleeps. A completion that comes meanwhile changes the word that it sleeps on.
struct PollWait {
    YieldMonitor yields;
    SpinWait spin{kSpinNs};
    std::uint64_t left_at_ns;  // the last poll that missed
    std::uint64_t shortest_yield_ns;
    std::uint32_t vain_yields;  // in a row
    std::uint32_t bit;          // 0: none yet
    const Cq* first;            // of the turn; only compared, it may be destroyed by now
    std::uint32_t first_taken;  // its completions so far
    std::uint32_t turns;        // 0: it does not mean to sleep
    std::uint32_t seen;         // the word, before the first turn
};
thread_local constinit PollWait this_wait{};
std::atomic<std::uint32_t> next_bit{0};

std::uint64_t poll_clock_ns() {
    struct timespec now {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kPollNsPerSecond +
           static_cast<std::uint64_t>(now.tv_nsec);
}

/// Completions that threads have taken so far.
std::uint32_t taken_of(Cq& cq) {
    std::uint32_t taken = 0;
    cq.lock.lock();  // others may poll it, too
    for (std::uint32_t worker = 0; worker < cq.num_workers; ++worker) {
        taken += cq.rings.taken[worker];
    }
    cq.lock.unlock();
    return taken;
}

void note_row(PollWait& wait, Cq& cq, std::uint64_t now_ns) {
    const std::uint32_t taken = taken_of(cq);
    const bool went_away = now_ns - wait.left_at_ns > kOtherWorkNs;
    const bool has_got_some = wait.first == &cq && wait.first_taken != taken;
    if (has_got_some) {
        wait.spin.on_progress();
    }
    if (wait.first == nullptr || went_away || has_got_some) {
        wait.spin.begin(now_ns);
        wait.first = &cq;
        wait.first_taken = taken;
        wait.vain_yields = 0;
        wait.turns = 0;
    }
}

void sleep_on(const PollWait& wait, const std::atomic<std::uint32_t>& word, std::uint64_t now_ns) {
    const std::uint64_t until_ns = now_ns + kMaxSleepNs;
    const timespec until{static_cast<time_t>(until_ns / kPollNsPerSecond),
                         static_cast<long>(until_ns % kPollNsPerSecond)};
    const int saved = errno;
    (void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, wait.seen, &until, nullptr, wait.bit);
    errno = saved;
}

/// A step on the way to sleep, see PollWait. Returns whether it slept.
bool go_to_sleep(PollWait& wait, Cq& cq, std::uint64_t now_ns) {
    const std::atomic<std::uint32_t>& word = cq.context->session->wake_word();
    const bool begins = wait.turns == 0;
    if (begins) {
        wait.bit =
            wait.bit != 0 ? wait.bit : 1U << next_bit.fetch_add(1, std::memory_order_relaxed) % kSleeperBits;
        wait.seen = word.load(std::memory_order_seq_cst);
        wait.first = &cq;
        wait.first_taken = taken_of(cq);
    }
    wait.turns += wait.first == &cq ? 1 : 0;
    if (wait.turns == 1) {
        cq.lock.lock();  // a resize changes its rings
        cq.rings.header().sleepers.fetch_or(wait.bit, std::memory_order_seq_cst);
        cq.lock.unlock();
    } else if (wait.turns == 3) {
        wait.turns = 0;
        if (cq.context->session->state() == SessionState::kLive) {
            sleep_on(wait, word, now_ns);
            return true;
        }
    }
    return false;
}

void yield(PollWait& wait, std::uint64_t now_ns) {
    sched_yield();
    const std::uint64_t after_ns = poll_clock_ns();
    const std::uint64_t took_ns = after_ns - now_ns;
    wait.yields.on_yield(after_ns, took_ns);
    if (wait.shortest_yield_ns == 0 || took_ns < wait.shortest_yield_ns) {
        wait.shortest_yield_ns = took_ns;
    }
    wait.vain_yields += took_ns > wait.shortest_yield_ns + kOthersRanNs ? 1 : 0;
}

/// Whether a worker waits for this very CPU, so that looking again keeps it from what the thread waits for.
bool worker_is_here(const Session& session) {
    const auto here = static_cast<std::uint32_t>(sched_getcpu());
    for (std::uint32_t worker = 0; worker < session.num_workers(); ++worker) {
        const abi::WorkerState& state = session.daemon().workers[worker];
        if (state.cpu.load(std::memory_order_relaxed) == here) {
            return true;
        }
    }
    return false;
}

}  // namespace

bool poll_missed(Cq& cq) {
    const bool is_dead = cq.context->session->state_relaxed() == SessionState::kDead;
    if (!is_dead && cq.context->session->daemon().cores_shared.load(std::memory_order_relaxed) == 0) {
        return false;
    }
    PollWait& wait = this_wait;
    const std::uint64_t now_ns = poll_clock_ns();
    const bool waits = now_ns - wait.left_at_ns <= kOtherWorkNs;
    if (is_dead) [[unlikely]] {
        // All that may come is what this process posts and finds flushed.
        if (waits) {
            const timespec pause{0, static_cast<long>(kMaxSleepNs)};
            const int saved = errno;
            (void)nanosleep(&pause, nullptr);
            errno = saved;
        }
        wait.left_at_ns = poll_clock_ns();
        return waits;
    }
    note_row(wait, cq, now_ns);
    cq.has_woken_worker.store(false, std::memory_order_relaxed);
    bool gave_way = true;
    if (wait.yields.contended(now_ns)) {
        // A thread that does other work is one that computes: it needs no turn of anybody's, nor gives one.
        const bool sleeps = waits && (!wait.spin.should_poll(now_ns) || worker_is_here(*cq.context->session));
        gave_way = sleeps && go_to_sleep(wait, cq, now_ns);
    } else if (wait.vain_yields >= kVainYields) {
        gave_way = go_to_sleep(wait, cq, now_ns);
    } else {
        yield(wait, now_ns);
    }
    wait.left_at_ns = poll_clock_ns();
    return gave_way;
}

void note_wake(Cq& cq) { cq.has_woken_worker.store(true, std::memory_order_relaxed); }

void give_way_after_wake(Cq& cq) {
    if (!cq.has_woken_worker.load(std::memory_order_relaxed)) [[likely]] {
        return;
    }
    cq.has_woken_worker.store(false, std::memory_order_relaxed);
    const std::uint64_t now_ns = poll_clock_ns();
    if (cq.context->session->daemon().cores_shared.load(std::memory_order_relaxed) != 0 &&
        !this_wait.yields.contended(now_ns)) {
        yield(this_wait, now_ns);
    }
}

}  // namespace urnic::provider
