// Messages that lie, that others send, and that are no messages.
#include "tests/unit/ulp/ipoib/engine/connection_ends.h"

namespace urnic::ipoib::test {
namespace {

TEST_F(IpoibConnections, ReqsThatLieAreRejected) {
    const auto reason_of = [this](const CmMessage& message) {
        a.give(b.address, message);
        const CmMessage answer = a.take();
        EXPECT_EQ(answer.kind, CmKind::kRej);
        EXPECT_EQ(answer.remote_comm_id, message.local_comm_id);
        EXPECT_TRUE(a.qps.empty());
        return static_cast<RejectReason>(answer.reason);
    };
    const auto with = [this](auto change) {
        CmMessage message = req();
        change(message);
        return message;
    };
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.service_id += 1; })), RejectReason::kInvalidServiceId);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.transport = 1; })), RejectReason::kInvalidTransport);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.path_mtu = 0; })), RejectReason::kInvalidPathMtu);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.path_mtu = 6; })), RejectReason::kInvalidPathMtu);
    const std::uint64_t honest = a.counters().forged;
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.ud_qpn += 1; })), RejectReason::kConsumer);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.local_gid[15] = std::byte{9}; })), RejectReason::kConsumer);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.remote_gid[15] = std::byte{9}; })),
              RejectReason::kConsumer);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.pkey = 0x7FFF; })), RejectReason::kConsumer);
    EXPECT_EQ(reason_of(with([](CmMessage& m) { m.receive_mtu = 2047; })), RejectReason::kConsumer);
    for (const std::uint32_t qpn : {0U, 1U, 0xFFFFFFU}) {
        EXPECT_EQ(reason_of(with([&](CmMessage& m) { m.qpn = qpn; })), RejectReason::kConsumer);
    }
    EXPECT_EQ(a.counters().forged - honest, 8U);
    // What is right is taken; a receive MTU that nobody has counts for no more than the largest.
    CmMessage large = req();
    large.receive_mtu = 0xFFFFFFFF;
    a.give(b.address, large);
    EXPECT_EQ(a.take().kind, CmKind::kRep);
    EXPECT_NE(a.connections->on_received(a.qps.begin()->first), nullptr);
    EXPECT_EQ(a.route_to(b).mtu, 65520U);
}

TEST_F(IpoibConnections, RepsThatLie) {
    EXPECT_EQ(a.route_to(b).kind, kPending);
    const CmMessage asked = a.take();
    const CmMessage rep = {.kind = CmKind::kRep,
                           .transaction = asked.transaction,
                           .local_comm_id = 0x55,
                           .remote_comm_id = asked.local_comm_id,
                           .qpn = 0x321,
                           .starting_psn = 1,
                           .ud_qpn = b.address.qpn,
                           .receive_mtu = 65524};
    // From somebody else, to another ID: nothing happens here.
    a.give(end_address(7), rep);
    CmMessage other = rep;
    other.remote_comm_id += 1;
    a.give(b.address, other);
    for (int i = 0; i < 2; ++i) {
        const CmMessage answer = a.take();
        EXPECT_EQ(answer.kind, CmKind::kRej);
        EXPECT_EQ(answer.rejected, 1U);
        EXPECT_EQ(answer.reason, static_cast<std::uint16_t>(RejectReason::kInvalidCommId));
    }
    EXPECT_EQ(a.route_to(b).kind, kPending);
    EXPECT_EQ(a.counters().unknown, 2U);
    // The right one with a QP that cannot be.
    other = rep;
    other.qpn = 0;
    a.give(b.address, other);
    EXPECT_EQ(a.take().kind, CmKind::kRej);
    EXPECT_TRUE(a.qps.empty());
    EXPECT_EQ(a.route_to(b).kind, kLater);
}

TEST_F(IpoibConnections, OthersEndNothing) {
    connect();
    const std::uint32_t qpn = a.route_to(b).qpn;
    // Communication IDs as b has them, from elsewhere; and from b with those of nobody.
    a.advance(1);
    const auto ids = [&] {
        b.advance(10'000);
        CmMessage dreq = b.take();
        b.sent.clear();
        return dreq;
    }();
    for (const CmKind kind : {CmKind::kDreq, CmKind::kRej, CmKind::kDrep, CmKind::kRtu}) {
        CmMessage message = ids;
        message.kind = kind;
        a.give(end_address(9), message);
        message.local_comm_id += 1;
        a.give(b.address, message);
    }
    CmMessage wrong_qp = ids;
    wrong_qp.qpn += 1;
    a.give(b.address, wrong_qp);
    CmMessage rej = ids;
    rej.kind = CmKind::kRej;
    a.give(b.address, rej);
    a.sent.clear();
    EXPECT_EQ(a.route_to(b).qpn, qpn);
    EXPECT_EQ(a.counters().forged, 1U);
    a.give(b.address, ids);
    EXPECT_TRUE(a.qps.empty()) << "the right one does";
}

TEST_F(IpoibConnections, MessagesOfEveryWrongLength) {
    const Mad whole = write_cm(req());
    for (std::size_t octets = 0; octets < whole.size(); ++octets) {
        a.connections->on_message(b.address, ConstOctets(whole).first(octets));
    }
    Bytes longer(whole.begin(), whole.end());
    longer.push_back({});
    a.connections->on_message(b.address, longer);
    EXPECT_EQ(a.counters().malformed, 257U);
    for (std::size_t at = 0; at < 4; ++at) {
        Mad wrong = whole;
        wrong[at] ^= std::byte{0x40};
        a.connections->on_message(b.address, wrong);
    }
    Mad other_attribute = whole;
    put_u16(other_attribute, 16, 0x0017);
    a.connections->on_message(b.address, other_attribute);
    EXPECT_EQ(a.counters().malformed, 262U);
    EXPECT_TRUE(a.sent.empty());
    EXPECT_TRUE(a.qps.empty());
}

}  // namespace
}  // namespace urnic::ipoib::test
