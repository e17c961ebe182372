// Several QPs on one shared receive queue (IBA 10.2.9).
#include "tests/sim/srq_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/sim/sim_network.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kQps = 3;

class Srq : public ::testing::Test {
  protected:
    /// kQps senders, each connected with a QP of one receiving process, whose QPs share `srq_`.
    void make(std::uint32_t entries, const SimHost::Options& base = {}, const ConnectOptions& options = {}) {
        srq_ = std::make_unique<SimSrq>(entries);
        SimHost::Options receiver = base;
        receiver.srq = &srq_->queue();
        receiver.keys = &keys_;
        for (std::uint32_t i = 0; i < kQps; ++i) {
            a_.push_back(std::make_unique<SimHost>(net_, std::to_string(i).insert(0, 1, 'A'), 1 + i, base));
            b_.push_back(
                std::make_unique<SimHost>(net_, std::to_string(i).insert(0, 1, 'B'), 11 + i, receiver));
            a_mem_.push_back(&a_[i]->add_region(1U << 16U));
            a_mem_[i]->fill_pattern(static_cast<std::uint8_t>(i + 1));
            connect(*a_[i], *b_[i], options);
        }
        b_mem_ = &b_[0]->add_region(1U << 19U);
    }
    void send(std::uint32_t qp, std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0) {
        a_[qp]->post_send(
            {.opcode = WrOpcode::kSend, .wr_id = wr_id, .sge = {a_mem_[qp]->sge(offset, length)}});
    }
    /// The first packets of a message of two, past the wire.
    void begin_message(std::uint32_t qp, std::uint32_t psn, std::span<const std::byte> payload) {
        wire::PacketView view;
        view.header.opcode =
            static_cast<std::uint8_t>((service_ == wire::kServiceRc ? 0 : 0x20) | wire::kSendFirst);
        view.header.psn = Psn(psn);
        view.header.dest_qp = 11 + qp;
        view.payload = payload;
        view.src_gid = a_[qp]->gid();
        b_[qp]->deliver(view);
    }

    wire::Service service_ = wire::kServiceRc;
    KeyTable keys_;
    SimNetwork net_;
    std::unique_ptr<SimSrq> srq_;
    std::vector<std::unique_ptr<SimHost>> a_;
    std::vector<std::unique_ptr<SimHost>> b_;
    std::vector<SimRegion*> a_mem_;
    SimRegion* b_mem_ = nullptr;
};

/// Messages of several packets from all senders at once over a bad wire.
class SrqUnderLoss : public Srq, public ::testing::WithParamInterface<bool> {};

