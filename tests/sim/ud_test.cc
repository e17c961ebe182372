// UD: one packet is one message; Q_Keys, address handles and the room for the GRH (IBA 9.8.3, annex A17).
#include <cstring>
#include <set>

#include "rnic/qp/unreliable/ud_qp.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kOwnQkey = 0x8000'0000;

class Ud : public RcPair {
  protected:
    void start(SimHost::Options host = {}, const ConnectOptions& options = {}) {
        host.type = QpType::kUd;
        connect_pair(options, host);
        to_b_ = a_->address(*b_);
    }
    SendRequest datagram(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0) {
        return {.opcode = WrOpcode::kSend,
                .wr_id = wr_id,
                .sge = {a_mem_->sge(offset, length)},
                .address_handle = to_b_,
                .remote_qp_num = 2,
                .remote_qkey = kQkey};
    }
    void expect_failure(const SendRequest& request, WcStatus status) {
        b_->post_recv(100, {b_mem_->sge(0, 5000)});
        a_->post_recv(50, {a_mem_->sge(0, 5000)});
        a_->post_send(datagram(1, 8));
        a_->post_send(request);
        a_->post_send(datagram(3, 8));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), Done{request.wr_id, status}, flushed(3)));
        EXPECT_EQ(a_->qp().state(), QpState::kSqe);
        EXPECT_THAT(a_->poll_recv(), IsEmpty());
        EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
        // It still receives, and sends again after a change to RTS.
        wire::PacketHeader header;
        header.opcode = send_only(wire::kServiceUd);
        header.dest_qp = 1;
        header.deth = {.qkey = kQkey, .src_qp = 2};
        net_.inject(*b_, header);
        ASSERT_EQ(a_->to_state(QpState::kRts), 0);
        b_->post_recv(101, {b_mem_->sge(0, 5000)});
        a_->post_send(datagram(4, 8));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(4)));
        EXPECT_THAT(a_->poll_recv(), ElementsAre(ok(50)));
        EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(101)));
    }
    [[nodiscard]] bool arrived(std::size_t from, std::size_t to, std::size_t length) {
        return std::equal(a_mem_->data() + from, a_mem_->data() + from + length, b_mem_->data() + to);
    }
    std::uint32_t to_b_ = 0;
};

TEST_F(Ud, ADatagramArrivesBehindItsIpv4Header) {
    start({}, {.psn_a = 0xffffff});
    b_mem_->fill(0x55);
    b_->post_recv(100, {b_mem_->sge(0, 140)});
    b_->post_recv(101, {b_mem_->sge(1000, 40)});
    SendRequest with_imm = datagram(7, 100, 300);
    with_imm.opcode = WrOpcode::kSendWithImm;
    with_imm.imm_or_rkey = 0x01020304;
    with_imm.flags |= kSendSolicited;
    a_->post_send(with_imm);
    a_->post_send(datagram(8, 0));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->counters.rdma_sends.value(), 2U);
    EXPECT_EQ(b_->counters.rdma_recvs.value(), 2U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(7), ok(8)));
    const auto received = b_->poll_raw(true);
    ASSERT_EQ(received.size(), 2U);
    EXPECT_EQ(received[0]->byte_len, 140U);
    EXPECT_EQ(received[0]->src_qp, 1U);
    EXPECT_EQ(received[0]->wc_flags, kWcGrh | kWcWithImm);
    EXPECT_EQ(received[0]->imm_or_rkey, 0x01020304U);
    EXPECT_EQ(received[0]->opcode, static_cast<std::uint8_t>(WcOpcode::kRecv));
    EXPECT_EQ(received[1]->byte_len, 40U);
    EXPECT_EQ(received[1]->wc_flags, kWcGrh);
    EXPECT_EQ(b_->solicited, 1U);
    EXPECT_TRUE(arrived(300, 40, 100));
    EXPECT_EQ(b_mem_->data()[140], std::byte{0x55});
    const std::byte* grh = b_mem_->data();
    EXPECT_TRUE(std::all_of(grh, grh + 20, [](std::byte byte) { return byte == std::byte{0}; }));
    EXPECT_EQ(grh[20], std::byte{0x45});
    EXPECT_EQ(grh[29], std::byte{17});
    const std::byte source[] = {std::byte{198}, std::byte{18}, std::byte{0}, std::byte{1}};
    const std::byte destination[] = {std::byte{198}, std::byte{18}, std::byte{0}, std::byte{2}};
    EXPECT_EQ(std::memcmp(grh + 32, source, 4), 0);
    EXPECT_EQ(std::memcmp(grh + 36, destination, 4), 0);
}

