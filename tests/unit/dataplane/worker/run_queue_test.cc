// Turns on a worker: users have equal times, programs of a user too, whatever number of QPs they have and
// however long one run of theirs takes.
#include "dataplane/worker/run_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <random>

namespace urnic::dataplane {
namespace {

constexpr std::int64_t kQuantum = 100;

/// A program with QPs that always want to run.
struct Program {
    Program(UserShare& user, std::uint32_t num_qps, std::int64_t cost_of_a_run)
        : qps(num_qps), cost(cost_of_a_run) {
        share.user = &user;
        for (QpSlot& slot : qps) {
            slot.share = &share;
        }
    }
    ProgramShare share;
    std::deque<QpSlot> qps;
    std::int64_t cost;
    std::int64_t time = 0;
};

class RunQueueTest : public testing::Test {
  protected:
    RunQueue queue_{kQuantum};
    std::map<const ProgramShare*, Program*> by_share_;

    void push_all(Program& program) {
        by_share_[&program.share] = &program;
        for (QpSlot& slot : program.qps) {
            queue_.push(slot);
        }
    }
    Program& run_one(bool has_more = true) {
        QpSlot& slot = queue_.pop();
        Program& program = *by_share_.at(slot.share);
        const bool others_wait = queue_.do_others_wait(slot);
        if (has_more) {
            queue_.push(slot);
        }
        program.time += program.cost;
        if (others_wait) {
            queue_.charge(program.cost);
        }
        return program;
    }
    void run_for(std::int64_t time) {
        while (time > 0) {
            time -= run_one().cost;
        }
    }
};

TEST_F(RunQueueTest, WithinAProgramFirstInFirstOut) {
    UserShare user;
    Program program(user, 3, 1);
    push_all(program);
    for (int i = 0; i < 9; ++i) {
        QpSlot& slot = queue_.pop();
        EXPECT_EQ(&slot, &program.qps[static_cast<std::size_t>(i % 3)]);
        EXPECT_FALSE(queue_.do_others_wait(slot));
        queue_.push(slot);
        queue_.push(slot);
        EXPECT_EQ(queue_.size(), 3U);
    }
}

TEST_F(RunQueueTest, ManyQpsGetNoMoreThanOne) {
    UserShare greedy_user;
    UserShare user;
    Program greedy(greedy_user, 512, 3);
    Program innocent(user, 1, 120);
    push_all(greedy);
    push_all(innocent);
    run_for(1'000'000);
    EXPECT_NEAR(static_cast<double>(innocent.time), 500'000, 500);
}

TEST_F(RunQueueTest, ManyProgramsOfAUserShareHisTime) {
    UserShare greedy_user;
    UserShare user;
    std::deque<Program> greedy;
    for (int i = 0; i < 20; ++i) {
        push_all(greedy.emplace_back(greedy_user, 5, 7 + i));
    }
    Program innocent(user, 2, 30);
    push_all(innocent);
    run_for(1'000'000);
    EXPECT_NEAR(static_cast<double>(innocent.time), 500'000, 500);
    for (const Program& program : greedy) {
        EXPECT_NEAR(static_cast<double>(program.time), 25'000, 500);
    }
}

// Its packets are no frames: their payload is copied when they are received (CopyCharge).
TEST_F(RunQueueTest, WhatReceiversCopyFromItsMemoryIsPaidForToo) {
    UserShare large_user;
    UserShare small_user;
    Program large(large_user, 1, 10);
    Program small(small_user, 1, 10);
    push_all(large);
    push_all(small);
    constexpr std::int64_t kCopied = 190;
    std::int64_t large_time = 0;
    for (int i = 0; i < 10'000; ++i) {
        if (&run_one() == &large) {
            large.share.copied += kCopied;
            large_time += 10 + kCopied;
        }
    }
    EXPECT_NEAR(static_cast<double>(large_time), static_cast<double>(small.time), 500);
}

// As with its own time: nobody has lost anything by it.
TEST_F(RunQueueTest, WhatWasCopiedWhileNobodyWaitedIsForgiven) {
    UserShare user;
    UserShare late_user;
    Program lone(user, 1, 10);
    push_all(lone);
    lone.share.copied = 1'000'000;
    QpSlot& slot = queue_.pop();
    ASSERT_FALSE(queue_.do_others_wait(slot));
    RunQueue::forgive(slot);
    queue_.push(slot);
    Program late(late_user, 1, 10);
    push_all(late);
    run_for(100'000);
    EXPECT_NEAR(static_cast<double>(lone.time), 50'000, 500);
}

TEST_F(RunQueueTest, TheDebtOfAProgramThatGoesIsItsUsers) {
    UserShare user;
    UserShare other_user;
    Program other(other_user, 1, 10);
    push_all(other);
    {
        Program gone(user, 1, 10);
        gone.share.copied = 10'000;
        queue_.remove(gone.share);
    }
    Program next(user, 1, 10);
    push_all(next);
    run_for(100'000);
    EXPECT_NEAR(static_cast<double>(other.time - next.time), 10'000, 500);
}

TEST_F(RunQueueTest, ALongRunIsPaidForWithLaterTurns) {
    UserShare slow_user;
    UserShare user;
    Program slow(slow_user, 1, 40 * kQuantum);
    Program quick(user, 1, 1);
    push_all(slow);
    push_all(quick);
    run_for(100 * 40 * kQuantum);
    EXPECT_NEAR(static_cast<double>(slow.time), static_cast<double>(quick.time), 41 * kQuantum);
}

/// Who has nothing to do while it waits loses nothing to those who have, and gains nothing for later.
TEST_F(RunQueueTest, WhoComesBackWaitsForOneTurnOfEach) {
    UserShare greedy_user;
    UserShare user;
    Program greedy(greedy_user, 10, 10);
    Program ping(user, 1, 2);
    push_all(greedy);
    for (int i = 0; i < 100; ++i) {
        run_for(1'000);
        push_all(ping);
        std::int64_t waited = 0;
        for (Program* ran = &run_one(false); ran != &ping; ran = &run_one(false)) {
            waited += ran->cost;
            push_all(greedy);
        }
        EXPECT_LE(waited, kQuantum + greedy.cost);
    }
}

TEST_F(RunQueueTest, QpsAndProgramsGoAtAnyTime) {
    std::mt19937 random(20260923);
    std::deque<UserShare> users(3);
    std::deque<Program> programs;
    for (int i = 0; i < 9; ++i) {
        programs.emplace_back(users[static_cast<std::size_t>(i % 3)], 4, 1 + i * 20);
    }
    std::uint32_t expected = 0;
    for (int step = 0; step < 200'000; ++step) {
        Program& program = programs[random() % programs.size()];
        QpSlot& slot = program.qps[random() % program.qps.size()];
        by_share_[&program.share] = &program;
        switch (random() % 4) {
            case 0:
                expected += slot.is_queued ? 0 : 1;
                queue_.push(slot);
                break;
            case 1:
                expected -= slot.is_queued ? 1 : 0;
                queue_.remove(slot);
                break;
            case 2:
                if (!queue_.empty()) {
                    --expected;
                    (void)run_one(false);
                }
                break;
            default:
                for (QpSlot& each : program.qps) {
                    expected -= each.is_queued ? 1 : 0;
                    queue_.remove(each);
                }
                queue_.remove(program.share);
                break;
        }
        ASSERT_EQ(queue_.size(), expected) << "step " << step;
    }
    for (; expected != 0; --expected) {
        (void)run_one(false);
    }
    EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace urnic::dataplane
