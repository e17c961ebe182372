// UC: every message arrives whole or not at all, and nothing is ever sent back (IBA 9.8.2).
#include "rnic/qp/unreliable/uc_responder.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Uc : public RcPair {
  protected:
    void connect_uc(const ConnectOptions& options = {.mtu = 256}, SimHost::Options host = {}) {
        host.type = QpType::kUc;
        connect_pair(options, host);
    }
    // Three messages of three packets each, the offsets apart; the packets that `lost` names do not arrive.
    void send_three(const std::vector<std::uint32_t>& lost) {
        connect_uc({.mtu = 256, .psn_a = 0});
        net_.lose = [lost](const SentPacket& packet) {
            return std::find(lost.begin(), lost.end(), packet.header.psn.value()) != lost.end();
        };
        post_receives(3, 700);
        for (std::uint64_t message = 0; message < 3; ++message) {
            a_->post_send(send(message, 700, message * 1000));
        }
        ASSERT_TRUE(net_.run());
        // The sender does not know.
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), ok(1), ok(2)));
        EXPECT_EQ(a_->qp().state(), QpState::kRts);
        EXPECT_EQ(b_->qp().state(), QpState::kRts);
    }
    // What came last lies at offset 0 of B and was at `offset` of A.
    [[nodiscard]] bool last_came_from(std::size_t offset) {
        return std::equal(a_mem_->data() + offset, a_mem_->data() + offset + 700, b_mem_->data());
    }
    void inject(std::uint8_t operation, std::uint32_t psn, std::size_t bytes, std::uint32_t dma_length = 0) {
        wire::PacketHeader header = to_b_memory(operation, psn, dma_length);
        header.opcode |= wire::kServiceUc;
        header.dest_qp = 2;
        net_.inject(*a_, header, {a_mem_->data(), bytes});
        ASSERT_TRUE(net_.run());
    }
};

TEST_F(Uc, EveryOperationInPacketsOfThePathMtu) {
    connect_uc({.mtu = 256, .psn_a = 0xfffffe});
    post_receives(2, 1000, 10'000);
    a_->post_send(write(1, 700));
    SendRequest write_imm = rdma(WrOpcode::kWriteWithImm, 2, 300, 2000);
    write_imm.imm_or_rkey = 0x01020304;
    write_imm.flags |= kSendSolicited;
    a_->post_send(write_imm);
    SendRequest send_imm = send(3, 513, 4000);
    send_imm.opcode = WrOpcode::kSendWithImm;
    send_imm.imm_or_rkey = 0x05060708;
    a_->post_send(send_imm);
    a_->post_send(rdma(WrOpcode::kWrite, 4, 0));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3), ok(4)));
    EXPECT_TRUE(same(0, 700));
    EXPECT_FALSE(same(0, 701));
    EXPECT_TRUE(same(2000, 300));
    EXPECT_TRUE(std::equal(a_mem_->data() + 4000, a_mem_->data() + 4513, b_mem_->data() + 10'000));
    const auto received = b_->poll_raw(true);
    ASSERT_EQ(received.size(), 2U);
    EXPECT_EQ(received[0]->opcode, static_cast<std::uint8_t>(WcOpcode::kRecvRdmaWithImm));
    EXPECT_EQ(received[0]->byte_len, 300U);
    EXPECT_EQ(received[0]->imm_or_rkey, 0x01020304U);
    EXPECT_EQ(received[1]->opcode, static_cast<std::uint8_t>(WcOpcode::kRecv));
    EXPECT_EQ(received[1]->byte_len, 513U);
    EXPECT_EQ(received[1]->imm_or_rkey, 0x05060708U);
    EXPECT_EQ(received[1]->src_qp, 1U);
    EXPECT_EQ(b_->solicited, 1U);
}

TEST_F(Uc, NobodyHasToBeThere) {
    connect_uc();
    net_.lose = [](const SentPacket&) { return true; };
    a_->post_send(send(1, 700));
    SendRequest silent = send(2, 700);
    silent.flags = 0;
    a_->post_send(silent);
    a_->post_send(send(3, 700));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(3)));
    EXPECT_EQ(a_->qp().deadline(), kNever);
}

