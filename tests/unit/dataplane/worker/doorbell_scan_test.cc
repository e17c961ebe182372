// Which clients a worker looks at in a round. Clients ring by their memory alone, as they like.
#include "dataplane/worker/doorbell_scan.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>

namespace urnic::dataplane {
namespace {

/// With one QP.
struct RingingProgram {
    explicit RingingProgram(UserShare& user) : doorbells(bell.get(), -1, user) {
        auto spare = std::make_unique<SlotTable::Page>();
        doorbells.set(0, slot, spare);
        slot.client = &doorbells;
    }
    void ring() const {
        bell->words[0].store(1);
        bell->summary[0].store(1);
    }

    std::unique_ptr<abi::WorkerDoorbell> bell = std::make_unique<abi::WorkerDoorbell>();
    ClientDoorbells doorbells;
    QpSlot slot;
};

class DoorbellScanTest : public testing::Test {
  protected:
    std::deque<RingingProgram>& add(std::deque<RingingProgram>& programs, UserShare& user,
                                    std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            scan_.add(programs.emplace_back(user).doorbells);
        }
        return programs;
    }
    /// The programs whose rings a round has found.
    std::multiset<const ClientDoorbells*> round() {
        std::multiset<const ClientDoorbells*> found;
        (void)scan_.scan_some(now_ += 1'000, [&](const QpSlot& slot) { found.insert(slot.client); });
        return found;
    }
    std::size_t last_round() {
        std::size_t found = 0;
        (void)scan_.scan_all(now_, [&](const QpSlot& /*slot*/) { ++found; });
        return found;
    }
    /// How many rounds it takes until its ring is found.
    std::size_t rounds_until(const RingingProgram& program) {
        program.ring();
        std::size_t rounds = 1;
        while (round().count(&program.doorbells) == 0) {
            ++rounds;
        }
        return rounds;
    }

    DoorbellScan scan_;
    TimeNs now_ = 1'000'000'000;
    UserShare user_;
    UserShare other_;
    std::deque<RingingProgram> programs_;
    std::deque<RingingProgram> others_;
};

TEST_F(DoorbellScanTest, ARoundLooksAtAFewOfThoseThatDoNothing) {
    for (const RingingProgram& program : add(others_, other_, 500)) {
        program.ring();
    }
    EXPECT_EQ(round().size(), DoorbellScan::kQuietPerRound) << "it would have found those that it looked at";
}

TEST_F(DoorbellScanTest, WhoRangLatelyIsLookedAtInEveryRound) {
    add(others_, other_, 500);
    const RingingProgram& busy = add(programs_, user_, 1).front();
    EXPECT_LE(rounds_until(busy), 500 / DoorbellScan::kQuietPerRound + 1);
    for (int i = 0; i < 1000; ++i) {
        EXPECT_EQ(rounds_until(busy), 1U);
    }
}

TEST_F(DoorbellScanTest, EveryFirstRingIsFoundInTurn) {
    for (const RingingProgram& program : add(others_, other_, 500)) {
        now_ += DoorbellScan::kBusyNs;  // those before are quiet again
        EXPECT_LE(rounds_until(program), 2 * 500 / DoorbellScan::kQuietPerRound);
    }
}

TEST_F(DoorbellScanTest, WhoIsQuietForLongCostsNothingAgain) {
    for (const RingingProgram& program : add(others_, other_, 500)) {
        program.ring();
    }
    EXPECT_EQ(last_round(), 500U) << "before the worker sleeps all are looked at";
    now_ += DoorbellScan::kBusyNs;
    EXPECT_EQ(last_round(), 0U);
    for (const RingingProgram& program : others_) {
        program.ring();
    }
    EXPECT_EQ(round().size(), DoorbellScan::kQuietPerRound);
}

TEST_F(DoorbellScanTest, ProgramsThatRingAllTheTimeTakeNoMoreThanTheirUsersPart) {
    add(others_, other_, 256);
    const RingingProgram& victim = add(programs_, user_, 1).front();
    (void)rounds_until(victim);
    std::set<const ClientDoorbells*> served;
    for (int i = 0; i < 1000; ++i) {
        for (const RingingProgram& program : others_) {
            program.ring();
        }
        victim.ring();
        const auto found = round();
        EXPECT_EQ(found.count(&victim.doorbells), 1U) << "in every round";
        EXPECT_LE(found.size(), 1 + DoorbellScan::kBusyPerRound + DoorbellScan::kQuietPerRound);
        served.insert(found.begin(), found.end());
    }
    EXPECT_EQ(served.size(), 257U) << "each has its turn";
}

TEST_F(DoorbellScanTest, ClientsGoAndComeInAnyState) {
    add(programs_, user_, 3);
    add(others_, other_, 3);
    (void)rounds_until(programs_[0]);
    (void)rounds_until(programs_[1]);
    (void)rounds_until(others_[0]);
    for (const std::size_t first : {0, 2}) {  // busy, quiet
        scan_.remove(programs_[first].doorbells);
        programs_[first].ring();
    }
    scan_.remove(others_[0].doorbells);
    EXPECT_EQ(last_round(), 0U);
    EXPECT_EQ(rounds_until(programs_[1]), 1U);
    EXPECT_EQ(rounds_until(others_[2]), 1U);
    scan_.add(programs_[0].doorbells);
    EXPECT_EQ(rounds_until(programs_[0]), 1U);
    scan_.remove(programs_[0].doorbells);
    scan_.remove(programs_[1].doorbells);
    scan_.remove(others_[1].doorbells);
    scan_.remove(others_[2].doorbells);
    EXPECT_TRUE(round().empty());
}

}  // namespace
}  // namespace urnic::dataplane
