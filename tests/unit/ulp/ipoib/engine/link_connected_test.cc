// A link in connected mode: which frame goes which way, and what becomes of those that are too long.
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "tests/unit/ulp/ipoib/packet_of.h"
#include "ulp/ipoib/engine/link.h"

namespace urnic::ipoib::test {
namespace {

class Device : public Outbox, public RcPort {
  public:
    [[nodiscard]] AddressHandle create_handle(const Gid& /*destination*/) override { return ++handles; }
    void destroy_handle(AddressHandle /*handle*/) override {}
    [[nodiscard]] bool send(AddressHandle /*handle*/, std::uint32_t qpn, ConstOctets header,
                            ConstOctets payload) override {
        Bytes datagram(header.begin(), header.end());
        datagram.insert(datagram.end(), payload.begin(), payload.end());
        EXPECT_LE(datagram.size(), 2048U);
        datagrams.emplace_back(qpn, datagram);
        return true;
    }
    void deliver(ConstOctets header, ConstOctets payload) override {
        delivered.emplace_back(header.begin(), header.end());
        delivered.back().insert(delivered.back().end(), payload.begin(), payload.end());
    }
    [[nodiscard]] Progress join(const Gid& /*group*/) override { return Progress::kDone; }
    void leave(const Gid& /*group*/) override {}
    [[nodiscard]] std::uint32_t create_qp() override { return has_qps ? ++qps : 0; }
    [[nodiscard]] bool connect_qp(std::uint32_t /*qpn*/, const RemoteQp& /*remote*/) override { return true; }
    void destroy_qp(std::uint32_t qpn) override { destroyed.push_back(qpn); }
    [[nodiscard]] bool send(std::uint32_t qpn, ConstOctets header, ConstOctets payload) override {
        if (slots == 0) {
            return false;
        }
        --slots;
        Bytes message(header.begin(), header.end());
        message.insert(message.end(), payload.begin(), payload.end());
        messages.emplace_back(qpn, message);
        return true;
    }
    [[nodiscard]] std::size_t free_slots() const override { return free; }

    bool has_qps = true;
    AddressHandle handles = 0;
    std::uint32_t qps = 0x100;
    std::size_t slots = 100;
    std::size_t free = 0;
    std::vector<std::pair<std::uint32_t, Bytes>> datagrams;
    std::vector<std::pair<std::uint32_t, Bytes>> messages;
    std::vector<Bytes> delivered;
    std::vector<std::uint32_t> destroyed;
};

class IpoibConnectedLink : public ::testing::Test {
  protected:
    IpoibConnectedLink() {
        LinkConfig config;
        config.own = {0, 0x11, gid_of("fe80::ff:fe00:1")};
        config.own_mac = mac_of("020000000001");
        link = std::make_unique<Link>(config, device, &device);
        link->advance(1);
    }
    static LinkAddress peer() { return {kSupportsRc, 0x22, gid_of("fe80::ff:fe00:2")}; }
    void receive(const LinkAddress& from, ConstOctets payload) {
        Bytes grh(kGrhOctets);
        put_u8(grh, 0, 0x60);
        std::copy(from.gid.begin(), from.gid.end(), grh.begin() + 8);
        const Gid own = gid_of("fe80::ff:fe00:1");
        std::copy(own.begin(), own.end(), grh.begin() + 24);
        link->on_datagram(grh, from.qpn, payload);
    }
    /// An ARP reply of the peer, whose address has those flags; returns the MAC that stands for it.
    Bytes announce(std::uint8_t flags) {
        Bytes arp = octets_of(
            "08060000 00200800 14040002 00000022 fe800000 00000000 000000ff fe000002 0a090002 "
            "00000011 fe800000 00000000 000000ff fe000001 0a090001");
        put_u8(arp, 12, flags);
        receive(peer(), arp);
        return {device.delivered.back().begin() + 6, device.delivered.back().begin() + 12};
    }
    static Bytes frame_to(const Bytes& mac, const Bytes& packet) {
        Bytes made = mac;
        const Bytes rest = octets_of("020000000001 0800");
        made.insert(made.end(), rest.begin(), rest.end());
        made.insert(made.end(), packet.begin(), packet.end());
        return made;
    }
    void send(const Bytes& mac, const Bytes& packet, const Offload& offload = {}) {
        // It stays where it is while its segments wait.
        frame = frame_to(mac, packet);
        link->on_frame(frame, offload);
    }
    /// The peer answers the REQ that was sent last.
    void answer() {
        const CmMessage req = last_cm();
        ASSERT_EQ(req.kind, CmKind::kReq);
        CmMessage rep = {.kind = CmKind::kRep,
                         .transaction = req.transaction,
                         .local_comm_id = 0x99,
                         .remote_comm_id = req.local_comm_id,
                         .qpn = 0x300,
                         .ud_qpn = peer().qpn,
                         .receive_mtu = receive_mtu};
        const Mad mad = write_cm(rep);
        Bytes payload = octets_of("88b50000");
        payload.insert(payload.end(), mad.begin(), mad.end());
        receive(peer(), payload);
    }
    [[nodiscard]] CmMessage last_cm() const {
        for (auto datagram = device.datagrams.rbegin(); datagram != device.datagrams.rend(); ++datagram) {
            if (u16_at(datagram->second, 0) == kTypeCm) {
                return read_cm(ConstOctets(datagram->second).subspan(4)).value();
            }
        }
        ADD_FAILURE() << "no message of the connection manager";
        return {};
    }
    [[nodiscard]] std::size_t packets_by_datagrams() const {
        return static_cast<std::size_t>(
            std::count_if(device.datagrams.begin(), device.datagrams.end(),
                          [](const auto& datagram) { return u16_at(datagram.second, 0) != kTypeCm; }));
    }
    static Bytes udp_packet(std::size_t octets, std::uint16_t fragment = 0x4000) {
        Fields fields;
        fields.is_udp = true;
        fields.fragment = fragment;
        return packet_of(fields, Bytes(octets - 28));
    }
    /// A connection to the peer.
    Bytes connected() {
        const Bytes mac = announce(kSupportsRc);
        send(mac, udp_packet(100));
        answer();
        return mac;
    }

