// When an application is told of completions: moderated events, CQs that ignore overruns, exact timestamps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "dataplane/worker/event_notifier.h"
#include "dataplane/worker/tsc_clock.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::TestCq;
using rig::TestQp;

std::uint64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Empty WRITEs from one device to another, and the channel of their CQ.
class Notified : public testing::Test {
  protected:
    Notified() {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, channel_.data()), 0);
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, events_.data()), 0);
        completion_channel_.socket.fd = channel_[1];
        cq.cq().channel = &completion_channel_;
        cq.cq().async.fd = events_[1];
        EXPECT_EQ(a.connect(b), 0);
        EXPECT_EQ(b.connect(a), 0);
    }
    ~Notified() override {
        rig.worker(0).call([&] { rig.worker(0).release_cq(cq.cq()); });
        for (const int fd : {channel_[0], channel_[1], events_[0], events_[1]}) {
            close(fd);
        }
    }
    /// Waits for the completions of that many WRITEs; then no event that they raise at once is still to come.
    void complete(int count) {
        for (int i = 0; i < count; ++i) {
            a.post_send({.opcode = WrOpcode::kWrite});
        }
        for (int i = 0; i < count; ++i) {
            ASSERT_TRUE(cq.wait().has_value());
        }
        settle();
    }
    void settle() {
        rig.worker(0).call([] {});
    }
    bool told() const {
        std::uint64_t handle = 0;
        return read(channel_[0], &handle, sizeof handle) == sizeof handle;
    }
    bool told_in_time() const {
        return rig::wait_for([this] { return told(); });
    }
    void moderate(std::uint16_t count, std::uint16_t period_us) {
        cq.cq().moderation.store({count, period_us});
        settle();
    }
    bool async_event() const {
        abi::AsyncEvent event{};
        return recv(events_[0], &event, sizeof event, 0) == sizeof event;
    }
    bool has_unpolled(std::uint32_t count) {
        bool has = false;
        rig.worker(0).call([&] { has = cq.cq().unpolled(0) == count; });
        return has;
    }
    QpState state() {
        QpState now{};
        rig.worker(0).call([&] { now = a.slot().qp->state(); });
        return now;
    }

    Rig rig{{}};
    std::unique_ptr<rig::TestClient> client = rig.make_client();
    TestCq cq{1, 4};
    TestCq other{1, 256};
    TestQp a{rig, *client, 0, 1, 0, cq};
    TestQp b{rig, *client, 1, 2, 1, other};

  private:
    std::array<int, 2> channel_{-1, -1};
    CompletionChannel completion_channel_;
    std::array<int, 2> events_{-1, -1};
};

TEST(TscClock, FollowsTheSystemsClockWhateverTheEalSaysOfTheFrequency) {
    rig::start_eal_once();
    constexpr std::uint64_t kDriftNs = 100'000;
    constexpr std::uint64_t kRunNs = 2'500'000'000;  // over two of its readings a second apart
    TscClock clock;
    const std::uint64_t begin = monotonic_ns();
    std::uint64_t last = 0;
    for (std::uint64_t after = begin; after - begin < kRunNs;) {
        const std::uint64_t before = monotonic_ns();
        const TimeNs now = clock.now();
        after = monotonic_ns();
        ASSERT_GE(now + kDriftNs, before) << (after - begin) / 1000 << " us after its start";
        ASSERT_LE(now, after + kDriftNs) << (after - begin) / 1000 << " us after its start";
        ASSERT_GE(now, last);
        last = now;
    }
}

TEST_F(Notified, ACompletionWakesThreadsThatSleepInAPoll) {
    std::atomic<std::uint32_t> word{7};
    for (const bool has_channel : {true, false}) {
        rig.worker(0).call([&] {
            cq.cq().wake_word = &word;
            cq.cq().channel = has_channel ? cq.cq().channel : nullptr;
        });
        word.store(7);
        cq.sleepers().store(0b101);
        std::thread sleeper([&word] {
            // The bit of one of them. Without a wake it never returns.
            while (word.load() == 7) {
                (void)syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 7, nullptr, nullptr, 0b100);
            }
        });
        complete(1);
        sleeper.join();
        EXPECT_EQ(cq.sleepers().load(), 0U);
        EXPECT_EQ(word.load(), 8U);
        complete(1);
        EXPECT_EQ(word.load(), 8U) << "nobody sleeps any more";
    }
}

