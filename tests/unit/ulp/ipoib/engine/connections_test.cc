#include "ulp/ipoib/engine/connections.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "tests/unit/ulp/ipoib/packet_of.h"

namespace urnic::ipoib::test {
namespace {

struct Message {
    LinkAddress from;
    LinkAddress to;
    Bytes mad;
};

LinkAddress end_address(std::uint32_t number) {
    LinkAddress address{kSupportsRc, 0x20 + number, gid_of("fe80::ff:fe00:0")};
    put_u16(address.gid, 14, static_cast<std::uint16_t>(number));
    return address;
}

/// One end: its RC QPs, and what it has sent.
class End : public RcPort, public CmSender {
  public:
    explicit End(std::uint32_t number, std::size_t max_connections = 4) : address(end_address(number)) {
        config.own = address;
        config.max_connections = max_connections;
        config.seed = number;
        config.idle_ms = 10'000;
        start();
    }
    ~End() override {
        connections.reset();
        EXPECT_TRUE(qps.empty()) << "QPs end once, all of them";
    }
    void start() {
        connections.reset();
        connections =
            std::make_unique<Connections>(config, static_cast<RcPort&>(*this), static_cast<CmSender&>(*this));
        connections->advance(now);
    }
    [[nodiscard]] std::uint32_t create_qp() override {
        if (!has_qps) {
            return 0;
        }
        qps[next_qpn] = {};
        return next_qpn++;
    }
    [[nodiscard]] bool connect_qp(std::uint32_t qpn, const RemoteQp& remote) override {
        qps.at(qpn) = remote;
        return can_connect;
    }
    void destroy_qp(std::uint32_t qpn) override { EXPECT_EQ(qps.erase(qpn), 1U); }
    [[nodiscard]] bool send(std::uint32_t /*qpn*/, ConstOctets /*header*/, ConstOctets /*payload*/) override {
        return false;
    }
    [[nodiscard]] std::size_t free_slots() const override { return 0; }
    void send_cm(const LinkAddress& to, const Mad& mad) override {
        sent.push_back({address, to, {mad.begin(), mad.end()}});
    }
    /// The next message that it has sent.
    CmMessage take() {
        EXPECT_FALSE(sent.empty()) << "nothing was sent";
        if (sent.empty()) {
            return {};
        }
        const std::optional<CmMessage> message = read_cm(sent.front().mad);
        sent.pop_front();
        EXPECT_TRUE(message);
        return message.value_or(CmMessage());
    }
    void give(const LinkAddress& from, const CmMessage& message) {
        connections->on_message(from, write_cm(message));
    }
    void advance(std::uint64_t by) {
        now += by;
        connections->advance(now);
    }
    Connections::Way way_to(const End& other) { return connections->way_to(other.address); }
    [[nodiscard]] const ConnectionCounters& counters() const { return connections->counters(); }

    LinkAddress address;
    ConnectionConfig config;
    std::uint64_t now = 1;
    bool has_qps = true;
    bool can_connect = true;
    std::uint32_t next_qpn = 0x100;
    std::map<std::uint32_t, RemoteQp> qps;
    std::deque<Message> sent;
    std::unique_ptr<Connections> connections;
};

using enum Connections::Route;

class IpoibConnections : public ::testing::Test {
  protected:
    /// Carries what is there until there is nothing.
    void carry() {
        while (!a.sent.empty() || !b.sent.empty()) {
            End& from = a.sent.empty() ? b : a;
            const Message message = from.sent.front();
            from.sent.pop_front();
            End& to = message.to == a.address ? a : b;
            to.connections->on_message(message.from, message.mad);
        }
    }
    void connect() {
        EXPECT_EQ(a.way_to(b).route, kPending);
        carry();
        expect_joined();
    }
    /// Each end's QP names the other's.
    void expect_joined() {
        const Connections::Way of_a = a.way_to(b);
        const Connections::Way of_b = b.way_to(a);
        ASSERT_EQ(of_a.route, kConnected);
        ASSERT_EQ(of_b.route, kConnected);
        const RemoteQp& at_a = a.qps.at(of_a.qpn);
        const RemoteQp& at_b = b.qps.at(of_b.qpn);
        EXPECT_EQ(at_a.qpn, of_b.qpn);
        EXPECT_EQ(at_b.qpn, of_a.qpn);
        EXPECT_EQ(at_a.psn, at_b.own_psn);
        EXPECT_EQ(at_b.psn, at_a.own_psn);
        EXPECT_EQ(at_a.gid, b.address.gid);
        EXPECT_EQ(at_b.gid, a.address.gid);
        EXPECT_EQ(at_a.path_mtu, at_b.path_mtu);
    }
    /// A REQ as `b` would send it.
    [[nodiscard]] CmMessage req() const {
        return {.kind = CmKind::kReq,
                .transaction = 7,
                .local_comm_id = 0x77,
                .service_id = connected_mode_service(a.address.qpn),
                .qpn = 0x999,
                .starting_psn = 5,
                .transport = 0,
                .pkey = 0xFFFF,
                .path_mtu = 5,
                .local_gid = b.address.gid,
                .remote_gid = a.address.gid,
                .ud_qpn = b.address.qpn,
                .receive_mtu = 65524};
    }

