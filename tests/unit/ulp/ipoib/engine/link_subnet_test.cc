// A link whose groups and ways come from a subnet administrator: what waits, what is asked again, what is
// lost.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/unit/ulp/ipoib/octets_of.h"
#include "ulp/ipoib/engine/link.h"

namespace urnic::ipoib::test {
namespace {

class IpoibSubnetLink : public ::testing::Test, public Outbox {
  protected:
    ~IpoibSubnetLink() override {
        link_.reset();
        EXPECT_TRUE(joined_.empty()) << "groups are left at the end";
        EXPECT_EQ(handles_, 0) << "handles are destroyed at the end";
    }
    static LinkConfig config() {
        LinkConfig config;
        config.own = {0, 0x11, gid_of("fe80::1")};
        config.own_mac = mac_of("020000000001");
        config.max_groups = 3;
        return config;
    }
    [[nodiscard]] AddressHandle create_handle(const Gid& destination) override {
        const auto found = ways_.find(destination);
        const Progress progress = found == ways_.end() ? Progress::kPending : found->second;
        if (progress == Progress::kDone) {
            ++handles_;
            return ++next_handle_;
        }
        return progress == Progress::kPending ? kPendingHandle : 0;
    }
    void destroy_handle(AddressHandle /*handle*/) override { --handles_; }
    [[nodiscard]] bool send(AddressHandle /*handle*/, std::uint32_t qpn, ConstOctets /*header*/,
                            ConstOctets payload) override {
        sent_.emplace_back(qpn, u8_at(payload, payload.size() - 1));
        return true;
    }
    void deliver(ConstOctets /*header*/, ConstOctets /*payload*/) override {}
    [[nodiscard]] Progress join(const Gid& group) override {
        const auto found = ways_.find(group);
        const Progress progress = found == ways_.end() ? Progress::kPending : found->second;
        if (progress != Progress::kFailed) {
            joined_.insert(group);
        }
        return progress;
    }
    void leave(const Gid& group) override { EXPECT_EQ(joined_.erase(group), 1U); }

    /// What the administrator says of it, and that the link is told.
    void settle(const Gid& gid, Progress progress) {
        ways_[gid] = progress;
        link().on_settled(gid);
    }
    Link& link() {
        if (link_ == nullptr) {
            link_ = std::make_unique<Link>(config(), *this);
        }
        return *link_;
    }
    /// An IPv4 packet to 239.0.0.N whose last octet is `mark`.
    void send_to_group(unsigned number, unsigned mark) {
        Bytes frame =
            octets_of("01005e000000 020000000001 0800 45000018 00000000 40110000 0a090001 ef000000 01020304");
        frame[5] = frame[33] = static_cast<std::byte>(number);
        frame.back() = static_cast<std::byte>(mark);
        link().on_frame(frame);
    }
    static Gid group_gid(std::uint32_t number) { return ipv4_group_gid({}, 0xEF000000U + number); }

