#include "rnic/queue/work_queue.h"
#include "rnic/queue/shared_recv_queue.h"
#include "tests/support/ring_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>

namespace urnic {
namespace {

constexpr std::uint32_t kRingEntries = 4;
constexpr std::uint32_t kSges = 2;
constexpr std::uint32_t kInline = 60;

class WorkQueue : public ::testing::Test {
  protected:
    abi::SendWqe& send_slot(std::uint32_t index) {
        return *reinterpret_cast<abi::SendWqe*>(memory_.get() +
                                                std::size_t{index % kRingEntries} * kSendStride);
    }
    abi::RecvWqe& recv_slot(std::uint32_t index) {
        return *reinterpret_cast<abi::RecvWqe*>(memory_.get() +
                                                std::size_t{index % kRingEntries} * kRecvStride);
    }
    static constexpr std::uint32_t kSendStride = abi::send_stride(kSges, kInline);
    static constexpr std::uint32_t kRecvStride = abi::recv_stride(kSges);
    static constexpr std::size_t kBytes = 4096;

    RingMemory memory_ = zeroed_memory(kBytes);
    SendQueue sq_{memory_.get(), kRingEntries, kSendStride, kSges, kInline};
    RecvQueue rq_{memory_.get(), kRingEntries, kRecvStride, kSges};
};

TEST_F(WorkQueue, EmptyUntilTheSequenceNumberSaysSo) {
    SendWork work;
    EXPECT_EQ(sq_.fetch(0, work), Fetch::kEmpty);
    send_slot(0).wr_id = 7;
    send_slot(0).num_sge = 1;
    auto* sge = reinterpret_cast<abi::Sge*>(&send_slot(0) + 1);
    sge[0] = {0x1000, 50, 3};
    EXPECT_FALSE(sq_.has(0));
    send_slot(0).seq.store(1);
    EXPECT_TRUE(sq_.has(0));
    EXPECT_FALSE(sq_.has(kRingEntries));  // the same slot, one turn later
    ASSERT_EQ(sq_.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.wr_id, 7U);
    EXPECT_EQ(work.length_bytes, 50U);
    EXPECT_EQ(work.sge[0].addr, 0x1000U);
}

TEST_F(WorkQueue, OperandsAreThoseOfTheOperation) {
    SendWork work;
    abi::SendWqe& wqe = send_slot(0);
    wqe.seq.store(1);
    wqe.xrc_srq_number = 9;
    wqe.wr.atomic = {.remote_addr = 1, .rkey = 2, .reserved = 0, .compare_add = 3, .swap = 4};
    ASSERT_EQ(sq_.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.xrc_srq_number, 9U);
    EXPECT_EQ(work.wr.rdma.remote_addr, 1U);
    EXPECT_EQ(work.wr.rdma.rkey, 2U);
    EXPECT_EQ(work.wr.atomic.compare_add, 3U);
    EXPECT_EQ(work.wr.atomic.swap, 4U);
    wqe.wr.ud = {.remote_qp_num = 5, .remote_qkey = 6, .address_handle = 7};
    ASSERT_EQ(sq_.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.wr.ud.remote_qp_num, 5U);
    EXPECT_EQ(work.wr.ud.remote_qkey, 6U);
    EXPECT_EQ(work.wr.ud.address_handle, 7U);
    wqe.wr.mw = {.addr = 1, .new_key = 2, .region_lkey = 3, .length = ~0ULL, .access = 5};
    ASSERT_EQ(sq_.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.wr.mw.addr, 1U);
    EXPECT_EQ(work.wr.mw.new_key, 2U);
    EXPECT_EQ(work.wr.mw.region_lkey, 3U);
    EXPECT_EQ(work.wr.mw.length, ~0ULL);
    EXPECT_EQ(work.wr.mw.access, 5U);
}

TEST_F(WorkQueue, FreeRunningIndexWraps) {
    send_slot(~0U).seq.store(0);
    EXPECT_TRUE(sq_.has(~0U));  // seq = index + 1 = 0; fresh memory looks the same, so no ring begins there
    EXPECT_FALSE(sq_.has(0));
}

TEST_F(WorkQueue, CountsBeyondTheQpsLimitsAreMalformed) {
    SendWork work;
    abi::SendWqe& wqe = send_slot(0);
    wqe.seq.store(1);
    wqe.wr_id = 5;
    wqe.num_sge = kSges + 1;
    EXPECT_EQ(sq_.fetch(0, work), Fetch::kMalformed);
    EXPECT_EQ(work.wr_id, 5U);
    EXPECT_EQ(work.index, 0U);
    wqe.num_sge = 255;
    EXPECT_EQ(sq_.fetch(0, work), Fetch::kMalformed);
    wqe.num_sge = 255;
    wqe.flags = kSendInline;
    wqe.inline_length = kInline;
    ASSERT_EQ(sq_.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.num_sge, 0);
    EXPECT_EQ(work.length_bytes, kInline);
    wqe.inline_length = kInline + 1;
    EXPECT_EQ(sq_.fetch(0, work), Fetch::kMalformed);
    recv_slot(0).seq.store(1);
    recv_slot(0).num_sge = kSges + 1;
    RecvWork receive;
    EXPECT_EQ(rq_.peek(receive), Fetch::kMalformed);
}

TEST_F(WorkQueue, LengthsOfSgesAddUpWithoutWrapping) {
    SendWork work;
    abi::SendWqe& wqe = send_slot(0);
    wqe.seq.store(1);
    wqe.num_sge = 2;
    auto* sge = reinterpret_cast<abi::Sge*>(&wqe + 1);
    sge[0] = {0, 0xffff'ffff, 0};
    sge[1] = {0, 0xffff'ffff, 0};
    ASSERT_EQ(sq_.fetch(0, work), Fetch::kOk);
    EXPECT_EQ(work.length_bytes, 2ULL * 0xffff'ffff);
}

TEST_F(WorkQueue, ReceivesInOrder) {
    RecvWork work;
    EXPECT_TRUE(rq_.empty());
    EXPECT_EQ(rq_.peek(work), Fetch::kEmpty);
    for (std::uint32_t i = 0; i < 10; ++i) {
        abi::RecvWqe& wqe = recv_slot(i);
        wqe.wr_id = 100 + i;
        wqe.num_sge = 0;
        wqe.seq.store(i + 1);
        EXPECT_TRUE(rq_.has(i));
        ASSERT_EQ(rq_.peek(work), Fetch::kOk);
        EXPECT_EQ(work.wr_id, 100U + i);
        EXPECT_EQ(work.index, i);
        rq_.pop();
        EXPECT_EQ(rq_.next(), i + 1);
        EXPECT_TRUE(rq_.empty());
    }
    rq_.clear();
    EXPECT_EQ(rq_.next(), 0U);
    EXPECT_EQ(recv_slot(1).seq.load(), 0U);
}

// A ring can be changed for a zeroed one at any index, and the indexes go on.
TEST_F(WorkQueue, CopiedReceivesAreAllThatThereAre) {
    constexpr std::uint32_t kLarge = 4 * kRingEntries;
    for (const std::uint32_t ahead : {1U, kRingEntries, kLarge - 1, kLarge, kLarge + 1}) {
        const std::uint32_t first = 0U - ahead;  // that many indexes before they come round
        const RingMemory copy = zeroed_memory(std::size_t{kLarge} * kRecvStride);
        const RecvRing large{copy.get(), kLarge, kRecvStride};
        recv_slot(first).seq.store(first + 1);
        recv_slot(first).wr_id = ahead;
        recv_slot(first + 1).seq.store(first + 1 - kRingEntries);  // of the round before
        ASSERT_TRUE(copy_receives({memory_.get(), kRingEntries, kRecvStride}, large, first));
        RecvQueue copied(large.slots, kLarge, kRecvStride, kSges, first);
        RecvWork work;
        ASSERT_EQ(copied.peek(work), Fetch::kOk);
        EXPECT_EQ(work.wr_id, ahead);
        for (std::uint32_t i = 0; i <= kLarge; ++i) {
            copied.pop();
            EXPECT_TRUE(copied.empty()) << "index " << copied.next();
        }
    }
}

TEST_F(WorkQueue, MoreReceivesThanARingHoldsAreNotCopied) {
    for (std::uint32_t i = 0; i < 3; ++i) {
        recv_slot(i).seq.store(i + 1);
    }
    const RingMemory copy = zeroed_memory(std::size_t{2} * kRecvStride);
    const RecvRing from{memory_.get(), kRingEntries, kRecvStride};
    EXPECT_FALSE(copy_receives(from, {copy.get(), 2, kRecvStride}, 0));
    EXPECT_TRUE(copy_receives(from, {copy.get(), 2, kRecvStride}, 1));
}

TEST_F(WorkQueue, QueueOfNoEntriesIsEmpty) {
    SendQueue none;
    RecvQueue none_either;
    SendWork work;
    EXPECT_EQ(none.fetch(0, work), Fetch::kEmpty);
    EXPECT_TRUE(none_either.empty());
    none.clear();
    none_either.clear();
}

TEST_F(WorkQueue, GarbageStaysInsideTheLimits) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 20'000; ++round) {
        for (std::size_t i = 0; i < kBytes; i += 8) {
            const std::uint64_t value = random();
            std::memcpy(memory_.get() + i, &value, 8);
        }
        const auto index = static_cast<std::uint32_t>(random());
        send_slot(index).seq.store(index + 1);
        SendWork work;
        if (sq_.fetch(index, work) == Fetch::kOk) {
            ASSERT_LE(work.num_sge, kSges);
            if (work.inline_data != nullptr) {
                ASSERT_LE(work.length_bytes, kInline);
                ASSERT_EQ(work.inline_data, reinterpret_cast<std::byte*>(&send_slot(index) + 1));
            }
        }
    }
}

}  // namespace
}  // namespace urnic