TEST_F(Uc, ALostFirstPacketLosesItsMessage) {
    send_three({3});
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100), ok(101)));
    EXPECT_TRUE(last_came_from(2000));
    EXPECT_EQ(b_->counters.out_of_sequence.value(), 1U);
    EXPECT_EQ(b_->counters.drop_uc_message.value(), 2U);
}

TEST_F(Uc, ALostMiddlePacketLosesItsMessage) {
    send_three({4});
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100), ok(101)));
    EXPECT_TRUE(last_came_from(2000));
}

TEST_F(Uc, ALostLastPacketLosesItsMessage) {
    send_three({5});
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100), ok(101)));
    EXPECT_TRUE(last_came_from(2000));
}

TEST_F(Uc, AGapOverTwoMessagesLosesBoth) {
    send_three({2, 3});
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(last_came_from(2000));
}

TEST_F(Uc, AGapThatJoinsTwoMessagesMakesNoMessage) {
    // First of the one, Last of the next: the PSN tells them apart.
    send_three({1, 2, 3, 4});
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(last_came_from(2000));
}

TEST_F(Uc, AWriteThatLostItsEndIsNotReported) {
    connect_uc({.mtu = 256, .psn_a = 0});
    post_receives(1, 0);
    net_.lose = [](const SentPacket& packet) { return packet.header.psn.value() == 1; };
    a_->post_send(rdma(WrOpcode::kWriteWithImm, 1, 300));
    a_->post_send(rdma(WrOpcode::kWriteWithImm, 2, 300, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(same(1000, 300));
    EXPECT_FALSE(same(0, 300));
}

TEST_F(Uc, PacketsOutOfOrderLoseTheirMessage) {
    connect_uc({.mtu = 256, .psn_a = 0});
    post_receives(2, 1000);
    inject(wire::kSendFirst, 0, 256);
    inject(wire::kSendLast, 2, 10);
    inject(wire::kSendMiddle, 1, 256);
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    inject(wire::kSendOnly, 3, 10);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
}

TEST_F(Uc, SequencesThatAreNoMessageAreDropped) {
    connect_uc({.mtu = 256, .psn_a = 0});
    post_receives(3, 1000);
    inject(wire::kSendMiddle, 0, 256);  // without a First
    inject(wire::kSendLast, 1, 10);     // of nothing
    inject(wire::kSendFirst, 2, 255);   // not a full path MTU
    inject(wire::kSendLast, 3, 10);     // of that
    inject(wire::kSendOnly, 4, 260);    // more than the path MTU
    inject(wire::kSendFirst, 5, 256);   // followed by another operation
    inject(wire::kWriteLast, 6, 10);
    inject(wire::kSendFirst, 7, 256);
    inject(wire::kSendLast, 8, 0);     // an empty Last
    inject(wire::kSendFirst, 9, 256);  // given up for the one that follows
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    inject(wire::kSendOnly, 10, 10);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
    EXPECT_THAT(b_->events, IsEmpty());
}

TEST_F(Uc, WithoutAReceiveTheMessageIsLost) {
    connect_uc({.mtu = 256});
    a_->post_send(send(1, 700));
    a_->post_send(rdma(WrOpcode::kWriteWithImm, 2, 300));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->counters.out_of_buffer.value(), 2U);
    post_receives(1, 700);
    a_->post_send(send(3, 700, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(last_came_from(1000));
}

TEST_F(Uc, AMessageBeyondTheReceiveIsLostAndTheReceiveStays) {
    connect_uc({.mtu = 256});
    post_receives(1, 699);
    a_->post_send(send(1, 700));
    a_->post_send(send(2, 699, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(std::equal(a_mem_->data() + 1000, a_mem_->data() + 1699, b_mem_->data()));
    EXPECT_EQ(b_->counters.resp_local_length_error.value(), 1U);
}

TEST_F(Uc, AReceiveThatMayNotBeWrittenFailsTheQp) {
    connect_uc();
    b_->post_recv(100, {{b_mem_->addr(), 100, b_mem_->key() ^ 0x10000000}});
    b_->post_recv(101, {});
    a_->post_send(send(1, 100));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocProtErr}, flushed(101)));
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    EXPECT_EQ(a_->qp().state(), QpState::kRts);
}

TEST_F(Uc, AMalformedReceiveFailsTheQp) {
    connect_uc();
    post_receives(1, 100);
    b_->recv_ring().slot(0).num_sge = 17;
    a_->post_send(send(1, 100));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocQpOpErr}));
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
}