    std::map<Gid, Progress> ways_;
    std::set<Gid> joined_;
    std::vector<std::pair<std::uint32_t, unsigned>> sent_;
    int handles_ = 0;
    AddressHandle next_handle_ = 0;
    std::unique_ptr<Link> link_;
};

TEST_F(IpoibSubnetLink, IsUpWhenTheBroadcastGroupIsJoined) {
    EXPECT_FALSE(link().join_broadcast());
    EXPECT_FALSE(link().is_up());
    EXPECT_EQ(link().counters().joins_failed, 0U) << "not yet is no failure";
    settle(broadcast_gid({}), Progress::kFailed);
    EXPECT_FALSE(link().join_broadcast());
    EXPECT_EQ(link().counters().joins_failed, 1U);
    settle(broadcast_gid({}), Progress::kDone);
    EXPECT_TRUE(link().join_broadcast());
    EXPECT_TRUE(link().is_up());
}

TEST_F(IpoibSubnetLink, PacketsWaitForTheWay) {
    for (unsigned mark = 1; mark <= 4; ++mark) {
        send_to_group(1, mark);
    }
    send_to_group(2, 5);
    EXPECT_TRUE(sent_.empty());
    EXPECT_EQ(link().counters().tx_no_handle, 1U) << "three wait for one destination";
    settle(group_gid(1), Progress::kDone);
    const std::vector<std::pair<std::uint32_t, unsigned>> in_order = {
        {kMulticastQpn, 1}, {kMulticastQpn, 2}, {kMulticastQpn, 3}};
    EXPECT_EQ(sent_, in_order);
    EXPECT_EQ(link().counters().tx_packets, 3U);
    EXPECT_EQ(handles_, 1);
    // Without a way they are lost.
    settle(group_gid(2), Progress::kFailed);
    EXPECT_EQ(link().counters().tx_no_handle, 2U);
    EXPECT_EQ(sent_.size(), 3U);
    send_to_group(1, 6);
    EXPECT_EQ(sent_.size(), 4U);
}

TEST_F(IpoibSubnetLink, NotMoreWaitThanThereIsRoomFor) {
    for (unsigned group = 1; group <= 70; ++group) {
        send_to_group(group, 0);
    }
    EXPECT_EQ(link().counters().tx_no_handle, 6U);
    for (unsigned group = 1; group <= 70; ++group) {
        settle(group_gid(group), Progress::kDone);
    }
    EXPECT_EQ(sent_.size(), 64U);
}

TEST_F(IpoibSubnetLink, SegmentsDoNotWait) {
    Bytes frame(kEthernetHeaderOctets + 40 + 3000);
    const Bytes begin = octets_of(
        "01005e000001 020000000001 0800 45000be0 00000000 40060000 0a090001 ef000001 00010002 00000000 "
        "00000000 50100000");
    std::copy(begin.begin(), begin.end(), frame.begin());
    Offload offload;
    offload.segmentation = Segmentation::kTcpIpv4;
    offload.segment_octets = 1000;
    offload.needs_checksum = true;
    offload.checksum_start = kEthernetHeaderOctets + 20;
    offload.checksum_offset = 16;
    link().on_frame(frame, offload);
    EXPECT_FALSE(link().has_waiting_segments()) << "the link would stand still";
    EXPECT_EQ(link().counters().tx_no_handle, 1U);
}

TEST_F(IpoibSubnetLink, GroupsAreJoinedWhenTheAnswerComes) {
    const std::uint32_t one = 0xEF000001;
    const std::uint32_t two = 0xEF000002;
    const std::uint32_t both[] = {one, two};
    link().set_memberships(both, {});
    EXPECT_EQ(link().groups(), 0U);
    EXPECT_EQ(link().counters().joins_failed, 0U);
    settle(group_gid(1), Progress::kDone);
    link().set_memberships(both, {});
    EXPECT_EQ(link().groups(), 1U);
    // The kernel leaves one that is still being joined.
    link().set_memberships(std::span(both).first(1), {});
    EXPECT_FALSE(joined_.contains(group_gid(2)));
    // As many as there is room for, those counted that are being joined.
    const std::uint32_t many[] = {one, two, 0xEF000003, 0xEF000004, 0xEF000005};
    link().set_memberships(many, {});
    EXPECT_EQ(joined_.size(), 3U);
    EXPECT_EQ(link().counters().joins_failed, 2U);
}

TEST_F(IpoibSubnetLink, HandlesOfGroupsEndWithTheMembership) {
    const std::uint32_t group[] = {0xEF000001};
    ways_[group_gid(1)] = Progress::kDone;
    link().set_memberships(group, {});
    send_to_group(1, 1);
    EXPECT_EQ(handles_, 1);
    link().set_memberships({}, {});
    EXPECT_EQ(handles_, 0) << "the next packet joins as sender";
    send_to_group(1, 2);
    EXPECT_EQ(handles_, 1);
    EXPECT_EQ(sent_.size(), 2U);
}

TEST_F(IpoibSubnetLink, WhoHasOnlySentThereMayHaveHadAnotherLid) {
    const std::uint32_t group[] = {0xEF000001};
    ways_[group_gid(1)] = Progress::kDone;
    send_to_group(1, 1);
    EXPECT_EQ(next_handle_, 1U);
    link().set_memberships(group, {});
    send_to_group(1, 2);
    EXPECT_EQ(next_handle_, 2U) << "a member";
    link().forget_handle(group_gid(1));
    send_to_group(1, 3);
    EXPECT_EQ(next_handle_, 3U) << "its membership was over";
    EXPECT_EQ(handles_, 1);
}

TEST_F(IpoibSubnetLink, AnotherSubnet) {
    const std::uint32_t group[] = {0xEF000001};
    for (const Gid& gid : {broadcast_gid({}), group_gid(1)}) {
        ways_[gid] = Progress::kDone;
    }
    ASSERT_TRUE(link().join_broadcast());
    link().set_memberships(group, {});
    send_to_group(1, 1);
    send_to_group(2, 2);
    link().forget_subnet();
    EXPECT_FALSE(link().is_up());
    EXPECT_EQ(handles_, 0);
    EXPECT_TRUE(joined_.empty());
    settle(group_gid(2), Progress::kDone);
    EXPECT_EQ(sent_.size(), 1U) << "what waited is lost";
    EXPECT_TRUE(link().join_broadcast());
    link().set_memberships(group, {});
    EXPECT_EQ(joined_.size(), 2U);
    send_to_group(1, 3);
    EXPECT_EQ(sent_.back().second, 3U);
}

}  // namespace
}  // namespace urnic::ipoib::test
