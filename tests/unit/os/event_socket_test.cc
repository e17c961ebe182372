// Telling others of events without waiting for them, and what their watchers may cost.
#include "os/event_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "os/monotonic_clock.h"

namespace urnic {
namespace {

constexpr TimeNs kMs = 1'000'000;

TEST(WakeBudget, ALongWakeIsFollowedByARestOfAHundredTimesItsLength) {
    WakeBudget budget;
    EXPECT_TRUE(budget.can_send(0));
    budget.charge(0, WakeBudget::kLongNs);
    EXPECT_TRUE(budget.can_send(0));
    budget.charge(kMs, 30 * kMs);
    EXPECT_FALSE(budget.can_send(kMs + 30 * kMs));
    EXPECT_FALSE(budget.can_send(kMs + 3000 * kMs - 1));
    EXPECT_TRUE(budget.can_send(kMs + 3000 * kMs));
}

TEST(WakeBudget, WhatSeemedLongIsLookedAtForTwiceThatTime) {
    WakeBudget budget;
    EXPECT_FALSE(budget.is_suspect(0));
    budget.note(0, WakeBudget::kLongNs);
    EXPECT_FALSE(budget.is_suspect(0));
    budget.note(kMs, kMs);
    EXPECT_TRUE(budget.is_suspect(kMs + 200 * kMs - 1));
    EXPECT_FALSE(budget.is_suspect(kMs + 200 * kMs));
    EXPECT_TRUE(budget.can_send(kMs)) << "it may have been preempted";
}

TEST(EventSocket, SendsUntilThereIsNoRoomAndNeverBlocks) {
    UniqueFd ours;
    UniqueFd theirs;
    ASSERT_EQ(make_event_socket(ours, theirs), 0);
    const EventSocket socket{ours.get(), nullptr};
    std::uint64_t sent = 0;
    while (socket.send(&sent, sizeof sent) == EventSocket::Sent::kSent) {
        ++sent;
    }
    EXPECT_GT(sent, 100U);
    std::uint64_t got = 1;
    ASSERT_EQ(::read(theirs.get(), &got, sizeof got), static_cast<ssize_t>(sizeof got));
    EXPECT_EQ(got, 0U);
}

TEST(EventSocket, ARestingUserGetsNothingNow) {
    UniqueFd ours;
    UniqueFd theirs;
    ASSERT_EQ(make_event_socket(ours, theirs), 0);
    WakeBudget budget;
    const EventSocket socket{ours.get(), &budget};
    const char byte = 0;
    EXPECT_EQ(socket.send(&byte, 1), EventSocket::Sent::kSent);
    budget.charge(clock_now(), kSecondNs);
    EXPECT_EQ(socket.send(&byte, 1), EventSocket::Sent::kLater);
    for (std::uint32_t i = 0; i < WakeBudget::kUrgentInRest; ++i) {
        EXPECT_EQ(socket.send(&byte, 1, EventSocket::Urgent::kYes), EventSocket::Sent::kSent);
    }
    EXPECT_EQ(socket.send(&byte, 1, EventSocket::Urgent::kYes), EventSocket::Sent::kLater);
}

/// Watches a socket as often as epolls times copies, which a process may without asking anybody.
class Watchers {
  public:
    explicit Watchers(int fd) {
        for (int i = 0; i < kCopies; ++i) {
            copies_.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
        }
        for (int i = 0; i < kEpolls; ++i) {
            epolls_.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
            for (const UniqueFd& copy : copies_) {
                epoll_event event{};
                event.events = EPOLLIN | EPOLLET;
                all_watch_ &= ::epoll_ctl(epolls_.back().get(), EPOLL_CTL_ADD, copy.get(), &event) == 0;
            }
        }
    }
    [[nodiscard]] bool all_watch() const { return all_watch_; }

  private:
    static constexpr int kCopies = 300;
    static constexpr int kEpolls = 300;
    std::vector<UniqueFd> copies_;
    std::vector<UniqueFd> epolls_;
    bool all_watch_ = true;
};

// 90,000 watchers take longer than a long wake's length on any machine: more than a nanosecond each. The
// first send is slow by the clock, the next one is measured, and then there is a rest.
TEST(EventSocket, WhoseWatchersTakeLongRests) {
    UniqueFd ours;
    UniqueFd theirs;
    ASSERT_EQ(make_event_socket(ours, theirs), 0);
    const Watchers watchers(theirs.get());
    ASSERT_TRUE(watchers.all_watch()) << std::strerror(errno);
    WakeBudget budget;
    const EventSocket socket{ours.get(), &budget};
    char byte = 0;
    int sends = 0;
    // Who is preempted between two sends for longer than the first one is remembered begins anew.
    for (; sends < 100 && socket.send(&byte, 1) == EventSocket::Sent::kSent; ++sends) {
        ASSERT_EQ(::recv(theirs.get(), &byte, 1, MSG_DONTWAIT), 1) << "there is room all the time";
    }
    EXPECT_GE(sends, 2);
    EXPECT_LT(sends, 100) << "the wakes are not charged";
}

TEST(EventSocket, NobodyThereIsNoReasonToTryAgain) {
    UniqueFd ours;
    UniqueFd theirs;
    ASSERT_EQ(make_event_socket(ours, theirs), 0);
    theirs = UniqueFd();
    const char byte = 0;
    EXPECT_EQ((EventSocket{ours.get(), nullptr}.send(&byte, 1)), EventSocket::Sent::kGone);
}

TEST(EventSocket, TheOtherEndSendsNothing) {
    UniqueFd ours;
    UniqueFd theirs;
    ASSERT_EQ(make_event_socket(ours, theirs), 0);
    const char byte = 0;
    EXPECT_LT(::send(theirs.get(), &byte, 1, MSG_NOSIGNAL), 0);
}

}  // namespace
}  // namespace urnic
