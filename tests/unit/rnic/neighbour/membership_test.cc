#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rnic/neighbour/membership_reporter.h"
#include "rnic/wire/checksum.h"

namespace urnic::net::test {
namespace {

using Frame = std::vector<std::byte>;
constexpr TimeNs kSecondNs = 1'000'000'000;

Frame frame_of(const std::string& hex) {
    Frame bytes;
    for (std::size_t i = 0; i < hex.size();) {
        if (hex[i] == ' ') {
            ++i;
            continue;
        }
        bytes.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
        i += 2;
    }
    return bytes;
}

wire::Gid ipv6_group(std::uint8_t last) {
    wire::Gid gid{};
    gid[0] = 0xff;
    gid[1] = 0x12;
    gid[2] = 0x40;
    gid[3] = 0x1b;
    gid[15] = last;
    return gid;
}
wire::Gid ipv4_group(std::uint8_t last) {
    wire::Gid gid{};
    gid[10] = gid[11] = 0xff;
    gid[12] = 239;
    gid[13] = 1;
    gid[14] = 2;
    gid[15] = last;
    return gid;
}

MembershipSource source(std::uint16_t vlan = 0) {
    MembershipSource made;
    made.mac = {0x02, 0, 0, 0, 0, 1};
    made.ipv6[0] = 0xfe;
    made.ipv6[1] = 0x80;
    made.ipv6[15] = 1;
    made.ipv4 = ipv4_group(1);
    made.ipv4[12] = 10;
    made.ipv4[13] = 0;
    made.ipv4[14] = 0;
    made.vlan = vlan;
    return made;
}

Frame report(const MembershipSource& from, const std::vector<MembershipRecord>& records) {
    std::array<std::byte, kReportFrameBytes> frame{};
    const std::size_t bytes = build_membership_report(from, records, frame);
    return {frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)};
}
Frame old_report(const MembershipRecord& record) {
    std::array<std::byte, kReportFrameBytes> frame{};
    const std::size_t bytes = build_old_report(source(), record, frame);
    return {frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

// Checksums worked out by another program.
TEST(Membership, BytesOfMldV2) {
    EXPECT_EQ(report(source(), {{ipv6_group(5), RecordType::kToExclude}}),
              frame_of("333300000016 020000000001 86dd 60000000 0024 00 01 fe800000000000000000000000000001 "
                       "ff020000000000000000000000000016 3a00050200000100 8f00 2fda 0000 0001 04000000 "
                       "ff12401b000000000000000000000005"));
}

TEST(Membership, BytesOfIgmpV3) {
    EXPECT_EQ(
        report(source(7), {{ipv4_group(3), RecordType::kToInclude}, {ipv4_group(4), RecordType::kIsExclude}}),
        frame_of("01005e000016 020000000001 8100 0007 0800 46c0 0030 0000 4000 0102 f9f0 0a000001 e0000016 "
                 "94040000 2200 f6f2 0000 0002 03000000 ef010203 02000000 ef010204"));
}

TEST(Membership, BytesOfOlderOnes) {
    EXPECT_EQ(
        old_report({ipv4_group(3), RecordType::kToExclude}),
        frame_of("01005e010203 020000000001 0800 46c0 0020 0000 4000 0102 e912 0a000001 ef010203 94040000 "
                 "1600 f8fa ef010203 0000 0000 0000 0000 0000 0000 0000"));
    EXPECT_EQ(
        old_report({ipv4_group(3), RecordType::kToInclude}),
        frame_of("01005e000002 020000000001 0800 46c0 0020 0000 4000 0102 fa14 0a000001 e0000002 94040000 "
                 "1700 f7fa ef010203 0000 0000 0000 0000 0000 0000 0000"));
    EXPECT_EQ(old_report({ipv6_group(5), RecordType::kToExclude}),
              frame_of("333300000005 020000000001 86dd 60000000 0020 00 01 fe800000000000000000000000000001 "
                       "ff12401b000000000000000000000005 3a00050200000100 8300 ffc4 00000000 "
                       "ff12401b000000000000000000000005"));
    EXPECT_EQ(old_report({ipv6_group(5), RecordType::kToInclude}),
              frame_of("333300000002 020000000001 86dd 60000000 0020 00 01 fe800000000000000000000000000001 "
                       "ff020000000000000000000000000002 3a00050200000100 8400 3ef3 00000000 "
                       "ff12401b000000000000000000000005"));
}

const char* const kIgmpV3Query =
    "01005e000001 020000000099 0800 46c0 0024 0000 0000 0102 39b0 0a000063 e0000001 94040000 1114 eceb "
    "00000000 0200 0000";
const char* const kIgmpV2Specific =
    "01005e010203 020000000099 0800 46c0 0020 0000 0000 0102 28b1 0a000063 ef010203 94040000 110a fdf0 "
    "ef010203";
const char* const kMldV2Query =
    "333300000001 020000000099 86dd 60000000 0024 00 01 fe800000000000000000000000000099 "
    "ff020000000000000000000000000001 3a00050200000100 8200 567b 2710 0000 "
    "00000000000000000000000000000000 0200 0000";
const char* const kMldV1Specific =
    "333300000005 020000000099 86dd 60000000 0020 00 01 fe800000000000000000000000000099 "
    "ff12401b000000000000000000000005 3a00050200000100 8200 fc44 03e8 0000 "
    "ff12401b000000000000000000000005";

TEST(Membership, Queries) {
    const auto general = parse_membership_query(frame_of(kIgmpV3Query));
    ASSERT_TRUE(general);
    EXPECT_FALSE(general->is_old);
    EXPECT_FALSE(general->is_ipv6);
    EXPECT_EQ(general->group, wire::Gid{});
    EXPECT_EQ(general->max_response_ns, 2 * kSecondNs);
    const auto specific = parse_membership_query(frame_of(kIgmpV2Specific));
    ASSERT_TRUE(specific);
    EXPECT_TRUE(specific->is_old);
    EXPECT_EQ(specific->group, ipv4_group(3));
    EXPECT_EQ(specific->max_response_ns, kSecondNs);
    const auto mld = parse_membership_query(frame_of(kMldV2Query));
    ASSERT_TRUE(mld);
    EXPECT_TRUE(mld->is_ipv6);
    EXPECT_FALSE(mld->is_old);
    EXPECT_EQ(mld->max_response_ns, 10 * kSecondNs);
    const auto old_mld = parse_membership_query(frame_of(kMldV1Specific));
    ASSERT_TRUE(old_mld);
    EXPECT_TRUE(old_mld->is_old);
    EXPECT_EQ(old_mld->group, ipv6_group(5));
    EXPECT_EQ(old_mld->max_response_ns, kSecondNs);
    // Padded by Ethernet, and behind a VLAN tag.
    Frame padded = frame_of(kIgmpV2Specific);
    padded.resize(60);
    EXPECT_TRUE(parse_membership_query(padded));
    const Frame tag = frame_of("8100 0007");
    padded.insert(padded.begin() + 12, tag.begin(), tag.end());
    EXPECT_TRUE(parse_membership_query(padded));
}

TEST(Membership, QueriesThatLie) {
    for (const char* text : {kIgmpV3Query, kIgmpV2Specific, kMldV2Query, kMldV1Specific}) {
        const Frame good = frame_of(text);
        for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
            EXPECT_FALSE(parse_membership_query(std::span(good).first(bytes))) << text << bytes;
        }
        // Every bit behind the Ethernet header is covered by a checksum or looked at, but for what IPv6
        // leaves.
        for (std::size_t at = 14; at < good.size(); ++at) {
            Frame damaged = good;
            damaged[at] ^= std::byte{0x10};
            const bool is_free = text[0] == '3' && ((at < 18) || at == 14 + 46 || at == 14 + 47);
            EXPECT_TRUE(is_free || !parse_membership_query(damaged)) << text << " at " << at;
        }
    }
    EXPECT_FALSE(is_membership_query(report(source(), {{ipv4_group(3), RecordType::kToExclude}})));
    EXPECT_FALSE(is_membership_query(report(source(), {{ipv6_group(3), RecordType::kToExclude}})));
}

class MembershipReporting : public ::testing::Test, public ReportOutbox {
  protected:
    MembershipReporting() { reporter.set_sources({source()}); }
    void send_report(std::span<const std::byte> frame) override {
        sent.emplace_back(frame.begin(), frame.end());
    }
    std::vector<Frame> take() { return std::exchange(sent, {}); }
    void set(const std::vector<wire::Gid>& groups) { reporter.set_groups(groups, now, *this); }
    void advance(TimeNs by) {
        now += by;
        reporter.advance(now, *this);
    }
    static MembershipQuery query(bool is_ipv6, wire::Gid group = {}, bool is_old = false) {
        return {is_ipv6, is_old, group, kSecondNs};
    }

    TimeNs now = 1000 * kSecondNs;
    MembershipReporter reporter{1};
    std::vector<Frame> sent;
};

TEST_F(MembershipReporting, JoinsAndLeavesAreSaidTwice) {
    const std::vector<Frame> joins = {report(source(), {{ipv6_group(5), RecordType::kToExclude}})};
    set({ipv6_group(5)});
    EXPECT_EQ(take(), joins);
    EXPECT_LE(reporter.next_event(), now + kSecondNs);
    EXPECT_GT(reporter.next_event(), now);
    set({ipv6_group(5)});
    EXPECT_TRUE(take().empty()) << "no change";
    advance(kSecondNs);
    EXPECT_EQ(take(), joins);
    EXPECT_EQ(reporter.next_event(), kNever);
    advance(100 * kSecondNs);
    EXPECT_TRUE(take().empty());
    const std::vector<Frame> leaves = {report(source(), {{ipv6_group(5), RecordType::kToInclude}})};
    set({});
    EXPECT_EQ(take(), leaves);
    advance(kSecondNs);
    EXPECT_EQ(take(), leaves);
    EXPECT_EQ(reporter.next_event(), kNever);
    reporter.receive(query(true), now);
    advance(kSecondNs);
    EXPECT_TRUE(take().empty()) << "it is no member any more";
}

TEST_F(MembershipReporting, QueriesAreAnsweredInTime) {
    set({ipv6_group(5), ipv6_group(6), ipv4_group(3)});
    advance(kSecondNs);
    take();
    reporter.receive(query(true), now);
    EXPECT_LE(reporter.next_event(), now + kSecondNs);
    advance(kSecondNs);
    EXPECT_EQ(take(), (std::vector<Frame>{report(source(), {{ipv6_group(5), RecordType::kIsExclude},
                                                            {ipv6_group(6), RecordType::kIsExclude}})}));
    reporter.receive(query(false, ipv4_group(3)), now);
    reporter.receive(query(false, ipv4_group(4)), now);
    advance(kSecondNs);
    EXPECT_EQ(take(), (std::vector<Frame>{report(source(), {{ipv4_group(3), RecordType::kIsExclude}})}));
    EXPECT_EQ(reporter.next_event(), kNever);
}

TEST_F(MembershipReporting, OlderQuerierIsSpokenTo) {
    set({ipv4_group(3)});
    advance(kSecondNs);
    take();
    reporter.receive(query(false, {}, true), now);
    advance(kSecondNs);
    EXPECT_EQ(take(), (std::vector<Frame>{old_report({ipv4_group(3), RecordType::kIsExclude})}));
    set({});
    EXPECT_EQ(take(), (std::vector<Frame>{old_report({ipv4_group(3), RecordType::kToInclude})}));
    // The other family's querier is another one; and an old one that is gone counts no more.
    set({ipv6_group(5)});
    EXPECT_EQ(take().back(), report(source(), {{ipv6_group(5), RecordType::kToExclude}}));
    advance(260 * kSecondNs);
    take();
    set({ipv6_group(5), ipv4_group(9)});
    EXPECT_EQ(take(), (std::vector<Frame>{report(source(), {{ipv4_group(9), RecordType::kToExclude}})}));
}

TEST_F(MembershipReporting, ManyGroupsInFramesOfSome) {
    reporter.set_sources({source(), source(7)});
    std::vector<wire::Gid> groups;
    for (std::uint8_t number = 1; number <= 40; ++number) {
        groups.push_back(ipv6_group(number));
        groups.push_back(ipv4_group(number));
    }
    set(groups);
    // 8 of MLD and 3 of IGMP, on both VLANs.
    EXPECT_EQ(sent.size(), 22U);
    for (const Frame& frame : take()) {
        EXPECT_LE(frame.size(), kReportFrameBytes);
    }
}

TEST_F(MembershipReporting, SomeGroupsAreNeverReported) {
    wire::Gid all_nodes{};
    all_nodes[0] = 0xff;
    all_nodes[1] = 2;
    all_nodes[15] = 1;
    wire::Gid own_host = all_nodes;
    own_host[1] = 1;
    wire::Gid all_hosts = ipv4_group(1);
    all_hosts[12] = 224;
    all_hosts[13] = all_hosts[14] = 0;
    set({all_nodes, own_host, all_hosts});
    EXPECT_TRUE(take().empty());
}

}  // namespace
}  // namespace urnic::net::test
