#include "ulp/ipoib/engine/link.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "tests/unit/ulp/ipoib/packet_of.h"

namespace urnic::ipoib::test {
namespace {

struct Sent {
    AddressHandle handle;
    std::uint32_t qpn;
    Bytes datagram;
};

class IpoibLink : public ::testing::Test, public Outbox {
  protected:
    IpoibLink() { EXPECT_TRUE(link().join_broadcast()); }
    ~IpoibLink() override {
        link_.reset();
        EXPECT_TRUE(joined_.empty()) << "groups are left at the end";
        EXPECT_TRUE(handles_.empty()) << "handles are destroyed at the end";
    }
    Link& link() {
        if (link_ == nullptr) {
            link_ = std::make_unique<Link>(config(), *this);
        }
        return *link_;
    }
    static LinkConfig config() {
        LinkConfig config;
        config.own = {0, 0x11, gid_of("fe80::ff:fe00:1")};
        config.own_mac = mac_of("020000000001");
        config.max_neighbours = 4;
        config.max_groups = 3;
        return config;
    }
    [[nodiscard]] AddressHandle create_handle(const Gid& destination) override {
        if (!has_handles_) {
            return 0;
        }
        handles_[next_handle_] = destination;
        return next_handle_++;
    }
    void destroy_handle(AddressHandle handle) override { EXPECT_EQ(handles_.erase(handle), 1U); }
    [[nodiscard]] bool send(AddressHandle handle, std::uint32_t qpn, ConstOctets header,
                            ConstOctets payload) override {
        Bytes datagram(header.begin(), header.end());
        datagram.insert(datagram.end(), payload.begin(), payload.end());
        if (slots_ == 0) {
            return false;
        }
        --slots_;
        sent_.push_back({handle, qpn, datagram});
        return true;
    }
    void deliver(ConstOctets header, ConstOctets payload) override {
        Bytes frame(header.begin(), header.end());
        frame.insert(frame.end(), payload.begin(), payload.end());
        delivered_.push_back(frame);
    }
    [[nodiscard]] Progress join(const Gid& group) override {
        return joined_.insert(group).second ? Progress::kDone : Progress::kFailed;
    }
    void leave(const Gid& group) override { EXPECT_EQ(joined_.erase(group), 1U); }

    /// A datagram from that neighbour.
    void receive(const LinkAddress& from, const std::string& payload,
                 const Gid& to = gid_of("fe80::ff:fe00:1")) {
        Bytes grh(kGrhOctets);
        put_u8(grh, 0, 0x60);
        std::copy(from.gid.begin(), from.gid.end(), grh.begin() + 8);
        std::copy(to.begin(), to.end(), grh.begin() + 24);
        link().on_datagram(grh, from.qpn, octets_of(payload));
    }
    static LinkAddress node(std::uint32_t number) {
        LinkAddress address{0, 0x20 + number, gid_of("fe80::ff:fe00:0")};
        put_u16(address.gid, 14, static_cast<std::uint16_t>(number));
        return address;
    }
    static constexpr const char* kPacket = "08000000 45000018 00000000 40010000 0a090002 0a090001 01020304";

    bool has_handles_ = true;
    std::size_t slots_ = 1000;
    std::map<AddressHandle, Gid> handles_;
    std::set<Gid> joined_;
    std::vector<Sent> sent_;
    std::vector<Bytes> delivered_;
    AddressHandle next_handle_ = 1;
    std::unique_ptr<Link> link_;
};

TEST_F(IpoibLink, ArpRequestGoesToTheBroadcastGroup) {
    link().on_frame(octets_of(
        "ffffffffffff 020000000001 0806 0001 0800 0604 0001 020000000001 0a090001 000000000000 0a090002"));
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].qpn, kMulticastQpn);
    EXPECT_EQ(handles_[sent_[0].handle], gid_of("ff12:401b:ffff::ffff:ffff"));
    EXPECT_EQ(sent_[0].datagram,
              octets_of("08060000 00200800 14040001 00000011 fe800000 00000000 000000ff fe000001 0a090001 "
                        "00000000 00000000 00000000 00000000 00000000 0a090002"));
}

TEST_F(IpoibLink, ReplyGoesToTheAddressInsideTheRequest) {
    // The request says QP 0x99, its datagram comes from another one.
    receive(node(2),
            "08060000 00200800 14040001 00000099 fe800000 00000000 000000ff fe000002 0a090002 "
            "00000000 00000000 00000000 00000000 00000000 0a090001");
    ASSERT_EQ(delivered_.size(), 1U);
    const Bytes& frame = delivered_[0];
    EXPECT_EQ(read_mac(frame), kBroadcastMac);
    Bytes reply = octets_of(
        "000000000000 020000000001 0806 0001 0800 0604 0002 020000000001 0a090001 000000000000 0a090002");
    std::copy_n(frame.begin() + 22, 6, reply.begin());
    std::copy_n(frame.begin() + 22, 6, reply.begin() + 32);
    link().on_frame(reply);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(sent_[0].qpn, 0x99U);
    EXPECT_EQ(handles_[sent_[0].handle], gid_of("fe80::ff:fe00:2"));
}

