// What an RC responder knows of a gap, without a QP around it; tests/sim/scripts has it packet by packet.
#include "rnic/qp/rc/request_gap.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

// PSNs come round: what was true of one is true of another packet 2^24 packets later.
TEST(RequestGap, ARepetitionIsOverOnceAnotherPsnIsExpected) {
    RequestGap gap;
    gap.reset();
    gap.expect_repeat(Psn(10), Psn(13));
    gap.end_past_repeat(Psn(13));
    EXPECT_TRUE(gap.is_repeating(Psn(13)));
    EXPECT_FALSE(gap.is_repeating(Psn(14)));
    gap.end_past_repeat(Psn(14));
    EXPECT_FALSE(gap.is_repeating(Psn(13)));
}

TEST(RequestGap, WithoutAGapNoPsnIsExpectedToRepeat) {
    RequestGap gap;
    for (const bool is_new : {true, false}) {
        if (is_new) {
            gap.reset();
        } else {
            gap.expect_repeat(Psn(10), Psn(13));
            gap.end_repeat();
        }
        std::uint32_t repeats = 0;
        for (std::uint32_t psn = 0; psn <= Psn::kMask; ++psn) {
            repeats += gap.is_repeating(Psn(psn)) ? 1 : 0;
        }
        EXPECT_EQ(repeats, 0U);
    }
}

}  // namespace
}  // namespace urnic