TEST_F(Notified, AnEventForEachCountOfCompletions) {
    moderate(3, 0);
    for (int round = 0; round < 5; ++round) {
        cq.arm(abi::kCqArmedAny);
        complete(1);
        EXPECT_FALSE(told());
        complete(1);
        EXPECT_FALSE(told());
        complete(1);
        EXPECT_TRUE(told());
        complete(3);
        EXPECT_FALSE(told()) << "nobody asked for another one";
    }
    EXPECT_EQ(cq.cq().completion_events.load(), 5U);
}

TEST_F(Notified, CompletionsThatNobodyAskedToBeToldOfDoNotCount) {
    moderate(2, 0);
    complete(1);
    cq.arm(abi::kCqArmedAny);
    complete(1);
    EXPECT_FALSE(told());
    complete(1);
    EXPECT_TRUE(told());
}

TEST_F(Notified, AfterItsPeriodAnEventComesWithFewerCompletions) {
    constexpr std::uint16_t kPeriodUs = 20'000;
    moderate(1000, kPeriodUs);
    for (int round = 0; round < 3; ++round) {
        cq.arm(abi::kCqArmedAny);
        const std::uint64_t before = monotonic_ns();
        a.post_send({.opcode = WrOpcode::kWrite});
        EXPECT_TRUE(told_in_time());
        EXPECT_GE(monotonic_ns() - before, kPeriodUs * 1000ULL);
        EXPECT_TRUE(cq.wait().has_value());
    }
}

TEST_F(Notified, AFullCqGetsItsEventAtOnce) {
    moderate(1000, 0);
    cq.arm(abi::kCqArmedAny);
    for (int i = 0; i < 4; ++i) {
        a.post_send({.opcode = WrOpcode::kWrite});
    }
    EXPECT_TRUE(told_in_time());
    EXPECT_EQ(state(), QpState::kRts);
}

// Those that nobody asked for do not count, but they take the room of those that would.
TEST_F(Notified, ACqThatOthersHaveFilledInPartGetsItsEventAsWell) {
    moderate(1000, 0);
    a.post_send({.opcode = WrOpcode::kWrite});
    EXPECT_TRUE(rig::wait_for([this] { return has_unpolled(1); }));
    settle();
    cq.arm(abi::kCqArmedAny);
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(told());
        a.post_send({.opcode = WrOpcode::kWrite});
    }
    EXPECT_TRUE(told_in_time());
    EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(Notified, WithoutModerationWhatWasHeldBackComesAtOnce) {
    moderate(1000, 0);
    cq.arm(abi::kCqArmedAny);
    complete(2);
    EXPECT_FALSE(told());
    moderate(0, 0);
    EXPECT_TRUE(told());
}

