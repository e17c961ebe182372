// XRC (IBA annex A14): one target QP, several SRQs, named by the packets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/sim_network.h"
#include "tests/sim/srq_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kFirst = 0x000101;  // numbers that share a bucket
constexpr std::uint32_t kSecond = 0x000201;
constexpr std::uint32_t kForeign = 0x000301;  // of another domain

/// The XRC opcode of an operation.
std::uint8_t xrc(wire::Operation operation) {
    return static_cast<std::uint8_t>(static_cast<unsigned>(wire::kServiceXrc) | operation);
}

class Xrc : public ::testing::Test {
  protected:
    Xrc() {
        domain_.add(first_.queue());
        domain_.add(second_.queue());
        other_domain_.add(foreign_.queue());
    }
    void make(const ConnectOptions& options = {}, bool holds_early_packets = false) {
        a_ = std::make_unique<SimHost>(
            net_, "A", 1,
            SimHost::Options{.holds_early_packets = holds_early_packets, .type = QpType::kXrcSend});
        b_ = std::make_unique<SimHost>(
            net_, "B", 2,
            SimHost::Options{
                .holds_early_packets = holds_early_packets, .type = QpType::kXrcRecv, .xrc_srqs = &domain_});
        a_mem_ = &a_->add_region(1U << 16U);
        first_mem_ = &b_->add_region(1U << 16U, {.pd = 11});
        second_mem_ = &b_->add_region(1U << 16U, {.pd = 12});
        a_mem_->fill_pattern(1);
        connect(*a_, *b_, options);
    }
    void post(WrOpcode opcode, std::uint32_t srq, std::uint32_t length, const SimRegion* to = nullptr) {
        a_->post_send({.opcode = opcode,
                       .wr_id = next_wr_id_++,
                       .sge = {a_mem_->sge(0, length)},
                       .remote_addr = to != nullptr ? to->addr() : 0,
                       .rkey = to != nullptr ? to->key() : 0,
                       .compare_add = 1,
                       .srq_number = srq});
    }
    static std::vector<Done> done(SimSrq& srq) {
        std::vector<Done> result;
        for (const abi::Cqe* cqe : srq.poll()) {
            EXPECT_EQ(cqe->srq_number, srq.queue().identity().number);
            EXPECT_EQ(cqe->qp_num, 2U);
            EXPECT_EQ(cqe->is_recv, 1);
            result.push_back({cqe->wr_id, static_cast<WcStatus>(cqe->status)});
        }
        return result;
    }

    SimNetwork net_;
    SimSrq first_{8, 11, kFirst, true};
    SimSrq second_{8, 12, kSecond, true};
    SimSrq foreign_{8, 11, kForeign, true};
    XrcSrqTable domain_;
    XrcSrqTable other_domain_;
    std::unique_ptr<SimHost> a_;
    std::unique_ptr<SimHost> b_;
    SimRegion* a_mem_ = nullptr;
    SimRegion* first_mem_ = nullptr;
    SimRegion* second_mem_ = nullptr;
    std::uint64_t next_wr_id_ = 1;
};

TEST_F(Xrc, EachMessageGoesToTheSrqItNames) {
    make();
    first_.post(10, {first_mem_->sge(0, 64)});
    second_.post(20, {second_mem_->sge(0, 64)});
    post(WrOpcode::kSend, kSecond, 8);
    post(WrOpcode::kSend, kFirst, 16);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kSuccess}, Done{2, WcStatus::kSuccess}));
    EXPECT_THAT(done(first_), ElementsAre(Done{10, WcStatus::kSuccess}));
    EXPECT_THAT(done(second_), ElementsAre(Done{20, WcStatus::kSuccess}));
    EXPECT_TRUE(std::equal(a_mem_->data(), a_mem_->data() + 16, first_mem_->data()));
    const auto packets = net_.take_packets();
    EXPECT_EQ(packets[0].header.opcode, xrc(wire::kSendOnly));
    EXPECT_EQ(packets[0].header.xrc_srq, kSecond);
    EXPECT_EQ(packets.back().header.opcode, xrc(wire::kAcknowledge));
    EXPECT_EQ(packets.back().header.aeth.syndrome, wire::kSyndromeAck | wire::kCreditsUnlimited);
}

TEST_F(Xrc, EveryOperationOverABadWire) {
    for (const bool holds : {false, true}) {
        next_wr_id_ = 1;
        make({.mtu = 256, .min_rnr_timer = 1}, holds);
        net_.faults = {.loss = 50, .duplicate = 20, .reorder = 30};
        for (std::uint64_t i = 0; i < 3; ++i) {
            first_.post(10 + i, {first_mem_->sge(8192, 4096)});
        }
        post(WrOpcode::kSend, kFirst, 3000);
        post(WrOpcode::kWriteWithImm, kFirst, 3000, first_mem_);
        post(WrOpcode::kWrite, kFirst, 3000, first_mem_);
        post(WrOpcode::kSendWithImm, kFirst, 1);
        post(WrOpcode::kWrite, kSecond, 5000, second_mem_);
        ASSERT_TRUE(net_.run());
        EXPECT_TRUE(std::equal(a_mem_->data(), a_mem_->data() + 5000, second_mem_->data()));
        EXPECT_TRUE(std::equal(a_mem_->data(), a_mem_->data() + 3000, first_mem_->data()));
        post(WrOpcode::kRead, kFirst, 5000, first_mem_);
        post(WrOpcode::kFetchAdd, kSecond, 8, second_mem_);
        ASSERT_TRUE(net_.run());
        std::vector<Done> all;
        for (std::uint64_t i = 1; i <= 7; ++i) {
            all.push_back({i, WcStatus::kSuccess});
        }
        EXPECT_EQ(a_->poll_send(), all);
        EXPECT_THAT(done(first_), ElementsAre(Done{10, WcStatus::kSuccess}, Done{11, WcStatus::kSuccess},
                                              Done{12, WcStatus::kSuccess}));
        a_.reset();
        b_.reset();
        net_ = SimNetwork(2);
    }
}

