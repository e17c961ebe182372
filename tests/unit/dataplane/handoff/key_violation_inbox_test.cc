// One violation at a time on its way, however many workers have some.
#include "dataplane/handoff/key_violation_inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

namespace urnic::dataplane {
namespace {

class KeyViolationInboxTest : public testing::Test {
  protected:
    [[nodiscard]] bool readable() const {
        pollfd waiting{inbox_.fd(), POLLIN, 0};
        return ::poll(&waiting, 1, 0) == 1;
    }
    static subnet::KeyViolation of_qp(std::uint32_t qp_num) { return {258, {.key = qp_num, .qp2 = qp_num}}; }

    KeyViolationInbox inbox_;
};

TEST_F(KeyViolationInboxTest, TheFirstIsTakenAndTheNextWhenItIsWanted) {
    EXPECT_FALSE(inbox_.take().has_value());
    EXPECT_FALSE(inbox_.was_taken());
    EXPECT_TRUE(inbox_.is_wanted());
    inbox_.push(of_qp(7));
    EXPECT_FALSE(inbox_.is_wanted());
    inbox_.push(of_qp(8));
    EXPECT_TRUE(readable());
    const auto violation = inbox_.take();
    ASSERT_TRUE(violation.has_value());
    EXPECT_EQ(violation->trap_number, 258);
    EXPECT_EQ(violation->details.qp2, 7U);
    EXPECT_TRUE(inbox_.was_taken());
    inbox_.push(of_qp(9));
    EXPECT_FALSE(readable()) << "nobody is woken by what is not wanted";
    EXPECT_FALSE(inbox_.take().has_value());
    inbox_.want_next();
    EXPECT_FALSE(inbox_.was_taken());
    inbox_.push(of_qp(10));
    ASSERT_TRUE(readable());
    EXPECT_EQ(inbox_.take()->details.qp2, 10U);
}

/// Whole ones alone, each a worker's.
TEST_F(KeyViolationInboxTest, SeveralWorkers) {
    constexpr std::uint32_t kWorkers = 4;
    constexpr int kRounds = 2000;
    std::atomic<bool> ends{false};
    std::vector<std::thread> workers;
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        workers.emplace_back([&, worker] {
            while (!ends) {
                inbox_.push(of_qp(worker));
                std::this_thread::yield();
            }
        });
    }
    for (int round = 0; round < kRounds;) {
        if (const auto violation = inbox_.take()) {
            EXPECT_EQ(violation->details.key, violation->details.qp2);
            EXPECT_LT(violation->details.qp2, kWorkers);
            inbox_.want_next();
            ++round;
        } else {
            std::this_thread::yield();
        }
    }
    ends = true;
    for (std::thread& worker : workers) {
        worker.join();
    }
}

}  // namespace
}  // namespace urnic::dataplane