TEST_F(Uc, WritesThatAreNotAllowedChangeNothing) {
    connect_uc({.mtu = 256});
    SendRequest wrong_key = write(1, 600);
    wrong_key.rkey ^= 0x10000000;
    a_->post_send(wrong_key);
    a_->post_send(write(2, 600, kRegionBytes - 599));
    SendRequest read_only = write(3, 600);
    SimRegion& region = b_->add_region(600, {.access = kAccessRemoteRead});
    read_only.remote_addr = region.addr();
    read_only.rkey = region.key();
    a_->post_send(read_only);
    // sge(offset, length) of A itself has to be good: only the remote end is at fault.
    ASSERT_EQ(a_->poll_send().size(), 0U);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->counters.resp_remote_access_errors.value(), 2U);
    EXPECT_FALSE(same(0, 1));
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
    EXPECT_THAT(b_->events, IsEmpty());
}

TEST_F(Uc, WhoTriesKeysIsHeardAThousandTimes) {
    connect_uc({.mtu = 256});
    const auto guess = [this](std::uint32_t number) {
        SendRequest wrong_key = write(number, 8);
        wrong_key.rkey += number;
        a_->post_send(wrong_key);
        ASSERT_TRUE(net_.run());
        (void)a_->poll_send();
    };
    for (std::uint32_t number = 1; number < UcResponder::kMaxRefusedWrites; ++number) {
        guess(number);
    }
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
    EXPECT_THAT(b_->events, IsEmpty());
    guess(UcResponder::kMaxRefusedWrites);
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpAccessErr));
    a_->post_send(write(1, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_FALSE(same(0, 64)) << "the right key comes too late";
}

TEST_F(Uc, AQpWithoutRemoteWriteTakesNone) {
    connect_uc({.access = 0});
    a_->post_send(write(1, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_FALSE(same(0, 64));
    EXPECT_EQ(b_->counters.resp_remote_access_errors.value(), 1U);
}

TEST_F(Uc, AWriteWhoseLengthIsNotItsPacketsIsDropped) {
    connect_uc({.mtu = 256, .psn_a = 0});
    post_receives(1, 0);
    inject(wire::kWriteFirst, 0, 256, 300);
    inject(wire::kWriteLastImm, 1, 43);
    inject(wire::kWriteOnlyImm, 2, 10, 11);
    inject(wire::kWriteFirst, 3, 256, 256);
    inject(wire::kWriteOnly, 4, 0, 0x80000000);
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

TEST_F(Uc, MemoryThatIsGoneFailsTheQp) {
    connect_uc();
    SimRegion& region = b_->add_region(64, {.mapped = false});
    region.space.gone = true;
    SendRequest request = write(1, 64);
    request.remote_addr = region.addr();
    request.rkey = region.key();
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpFatal));
}

TEST_F(Uc, AWindowIsBoundAndInvalidatedInOrder) {
    connect_uc();
    SimRegion& region = b_->add_region(4096, {.access = kAccessLocalWrite | kAccessMwBind});
    MemoryWindow window(WindowType::kType2, 1);
    const std::uint32_t key = b_->keys().add_window(window, 0x77777777);
    b_->post_send({.opcode = WrOpcode::kBindMw,
                   .wr_id = 1,
                   .remote_addr = region.addr(),
                   .rkey = key,
                   .compare_add = 4096,
                   .region_key = region.key(),
                   .window_access = kAccessRemoteWrite});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_send(), ElementsAre(ok(1)));
    SendRequest request = write(2, 8);
    request.remote_addr = region.addr();
    request.rkey = key;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_TRUE(std::equal(region.data(), region.data() + 8, a_mem_->data()));
    region.fill(0);
    b_->post_send({.opcode = WrOpcode::kLocalInvalidate, .wr_id = 3, .imm_or_rkey = key});
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_send(), ElementsAre(ok(3)));
    EXPECT_EQ(region.data()[0], std::byte{0});
    EXPECT_EQ(b_->counters.resp_remote_access_errors.value(), 1U);
    b_->post_send({.opcode = WrOpcode::kLocalInvalidate, .wr_id = 4, .imm_or_rkey = key});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_send(), ElementsAre(Done{4, WcStatus::kMwBindErr}));
    EXPECT_EQ(b_->qp().state(), QpState::kSqe);
}

