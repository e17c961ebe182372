// What receivers copy from a program's memory is added up for that program, in few looks at the clock.
#include "dataplane/worker/copy_charge.h"

#include <gtest/gtest.h>

namespace urnic::dataplane {
namespace {

class CopyChargeTest : public testing::Test {
  protected:
    static constexpr std::int64_t kMost = 1'000;

    std::uint64_t look() {
        ++looks_;
        return now_;
    }
    void copy(ProgramShare& sender, std::uint64_t time) {
        charge_.begin(sender, [this] { return look(); });
        now_ += time;
    }
    void end() {
        charge_.end([this] { return look(); });
    }

    std::uint64_t now_ = 77;
    int looks_ = 0;
    CopyCharge charge_{kMost};
    ProgramShare first_;
    ProgramShare second_;
};

TEST_F(CopyChargeTest, EachPaysForWhatIsCopiedFromItsMemory) {
    copy(first_, 10);
    copy(first_, 20);
    copy(second_, 5);
    copy(first_, 3);
    end();
    EXPECT_EQ(first_.copied, 33);
    EXPECT_EQ(second_.copied, 5);
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

TEST_F(CopyChargeTest, OneThatTookForEverIsChargedALittle) {
    copy(first_, 50'000'000);
    end();
    EXPECT_EQ(first_.copied, kMost);
}

}  // namespace
}  // namespace urnic::dataplane