TEST_F(Xrc, ANumberThatTheDomainHasNotIsAnInvalidRequest) {
    for (const WrOpcode opcode : {WrOpcode::kSend, WrOpcode::kWrite, WrOpcode::kRead, WrOpcode::kFetchAdd}) {
        for (const std::uint32_t number : {kForeign, 0U, 0xff'ffffU}) {
            make();
            foreign_.post(30, {first_mem_->sge(0, 64)});
            post(opcode, number, 8, first_mem_);
            ASSERT_TRUE(net_.run());
            EXPECT_THAT(a_->poll_send(), ElementsAre(Done{next_wr_id_ - 1, WcStatus::kRemInvReqErr}));
            EXPECT_THAT(b_->events,
                        ElementsAre(AsyncEventType::kQpReqErr, AsyncEventType::kQpLastWqeReached));
            EXPECT_EQ(foreign_.consumed(), 0U);
            a_.reset();
            b_.reset();
            net_ = SimNetwork(1);
        }
    }
}

TEST_F(Xrc, AMessageKeepsToOneSrq) {
    make({.mtu = 256});
    first_.post(10, {first_mem_->sge(0, 1000)});
    second_.post(20, {second_mem_->sge(0, 1000)});
    const std::vector<std::byte> packet(256);
    wire::PacketView view;
    view.header.opcode = xrc(wire::kSendFirst);
    view.header.psn = Psn(1000);
    view.header.dest_qp = 2;
    view.header.xrc_srq = kFirst;
    view.payload = packet;
    view.src_gid = a_->gid();
    b_->deliver(view);
    view.header.opcode = xrc(wire::kSendLast);
    ++view.header.psn;
    view.header.xrc_srq = kSecond;
    b_->deliver(view);
    EXPECT_THAT(done(first_), ElementsAre(Done{10, WcStatus::kRemInvReqErr}));
    EXPECT_THAT(done(second_), IsEmpty());
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
}

TEST_F(Xrc, RemoteKeysBelongToTheDomainOfTheSrqNamed) {
    make();
    post(WrOpcode::kWrite, kFirst, 8, first_mem_);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kSuccess}));
    post(WrOpcode::kWrite, kSecond, 8, first_mem_);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{2, WcStatus::kRemAccessErr}));
}

TEST_F(Xrc, AnEmptySrqMakesThePeerWait) {
    make({.min_rnr_timer = 1});
    second_.post(20, {second_mem_->sge(0, 64)});
    post(WrOpcode::kSend, kFirst, 8);
    net_.run_for(2000);
    EXPECT_EQ(b_->counters.send_rnr_err.value(), 1U);
    first_.post(10, {first_mem_->sge(0, 64)});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(done(first_), ElementsAre(Done{10, WcStatus::kSuccess}));
    EXPECT_EQ(second_.consumed(), 0U);
}

TEST_F(Xrc, AnSrqThatEndsInTheMiddleOfAMessageTakesTheReceiveWithIt) {
    make({.mtu = 256});
    first_.post(10, {first_mem_->sge(0, 4096)});
    post(WrOpcode::kSend, kFirst, 4096);
    net_.lose = [](const SentPacket& packet) { return packet.header.psn == Psn(1008); };
    net_.run_for(3000);
    EXPECT_EQ(first_.consumed(), 1U);
    domain_.remove(first_.queue());
    b_->qp().forget_srq(first_.queue());
    net_.lose = nullptr;
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
    EXPECT_THAT(done(first_), IsEmpty());
}

TEST_F(Xrc, PacketsThatGoTheWrongWayAreDropped) {
    make();
    wire::PacketHeader header;
    header.psn = Psn(1000);
    header.opcode = static_cast<std::uint8_t>(wire::kSendOnly);  // another service
    header.dest_qp = 2;
    net_.inject(*a_, header);
    header.opcode = xrc(wire::kAcknowledge);  // a target asks nothing
    net_.inject(*a_, header);
    header.opcode = xrc(wire::kSendOnly);  // an initiator answers nothing
    header.dest_qp = 1;
    header.psn = Psn(2000);
    net_.inject(*b_, header);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->counters.drop_opcode.value(), 2U);
    EXPECT_EQ(a_->counters.drop_opcode.value(), 1U);
    EXPECT_EQ(a_->qp().state(), QpState::kRts);
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

}  // namespace
}  // namespace urnic::sim