TEST_F(IpoibLink, UnicastBothWays) {
    receive(node(2), kPacket);
    ASSERT_EQ(delivered_.size(), 1U);
    EXPECT_EQ(read_mac(delivered_[0]), mac_of("020000000001"));
    EXPECT_EQ(Bytes(delivered_[0].begin() + 12, delivered_[0].end()),
              octets_of(std::string("0800 ") + (kPacket + 9)));
    Bytes frame = delivered_[0];
    std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
    link().on_frame(frame);
    link().on_frame(frame);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[0].qpn, 0x22U);
    EXPECT_EQ(sent_[0].datagram, octets_of(kPacket));
    EXPECT_EQ(sent_[0].handle, sent_[1].handle) << "one handle a neighbour";
}

TEST_F(IpoibLink, GroupsByTheDestinationOfIp) {
    // 239.255.1.2 and 224.127.1.2 have one MAC and two groups.
    link().on_frame(
        octets_of("01005e7f0102 020000000001 0800 45000018 00000000 40010000 0a090001 efff0102 01020304"));
    link().on_frame(
        octets_of("01005e7f0102 020000000001 0800 45000018 00000000 40010000 0a090001 e07f0102 01020304"));
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(handles_[sent_[0].handle], gid_of("ff12:401b:ffff::fff:102"));
    EXPECT_EQ(handles_[sent_[1].handle], gid_of("ff12:401b:ffff::7f:102"));
    receive(node(2), "08000000 45000018 00000000 40010000 0a090002 efff0102 01020304",
            gid_of("ff12:401b:ffff::fff:102"));
    ASSERT_EQ(delivered_.size(), 1U);
    EXPECT_EQ(read_mac(delivered_[0]), mac_of("01005e7f0102"));
    EXPECT_EQ(link().counters().rx_multicast, 1U);
}

TEST_F(IpoibLink, WhatIsDroppedIsCounted) {
    const std::string to_nobody =
        "024900000077 020000000001 0800 45000018 00000000 40010000 0a090001 0a090002 01020304";
    link().on_frame(octets_of(to_nobody));
    link().on_frame(octets_of("ffffffffffff 020000000001 88cc 0000"));
    link().on_frame(
        octets_of("0180c2000000 020000000001 0800 45000018 00000000 40010000 0a090001 0a090002 01020304"));
    link().on_frame(octets_of("ffffffffffff 02000000"));
    Bytes longest = octets_of("ffffffffffff 020000000001 0800");
    longest.resize(14 + kDefaultMtu);
    link().on_frame(longest);
    longest.resize(14 + kDefaultMtu + 1);
    link().on_frame(longest);
    const LinkCounters& counters = link().counters();
    EXPECT_EQ(counters.tx_unknown_neighbour, 1U);
    EXPECT_EQ(counters.tx_other_type, 2U);
    EXPECT_EQ(counters.tx_malformed, 1U);
    EXPECT_EQ(counters.tx_too_long, 1U);
    EXPECT_EQ(counters.tx_packets, 1U);
    slots_ = 0;
    longest.resize(14 + 20);
    link().on_frame(longest);
    EXPECT_EQ(counters.tx_no_slot, 1U);
}

TEST_F(IpoibLink, WhatArrivesWrongIsCounted) {
    receive(node(2), "08000000");
    receive({0, 0x11, gid_of("fe80::ff:fe00:1")}, kPacket);
    receive(node(2), "88cc0000 00000000");
    receive({0, 1, gid_of("fe80::2")}, kPacket);
    receive(node(2), kPacket, gid_of("fe80::77"));
    receive(node(2), "08060000 00200800 1404");
    std::string too_long = "08000000 ";
    for (std::uint32_t i = 0; i <= kDefaultMtu; ++i) {
        too_long += "00";
    }
    receive(node(2), too_long);
    const LinkCounters& counters = link().counters();
    EXPECT_EQ(counters.rx_too_short, 1U);
    EXPECT_EQ(counters.rx_own, 1U);
    EXPECT_EQ(counters.rx_other_type, 2U);
    EXPECT_EQ(counters.rx_no_source, 1U);
    EXPECT_EQ(counters.rx_malformed, 1U);
    EXPECT_EQ(counters.rx_too_long, 1U);
    EXPECT_EQ(counters.rx_packets, 0U);
    // The reserved half of the encapsulation header is ignored (RFC 4391, section 6).
    receive(node(2), "0800abcd 45000018 00000000 40010000 0a090002 0a090001 01020304");
    EXPECT_EQ(counters.rx_packets, 1U);
}