    Bytes frame;
    std::uint32_t receive_mtu = 65524;
    Device device;
    std::unique_ptr<Link> link;
};

TEST_F(IpoibConnectedLink, OwnAddressSaysSo) {
    link->on_frame(octets_of(
        "ffffffffffff 020000000001 0806 0001 0800 0604 0001 020000000001 0a090001 000000000000 0a090002"));
    ASSERT_EQ(device.datagrams.size(), 1U);
    EXPECT_EQ(u32_at(device.datagrams[0].second, 12), 0x80000011U);
}

TEST_F(IpoibConnectedLink, FlagsDecide) {
    // Heard by a datagram, which has no flags: no connection.
    const Bytes mac = announce(0);
    send(mac, udp_packet(100));
    EXPECT_EQ(link->connections()->size(), 0U);
    announce(kSupportsUc);
    send(mac, udp_packet(100));
    EXPECT_EQ(link->connections()->size(), 0U) << "UC alone";
    announce(kSupportsRc);
    receive(peer(), octets_of("08000000 45000018 00000000 40010000 0a090002 0a090001 01020304"));
    send(mac, udp_packet(100));
    EXPECT_EQ(link->connections()->size(), 1U) << "a datagram does not take the flags back";
    EXPECT_EQ(packets_by_datagrams(), 3U) << "until there is a connection short ones go by datagrams";
    answer();
    send(mac, udp_packet(100));
    ASSERT_EQ(device.messages.size(), 1U);
    EXPECT_EQ(device.messages[0].first, 0x101U);
    EXPECT_EQ(Bytes(device.messages[0].second.begin() + 4, device.messages[0].second.end()), udp_packet(100));
    EXPECT_EQ(u32_at(device.messages[0].second, 0), 0x08000000U);
    // A peer that is started in datagram mode says so.
    announce(0);
    send(mac, udp_packet(100));
    EXPECT_EQ(device.messages.size(), 1U);
}

TEST_F(IpoibConnectedLink, LongOnesWaitForTheConnection) {
    const Bytes mac = announce(kSupportsRc);
    for (int i = 0; i < 10; ++i) {
        send(mac, udp_packet(9000));
    }
    EXPECT_EQ(packets_by_datagrams(), 0U);
    EXPECT_EQ(link->counters().tx_held, 8U);
    EXPECT_EQ(link->counters().tx_no_slot, 2U) << "bounded";
    answer();
    ASSERT_EQ(device.messages.size(), 8U);
    EXPECT_EQ(device.messages[0].second.size(), 9004U);
    send(mac, udp_packet(65520));
    EXPECT_EQ(device.messages.size(), 9U);
    EXPECT_EQ(link->counters().tx_too_big, 0U);
}

TEST_F(IpoibConnectedLink, HeldOnesWhenNobodyAnswers) {
    const Bytes mac = announce(kSupportsRc);
    send(mac, udp_packet(9000));
    send(mac, udp_packet(9000, 0));
    for (std::uint64_t now = 2; now < 20'000; now += 50) {
        link->advance(now);
    }
    // With DF it is lost, without it is fragmented.
    EXPECT_EQ(link->counters().tx_no_connection, 1U);
    EXPECT_EQ(link->counters().tx_fragmented, 1U);
    EXPECT_EQ(packets_by_datagrams(), 5U);
    EXPECT_EQ(link->counters().tx_too_big, 0U) << "the kernel would keep to that";
}

TEST_F(IpoibConnectedLink, PeerThatTakesDatagramsAlone) {
    const Bytes mac = announce(0);
    const std::size_t before = device.delivered.size();
    send(mac, udp_packet(9000));
    ASSERT_EQ(device.delivered.size(), before + 1);
    const Bytes& error = device.delivered.back();
    EXPECT_EQ(read_mac(error), mac_of("020000000001"));
    EXPECT_EQ(Bytes(error.begin() + 6, error.begin() + 12), mac);
    EXPECT_EQ(u16_at(error, 14 + 20), 0x0304);
    EXPECT_EQ(u32_at(error, 14 + 24), 2044U);
    EXPECT_EQ(packets_by_datagrams(), 0U);
    send(mac, udp_packet(2044));
    EXPECT_EQ(packets_by_datagrams(), 1U);
    EXPECT_EQ(link->counters().tx_too_big, 1U);
    // Its checksum is complete when its fragments leave.
    Fields fields;
    fields.is_udp = true;
    fields.fragment = 0;
    Offload offload = offload_of(fields, 0);
    offload.segmentation = Segmentation::kNone;
    send(mac, packet_of(fields, Bytes(4000), true), offload);
    const Bytes whole = packet_of(fields, Bytes(4000));
    ASSERT_EQ(packets_by_datagrams(), 3U);
    EXPECT_EQ(Bytes(device.datagrams.back().second.begin() + 24, device.datagrams.back().second.end()),
              Bytes(whole.begin() + 20 + 2024, whole.end()));
}

TEST_F(IpoibConnectedLink, TcpIsCutForDatagrams) {
    const Bytes mac = announce(0);
    const Bytes data = Random(3).octets(50000);
    Offload offload = offload_of({}, 0);
    offload.segmentation = Segmentation::kNone;
    send(mac, packet_of({}, data, true), offload);
    const std::vector<Bytes> packets = packets_of({}, data, 2004);
    ASSERT_EQ(packets_by_datagrams(), packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
        EXPECT_EQ(Bytes(device.datagrams[i].second.begin() + 4, device.datagrams[i].second.end()),
                  packets[i]);
    }
    // In one piece, with segments of a connection's length.
    device.datagrams.clear();
    send(mac, packet_of({}, data, true), offload_of({}, 40000));
    EXPECT_EQ(packets_by_datagrams(), packets.size());
    // Where the checksum is somebody else's it is left as it is.
    device.datagrams.clear();
    send(mac, packet_of({}, data));
    EXPECT_EQ(packets_by_datagrams(), 0U);
    EXPECT_EQ(link->counters().tx_too_big, 1U);
}

TEST_F(IpoibConnectedLink, SegmentsByTheConnection) {
    const Bytes mac = connected();
    const Bytes data = Random(4).octets(60000);
    device.slots = 1;
    send(mac, packet_of({}, data, true), offload_of({}, 20000));
    EXPECT_TRUE(link->has_waiting_segments());
    device.slots = 100;
    link->resume();
    EXPECT_FALSE(link->has_waiting_segments());
    const std::vector<Bytes> packets = packets_of({}, data, 20000);
    ASSERT_EQ(device.messages.size(), packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
        EXPECT_EQ(Bytes(device.messages[i].second.begin() + 4, device.messages[i].second.end()), packets[i]);
    }
    // A peer that takes nothing while there is room for others: dropped, not waited for.
    device.slots = 0;
    device.free = 1;
    send(mac, packet_of({}, data, true), offload_of({}, 20000));
    EXPECT_FALSE(link->has_waiting_segments());
    EXPECT_EQ(link->counters().tx_no_slot, 1U);
    // The connection breaks in the middle.
    device.free = 0;
    send(mac, packet_of({}, data, true), offload_of({}, 20000));
    EXPECT_TRUE(link->has_waiting_segments());
    link->on_broken(0x101);
    link->resume();
    EXPECT_FALSE(link->has_waiting_segments());
    EXPECT_EQ(device.destroyed, std::vector<std::uint32_t>{0x101});
}

TEST_F(IpoibConnectedLink, PeerWithASmallerReceiveMtu) {
    receive_mtu = 9004;
    const Bytes mac = connected();
    send(mac, udp_packet(9000));
    EXPECT_EQ(device.messages.size(), 1U);
    send(mac, udp_packet(9001));
    EXPECT_EQ(device.messages.size(), 1U);
    EXPECT_EQ(u32_at(device.delivered.back(), 14 + 24), 9000U);
}

TEST_F(IpoibConnectedLink, GroupsGoByDatagrams) {
    connected();
    Bytes packet = udp_packet(9000, 0);
    const Bytes group = octets_of("efff0102");
    std::copy(group.begin(), group.end(), packet.begin() + 16);
    send(octets_of("01005e7f0102"), packet);
    EXPECT_EQ(link->counters().tx_multicast, 5U) << "fragments";
    EXPECT_TRUE(device.messages.empty());
    put_u16(packet, 6, 0x4000);
    send(octets_of("01005e7f0102"), packet);
    EXPECT_EQ(link->counters().tx_too_long, 1U) << "no error about a group";
    // Neighbour discovery and ARP, too.
    const std::size_t before = device.messages.size();
    link->on_frame(octets_of(
        "ffffffffffff 020000000001 0806 0001 0800 0604 0001 020000000001 0a090001 000000000000 0a090002"));
    EXPECT_EQ(device.messages.size(), before);
}

TEST_F(IpoibConnectedLink, WhatArrivesByAConnection) {
    const Bytes mac = connected();
    const std::size_t before = device.delivered.size();
    Bytes message = octets_of("08000000");
    const Bytes packet = udp_packet(65520);
    message.insert(message.end(), packet.begin(), packet.end());
    link->on_connected(0x101, message);
    ASSERT_EQ(device.delivered.size(), before + 1);
    EXPECT_EQ(device.delivered.back().size(), 14 + 65520U);
    EXPECT_EQ(Bytes(device.delivered.back().begin() + 6, device.delivered.back().begin() + 12), mac);
    // Of no connection, too short, of another type, to a group.
    link->on_connected(0x777, message);
    EXPECT_EQ(link->counters().rx_no_source, 1U);
    for (std::size_t octets = 0; octets <= kEncapsulationOctets; ++octets) {
        link->on_connected(0x101, ConstOctets(message).first(octets));
    }
    EXPECT_EQ(link->counters().rx_too_short, 5U);
    for (const char* type : {"08060000", "88b50000", "00000000"}) {
        Bytes other = message;
        const Bytes head = octets_of(type);
        std::copy(head.begin(), head.end(), other.begin());
        link->on_connected(0x101, other);
    }
    EXPECT_EQ(link->counters().rx_other_type, 3U);
    put_u32(message, 4 + 16, 0xEFFF0102);
    link->on_connected(0x101, message);
    EXPECT_EQ(link->counters().rx_other_type, 4U);
    EXPECT_EQ(device.delivered.size(), before + 1);
}

}  // namespace
}  // namespace urnic::ipoib::test
