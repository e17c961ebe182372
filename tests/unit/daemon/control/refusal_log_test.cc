#include "daemon/state/refusal_log.h"

#include <gtest/gtest.h>

#include "daemon/state/user.h"

namespace urnic::daemon {
namespace {

TEST(RefusalLog, AFewLinesAMinuteAndACountOfTheOthers) {
    RefusalLog log;
    for (std::size_t i = 0; i < RefusalLog::kMostLines; ++i) {
        EXPECT_EQ(log.add(i), 0U);
    }
    for (TimeNs at = 100; at < 1100; ++at) {
        EXPECT_EQ(log.add(at), std::nullopt);
    }
    EXPECT_EQ(log.add(RefusalLog::kIntervalNs), 1000U) << "the first of the next minute";
    EXPECT_EQ(log.add(RefusalLog::kIntervalNs + 1), 0U) << "they are told of once";
    EXPECT_EQ(log.refusals(), RefusalLog::kMostLines + 1002);
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
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), static_cast<int>(RefusalLog::kMostLines) + 1);
    EXPECT_NE(log.find("user 1001 is refused it"), std::string::npos);
}

}  // namespace
}  // namespace urnic::daemon