    End a{1};
    End b{2};
};

TEST_F(IpoibConnections, ReqRepRtu) {
    EXPECT_EQ(a.way_to(b).route, kPending);
    EXPECT_EQ(a.way_to(b).route, kPending);
    ASSERT_EQ(a.sent.size(), 1U) << "one REQ for all packets that wait";
    const CmMessage sent = read_cm(a.sent.front().mad).value();
    EXPECT_EQ(sent.service_id, 0x1000000000000022ULL);
    EXPECT_EQ(sent.ud_qpn, 0x21U);
    EXPECT_EQ(sent.receive_mtu, 65524U);
    carry();
    expect_joined();
    EXPECT_EQ(a.way_to(b).mtu, 65520U);
    EXPECT_EQ(a.counters().opened, 1U);
    EXPECT_EQ(b.counters().accepted, 1U);
    EXPECT_EQ(a.connections->take_settled(), std::vector<LinkAddress>{b.address});
    EXPECT_EQ(b.connections->take_settled(), std::vector<LinkAddress>{a.address});
    EXPECT_EQ(*a.connections->on_received(a.way_to(b).qpn), b.address);
    EXPECT_EQ(a.connections->on_received(0x7777), nullptr);
}

TEST_F(IpoibConnections, EachMessageMayBeLost) {
    // REQ.
    EXPECT_EQ(a.way_to(b).route, kPending);
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
    EXPECT_EQ(b.way_to(a).route, kPending);
    a.connections->on_message(b.address, b.sent.front().mad);
    b.sent.clear();
    carry();
    expect_joined();
}

TEST_F(IpoibConnections, MessageStandsForTheRtu) {
    EXPECT_EQ(a.way_to(b).route, kPending);
    b.give(a.address, a.take());
    const std::uint32_t qpn = b.qps.begin()->first;
    EXPECT_EQ(*b.connections->on_received(qpn), a.address);
    EXPECT_EQ(b.way_to(a).route, kConnected);
}

TEST_F(IpoibConnections, NobodyAnswers) {
    EXPECT_EQ(a.way_to(b).route, kPending);
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
        EXPECT_EQ(a.way_to(b).route, failure < 3 ? kLater : kDatagram);
        const std::uint64_t before = a.now;
        while (a.way_to(b).route != kPending) {
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
    EXPECT_EQ(a.way_to(b).route, kPending);
    EXPECT_EQ(b.way_to(a).route, kPending);
    const CmMessage of_a = a.take();
    const CmMessage of_b = b.take();
    a.give(b.address, of_b);
    b.give(a.address, of_a);
    EXPECT_EQ(a.counters().collisions, 1U);
    EXPECT_EQ(b.counters().collisions, 1U);
    EXPECT_TRUE(b.sent.empty()) << "the greater address goes on waiting";
    carry();
    expect_joined();
    EXPECT_EQ(a.qps.size(), 1U);
    EXPECT_EQ(b.qps.size(), 1U);
    EXPECT_EQ(a.counters().accepted, 1U);
    EXPECT_EQ(b.counters().opened, 1U);
}

TEST_F(IpoibConnections, CrossedReqThatArrivesLate) {
    EXPECT_EQ(a.way_to(b).route, kPending);
    const CmMessage of_a = a.take();
    EXPECT_EQ(b.way_to(a).route, kPending);
    carry();
    expect_joined();
    const Connections::Way before = a.way_to(b);
    // The REQ that a has given up arrives now: what it asks for comes to nothing, and the connection stays.
    b.give(a.address, of_a);
    EXPECT_EQ(b.qps.size(), 2U);
    carry();
    EXPECT_EQ(b.qps.size(), 1U);
    EXPECT_EQ(a.way_to(b).qpn, before.qpn);
    expect_joined();
}

TEST_F(IpoibConnections, PeerThatStartedAnewTakesTheOldOnesPlace) {
    connect();
    const std::uint32_t old = b.way_to(a).qpn;
    a.config.seed = 99;
    a.next_qpn = 0x500;
    a.start();
    a.sent.clear();  // killed: nobody says that the old one ends
    EXPECT_EQ(a.way_to(b).route, kPending);
    b.give(a.address, a.take());
    EXPECT_EQ(b.way_to(a).qpn, old) << "until the new one is up";
    carry();
    EXPECT_NE(b.way_to(a).qpn, old);
    expect_joined();
    EXPECT_EQ(b.qps.size(), 1U);
}

TEST_F(IpoibConnections, StaleReqEndsNothing) {
    connect();
    const std::uint32_t qpn = a.way_to(b).qpn;
    a.give(b.address, req());
    EXPECT_EQ(a.qps.size(), 2U);
    // Another one takes its place, not that of the connection.
    CmMessage another = req();
    another.local_comm_id = 0x78;
    a.give(b.address, another);
    EXPECT_EQ(a.qps.size(), 2U);
    carry();  // b knows nothing of either
    EXPECT_EQ(a.qps.size(), 1U);
    EXPECT_EQ(a.way_to(b).qpn, qpn);
    EXPECT_GE(a.counters().rejects_taken, 1U);
    expect_joined();
}

TEST_F(IpoibConnections, IdleOnesEnd) {
    connect();
    a.advance(9'000);
    EXPECT_EQ(a.way_to(b).route, kConnected);
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
    const std::uint32_t qpn = a.way_to(b).qpn;
    a.connections->on_acknowledged(qpn);
    a.connections->on_broken(qpn);
    EXPECT_EQ(a.counters().broken, 1U);
    a.connections->on_broken(qpn);
    EXPECT_EQ(a.counters().broken, 1U) << "once";
    EXPECT_EQ(a.way_to(b).route, kPending) << "at once";
    carry();
    expect_joined();
    // One that has never carried anything waits.
    a.connections->on_broken(a.way_to(b).qpn);
    EXPECT_EQ(a.way_to(b).route, kLater);
    a.advance(1000);
    EXPECT_EQ(a.way_to(b).route, kPending);
}

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
    EXPECT_EQ(a.way_to(b).mtu, 65520U);
}

TEST_F(IpoibConnections, RepsThatLie) {
    EXPECT_EQ(a.way_to(b).route, kPending);
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
    EXPECT_EQ(a.way_to(b).route, kPending);
    EXPECT_EQ(a.counters().unknown, 2U);
    // The right one with a QP that cannot be.
    other = rep;
    other.qpn = 0;
    a.give(b.address, other);
    EXPECT_EQ(a.take().kind, CmKind::kRej);
    EXPECT_TRUE(a.qps.empty());
    EXPECT_EQ(a.way_to(b).route, kLater);
}

TEST_F(IpoibConnections, OthersEndNothing) {
    connect();
    const std::uint32_t qpn = a.way_to(b).qpn;
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
    EXPECT_EQ(a.way_to(b).qpn, qpn);
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

TEST_F(IpoibConnections, SmallerPathMtuIsFound) {
    b.config.path_mtu = 3;
    b.start();
    EXPECT_EQ(a.way_to(b).route, kPending);
    carry();
    expect_joined();
    EXPECT_EQ(a.qps.at(a.way_to(b).qpn).path_mtu, 3U);
    EXPECT_EQ(b.counters().rejects_sent, 2U);
}

TEST_F(IpoibConnections, DeviceRefuses) {
    b.has_qps = false;
    EXPECT_EQ(a.way_to(b).route, kPending);
    carry();
    EXPECT_EQ(a.way_to(b).route, kLater);
    EXPECT_TRUE(a.qps.empty());
    b.has_qps = true;
    b.can_connect = false;
    a.advance(1000);
    EXPECT_EQ(a.way_to(b).route, kPending);
    carry();
    EXPECT_TRUE(a.qps.empty());
    EXPECT_TRUE(b.qps.empty());
    b.can_connect = true;
    a.can_connect = false;
    a.advance(10'000);
    EXPECT_EQ(a.way_to(b).route, kPending);
    carry();
    EXPECT_TRUE(a.qps.empty());
    EXPECT_TRUE(b.qps.empty());
    a.has_qps = false;
    EXPECT_EQ(a.way_to(End(3)).route, kLater);
}

TEST_F(IpoibConnections, NumberIsBounded) {
    for (std::uint32_t number = 10; number < 30; ++number) {
        EXPECT_EQ(a.connections->way_to(end_address(number)).route, number < 14 ? kPending : kLater);
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
        std::ignore = a.connections->way_to(end_address(number));
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
    EXPECT_EQ(a.way_to(c).route, kLater) << "in use";
    a.advance(1000);
    EXPECT_EQ(a.way_to(c).route, kPending);
    EXPECT_EQ(a.counters().evicted, 1U);
    EXPECT_EQ(a.take().kind, CmKind::kDreq);
    EXPECT_EQ(a.connections->size(), 1U);
    a.sent.clear();
}

/// Ends that ask, break, sleep and start anew, over a network that loses, doubles and delays. Afterwards,
/// when the network is good, both reach each other by QPs that name each other.
TEST_F(IpoibConnections, RandomWalk) {
    const std::uint32_t seed = seed_of_test();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    Random random(seed);
    std::vector<Message> under_way;
    const auto deliver = [&](const Message& message) {
        (message.to == a.address ? a : b).connections->on_message(message.from, message.mad);
    };
    const auto collect = [&](bool is_good) {
        for (End* end : {&a, &b}) {
            for (; !end->sent.empty(); end->sent.pop_front()) {
                if (is_good || !random.is_one_in(4)) {
                    under_way.push_back(end->sent.front());
                }
                if (!is_good && random.is_one_in(8)) {
                    under_way.push_back(end->sent.front());
                }
            }
        }
    };
    for (int round = 0; round < 60; ++round) {
        for (int step = 0; step < 200; ++step) {
            End& end = random.is_one_in(2) ? a : b;
            End& other = &end == &a ? b : a;
            switch (random.up_to(9)) {
                case 0:
                    std::ignore = end.way_to(other);
                    break;
                case 1:
                    if (!end.qps.empty() && random.is_one_in(4)) {
                        end.connections->on_broken(end.qps.begin()->first);
                    }
                    break;
                case 2:
                    if (!end.qps.empty()) {
                        end.connections->on_acknowledged(end.qps.rbegin()->first);
                    }
                    break;
                case 3:
                    if (random.is_one_in(20)) {
                        end.config.seed = random.up_to(1U << 30U);
                        end.start();
                    }
                    break;
                case 4:
                    end.advance(random.up_to(random.is_one_in(10) ? 20'000 : 300));
                    break;
                default:
                    collect(false);
                    if (!under_way.empty()) {
                        const auto chosen = under_way.begin() +
                                            static_cast<std::ptrdiff_t>(random.up_to(under_way.size() - 1));
                        const Message message = *chosen;
                        under_way.erase(chosen);
                        deliver(message);
                    }
                    break;
            }
            ASSERT_LE(a.qps.size(), 4U);
            ASSERT_LE(b.qps.size(), 4U);
        }
        // The network is good again, and both have something to send; whoever's QP names none of the peer's
        // finds out by its retries.
        bool is_joined = false;
        for (int step = 0; step < 4000 && !is_joined; ++step) {
            a.advance(50);
            b.advance(50);
            const Connections::Way of_a = a.way_to(b);
            const Connections::Way of_b = b.way_to(a);
            collect(true);
            for (const Message& message : std::exchange(under_way, {})) {
                deliver(message);
            }
            const auto is_heard = [](const Connections::Way& way, const End& end, End& peer) {
                const auto there = peer.qps.find(end.qps.at(way.qpn).qpn);
                return there != peer.qps.end() && there->second.qpn == way.qpn;
            };
            is_joined = of_a.route == kConnected && of_b.route == kConnected && a.qps.contains(of_a.qpn) &&
                        b.qps.contains(of_b.qpn) && is_heard(of_a, a, b) && is_heard(of_b, b, a);
            for (const auto& [end, peer, way] : {std::tuple(&a, &b, of_a), std::tuple(&b, &a, of_b)}) {
                if (way.route == kConnected && end->qps.contains(way.qpn)) {
                    if (is_heard(way, *end, *peer)) {
                        std::ignore = peer->connections->on_received(end->qps.at(way.qpn).qpn);
                    } else if (step % 10 == 9) {
                        end->connections->on_broken(way.qpn);
                    }
                }
            }
        }
        ASSERT_TRUE(is_joined) << "round " << round;
    }
}

}  // namespace
}  // namespace urnic::ipoib::test
