// The control thread's event loop and its timers.
#include "os/event_loop.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <new>

#include "os/monotonic_clock.h"
#include "os/timer_fd.h"

namespace urnic {
namespace {

constexpr TimeNs kMillisecondNs = 1'000'000;

/// A descriptor with input.
UniqueFd readable() { return UniqueFd(::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK)); }

TEST(EventLoop, CallsBackAsLongAsThereIsInput) {
    EventLoop loop;
    const UniqueFd fd = readable();
    int calls = 0;
    const EventLoop::Id id = loop.add(fd.get(), [&] { ++calls; });
    EXPECT_TRUE(loop.run_once(0));
    EXPECT_TRUE(loop.run_once(0));
    EXPECT_EQ(calls, 2);
    eventfd_t count = 0;
    ASSERT_EQ(::eventfd_read(fd.get(), &count), 0);
    EXPECT_FALSE(loop.run_once(0));
    EXPECT_EQ(calls, 2);
    loop.remove(id);
}

TEST(EventLoop, WhatWasRemovedInARoundIsNotCalledInIt) {
    EventLoop loop;
    const std::array fds{readable(), readable()};
    std::array<EventLoop::Id, 2> ids{};
    int calls = 0;
    for (std::size_t i = 0; i < fds.size(); ++i) {
        ids[i] = loop.add(fds[i].get(), [&, i] {
            ++calls;
            loop.remove(ids[1 - i]);
        });
    }
    EXPECT_TRUE(loop.run_once(0));
    EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ACallbackMayRemoveItself) {
    EventLoop loop;
    const UniqueFd fd = readable();
    EventLoop::Id id = 0;
    int calls = 0;
    const std::array<int, 64> captured{};  // more than fits into a std::function itself
    id = loop.add(fd.get(), [&loop, &id, &calls, captured] {
        loop.remove(id);
        calls += 1 + captured[0];
    });
    EXPECT_TRUE(loop.run_once(0));
    EXPECT_FALSE(loop.run_once(0));
    EXPECT_EQ(calls, 1);
}

TEST(EventLoop, ADisabledDescriptorIsLeftAlone) {
    EventLoop loop;
    const UniqueFd fd = readable();
    int calls = 0;
    const EventLoop::Id id = loop.add(fd.get(), [&] { ++calls; });
    loop.disable(id);
    loop.disable(id);
    EXPECT_FALSE(loop.run_once(0));
    EXPECT_TRUE(loop.enable(id));
    EXPECT_TRUE(loop.enable(id));
    EXPECT_TRUE(loop.run_once(0));
    EXPECT_EQ(calls, 1);
    loop.disable(id);
    loop.remove(id);
    EXPECT_FALSE(loop.run_once(0));
}

TEST(EventLoop, ADescriptorThatCannotBeWatchedIsAnError) {
    EventLoop loop;
    EventLoop::Id id = 7;
    EXPECT_EQ(loop.add(
                  -1, [] {}, id),
              EBADF);
    EXPECT_EQ(id, 7U);
    EXPECT_THROW(loop.add(-1, [] {}), std::system_error);
}

TEST(EventLoop, WhatACallbackThrowsEndsTheRoundAndLosesNothing) {
    EventLoop loop;
    const std::array fds{readable(), readable()};
    std::array<int, 2> calls{};
    for (std::size_t i = 0; i < fds.size(); ++i) {
        loop.add(fds[i].get(), [&, i] {
            eventfd_t count = 0;
            EXPECT_EQ(::eventfd_read(fds[i].get(), &count), 0);
            ++calls[i];
            throw std::bad_alloc();
        });
    }
    EXPECT_THROW(loop.run_once(0), std::bad_alloc);
    EXPECT_THROW(loop.run_once(0), std::bad_alloc);
    EXPECT_EQ(calls, (std::array{1, 1}));
}

TEST(TimerFd, GoesOffOnce) {
    EventLoop loop;
    TimerFd timer;
    int calls = 0;
    loop.add(timer.fd(), [&] {
        timer.acknowledge();
        ++calls;
    });
    EXPECT_FALSE(timer.is_set());
    EXPECT_FALSE(loop.run_once(0));
    timer.set_after(kMillisecondNs);
    EXPECT_TRUE(timer.is_set());
    EXPECT_TRUE(loop.run_once(10'000));
    EXPECT_FALSE(timer.is_set());
    timer.set_at(clock_now() + kMillisecondNs);
    EXPECT_TRUE(loop.run_once(10'000));
    EXPECT_EQ(calls, 2);
    EXPECT_FALSE(loop.run_once(0));
}

TEST(TimerFd, ATimeThatIsOverGoesOffAtOnceAndNeverNotAtAll) {
    EventLoop loop;
    TimerFd timer;
    loop.add(timer.fd(), [&] { timer.acknowledge(); });
    timer.set_at(0);
    EXPECT_TRUE(loop.run_once(10'000));
    timer.set_after(3600 * kSecondNs);
    timer.set_at(kNever);
    EXPECT_FALSE(timer.is_set());
    timer.set_after(3600 * kSecondNs);
    timer.set_after(0);
    EXPECT_FALSE(timer.is_set());
}

}  // namespace
}  // namespace urnic
