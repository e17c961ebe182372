// Two ends of connected mode, whose messages a test carries, loses and makes up.
#pragma once

#include "ulp/ipoib/engine/connections.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "tests/unit/ulp/ipoib/packet_of.h"

namespace urnic::ipoib::test {

struct Message {
    LinkAddress from;
    LinkAddress to;
    Bytes mad;
};

inline LinkAddress end_address(std::uint32_t number) {
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
    Connections::PeerRoute route_to(const End& other) { return connections->route_to(other.address); }
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

using enum Connections::RouteKind;

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
        EXPECT_EQ(a.route_to(b).kind, kPending);
        carry();
        expect_joined();
    }
    /// Each end's QP names the other's.
    void expect_joined() {
        const Connections::PeerRoute of_a = a.route_to(b);
        const Connections::PeerRoute of_b = b.route_to(a);
        ASSERT_EQ(of_a.kind, kConnected);
        ASSERT_EQ(of_b.kind, kConnected);
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

}  // namespace urnic::ipoib::test
