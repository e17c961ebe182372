// What the log hears of users: refusals, and rounds of workers that took long.
#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/control/long_rounds.h"
#include "daemon/state/user.h"
#include "dataplane/worker/round_watch.h"
#include "tests/unit/daemon/inline_worker.h"

namespace urnic::daemon {
namespace {

TEST(LimitedLog, AFewLinesAMinuteAndACountOfTheOthers) {
    LimitedLog log;
    for (std::size_t i = 0; i < LimitedLog::kMostLines; ++i) {
        EXPECT_EQ(log.add(i), 0U);
    }
    for (TimeNs at = 100; at < 1100; ++at) {
        EXPECT_EQ(log.add(at), std::nullopt);
    }
    EXPECT_EQ(log.add(LimitedLog::kIntervalNs), 1000U) << "the first of the next minute";
    EXPECT_EQ(log.add(LimitedLog::kIntervalNs + 1), 0U) << "they are told of once";
    EXPECT_EQ(log.total(), LimitedLog::kMostLines + 1002);
    EXPECT_EQ(log.suppressed(), 1000U);
}

TEST(UserRefusals, ALineSaysWhoAndWhat) {
    const UserLimits limits;
    User user(1000, false, limits, 0);
    testing::internal::CaptureStderr();
    {
        const User::Serving serving(user, 4711);
        user.refuse("a connection that names QP {}", 17);
    }
    user.refuse("{}", std::string(1000, 'x'));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log,
              "urnicd: warning: user 1000, process 4711 is refused a connection that names QP 17\n"
              "urnicd: warning: user 1000 is refused " +
                  std::string(1000, 'x') + "\n");
}

TEST(UserRefusals, OneUserDoesNotSilenceAnother) {
    const UserLimits limits;
    User noisy(1000, false, limits, 0);
    User other(1001, false, limits, 0);
    testing::internal::CaptureStderr();
    for (int i = 0; i < 100; ++i) {
        noisy.refuse("it");
    }
    other.refuse("it");
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), static_cast<int>(LimitedLog::kMostLines) + 1);
    EXPECT_NE(log.find("user 1001 is refused it"), std::string::npos);
}

TEST(LongRounds, AreLoggedWithWhoseTurnItWasAndCounted) {
    ControlState control;
    control.is_privileged = [](uid_t) { return false; };
    control.workers.push_back(std::make_unique<dataplane::Worker>(dataplane::WorkerConfig{}));
    const auto log_of = [&](const dataplane::LongRound& round, int times = 1) {
        testing::internal::CaptureStderr();
        for (int i = 0; i < times; ++i) {
            dataplane::worker_record().long_round = round;
            log_long_rounds(control);
        }
        return testing::internal::GetCapturedStderr();
    };
    EXPECT_EQ(log_of({1'412'000'000, 1'400'000'000, {4711, 1000}}),
              "urnicd: warning: a round of worker 0 took 1412 ms, 1400 ms of it in the turn of user 1000, "
              "process 4711\n");
    const std::string more = log_of({60'000'000, 60'000'000, {4712, 1000}}, 100);
    EXPECT_EQ(std::count(more.begin(), more.end(), '\n'), static_cast<int>(LimitedLog::kMostLines) - 1);
    EXPECT_EQ(
        log_of({60'000'000, 60'000'000, {4713, 1001}}),
        "urnicd: warning: a round of worker 0 took 60 ms, 60 ms of it in the turn of user 1001, process "
        "4713\n")
        << "another user's are logged all the same";
    EXPECT_EQ(
        log_of({60'000'000, 60'000'000, {4713, 1001}, {4711, 1000}}),
        "urnicd: warning: a round of worker 0 took 60 ms, 60 ms of it in the turn of user 1001, process "
        "4713, with payload in the memory of user 1000, process 4711\n");
    const dataplane::LongRound of_two{60'000'000, 60'000'000, {4712, 1000}, {4714, 1002}};
    EXPECT_EQ(log_of(of_two),
              "urnicd: warning: a round of worker 0 took 60 ms, 60 ms of it in the turn of user "
              "1000, process 4712, with payload in the memory of user 1002, process 4714\n")
        << "the first has no line left, the other has";
    EXPECT_EQ(log_of({60'000'000, 0, {}}),
              "urnicd: warning: a round of worker 0 took 60 ms, in no program's turn\n");
    EXPECT_EQ(control.user(1000).long_rounds().total(), 103U) << "with the one that copied from its memory";
    EXPECT_EQ(control.user(1001).long_rounds().total(), 2U);
}

}  // namespace
}  // namespace urnic::daemon