// IBA 10.3.1.6: an error of the send queue stops the send queue alone.
TEST_F(Uc, OperationsThatUcDoesNotHaveStopTheSendQueue) {
    for (const WrOpcode opcode : {WrOpcode::kRead, WrOpcode::kCompareSwap, WrOpcode::kFetchAdd,
                                  WrOpcode::kSendWithInvalidate, static_cast<WrOpcode>(200)}) {
        connect_uc();
        post_receives(1, 100);
        a_->post_recv(50, {a_mem_->sge(500, 100)});
        a_->post_send(send(1, 8));
        a_->post_send(rdma(opcode, 2, 8));
        a_->post_send(send(3, 8));
        b_->post_send({.wr_id = 9, .sge = {b_mem_->sge(0, 8)}});
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), Done{2, WcStatus::kLocQpOpErr}, flushed(3)));
        EXPECT_EQ(a_->qp().state(), QpState::kSqe);
        EXPECT_THAT(a_->poll_recv(), ElementsAre(ok(50)));
        // What is posted now is flushed; a change to RTS starts it again.
        a_->post_send(send(4, 8));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(flushed(4)));
        ASSERT_EQ(a_->to_state(QpState::kRts), 0);
        post_receives(1, 100);
        a_->post_send(send(5, 8));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(5)));
        EXPECT_EQ(b_->poll_recv().size(), 2U);
        net_ = SimNetwork();
    }
}

TEST_F(Uc, ALocalErrorInTheMiddleOfAMessage) {
    connect_uc({.mtu = 256});
    post_receives(2, 1000);
    SendRequest request = send(1, 256);
    request.sge.push_back({a_mem_->addr(), 8, 0});
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kLocProtErr}));
    ASSERT_EQ(a_->to_state(QpState::kRts), 0);
    a_->post_send(send(2, 700, 1000));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(last_came_from(1000));
}

TEST_F(Uc, SqdEndsTheMessageThatHasBegun) {
    connect_uc({.mtu = 256});
    post_receives(3, 1000);
    a_->packets_per_progress = 1;
    a_->set_room(1);
    a_->post_send(send(1, 700));
    a_->post_send(send(2, 700));
    ASSERT_TRUE(a_->qp().progress(0, 1, *a_));
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrEnSqdAsyncNotify;
    attr.state = QpState::kSqd;
    attr.en_sqd_async_notify = 1;
    ASSERT_EQ(a_->modify(attr), 0);
    a_->qp().query(attr);
    EXPECT_EQ(attr.sq_draining, 1);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_THAT(a_->events, ElementsAre(AsyncEventType::kSqDrained));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    ASSERT_EQ(a_->to_state(QpState::kRts), 0);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(2)));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(101)));
}

