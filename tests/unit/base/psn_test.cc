#include "base/psn.h"

#include <gtest/gtest.h>

namespace urnic {
namespace {

TEST(Psn, WrapsAt24Bits) {
    EXPECT_EQ(Psn(0xffffff) + 1, Psn(0));
    EXPECT_EQ(Psn(0) - 1, Psn(0xffffff));
    EXPECT_EQ(Psn(0x1234567).value(), 0x234567U);
    Psn psn(0xffffff);
    EXPECT_EQ((++psn).value(), 0U);
}

TEST(Psn, DistanceIsSignedModulo24Bits) {
    EXPECT_EQ(Psn(5).distance(Psn(3)), 2);
    EXPECT_EQ(Psn(3).distance(Psn(5)), -2);
    EXPECT_EQ(Psn(2).distance(Psn(0xfffffe)), 4);
    EXPECT_EQ(Psn(0xfffffe).distance(Psn(2)), -4);
    // The half of the space that counts as behind begins exactly 2^23 away.
    EXPECT_EQ(Psn(0x7fffff).distance(Psn(0)), 0x7fffff);
    EXPECT_EQ(Psn(0x800000).distance(Psn(0)), -0x800000);
}

TEST(Psn, ComparesAcrossTheWrap) {
    EXPECT_LT(Psn(0xffffff), Psn(1));
    EXPECT_GT(Psn(1), Psn(0xffffff));
    EXPECT_LE(Psn(7), Psn(7));
    EXPECT_GE(Psn(7), Psn(7));
    EXPECT_FALSE(Psn(7) < Psn(7));
    EXPECT_FALSE(Psn(7) > Psn(7));
    EXPECT_LT(Psn(0), Psn(0x7fffff));
    EXPECT_LT(Psn(0x800000), Psn(0));
}

}  // namespace
}  // namespace urnic