class IpoibLinkOffload : public IpoibLink {
  protected:
    /// A frame to node 2, which has said something before.
    Bytes frame_of(const Bytes& packet) {
        receive(node(2), kPacket);
        Bytes frame(delivered_.back().begin() + 6, delivered_.back().begin() + 12);
        const Bytes rest = octets_of("020000000001 0800");
        frame.insert(frame.end(), rest.begin(), rest.end());
        frame.insert(frame.end(), packet.begin(), packet.end());
        return frame;
    }
};

TEST_F(IpoibLinkOffload, FrameIsCutAndSegmentsWaitForSlots) {
    const Bytes data = Random(1).octets(5000);
    Bytes frame = frame_of(packet_of({}, data, true));
    slots_ = 2;
    link().on_frame(frame, offload_of({}, 1000));
    EXPECT_EQ(sent_.size(), 2U);
    EXPECT_TRUE(link().has_waiting_segments());
    link().resume();
    EXPECT_EQ(sent_.size(), 2U);
    slots_ = 100;
    link().resume();
    EXPECT_FALSE(link().has_waiting_segments());
    link().resume();
    const std::vector<Bytes> packets = packets_of({}, data, 1000);
    ASSERT_EQ(sent_.size(), packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
        Bytes datagram = octets_of("08000000");
        datagram.insert(datagram.end(), packets[i].begin(), packets[i].end());
        EXPECT_EQ(sent_[i].datagram, datagram);
        EXPECT_EQ(sent_[i].qpn, 0x22U);
    }
    EXPECT_EQ(link().counters().tx_packets, 5U);
    EXPECT_EQ(link().counters().tx_octets, 5000U + 5 * 40);
    EXPECT_EQ(link().counters().tx_segmented, 1U);
    EXPECT_EQ(link().counters().tx_no_slot, 0U);
}

TEST_F(IpoibLinkOffload, NeighbourThatGoesMeanwhile) {
    Bytes frame = frame_of(packet_of({}, Bytes(5000), true));
    slots_ = 1;
    link().on_frame(frame, offload_of({}, 1000));
    // Its entry and its handle are others' now.
    for (std::uint32_t number = 3; number < 20; ++number) {
        receive(node(number), kPacket);
    }
    slots_ = 100;
    link().resume();
    ASSERT_EQ(sent_.size(), 5U);
    EXPECT_EQ(handles_[sent_[4].handle], node(2).gid);
    // A handle that cannot be made ends it.
    slots_ = 1;
    link().on_frame(frame = frame_of(packet_of({}, Bytes(5000), true)), offload_of({}, 1000));
    for (std::uint32_t number = 3; number < 20; ++number) {
        receive(node(number), kPacket);
    }
    has_handles_ = false;
    slots_ = 100;
    link().resume();
    EXPECT_FALSE(link().has_waiting_segments());
    EXPECT_EQ(link().counters().tx_no_handle, 1U);
}

TEST_F(IpoibLinkOffload, ChecksumIsCompleted) {
    Bytes frame = frame_of(packet_of({}, Bytes(77), true));
    Offload offload = offload_of({}, 0);
    offload.segmentation = Segmentation::kNone;
    link().on_frame(frame, offload);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(Bytes(sent_[0].datagram.begin() + 4, sent_[0].datagram.end()), packet_of({}, Bytes(77)));
}

TEST_F(IpoibLinkOffload, WhatLiesIsCounted) {
    Bytes frame = frame_of(packet_of({}, Bytes(5000), true));
    const Offload good = offload_of({}, 1000);
    Offload offload = good;
    offload.segmentation = Segmentation::kNone;
    offload.checksum_start = 0xFFFF;
    link().on_frame(frame, offload);
    EXPECT_EQ(link().counters().tx_malformed, 1U);
    offload = good;
    offload.segment_octets = 0;
    link().on_frame(frame, offload);
    EXPECT_EQ(link().counters().tx_malformed, 2U);
    link().on_frame(Octets(frame).first(14), good);
    EXPECT_EQ(link().counters().tx_malformed, 3U);
    offload.segment_octets = 3000;
    link().on_frame(frame, offload);
    EXPECT_EQ(link().counters().tx_too_long, 1U);
    Bytes wrong_type = frame;
    put_u16(wrong_type, 12, kTypeIpv6);
    link().on_frame(wrong_type, good);
    EXPECT_EQ(link().counters().tx_malformed, 4U);
    put_u32(frame, 2, 0x77777777);
    link().on_frame(frame, good);
    EXPECT_EQ(link().counters().tx_unknown_neighbour, 1U);
    EXPECT_TRUE(sent_.empty());
    EXPECT_FALSE(link().has_waiting_segments());
}

