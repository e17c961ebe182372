#include "rnic/qp/timing.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

TEST(QpTiming, RnrTimerTable) {
    // Milliseconds as IBA table 45 has them.
    constexpr double kMs[32] = {655.36, 0.01,  0.02,  0.03,   0.04,   0.06,   0.08,   0.12,
                                0.16,   0.24,  0.32,  0.48,   0.64,   0.96,   1.28,   1.92,
                                2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                                40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
    for (std::uint8_t code = 0; code < 32; ++code) {
        EXPECT_DOUBLE_EQ(static_cast<double>(rnr_timer_ns(code)) / 1e6, kMs[code]) << int{code};
    }
}

TEST(QpTiming, AckTimeout) {
    EXPECT_EQ(ack_timeout_ns(0), kNever);
    EXPECT_EQ(ack_timeout_ns(1), 8192U);
    EXPECT_EQ(ack_timeout_ns(14), 67'108'864U);
    EXPECT_EQ(ack_timeout_ns(31), TimeNs{4096} << 31U);
}

TEST(QpTiming, CreditCodeIsTheLargestThatIsCovered) {
    for (std::uint32_t credits = 0; credits < 40'000; ++credits) {
        const std::uint8_t code = credit_code(credits);
        ASSERT_LE(code, 30) << credits;
        EXPECT_LE(kCreditsOfCode[code], credits);
        if (code < 30) {
            EXPECT_GT(kCreditsOfCode[code + 1], credits);
        }
    }
    EXPECT_EQ(credit_code(~0U), 30);
}

}  // namespace
}  // namespace urnic
