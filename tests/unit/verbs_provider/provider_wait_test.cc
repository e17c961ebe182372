// A thread that polls an empty CQ beside one that computes sleeps, and a completion wakes it.
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tests/unit/verbs_provider/provider_fixture.h"

namespace {
thread_local int yields = 0;
}

/// In the place of the C library's, for the provider, too.
extern "C" __attribute__((visibility("default"))) int sched_yield() {
    ++yields;
    return static_cast<int>(syscall(SYS_sched_yield));
}

namespace urnic::test {
namespace {

/// The CPU that this thread is on, for itself and for a process that computes there.
class SharedCpu {
  public:
    SharedCpu() {
        EXPECT_EQ(sched_getaffinity(0, sizeof before_, &before_), 0);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
        EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
        computing_ = fork();
        if (computing_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (std::atomic<std::uint64_t> count{0};;) {
                count.store(count.load() + 1);
            }
        }
    }
    ~SharedCpu() {
        end_computing();
        EXPECT_EQ(sched_setaffinity(0, sizeof before_, &before_), 0);
    }
    SharedCpu(const SharedCpu&) = delete;
    SharedCpu& operator=(const SharedCpu&) = delete;
    void end_computing() {
        if (computing_ > 0) {
            kill(computing_, SIGKILL);
            waitpid(computing_, nullptr, 0);
            computing_ = -1;
        }
    }

  private:
    cpu_set_t before_{};
    pid_t computing_ = -1;
};

TEST_F(Provider, APollBesideAThreadThatComputesSleepsUntilACompletion) {
    open_with_qp();
    SharedCpu cpu;
    std::atomic<bool> has_completed{false};
    std::atomic<std::uint32_t> slept{0};
    // Not on this CPU: it plays the worker, on which the thread below waits.
    std::thread worker([&] {
        cpu_set_t all;
        CPU_ZERO(&all);
        for (std::size_t other = 0; other < CPU_SETSIZE; ++other) {
            CPU_SET(other, &all);
        }
        (void)sched_setaffinity(0, sizeof all, &all);
        const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (slept == 0 && std::chrono::steady_clock::now() < give_up_at) {
            slept = daemon.wake_sleepers();
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
        daemon.complete(completion(1, 0, true));
        has_completed = true;
        (void)daemon.wake_sleepers();
    });
    struct ibv_wc wc {};
    int got = 0;
    while ((got = ibv_poll_cq(cq, 1, &wc)) == 0) {
    }
    worker.join();
    EXPECT_EQ(got, 1);
    EXPECT_EQ(wc.wr_id, 1U);
    EXPECT_TRUE(has_completed);
    EXPECT_NE(slept, 0U) << "it never said that it slept";
}

TEST_F(Provider, APollGivesWayOnceIfWhatItFindsHadWokenAWorker) {
    open_with_qp();
    // A thread that knows nothing of earlier yields.
    std::thread([this] {
        const auto yields_of = [this](std::uint32_t index, bool is_asleep) {
            daemon.set_sleeping(1, is_asleep);
            EXPECT_EQ(post_one(qp, send_request(index, &sge)), 0);
            daemon.set_sleeping(1, false);
            daemon.complete(completion(index, index));
            const int before = yields;
            struct ibv_wc wc {};
            EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 1);
            return yields - before;
        };
        EXPECT_EQ(yields_of(0, false), 0);
        EXPECT_EQ(yields_of(1, true), 1);
        EXPECT_EQ(yields_of(2, false), 0);
    }).join();
}

TEST_F(Provider, AThreadThatWorksBetweenItsPollsDoesNotSleep) {
    open_with_qp();
    SharedCpu cpu;
    // Until a thread that only polls would sleep.
    std::uint32_t slept = 0;
    const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (slept == 0 && std::chrono::steady_clock::now() < give_up_at) {
        EXPECT_TRUE(poll_ids().empty());
        slept = daemon.wake_sleepers();
    }
    ASSERT_NE(slept, 0U);
    struct rusage before {};
    struct rusage after {};
    ASSERT_EQ(getrusage(RUSAGE_THREAD, &before), 0);
    for (int i = 0; i < 1000; ++i) {
        const auto working_until = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
        while (std::chrono::steady_clock::now() < working_until) {
        }
        EXPECT_TRUE(poll_ids().empty());
    }
    ASSERT_EQ(getrusage(RUSAGE_THREAD, &after), 0);
    // Once a second it tries whether the other one still computes, by a yield or three.
    EXPECT_LT(after.ru_nvcsw - before.ru_nvcsw, 100);
    EXPECT_EQ(daemon.wake_sleepers(), 0U);
}

TEST_F(Provider, AThreadThatPollsAfterTheDaemonsDeathSleepsEachTime) {
    open_with_qp();
    daemon.die();
    struct ibv_async_event event {};
    ASSERT_EQ(ibv_get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_DEVICE_FATAL);
    ibv_ack_async_event(&event);
    while (!poll_ids().empty()) {
    }
    struct rusage before {};
    struct rusage after {};
    ASSERT_EQ(getrusage(RUSAGE_THREAD, &before), 0);
    after = before;
    // Who was kept from its CPU between two polls does not sleep at the second: it may have worked.
    for (int polls = 0; polls < 10'000 && after.ru_nvcsw - before.ru_nvcsw < 50; ++polls) {
        EXPECT_TRUE(poll_ids().empty());
        ASSERT_EQ(getrusage(RUSAGE_THREAD, &after), 0);
    }
    EXPECT_GE(after.ru_nvcsw - before.ru_nvcsw, 50);
}

}  // namespace
}  // namespace urnic::test
