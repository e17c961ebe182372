#include "tests/unit/ulp/ipoib/engine/connection_ends.h"

namespace urnic::ipoib::test {
namespace {

TEST_F(IpoibConnections, ReqRepRtu) {
    EXPECT_EQ(a.route_to(b).kind, kPending);
    EXPECT_EQ(a.route_to(b).kind, kPending);
    ASSERT_EQ(a.sent.size(), 1U) << "one REQ for all packets that wait";
    const CmMessage sent = read_cm(a.sent.front().mad).value();
    EXPECT_EQ(sent.service_id, 0x1000000000000022ULL);
    EXPECT_EQ(sent.ud_qpn, 0x21U);
    EXPECT_EQ(sent.receive_mtu, 65524U);
    carry();
    expect_joined();
    EXPECT_EQ(a.route_to(b).mtu, 65520U);
    EXPECT_EQ(a.counters().opened, 1U);
    EXPECT_EQ(b.counters().accepted, 1U);
    EXPECT_EQ(a.connections->take_settled(), std::vector<LinkAddress>{b.address});
    EXPECT_EQ(b.connections->take_settled(), std::vector<LinkAddress>{a.address});
    EXPECT_EQ(*a.connections->on_received(a.route_to(b).qpn), b.address);
    EXPECT_EQ(a.connections->on_received(0x7777), nullptr);
}

TEST_F(IpoibConnections, EachMessageMayBeLost) {
    // REQ.
    EXPECT_EQ(a.route_to(b).kind, kPending);
    const Bytes first = a.sent.front().mad;
    a.sent.clear();
    a.advance(249);
    EXPECT_TRUE(a.sent.empty());
    a.advance(1);
    ASSERT_EQ(a.sent.size(), 1U);
    EXPECT_EQ(a.sent.front().mad, first) << "the same REQ";
    // REP.
    b.connections->on_message(a.address, a.sent.front().mad);
    b.connections->on_message(a.address, a.sent.front().mad);
    a.sent.clear();
    EXPECT_EQ(b.sent.size(), 2U) << "answered again";
    EXPECT_EQ(b.qps.size(), 1U);
    b.sent.clear();
    b.advance(250);
    ASSERT_EQ(b.sent.size(), 1U);
    a.connections->on_message(b.address, b.sent.front().mad);
    // RTU.
    EXPECT_EQ(a.take().kind, CmKind::kRtu);
    EXPECT_EQ(b.route_to(a).kind, kPending);
    a.connections->on_message(b.address, b.sent.front().mad);
    b.sent.clear();
    carry();
    expect_joined();
}

TEST_F(IpoibConnections, MessageStandsForTheRtu) {
    EXPECT_EQ(a.route_to(b).kind, kPending);
    b.give(a.address, a.take());
    const std::uint32_t qpn = b.qps.begin()->first;
    EXPECT_EQ(*b.connections->on_received(qpn), a.address);
    EXPECT_EQ(b.route_to(a).kind, kConnected);
}

TEST_F(IpoibConnections, NobodyAnswers) {
    EXPECT_EQ(a.route_to(b).kind, kPending);
    std::size_t tries = 0;
    for (int i = 0; i < 100 && a.connections->size() != 0; ++i) {
        tries += a.sent.size();
        a.sent.clear();
        a.advance(250);
    }
    EXPECT_EQ(tries, 5U);
    EXPECT_EQ(a.counters().timed_out, 1U);
    EXPECT_TRUE(a.qps.empty());
    EXPECT_EQ(a.connections->take_settled().size(), 1U);
    // Not at once again, and less and less often; from the third failure on it counts as one without
    // connections.
    std::uint64_t last = 0;
    for (unsigned failure = 1; failure < 5; ++failure) {
        EXPECT_EQ(a.route_to(b).kind, failure < 3 ? kLater : kDatagram);
        const std::uint64_t before = a.now;
        while (a.route_to(b).kind != kPending) {
            a.advance(100);
        }
        EXPECT_GT(a.now - before, last);
        last = a.now - before;
        a.sent.clear();
        while (a.connections->size() != 0) {
            a.advance(250);
        }
    }
}

TEST_F(IpoibConnections, BothAskAtOnce) {
    EXPECT_EQ(a.route_to(b).kind, kPending);
    EXPECT_EQ(b.route_to(a).kind, kPending);
    const CmMessage of_a = a.take();
    const CmMessage of_b = b.take();
    a.give(b.address, of_b);
    b.give(a.address, of_a);
    EXPECT_EQ(a.counters().collisions, 1U);
    EXPECT_EQ(b.counters().collisions, 1U);
    EXPECT_TRUE(b.sent.empty()) << "the greater address continues waiting";
    carry();
    expect_joined();
    EXPECT_EQ(a.qps.size(), 1U);
    EXPECT_EQ(b.qps.size(), 1U);
    EXPECT_EQ(a.counters().accepted, 1U);
    EXPECT_EQ(b.counters().opened, 1U);
}

TEST_F(IpoibConnections, CrossedReqThatArrivesLate) {
    EXPECT_EQ(a.route_to(b).kind, kPending);
    const CmMessage of_a = a.take();
    EXPECT_EQ(b.route_to(a).kind, kPending);
    carry();
    expect_joined();
    const Connections::PeerRoute before = a.route_to(b);
    // The REQ that a has given up arrives now: what it asks for comes to nothing, and the connection stays.
    b.give(a.address, of_a);
    EXPECT_EQ(b.qps.size(), 2U);
    carry();
    EXPECT_EQ(b.qps.size(), 1U);
    EXPECT_EQ(a.route_to(b).qpn, before.qpn);
    expect_joined();
}

TEST_F(IpoibConnections, PeerThatStartedAnewTakesTheOldOnesPlace) {
    connect();
    const std::uint32_t old = b.route_to(a).qpn;
    a.config.seed = 99;
    a.next_qpn = 0x500;
    a.start();
    a.sent.clear();  // killed: nobody says that the old one ends
    EXPECT_EQ(a.route_to(b).kind, kPending);
    b.give(a.address, a.take());
    EXPECT_EQ(b.route_to(a).qpn, old) << "until the new one is up";
    carry();
    EXPECT_NE(b.route_to(a).qpn, old);
    expect_joined();
    EXPECT_EQ(b.qps.size(), 1U);
}

TEST_F(IpoibConnections, StaleReqEndsNothing) {
    connect();
    const std::uint32_t qpn = a.route_to(b).qpn;
    a.give(b.address, req());
    EXPECT_EQ(a.qps.size(), 2U);
    // Another one takes its place, not that of the connection.
    CmMessage another = req();
    another.local_comm_id = 0x78;
    a.give(b.address, another);
    EXPECT_EQ(a.qps.size(), 2U);
    carry();  // b knows nothing of either
    EXPECT_EQ(a.qps.size(), 1U);
    EXPECT_EQ(a.route_to(b).qpn, qpn);
    EXPECT_GE(a.counters().rejects_taken, 1U);
    expect_joined();
}

TEST_F(IpoibConnections, IdleOnesEnd) {
    connect();
    a.advance(9'000);
    EXPECT_EQ(a.route_to(b).kind, kConnected);
    a.advance(9'999);
    EXPECT_EQ(a.connections->established(), 1U) << "it was used";
    a.advance(1);
    EXPECT_EQ(a.counters().closed_idle, 1U);
    EXPECT_EQ(a.qps.size(), 1U) << "what is under way arrives until the peer has answered";
    carry();
    EXPECT_TRUE(a.qps.empty());
    EXPECT_TRUE(b.qps.empty());
    EXPECT_EQ(b.counters().closed_by_peer, 1U);
    EXPECT_EQ(a.connections->peers() + b.connections->peers(), 0U);
    connect();
}

TEST_F(IpoibConnections, DreqThatNobodyAnswers) {
    connect();
    a.advance(10'000);
    std::size_t dreqs = 0;
    for (int i = 0; i < 100 && a.connections->size() != 0; ++i) {
        dreqs += a.sent.size();
        a.sent.clear();
        a.advance(250);
    }
    EXPECT_EQ(dreqs, 5U);
    EXPECT_TRUE(a.qps.empty());
}

TEST_F(IpoibConnections, BrokenOneIsMadeAgain) {
    connect();
    const std::uint32_t qpn = a.route_to(b).qpn;
    a.connections->on_acknowledged(qpn);
    a.connections->on_broken(qpn);
    EXPECT_EQ(a.counters().broken, 1U);
    a.connections->on_broken(qpn);
    EXPECT_EQ(a.counters().broken, 1U) << "once";
    EXPECT_EQ(a.route_to(b).kind, kPending) << "at once";
    carry();
    expect_joined();
    // One that has never carried anything waits.
    a.connections->on_broken(a.route_to(b).qpn);
    EXPECT_EQ(a.route_to(b).kind, kLater);
    a.advance(1000);
    EXPECT_EQ(a.route_to(b).kind, kPending);
}

TEST_F(IpoibConnections, SmallerPathMtuIsFound) {
    b.config.path_mtu = 3;
    b.start();
    EXPECT_EQ(a.route_to(b).kind, kPending);
    carry();
    expect_joined();
    EXPECT_EQ(a.qps.at(a.route_to(b).qpn).path_mtu, 3U);
    EXPECT_EQ(b.counters().rejects_sent, 2U);
}

TEST_F(IpoibConnections, DeviceRefuses) {
    b.has_qps = false;
    EXPECT_EQ(a.route_to(b).kind, kPending);
    carry();
    EXPECT_EQ(a.route_to(b).kind, kLater);
    EXPECT_TRUE(a.qps.empty());
    b.has_qps = true;
    b.can_connect = false;
    a.advance(1000);
    EXPECT_EQ(a.route_to(b).kind, kPending);
    carry();
    EXPECT_TRUE(a.qps.empty());
    EXPECT_TRUE(b.qps.empty());
    b.can_connect = true;
    a.can_connect = false;
    a.advance(10'000);
    EXPECT_EQ(a.route_to(b).kind, kPending);
    carry();
    EXPECT_TRUE(a.qps.empty());
    EXPECT_TRUE(b.qps.empty());
    a.has_qps = false;
    EXPECT_EQ(a.route_to(End(3)).kind, kLater);
}

TEST_F(IpoibConnections, NumberIsBounded) {
    for (std::uint32_t number = 10; number < 30; ++number) {
        EXPECT_EQ(a.connections->route_to(end_address(number)).kind, number < 14 ? kPending : kLater);
    }
    EXPECT_EQ(a.connections->size(), 4U);
    EXPECT_EQ(a.counters().no_room, 16U);
    a.sent.clear();
    // Who asks is told so.
    a.give(b.address, req());
    EXPECT_EQ(a.take().reason, static_cast<std::uint16_t>(RejectReason::kNoResources));
    // A flood of peers that never answer leaves no more behind than twice the bound.
    for (std::uint32_t number = 100; number < 200; ++number) {
        a.advance(4'000);
        std::ignore = a.connections->route_to(end_address(number));
        a.sent.clear();
        EXPECT_LE(a.connections->peers(), 8U);
        EXPECT_LE(a.connections->size(), 4U);
    }
}

TEST_F(IpoibConnections, LongestUnusedGivesWay) {
    End c{3};
    a.config.max_connections = 1;
    a.start();
    connect();
    EXPECT_EQ(a.route_to(c).kind, kLater) << "in use";
    a.advance(1000);
    EXPECT_EQ(a.route_to(c).kind, kPending);
    EXPECT_EQ(a.counters().evicted, 1U);
    EXPECT_EQ(a.take().kind, CmKind::kDreq);
    EXPECT_EQ(a.connections->size(), 1U);
    a.sent.clear();
}

}  // namespace
}  // namespace urnic::ipoib::test