TEST_F(Notified, AWorkerSleepsWhileAnEventWaitsAndForgetsAReleasedCq) {
    moderate(1000, 65'535);
    cq.arm(abi::kCqArmedAny);
    complete(1);
    EXPECT_TRUE(rig::wait_for([&] { return rig.asleep(0) || told(); }));
    rig.worker(0).call([&] { rig.worker(0).release_cq(cq.cq()); });
    EXPECT_TRUE(rig::wait_for([&] { return rig.asleep(0); })) << "spins for an event that is not there";
}

TEST_F(Notified, AnIgnoredOverrunLosesCompletionsAndNothingElse) {
    cq.cq().ignore_overrun = true;
    for (int i = 0; i < 20; ++i) {
        a.post_send({.opcode = WrOpcode::kWrite, .wr_id = static_cast<std::uint64_t>(i)});
    }
    EXPECT_TRUE(rig::wait_for([&] { return rig.count(0, &Counters::cq_overrun) == 16; }));
    EXPECT_EQ(state(), QpState::kRts);
    EXPECT_FALSE(async_event());
    for (std::uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(cq.wait()->wr_id, i);
    }
    a.post_send({.opcode = WrOpcode::kWrite, .wr_id = 99});
    EXPECT_EQ(cq.wait()->wr_id, 99U);
}

/// CQs with a channel each, and their notifier, whose time the test tells.
class FullChannels : public testing::Test {
  protected:
    static constexpr std::uint32_t kChannels = 40;
    static constexpr std::uint64_t kFiller = ~0ULL;

    struct Told {
        explicit Told(std::uint64_t handle) {
            EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
            channel.socket.fd = ends[1];
            cq.cq().channel = &channel;
            cq.cq().user_handle = handle;
            while (write(ends[1], &kFiller, sizeof kFiller) == sizeof kFiller) {
            }
        }
        ~Told() {
            close(ends[0]);
            close(ends[1]);
        }
        void make_room() const {
            std::uint64_t filler = 0;
            while (read(ends[0], &filler, sizeof filler) == sizeof filler) {
            }
        }
        bool take() const {
            std::uint64_t handle = 0;
            return read(ends[0], &handle, sizeof handle) == sizeof handle;
        }
        std::array<int, 2> ends{-1, -1};
        CompletionChannel channel;
        TestCq cq{1, 4};
    };

    /// The clock needs it.
    static void SetUpTestSuite() { rig::start_eal_once(); }

    FullChannels() {
        for (std::uint32_t i = 0; i < kChannels; ++i) {
            told_.push_back(std::make_unique<Told>(i));
            told_.back()->cq.arm(abi::kCqArmedAny);
            EXPECT_TRUE(notifier_.complete(told_.back()->cq.cq(), Completion{}, 0));
        }
        notifier_.flush(0);
    }
    /// How many of them were told since.
    std::uint32_t told() const {
        std::uint32_t count = 0;
        for (const auto& channel : told_) {
            count += channel->take() ? 1 : 0;
        }
        return count;
    }

    static constexpr TimeNs kRetryNs = 1'000'000;
    TscClock clock_;
    EventNotifier notifier_{0, false, clock_};
    std::vector<std::unique_ptr<Told>> told_;
};

TEST_F(FullChannels, AreTriedAgainAfterAWhileAndAFewAtATime) {
    for (const auto& channel : told_) {
        channel->make_room();
    }
    EXPECT_EQ(notifier_.next_due(), kRetryNs);
    notifier_.flush(kRetryNs - 1);
    EXPECT_EQ(told(), 0U);
    for (const std::uint32_t expected : {16U, 16U, 8U, 0U}) {
        notifier_.flush(kRetryNs);
        EXPECT_EQ(told(), expected);
    }
    EXPECT_EQ(notifier_.next_due(), kNever);
}

TEST_F(FullChannels, HaveTheirTurnsWhileOthersStayFull) {
    told_[20]->make_room();
    notifier_.flush(kRetryNs);
    EXPECT_FALSE(told_[20]->take()) << "16 have been tried";
    notifier_.flush(2 * kRetryNs - 1);
    EXPECT_FALSE(told_[20]->take());
    notifier_.flush(2 * kRetryNs);
    EXPECT_TRUE(told_[20]->take());
}

TEST_F(FullChannels, OfReleasedCqsAreForgotten) {
    for (const auto& channel : told_) {
        notifier_.release(channel->cq.cq());
    }
    EXPECT_EQ(notifier_.next_due(), kNever);
}

TEST_F(FullChannels, TakeTheEventsOfTheirCqsInTurn) {
    Told& first = *told_.front();
    TestCq second(1, 4);
    second.cq().channel = &first.channel;
    second.cq().user_handle = 1000;
    first.make_room();
    second.arm(abi::kCqArmedAny);
    EXPECT_TRUE(notifier_.complete(second.cq(), Completion{}, 0));
    notifier_.flush(0);
    EXPECT_FALSE(first.take()) << "it is behind the one that waits";
    notifier_.flush(kRetryNs);
    std::uint64_t handle = 1;
    EXPECT_EQ(read(first.ends[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    EXPECT_EQ(handle, 0U);
    EXPECT_EQ(read(first.ends[0], &handle, sizeof handle), static_cast<ssize_t>(sizeof handle));
    EXPECT_EQ(handle, 1000U);
}

// An application can arm its CQ without a system call, and need not read.
TEST_F(FullChannels, CountTheirEventsNoFurtherThanTheCountGoes) {
    NotifyingCq& cq = told_.front()->cq.cq();
    const std::uint32_t& waiting = cq.per_worker[0].pending_events;
    ASSERT_EQ(waiting, 1U);
    cq.per_worker[0].pending_events = ~0U - 1;
    for (int i = 0; i < 3; ++i) {
        told_.front()->cq.arm(abi::kCqArmedAny);
        EXPECT_TRUE(notifier_.complete(cq, Completion{}, 0));
        notifier_.flush(0);
        EXPECT_EQ(waiting, ~0U);
    }
    notifier_.release(cq);
    EXPECT_EQ(waiting, 0U);
    EXPECT_EQ(told_.front()->channel.per_worker[0].blocked_first, nullptr);
}

}  // namespace
}  // namespace urnic::dataplane