TEST_F(Uc, ErrFlushesBothQueues) {
    connect_uc({.mtu = 256});
    a_->post_recv(50, {});
    a_->set_room(1);
    a_->post_send(send(1, 700));
    a_->post_send(send(2, 700));
    ASSERT_TRUE(a_->qp().progress(0, 1, *a_));
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    EXPECT_THAT(a_->poll_send(), ElementsAre(flushed(1), flushed(2)));
    EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(50)));
    a_->post_send(send(3, 1));
    a_->post_recv(51, {});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(flushed(3)));
    EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(51)));
}

TEST_F(Uc, ResetAndConnectAgain) {
    connect_uc({.mtu = 256, .psn_a = 5});
    post_receives(1, 100);
    a_->post_send(send(1, 8));
    ASSERT_TRUE(net_.run());
    abi::QpAttr attr{};
    b_->qp().query(attr);
    EXPECT_EQ(attr.rq_psn, 6U);
    a_->qp().query(attr);
    EXPECT_EQ(attr.sq_psn, 6U);
    ASSERT_EQ(a_->to_state(QpState::kReset), 0);
    ASSERT_EQ(b_->to_state(QpState::kReset), 0);
    connect(*a_, *b_, {.mtu = 256, .psn_a = 77});
    net_.take_packets();
    post_receives(1, 100);
    a_->post_send(send(2, 8));
    ASSERT_TRUE(net_.run());
    const std::vector<SentPacket> packets = net_.take_packets();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].header.opcode, send_only(wire::kServiceUc));
    EXPECT_EQ(packets[0].header.psn, Psn(77));
    EXPECT_EQ(packets[0].payload_bytes, 8U);
    EXPECT_EQ(b_->poll_recv().size(), 2U);
}

TEST_F(Uc, ACqThatOverrunsFailsTheQp) {
    connect_uc({}, {.cq_entries = 2});
    for (std::uint64_t i = 1; i <= 3; ++i) {
        a_->post_send(send(i, 8));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->qp().state(), QpState::kErr);
    EXPECT_THAT(a_->events, ElementsAre(AsyncEventType::kQpFatal));
}

TEST_F(Uc, OnlyThePeerIsHeard) {
    connect_uc({.mtu = 256, .psn_a = 0});
    post_receives(2, 100);
    SimHost stranger(net_, "C", 3, {.type = QpType::kUc});
    wire::PacketHeader header;
    header.opcode = send_only(wire::kServiceUc);
    header.dest_qp = 2;
    net_.inject(stranger, header);
    header.pkey = 0x1234;
    net_.inject(*a_, header);
    header.pkey = 0xffff;
    header.opcode = send_only(wire::kServiceRc);
    net_.inject(*a_, header);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    EXPECT_EQ(b_->counters.drop_not_for_us.value(), 1U);
    EXPECT_EQ(b_->counters.drop_pkey.value(), 1U);
    EXPECT_EQ(b_->counters.drop_opcode.value(), 1U);
}

TEST_F(Uc, TheFirstPacketInRtrSaysThatThePeerIsThere) {
    const SimHost::Options options{.type = QpType::kUc};
    a_ = std::make_unique<SimHost>(net_, "A", 1, options);
    b_ = std::make_unique<SimHost>(net_, "B", 2, options);
    a_->to_init();
    b_->to_init();
    a_->to_rtr(*b_, {}, 0);
    b_->to_rtr(*a_, {}, 0);
    a_->to_rts({}, 0);
    b_->post_recv(1, {});
    b_->post_recv(2, {});
    a_->post_send({.wr_id = 1});
    a_->post_send({.wr_id = 2});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kCommEst));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(1), ok(2)));
}

}  // namespace
}  // namespace urnic::sim