TEST_P(SrqUnderLoss, EachReceiveIsTakenOnceAndHoldsOneMessage) {
    constexpr std::uint32_t kMessages = 60;  // of each sender
    constexpr std::uint32_t kRoom = 2000;
    const auto seed = static_cast<std::uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    make(64, {.holds_early_packets = GetParam()}, {.mtu = 256, .timeout = 14, .min_rnr_timer = 1});
    net_.faults = {.loss = 30, .duplicate = 20, .reorder = 30};
    std::uint64_t posted = 0;
    const auto refill = [&](std::uint32_t count) {
        for (std::uint32_t i = 0; i < count && posted < kQps * kMessages && posted - srq_->consumed() < 64;
             ++i, ++posted) {
            srq_->post(posted, {b_mem_->sge(posted * kRoom, kRoom)});
        }
    };
    struct Sent {
        std::uint32_t length;
        std::size_t offset;
    };
    std::vector<std::vector<Sent>> sent(kQps);
    std::vector<std::uint32_t> got(kQps);
    std::map<std::uint64_t, int> completed;
    refill(5);
    for (std::uint32_t i = 0; i < kMessages; ++i) {
        for (std::uint32_t qp = 0; qp < kQps; ++qp) {
            sent[qp].push_back({static_cast<std::uint32_t>(random() % kRoom), random() % 50'000});
            send(qp, i, sent[qp].back().length, sent[qp].back().offset);
        }
    }
    for (int round = 0; round < 200'000 && completed.size() < kQps * kMessages; ++round) {
        net_.run_for(20'000);
        for (std::uint32_t qp = 0; qp < kQps; ++qp) {
            for (const abi::Cqe* cqe : b_[qp]->poll_raw(true)) {
                ASSERT_EQ(cqe->status, 0);
                ASSERT_EQ(cqe->wqe_index, cqe->wr_id) << "receives were posted under these numbers";
                EXPECT_EQ(++completed[cqe->wr_id], 1);
                ASSERT_LT(got[qp], sent[qp].size());
                const Sent& message = sent[qp][got[qp]++];
                ASSERT_EQ(cqe->byte_len, message.length);
                const std::byte* data = b_mem_->data() + cqe->wr_id * kRoom;
                ASSERT_TRUE(std::equal(data, data + message.length, a_mem_[qp]->data() + message.offset));
            }
        }
        refill(static_cast<std::uint32_t>(random() % 4));
    }
    EXPECT_EQ(completed.size(), kQps * kMessages);
    EXPECT_EQ(srq_->consumed(), kQps * kMessages);
    for (std::uint32_t qp = 0; qp < kQps; ++qp) {
        EXPECT_EQ(a_[qp]->qp().state(), QpState::kRts);
    }
}
INSTANTIATE_TEST_SUITE_P(Recovery, SrqUnderLoss, ::testing::Bool());

TEST_F(Srq, MessagesOfSeveralQpsFillReceivesSideBySide) {
    make(4, {}, {.mtu = 256});
    for (std::uint64_t i = 0; i < 3; ++i) {
        srq_->post(i, {b_mem_->sge(i * 1000, 1000)});
    }
    const std::vector<std::byte> packet(256, std::byte{7});
    begin_message(1, 1000, packet);
    begin_message(0, 1000, packet);
    EXPECT_EQ(srq_->consumed(), 2U) << "the slot is free as soon as the receive is taken";
    send(2, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(srq_->consumed(), 3U);
    EXPECT_THAT(b_[2]->poll_recv(), ElementsAre(Done{2, WcStatus::kSuccess}));
}

TEST_F(Srq, LimitIsToldOnceAndThenDisarmed) {
    make(8);
    for (std::uint64_t i = 0; i < 6; ++i) {
        srq_->post(i, {b_mem_->sge(0, 64)});
    }
    srq_->queue().arm(4);
    send(0, 1, 8);
    send(1, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[0]->srq_events, IsEmpty()) << "four are left: not below the limit";
    EXPECT_THAT(b_[1]->srq_events, IsEmpty());
    EXPECT_EQ(srq_->queue().limit(), 4U);
    send(2, 1, 8);
    send(2, 2, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[2]->srq_events, ElementsAre(AsyncEventType::kSrqLimitReached));
    EXPECT_EQ(srq_->queue().limit(), 0U);
}

TEST_F(Srq, WithoutReceivesThePeerIsToldToWait) {
    make(4, {}, {.min_rnr_timer = 1});
    send(0, 1, 8);
    net_.run_for(2000);
    EXPECT_EQ(b_[0]->counters.send_rnr_err.value(), 1U);
    srq_->post(5, {b_mem_->sge(0, 64)});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[0]->poll_recv(), ElementsAre(Done{5, WcStatus::kSuccess}));
    EXPECT_THAT(a_[0]->poll_send(), ElementsAre(Done{1, WcStatus::kSuccess}));
}

TEST_F(Srq, NoCreditsAreAdvertised) {
    make(4);
    srq_->post(5, {b_mem_->sge(0, 64)});
    send(0, 1, 8);
    ASSERT_TRUE(net_.run());
    const auto packets = net_.take_packets();
    ASSERT_EQ(packets.back().from, "B0");
    EXPECT_EQ(packets.back().header.aeth.syndrome, wire::kSyndromeAck | wire::kCreditsUnlimited);
}

TEST_F(Srq, UcAndUdDropWhatFindsNoReceive) {
    make(4, {.type = QpType::kUc});
    send(0, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_[0]->counters.out_of_buffer.value(), 1U);
    srq_->post(5, {b_mem_->sge(0, 64)});
    send(0, 2, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[0]->poll_recv(), ElementsAre(Done{5, WcStatus::kSuccess}));
}

TEST_F(Srq, UdTakesReceivesOfAnSrq) {
    make(4, {.type = QpType::kUd});
    const auto post = [&] {
        a_[1]->post_send({.opcode = WrOpcode::kSend,
                          .wr_id = 1,
                          .sge = {a_mem_[1]->sge(0, 64)},
                          .address_handle = a_[1]->address(*b_[1]),
                          .remote_qp_num = 12,
                          .remote_qkey = ConnectOptions{}.qkey});
    };
    post();
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_[1]->counters.out_of_buffer.value(), 1U);
    srq_->post(5, {b_mem_->sge(0, 104)});
    post();
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[1]->poll_recv(), ElementsAre(Done{5, WcStatus::kSuccess}));
    srq_->post(6, {b_mem_->sge(0, 103)});
    post();
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_[1]->counters.resp_local_length_error.value(), 1U);
    EXPECT_EQ(srq_->consumed(), 1U) << "too short with the GRH: it stays for others";
}

TEST_F(Srq, AQpInErrorFlushesWhatItHasTakenAndLeavesTheRest) {
    make(4, {}, {.mtu = 256});
    for (std::uint64_t i = 0; i < 3; ++i) {
        srq_->post(i, {b_mem_->sge(i * 1000, 1000)});
    }
    const std::vector<std::byte> packet(256);
    begin_message(0, 1000, packet);
    ASSERT_EQ(b_[0]->to_state(QpState::kErr), 0);
    b_[0]->progress();
    ASSERT_EQ(b_[0]->to_state(QpState::kErr), 0);
    EXPECT_THAT(b_[0]->poll_recv(), ElementsAre(Done{0, WcStatus::kWrFlushErr}));
    EXPECT_THAT(b_[0]->events, ElementsAre(AsyncEventType::kQpLastWqeReached)) << "once";
    send(1, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[1]->poll_recv(), ElementsAre(Done{1, WcStatus::kSuccess}));
    EXPECT_EQ(srq_->consumed(), 2U);
}

