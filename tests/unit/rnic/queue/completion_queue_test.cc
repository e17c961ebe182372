#include "rnic/queue/completion_queue.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>

#include "tests/support/ring_memory.h"
#include "tests/support/single_step.h"

namespace urnic {
namespace {

constexpr std::uint32_t kEntries = 4;
constexpr std::uint32_t kWorkers = 2;

class Cq : public ::testing::Test {
  protected:
    static RingMemory make(std::uint32_t entries) {
        return zeroed_memory(abi::cq_bytes(kWorkers, entries), kPageBytes);
    }
    abi::CqHeader& header() { return *reinterpret_cast<abi::CqHeader*>(memory_.get()); }
    abi::Cqe& cqe(std::uint32_t worker, std::uint32_t index) {
        return reinterpret_cast<abi::Cqe*>(memory_.get() +
                                           abi::cq_ring_offset(worker, kEntries))[index % kEntries];
    }
    bool push(std::uint32_t worker, std::uint64_t wr_id, bool solicited = false,
              WcStatus status = WcStatus::kSuccess) {
        Completion completion;
        completion.wr_id = wr_id;
        completion.solicited = solicited;
        completion.status = status;
        return cq_.push(worker, completion, 5);
    }

    RingMemory memory_ = make(kEntries);
    CompletionQueue cq_{memory_.get(), kEntries};
};

TEST_F(Cq, WritesEveryField) {
    Completion completion;
    completion.wr_id = 0x1122334455667788;
    completion.qp_num = 2;
    completion.wqe_index = 3;
    completion.byte_len = 4;
    completion.imm_or_rkey = 5;
    completion.src_qp = 6;
    completion.vendor_err = 7;
    completion.status = WcStatus::kRemOpErr;
    completion.opcode = WcOpcode::kRecvRdmaWithImm;
    completion.wc_flags = kWcWithImm;
    completion.is_recv = true;
    ASSERT_TRUE(cq_.push(1, completion, 99));
    const abi::Cqe& entry = cqe(1, 0);
    EXPECT_EQ(entry.seq.load(), 1U);
    EXPECT_EQ(entry.wr_id, completion.wr_id);
    EXPECT_EQ(entry.qp_num, 2U);
    EXPECT_EQ(entry.wqe_index, 3U);
    EXPECT_EQ(entry.byte_len, 4U);
    EXPECT_EQ(entry.imm_or_rkey, 5U);
    EXPECT_EQ(entry.src_qp, 6U);
    EXPECT_EQ(entry.vendor_err, 7U);
    EXPECT_EQ(entry.status, 11);
    EXPECT_EQ(entry.opcode, 129);
    EXPECT_EQ(entry.wc_flags, kWcWithImm);
    EXPECT_EQ(entry.is_recv, 1);
    EXPECT_EQ(entry.timestamp_ns, 99U);
    EXPECT_EQ(cqe(0, 0).seq.load(), 0U);  // the other worker's ring
}

TEST_F(Cq, OverrunsAtItsSizeAndGoesOnWhenTaken) {
    for (std::uint64_t i = 0; i < kEntries; ++i) {
        EXPECT_TRUE(push(0, i));
    }
    EXPECT_FALSE(cq_.overrun());
    EXPECT_FALSE(push(0, 99));
    EXPECT_TRUE(cq_.overrun());
    EXPECT_EQ(cqe(0, 0).wr_id, 0U);
    EXPECT_TRUE(push(1, 7));
    header().consumer[0].index.store(1);
    EXPECT_TRUE(push(0, 50));
    EXPECT_EQ(cqe(0, kEntries).wr_id, 50U);
    EXPECT_EQ(cqe(0, kEntries).seq.load(), kEntries + 1);
}

TEST_F(Cq, ConsumerIndexOfALiarOverrunsAndNothingElse) {
    header().consumer[0].index.store(0x8000'0000);
    EXPECT_FALSE(push(0, 1));
    header().consumer[0].index.store(~0U);  // "took" one that was never there: one entry of room less
    for (std::uint64_t i = 0; i + 1 < kEntries; ++i) {
        EXPECT_TRUE(push(0, i));
    }
    EXPECT_FALSE(push(0, 9));
}

TEST_F(Cq, NotifiesOnceWhenArmed) {
    EXPECT_TRUE(push(0, 1));
    EXPECT_FALSE(cq_.take_notification(0));
    header().arm.store(abi::kCqArmedAny);
    EXPECT_FALSE(cq_.take_notification(0));  // nothing since
    EXPECT_TRUE(push(0, 2));
    EXPECT_TRUE(cq_.take_notification(0));
    EXPECT_EQ(header().arm.load(), abi::kCqDisarmed);
    EXPECT_TRUE(push(0, 3));
    EXPECT_FALSE(cq_.take_notification(0));
}

TEST_F(Cq, SolicitedArmWaitsForSolicitedOrError) {
    header().arm.store(abi::kCqArmedSolicited);
    EXPECT_TRUE(push(0, 1));
    EXPECT_FALSE(cq_.take_notification(0));
    EXPECT_TRUE(push(0, 2, true));
    EXPECT_TRUE(cq_.take_notification(0));
    header().arm.store(abi::kCqArmedSolicited);
    EXPECT_TRUE(push(0, 3, false, WcStatus::kWrFlushErr));
    EXPECT_TRUE(cq_.take_notification(0));
}

TEST_F(Cq, ResizeMovesOneWorkerAtATime) {
    EXPECT_TRUE(push(0, 1));
    const RingMemory larger = make(16);
    cq_.switch_worker(0, larger.get(), 16);
    EXPECT_TRUE(push(0, 2));
    EXPECT_TRUE(push(1, 3));
    const auto* ring = reinterpret_cast<abi::Cqe*>(larger.get() + abi::cq_ring_offset(0, 16));
    EXPECT_EQ(ring[0].wr_id, 2U);
    EXPECT_EQ(ring[0].seq.load(), 1U);
    EXPECT_EQ(cqe(0, 0).wr_id, 1U);
    EXPECT_EQ(cqe(1, 0).wr_id, 3U);
}

TEST_F(Cq, KnowsWhatIsNotPolledWhateverTheApplicationSays) {
    EXPECT_EQ(cq_.unpolled(0), 0U);
    for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(push(0, i));
    }
    EXPECT_EQ(cq_.unpolled(0), 3U);
    EXPECT_EQ(cq_.unpolled(1), 0U);
    header().consumer[0].index.store(2);
    EXPECT_EQ(cq_.unpolled(0), 1U);
    header().consumer[0].index.store(77);  // more than there ever were
    EXPECT_EQ(cq_.unpolled(0), kEntries);
    EXPECT_EQ(cq_.entries(1), kEntries);
}

TEST_F(Cq, LooksAtTheRequestForNotificationWithoutTakingIt) {
    EXPECT_FALSE(cq_.notification_wanted(0));
    header().arm.store(abi::kCqArmedAny);
    EXPECT_FALSE(cq_.notification_wanted(0));
    ASSERT_TRUE(push(0, 1));
    EXPECT_TRUE(cq_.notification_wanted(0));
    EXPECT_FALSE(cq_.notification_wanted(1));
    header().arm.store(abi::kCqArmedSolicited);
    EXPECT_FALSE(cq_.notification_wanted(0));
    ASSERT_TRUE(push(0, 2, true));
    EXPECT_TRUE(cq_.notification_wanted(0));
    EXPECT_TRUE(cq_.take_notification(0));
    EXPECT_FALSE(cq_.notification_wanted(0));
}

// Whoever sees the sequence number sees the whole entry, at whatever instruction of the worker he looks.
TEST_F(Cq, TheSequenceNumberIsWrittenLast) {
    Completion completion;
    completion.status = WcStatus::kRemOpErr;
    completion.opcode = WcOpcode::kRecvRdmaWithImm;
    completion.is_recv = true;
    for (std::uint32_t lap = 0; lap < 3; ++lap) {
        for (std::uint32_t i = 0; i < kEntries; ++i) {
            const std::uint32_t index = lap * kEntries + i;
            abi::Cqe& entry = cqe(1, index);
            // No field has the value that it gets.
            std::memset(reinterpret_cast<std::byte*>(&entry) + sizeof entry.seq, 0xa5,
                        sizeof entry - sizeof entry.seq);
            completion.wr_id = completion.qp_num = completion.wqe_index = completion.byte_len = index;
            completion.imm_or_rkey = completion.src_qp = completion.vendor_err = completion.srq_number =
                index;
            completion.link.sl = 7;
            completion.wc_flags = kWcWithImm;
            std::array<std::byte, sizeof entry> seen{};
            bool published = false;
            const std::uint64_t steps =
                test::SingleStep::through([&] { EXPECT_TRUE(cq_.push(1, completion, index)); },
                                          [&] {
                                              if (!published && entry.seq.load() == index + 1) {
                                                  published = true;
                                                  std::memcpy(seen.data(), &entry, sizeof entry);
                                              }
                                          });
            if (test::kSingleSteps) {
                EXPECT_GT(steps, 20U);
                ASSERT_TRUE(published);
                ASSERT_EQ(std::memcmp(seen.data(), &entry, sizeof entry), 0) << "entry " << index;
            }
            header().consumer[1].index.store(index + 1);
        }
    }
}

}  // namespace
}  // namespace urnic