TEST_F(Ud, ADatagramArrivesBehindItsIpv6Header) {
    start({.ipv6 = true});
    // The header, and the payload too, may be spread over elements.
    b_->post_recv(100, {b_mem_->sge(0, 7), b_mem_->sge(100, 35), b_mem_->sge(200, 98)});
    a_->post_send(datagram(7, 100, 300));
    ASSERT_TRUE(net_.run());
    ASSERT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    std::byte grh[kGrhBytes];
    std::memcpy(grh, b_mem_->data(), 7);
    std::memcpy(grh + 7, b_mem_->data() + 100, 33);
    EXPECT_EQ(grh[0] >> 4U, std::byte{6});
    EXPECT_EQ(grh[6], std::byte{17});
    EXPECT_EQ(std::memcmp(grh + 8, a_->gid().data(), 16), 0);
    EXPECT_EQ(std::memcmp(grh + 24, b_->gid().data(), 16), 0);
    EXPECT_TRUE(arrived(300, 133, 2));
    EXPECT_TRUE(arrived(302, 200, 98));
}

TEST_F(Ud, TheQpsOwnQkeyForOneWithTheHighBit) {
    start();
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    SendRequest request = datagram(1, 8);
    request.remote_qkey = kOwnQkey | 0x77;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(net_.take_packets()[0].header.deth.qkey, kQkey);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
}

TEST_F(Ud, AWrongQkeyIsDroppedAndCounted) {
    start();
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    SendRequest request = datagram(1, 8);
    request.remote_qkey = kQkey + 1;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
    EXPECT_EQ(b_->counters.drop_qkey.value(), 1U);
    // The key may change at any time.
    abi::QpAttr attr{};
    attr.mask = kQpAttrQkey;
    attr.qkey = kQkey + 1;
    ASSERT_EQ(b_->modify(attr), 0);
    a_->post_send(request);
    a_->post_send(datagram(2, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_EQ(b_->counters.drop_qkey.value(), 2U);
}

TEST_F(Ud, APacketOfThePortsMtuAndNotAByteMore) {
    start({.port_mtu = 2048});
    b_->post_recv(100, {b_mem_->sge(0, 2088)});
    a_->post_send(datagram(1, 2048));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    EXPECT_TRUE(arrived(0, 40, 2048));
    expect_failure(datagram(2, 2049), WcStatus::kLocLenErr);
}

TEST_F(Ud, InlineData) {
    start();
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    SendRequest request = datagram(1, 0);
    request.flags |= kSendInline;
    request.inline_data.assign(17, std::byte{0x42});
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_THAT(std::vector<std::byte>(b_mem_->data() + 40, b_mem_->data() + 57), Each(std::byte{0x42}));
}

TEST_F(Ud, HandlesThatAreNone) {
    start();
    for (const std::uint32_t key :
         {0U, to_b_ + 1, to_b_ ^ (1U << AddressHandles::kSlotBits), AddressHandles::kSlots - 1, ~0U}) {
        SCOPED_TRACE(key);
        SendRequest request = datagram(2, 8);
        request.address_handle = key;
        expect_failure(request, WcStatus::kLocQpOpErr);
    }
}

TEST_F(Ud, AHandleOfAnotherPd) {
    start();
    SendRequest request = datagram(2, 8);
    request.address_handle = a_->address(*b_, 2);
    expect_failure(request, WcStatus::kLocQpOpErr);
}

TEST_F(Ud, ADestroyedHandle) {
    start();
    SendRequest request = datagram(2, 8);
    request.address_handle = a_->address(*b_);
    ASSERT_TRUE(a_->handles().remove(request.address_handle));
    expect_failure(request, WcStatus::kLocQpOpErr);
}

TEST_F(Ud, OperationsThatUdDoesNotHave) {
    start();
    for (const WrOpcode opcode : {WrOpcode::kWrite, WrOpcode::kWriteWithImm, WrOpcode::kRead,
                                  WrOpcode::kFetchAdd, WrOpcode::kSendWithInvalidate}) {
        SendRequest request = datagram(2, 8);
        request.opcode = opcode;
        expect_failure(request, WcStatus::kLocQpOpErr);
    }
}

TEST_F(Ud, AKeyThatDoesNotAllowReading) {
    start();
    SendRequest request = datagram(2, 8);
    request.sge[0].lkey ^= 0x10000000;
    expect_failure(request, WcStatus::kLocProtErr);
}

TEST_F(Ud, WithoutAReceiveTheDatagramIsLost) {
    start();
    a_->post_send(datagram(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->counters.out_of_buffer.value(), 1U);
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

TEST_F(Ud, ADatagramBeyondTheReceiveIsLostAndTheReceiveStays) {
    start();
    b_->post_recv(100, {b_mem_->sge(0, 47)});
    b_->post_recv(101, {b_mem_->sge(0, 39)});
    a_->post_send(datagram(1, 8));
    a_->post_send(datagram(2, 7));
    a_->post_send(datagram(3, 0));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_EQ(b_->counters.resp_local_length_error.value(), 2U);
    EXPECT_EQ(b_->qp().state(), QpState::kRts);
}

TEST_F(Ud, ReceivesAtFaultFailTheQp) {
    start();
    b_->post_recv(100, {{b_mem_->addr(), 100, b_mem_->key() ^ 0x10000000}});
    b_->post_recv(101, {});
    a_->post_send(datagram(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocProtErr}, flushed(101)));
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    ASSERT_EQ(b_->to_state(QpState::kReset), 0);
    b_->to_init(0, kQkey);
    b_->to_rtr(*a_, {}, 0);
    b_->post_recv(102, {});
    b_->recv_ring().slot(0).num_sge = 17;
    a_->post_send(datagram(2, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{102, WcStatus::kLocQpOpErr}));
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
}

TEST_F(Ud, OneQpTalksToMany) {
    start();
    SimHost c(net_, "C", 3, {.type = QpType::kUd});
    SimRegion& c_mem = c.add_region(1000);
    c.to_init(0, 0x22);
    c.to_rtr(*a_, {}, 0);
    c.to_rts({}, 0);
    const std::uint32_t to_c = a_->address(c);
    for (std::uint64_t i = 0; i < 3; ++i) {
        b_->post_recv(100 + i, {b_mem_->sge(0, 100)});
        c.post_recv(200 + i, {c_mem.sge(0, 100)});
        a_->post_send(datagram(i, 8));
        SendRequest other = datagram(10 + i, 8);
        other.address_handle = to_c;
        other.remote_qp_num = 3;
        other.remote_qkey = 0x22;
        a_->post_send(other);
    }
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100), ok(101), ok(102)));
    EXPECT_THAT(c.poll_recv(), ElementsAre(ok(200), ok(201), ok(202)));
    EXPECT_EQ(a_->poll_send().size(), 6U);
}