TEST_F(Srq, AQpThatIsResetLosesWhatItHasTaken) {
    make(4, {}, {.mtu = 256});
    srq_->post(0, {b_mem_->sge(0, 1000)});
    srq_->post(1, {b_mem_->sge(1000, 1000)});
    const std::vector<std::byte> packet(256);
    begin_message(0, 1000, packet);
    ASSERT_EQ(b_[0]->to_state(QpState::kReset), 0);
    EXPECT_THAT(b_[0]->poll_recv(), IsEmpty());
    EXPECT_THAT(b_[0]->events, IsEmpty());
    ASSERT_EQ(a_[0]->to_state(QpState::kReset), 0);
    connect(*a_[0], *b_[0], {.mtu = 256});
    send(0, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[0]->poll_recv(), ElementsAre(Done{1, WcStatus::kSuccess}));
}

TEST_F(Srq, AUcMessageThatIsCutLeavesItsReceiveForTheNextOfTheSameQp) {
    service_ = wire::kServiceUc;
    make(4, {.type = QpType::kUc}, {.mtu = 256});
    srq_->post(0, {b_mem_->sge(0, 1000)});
    srq_->post(1, {b_mem_->sge(1000, 1000)});
    const std::vector<std::byte> packet(256);
    begin_message(0, 1000, packet);
    begin_message(0, 1007, packet);
    EXPECT_EQ(srq_->consumed(), 1U);
    ASSERT_EQ(b_[0]->to_state(QpState::kErr), 0);
    EXPECT_THAT(b_[0]->poll_recv(), ElementsAre(Done{0, WcStatus::kWrFlushErr}));
    EXPECT_THAT(b_[0]->events, ::testing::Contains(AsyncEventType::kQpLastWqeReached));
}

TEST_F(Srq, LocalKeysBelongToTheSrqsDomain) {
    make(4);
    const SimRegion& others = b_[0]->add_region(4096, {.pd = 2});
    srq_->post(0, {b_mem_->sge(0, 64)});
    srq_->post(1, {others.sge(0, 64)});
    send(0, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[0]->poll_recv(), ElementsAre(Done{0, WcStatus::kSuccess}));
    send(1, 1, 8);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_[1]->poll_recv(), ElementsAre(Done{1, WcStatus::kLocProtErr}));
    EXPECT_THAT(a_[1]->poll_send(), ElementsAre(Done{1, WcStatus::kRemOpErr}));
}

TEST_F(Srq, ASpoiltRingIsTheEndOfTheSrqAndOfTheQpsThatNeedIt) {
    make(4);
    srq_->post(0, {b_mem_->sge(0, 64)});
    srq_->slot(0).num_sge = 17;
    for (std::uint32_t qp = 0; qp < 2; ++qp) {
        send(qp, 1, 8);
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_[qp]->poll_send(), ElementsAre(Done{1, WcStatus::kRemOpErr}));
        EXPECT_EQ(b_[qp]->qp().state(), QpState::kErr);
        EXPECT_THAT(b_[qp]->events, ElementsAre(AsyncEventType::kQpFatal, AsyncEventType::kQpLastWqeReached));
        EXPECT_THAT(b_[qp]->poll_recv(), IsEmpty());
    }
    EXPECT_THAT(b_[0]->srq_events, ElementsAre(AsyncEventType::kSrqErr));
    EXPECT_THAT(b_[1]->srq_events, IsEmpty()) << "told once";
    EXPECT_EQ(b_[2]->qp().state(), QpState::kRts) << "who needs no receive continues";
}

TEST_F(Srq, IndexesGoOnWhenTheRingGrows) {
    make(4);
    for (std::uint64_t i = 0; i < 4; ++i) {
        srq_->post(i, {b_mem_->sge(0, 64)});
    }
    send(0, 1, 8);
    ASSERT_TRUE(net_.run());
    srq_->grow();
    EXPECT_EQ(srq_->consumed(), 1U);
    for (std::uint64_t i = 4; i < 9; ++i) {
        srq_->post(i, {b_mem_->sge(0, 64)});
    }
    for (std::uint64_t i = 0; i < 8; ++i) {
        send(i % kQps, 2 + i, 8);
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(b_[i % kQps]->poll_recv(), ::testing::Contains(Done{i + 1, WcStatus::kSuccess}));
    }
    EXPECT_EQ(srq_->consumed(), 9U);
}

}  // namespace
}  // namespace urnic::sim
