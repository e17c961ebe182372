// What receivers copy from a program's memory is added up for that program, in few looks at the clock.
#include "dataplane/worker/copy_charge.h"

#include <gtest/gtest.h>

namespace urnic::dataplane {
namespace {

/// A tick is a nanosecond.
class CopyChargeTest : public testing::Test {
  protected:
    static constexpr std::uint32_t kBytes = 64 * 1024;

    std::uint64_t look() {
        ++looks_;
        return now_;
    }
    void copy(ProgramShare& sender, std::uint64_t time, std::uint32_t bytes = kBytes) {
        charge_.begin(sender, bytes, 1, [this] { return look(); });
        now_ += time;
    }
    void end() {
        charge_.end([this] { return look(); });
    }

    std::uint64_t now_ = 77;
    int looks_ = 0;
    CopyCharge charge_{1'000'000'000};
    ProgramShare first_;
    ProgramShare second_;
};

TEST_F(CopyChargeTest, EachPaysForWhatIsCopiedFromItsMemory) {
    copy(first_, 4'000);
    copy(first_, 5'000);
    copy(second_, 3'000);
    copy(first_, 2'000);
    end();
    EXPECT_EQ(first_.copied, 11'000);
    EXPECT_EQ(second_.copied, 3'000);
    EXPECT_EQ(looks_, 4) << "one for each change and one at the end";
}

TEST_F(CopyChargeTest, WhatIsNoCopyIsNobodys) {
    end();
    EXPECT_EQ(looks_, 0);
    copy(first_, 10);
    end();
    now_ += 500;
    end();
    copy(first_, 1);
    end();
    EXPECT_EQ(first_.copied, 11);
}

// Whose memory the payload goes to may make that take as long as he likes.
TEST_F(CopyChargeTest, ASlowReceiverIsNotTheSendersCost) {
    constexpr std::int64_t kMost = kBytes / 10 + 100;
    copy(first_, 50'000'000);
    copy(second_, 4'000);
    end();
    EXPECT_NEAR(static_cast<double>(first_.copied), kMost, 10);
    EXPECT_EQ(second_.copied, 4'000);
    first_.copied = 0;
    copy(first_, 50'000'000, 512);
    end();
    EXPECT_NEAR(static_cast<double>(first_.copied), 512.0 / 10 + 100, 2);
    first_.copied = 0;
    copy(first_, 1);
    copy(first_, 50'000'000);
    end();
    EXPECT_NEAR(static_cast<double>(first_.copied), 2 * kMost, 10) << "for all that was copied in that time";
}

}  // namespace
}  // namespace urnic::dataplane