TEST_F(IpoibLink, TableIsBounded) {
    for (std::uint32_t number = 2; number < 100; ++number) {
        receive(node(number), kPacket);
        EXPECT_LE(link().neighbours(), 4U);
        Bytes frame = delivered_.back();
        std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
        link().on_frame(frame);
    }
    EXPECT_LE(handles_.size(), 4U) << "handles go with their neighbours";
    EXPECT_EQ(sent_.size(), 98U);
    EXPECT_EQ(link().neighbour_evictions(), 94U);
    // The first neighbour is forgotten: its MAC is nobody's.
    Bytes frame = delivered_.front();
    std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
    link().on_frame(frame);
    EXPECT_EQ(link().counters().tx_unknown_neighbour, 1U);
}

TEST_F(IpoibLink, WhoIsOnlyNamedPutsNobodyOut) {
    receive(node(2), kPacket);
    Bytes frame = delivered_.back();
    std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
    for (std::uint32_t number = 0; number < 100; ++number) {
        // One member asks in the name of another QP each time.
        Bytes request = octets_of(
            "08060000 00200800 14040001 00000000 fe800000 00000000 000000ff fe000003 0a090003 "
            "00000000 00000000 00000000 00000000 00000000 0a090001");
        put_u32(request, 12, 0x1000 + number);
        Bytes grh(kGrhOctets);
        put_u8(grh, 0, 0x60);
        const Gid from = node(3).gid;
        std::copy(from.begin(), from.end(), grh.begin() + 8);
        const Gid to = broadcast_gid({});
        std::copy(to.begin(), to.end(), grh.begin() + 24);
        link().on_datagram(grh, node(3).qpn, request);
        EXPECT_LE(link().neighbours(), 4U);
    }
    EXPECT_EQ(delivered_.size(), 101U);
    EXPECT_EQ(link().neighbour_evictions(), 98U);
    link().on_frame(frame);
    EXPECT_EQ(link().counters().tx_unknown_neighbour, 0U);
    ASSERT_EQ(sent_.size(), 1U);
    EXPECT_EQ(handles_[sent_[0].handle], node(2).gid);
    // The last that was named can be answered, and is known for good once it was seen.
    Bytes reply = octets_of(
        "000000000000 020000000001 0806 0001 0800 0604 0002 020000000001 0a090001 000000000000 0a090003");
    std::copy_n(delivered_.back().begin() + 22, 6, reply.begin());
    std::copy_n(delivered_.back().begin() + 22, 6, reply.begin() + 32);
    link().on_frame(reply);
    ASSERT_EQ(sent_.size(), 2U);
    EXPECT_EQ(sent_[1].qpn, 0x1000U + 99);
}

TEST_F(IpoibLink, PeerWithAnotherQpnIsAnotherNeighbour) {
    receive(node(2), kPacket);
    LinkAddress restarted = node(2);
    restarted.qpn = 0x77;
    receive(restarted, kPacket);
    EXPECT_NE(Bytes(delivered_[0].begin() + 6, delivered_[0].begin() + 12),
              Bytes(delivered_[1].begin() + 6, delivered_[1].begin() + 12));
}

TEST_F(IpoibLink, MembershipsAreFollowed) {
    const std::vector<std::uint32_t> first = {0xE0000001, 0xEFFF0102, 0xFFFFFFFF};
    const std::vector<Ipv6Address> none;
    link().set_memberships(first, none);
    EXPECT_EQ(joined_.size(), 3U) << "the broadcast group is joined once";
    const std::vector<std::uint32_t> second = {0xE0000001};
    const std::vector<Ipv6Address> two_scopes = {gid_of("ff02::1"), gid_of("ff05::1")};
    link().set_memberships(second, two_scopes);
    EXPECT_EQ(joined_,
              (std::set<Gid>{broadcast_gid({}), gid_of("ff12:401b:ffff::1"), gid_of("ff12:601b:ffff::1")}));
    const std::vector<std::uint32_t> many = {0xE0000001, 0xE0000002, 0xE0000003, 0xE0000004, 0xE0000005};
    link().set_memberships(many, none);
    EXPECT_EQ(link().groups(), 3U);
    EXPECT_EQ(link().counters().joins_failed, 2U);
}

}  // namespace
}  // namespace urnic::ipoib::test