// PSNs mean nothing to a receiver of datagrams.
TEST_F(Ud, AnyOrderAndTwice) {
    start();
    wire::PacketHeader header;
    header.opcode = send_only(wire::kServiceUd);
    header.dest_qp = 2;
    header.deth = {.qkey = kQkey, .src_qp = 0xabcdef};
    std::uint64_t wr_id = 0;
    for (const std::uint32_t psn : {7U, 7U, 3U, 0xffffffU}) {
        b_->post_recv(wr_id++, {b_mem_->sge(0, 100)});
        header.psn = Psn(psn);
        net_.inject(*a_, header);
    }
    ASSERT_TRUE(net_.run());
    const auto received = b_->poll_raw(true);
    ASSERT_EQ(received.size(), 4U);
    EXPECT_EQ(received[0]->src_qp, 0xabcdefU);
}

TEST_F(Ud, PacketsThatAreNotForIt) {
    start();
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    wire::PacketHeader header;
    header.opcode = send_only(wire::kServiceUc);
    header.dest_qp = 2;
    header.deth.qkey = kQkey;
    net_.inject(*a_, header);
    header.opcode = send_only(wire::kServiceUd);
    header.pkey = 0x1234;
    net_.inject(*a_, header);
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->counters.drop_opcode.value(), 1U);
    EXPECT_EQ(b_->counters.drop_pkey.value(), 1U);
    ASSERT_EQ(b_->to_state(QpState::kReset), 0);
    a_->post_send(datagram(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->counters.drop_qp_state.value(), 1U);
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
}

TEST_F(Ud, DatagramsAreOfThePartitionOfTheIndex) {
    start({.pkeys = {0xffff, 0xfabc}, .pkey_index = 1});
    a_->post_send(datagram(1, 8));
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->poll_recv().size(), 1U);
    EXPECT_EQ(b_->counters.drop_pkey.value(), 0U);
    abi::QpAttr other{};
    other.mask = kQpAttrState;
    other.state = QpState::kSqd;
    ASSERT_EQ(a_->modify(other), 0);
    other.mask |= kQpAttrPkeyIndex;
    other.pkey_index = 0;
    ASSERT_EQ(a_->modify(other), 0);
    ASSERT_EQ(a_->to_state(QpState::kRts), 0);
    a_->post_send(datagram(2, 8));
    b_->post_recv(101, {b_mem_->sge(0, 100)});
    ASSERT_TRUE(net_.run());
    EXPECT_TRUE(b_->poll_recv().empty());
    EXPECT_EQ(b_->counters.drop_pkey.value(), 1U);
}

TEST_F(Ud, TheServiceLevelSaysWhatThePacketWas) {
    start();
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    b_->post_recv(101, {b_mem_->sge(0, 100)});
    const std::byte ip[40] = {};
    wire::PacketView view;
    view.header.opcode = send_only(wire::kServiceUd);
    view.header.deth.qkey = kQkey;
    view.vlan_tci = 5U << 13U | 100;
    view.l3 = ip;
    for (const bool is_ipv4 : {true, false}) {
        view.is_ipv4 = is_ipv4;
        b_->deliver(view);
    }
    const auto received = b_->poll_raw(true);
    ASSERT_EQ(received.size(), 2U);
    EXPECT_EQ(received[0]->link.sl, 0xa);
    EXPECT_EQ(received[1]->link.sl, 0x9);
}

TEST_F(Ud, ErrFlushesBothQueues) {
    start();
    a_->post_recv(50, {});
    a_->post_send(datagram(1, 8));
    ASSERT_EQ(a_->to_state(QpState::kErr), 0);
    EXPECT_THAT(a_->poll_send(), ElementsAre(flushed(1)));
    EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(50)));
}

}  // namespace
}  // namespace urnic::sim
