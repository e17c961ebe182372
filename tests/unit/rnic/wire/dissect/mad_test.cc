// Management datagrams as text: each class's attributes, tables of records, and what is cut or lies.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "rnic/wire/dissect/describe_mad.h"
#include "rnic/wire/mad/attribute_layout.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/mad/performance_attributes.h"
#include "tests/support/hex.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

std::vector<std::byte> datagram(const std::string& hex) {
    std::vector<std::byte> bytes = test::from_hex(hex);
    EXPECT_LE(bytes.size(), kMadBytes);
    bytes.resize(kMadBytes);
    return bytes;
}

std::vector<Layer> layers_of(std::span<const std::byte> bytes) {
    std::vector<Layer> layers;
    add_mad(bytes, layers);
    return layers;
}

std::string names_of(const std::vector<Layer>& layers) {
    std::string names;
    for (const Layer& layer : layers) {
        names += (names.empty() ? "" : ", ") + layer.name;
    }
    return names;
}

/// Name and text of each field of the last layer.
std::map<std::string, std::string> last_of(const std::vector<Layer>& layers) {
    std::map<std::string, std::string> fields;
    for (const DescribedField& field : layers.back().fields) {
        fields[field.name] = field.text;
    }
    return fields;
}

std::string directed(const std::string& attribute, const std::string& data) {
    return "01 81 01 81 8000 00 01 0000000000000001 " + attribute +
           " 0000 00000000 0000000000000000 ffff ffff" + test::repeated("00", 28) + data;
}

// The NodeInfo of a ConnectX switch port, by the offsets of IBA table 143.
TEST(MadLayers, NodeInfo) {
    const auto layers = layers_of(datagram(directed(
        "0011",
        "01 01 02 24 0002c90300a1b2c3 0002c90300a1b2c0 0002c90300a1b2c1 0008 c738 000000a1 13 0002c9")));
    EXPECT_EQ(names_of(layers), "SMP directed route, NodeInfo");
    const auto fields = last_of(layers);
    EXPECT_EQ(fields.at("node_type"), "2 (switch)");
    EXPECT_EQ(fields.at("num_ports"), "36");
    EXPECT_EQ(fields.at("system_image_guid"), "0x0002c90300a1b2c3");
    EXPECT_EQ(fields.at("port_guid"), "0x0002c90300a1b2c1");
    EXPECT_EQ(fields.at("device_id"), "0xc738");
    EXPECT_EQ(fields.at("local_port_num"), "19");
    EXPECT_EQ(fields.at("vendor_id"), "0x0002c9");
}

// IBA table 146: LID 7 of SM 1, port 1, 4X at 10 Gb/s or EDR, Active, LinkUp, MTU 4096, VL0-3.
TEST(MadLayers, PortInfo) {
    const auto fields = last_of(layers_of(datagram(directed(
        "0015",
        "00000000000000aa fe80000000000000 0007 0001 02514868 0000 0000 01 03 03 02 14 52 00 11 54 40 "
        "00 08 08 05 00 40 00 00 00 00 00 00 08 92 10 88 0000 00 00 00 00 0000 22 02"))));
    EXPECT_EQ(fields.at("m_key"), "0x00000000000000aa");
    EXPECT_EQ(fields.at("lid"), "0x0007");
    EXPECT_EQ(fields.at("master_sm_lid"), "0x0001");
    EXPECT_EQ(fields.at("link_width_active"), "2 (4X)");
    EXPECT_EQ(fields.at("port_state"), "4 (Active)");
    EXPECT_EQ(fields.at("port_physical_state"), "5 (LinkUp)");
    EXPECT_EQ(fields.at("link_down_default_state"), "2 (Polling)");
    EXPECT_EQ(fields.at("link_speed_active"), "1 (2.5 Gb/s)");
    EXPECT_EQ(fields.at("neighbor_mtu"), "5 (4096)");
    EXPECT_EQ(fields.at("vl_cap"), "4 (VL0-7)");
    EXPECT_EQ(fields.at("operational_vls"), "4 (VL0-7)");
    EXPECT_EQ(fields.at("client_reregister"), "1");
    EXPECT_EQ(fields.at("subnet_timeout"), "18");
    EXPECT_EQ(fields.at("resp_time_value"), "16");
    EXPECT_EQ(fields.at("link_speed_ext_active"), "2 (25.78125 Gb/s)");
    EXPECT_EQ(fields.at("link_speed_ext_enabled"), "0x02");
}

TEST(MadLayers, TablesAreShownBriefly) {
    auto fields = last_of(layers_of(datagram(directed("0016", "ffff 8001 7fff"))));
    EXPECT_EQ(fields.at("pkeys"), "0xffff 0x8001 0x7fff 0x0000 x29");
    fields = last_of(layers_of(datagram(directed("0019", "ff 00 03 03"))));
    EXPECT_EQ(fields.at("ports"), "255 0 3 x2 0 x60");
    fields = last_of(layers_of(datagram(directed("0017", "01 23 00 00 00 00 00 0f"))));
    EXPECT_EQ(fields.at("sl1"), "1");
    EXPECT_EQ(fields.at("sl3"), "3");
    EXPECT_EQ(fields.at("sl15"), "15");
    fields = last_of(layers_of(datagram(directed("0010", "6c 65 61 66 20 31 07"))));
    EXPECT_EQ(fields.at("text"), "leaf 1.");
}

TEST(MadLayers, LidRoutedAndTrap) {
    // A trap 128 of the switch with LID 5.
    auto layers =
        layers_of(datagram("01 01 01 05 0000 0000 0000000000000009 0002 0000 00000000 0000000000000000" +
                           test::repeated("00", 32) + "81 000002 0080 0005 0001 0005"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, link of a notice");
    layers.pop_back();
    const auto fields = last_of(layers);
    EXPECT_EQ(fields.at("is_generic"), "1");
    EXPECT_EQ(fields.at("type"), "1 (urgent)");
    EXPECT_EQ(fields.at("producer_type"), "2 (switch)");
    EXPECT_EQ(fields.at("trap_number"), "128 (link state changed)");
    EXPECT_EQ(fields.at("issuer_lid"), "0x0005");
}

/// A switch's link, a port that became a subnet manager's, and a Get of PortInfo by a directed route over
/// ports 3 and 7 with a wrong M_Key.
TEST(MadLayers, TrapsOfNodes) {
    const std::string smp = "01 01 01 05 0000 0000 0000000000000009 0002 0000 00000000 0000000000000000" +
                            test::repeated("00", 32);
    auto layers = layers_of(datagram(smp + "81 000002 0080 0005 0000 0005"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, link of a notice");
    EXPECT_EQ(last_of(layers).at("lid_addr"), "0x0005");
    layers = layers_of(datagram(smp + "84 000001 0090 0002 0000 0000 0002 0001 0251486a 0021 0003"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, capabilities of a notice");
    auto fields = last_of(layers);
    EXPECT_EQ(fields.at("lid_addr"), "0x0002");
    EXPECT_EQ(fields.at("other_local_changes"), "1");
    EXPECT_EQ(fields.at("capability_mask"), "0x0251486a");
    EXPECT_EQ(fields.at("capability_mask2_change"), "1");
    EXPECT_EQ(fields.at("node_description_change"), "1");
    EXPECT_EQ(fields.at("sm_priority_change"), "0");
    EXPECT_EQ(fields.at("capability_mask2"), "0x0003");
    layers = layers_of(datagram(smp + "82 000001 0100 0002 0000 0000 0004 ffff 01 00 0015 00000001"
                                      "0123456789abcdef 00 82 0307"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, M_Key of a notice");
    fields = last_of(layers);
    EXPECT_EQ(fields.at("lid_addr"), "0x0004");
    EXPECT_EQ(fields.at("dr_slid"), "0xffff");
    EXPECT_EQ(fields.at("method"), "0x01");
    EXPECT_EQ(fields.at("attribute_id"), "0x0015");
    EXPECT_EQ(fields.at("attribute_modifier"), "0x00000001");
    EXPECT_EQ(fields.at("m_key"), "0x0123456789abcdef");
    EXPECT_EQ(fields.at("dr_notice"), "1");
    EXPECT_EQ(fields.at("dr_path_truncated"), "0");
    EXPECT_EQ(fields.at("dr_hop_count"), "2");
    EXPECT_TRUE(fields.at("dr_return_path").starts_with("0307")) << fields.at("dr_return_path");
}

/// Of the RNIC with LID 2: a datagram from LID 1 had another Q_Key; and an RC packet another P_Key.
TEST(MadLayers, TrapsOfKeys) {
    const std::string smp = "01 01 01 05 0000 0000 0000000000000009 0002 0000 00000000 0000000000000000" +
                            test::repeated("00", 32);
    auto layers =
        layers_of(datagram(smp + "82 000001 0102 0002 0000 0000 0001 0002 80010203 50 040302 00 000017"
                                 "fe800000000000000000000000000001 fe800000000000000000000000000002"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, key of a notice");
    auto fields = last_of(layers);
    EXPECT_EQ(fields.at("lid_addr1"), "0x0001");
    EXPECT_EQ(fields.at("lid_addr2"), "0x0002");
    EXPECT_EQ(fields.at("key"), "0x80010203");
    EXPECT_EQ(fields.at("sl"), "5");
    EXPECT_EQ(fields.at("qp1"), "0x040302");
    EXPECT_EQ(fields.at("qp2"), "0x000017");
    EXPECT_EQ(fields.at("gid_addr1"), "fe80::1");
    EXPECT_EQ(fields.at("gid_addr2"), "fe80::2");
    layers.pop_back();
    EXPECT_EQ(last_of(layers).at("type"), "2 (security)");
    EXPECT_EQ(last_of(layers).at("trap_number"), "258 (Q_Key violation)");
    layers = layers_of(datagram(smp + "82 000001 0101 0002 0000 0000 0001 0002 00008012"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, key of a notice");
    EXPECT_EQ(last_of(layers).at("key"), "0x00008012");
    layers = layers_of(datagram(smp + "82 000002 0103 0009 0000 b700 0001 c001 8012 50 040302 00 ffffff"
                                      "fe800000000000000000000000000001 ff120000000000000000000000000002"
                                      "0009 07"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice, P_Key at a switch of a notice");
    fields = last_of(layers);
    EXPECT_EQ(fields.at("lid_addr1_valid"), "1");
    EXPECT_EQ(fields.at("lid_addr2_valid"), "0");
    EXPECT_EQ(fields.at("pkey_valid"), "1");
    EXPECT_EQ(fields.at("sl_valid"), "1");
    EXPECT_EQ(fields.at("qp1_valid"), "0");
    EXPECT_EQ(fields.at("qp2_valid"), "1");
    EXPECT_EQ(fields.at("gid_addr1_valid"), "1");
    EXPECT_EQ(fields.at("gid_addr2_valid"), "1");
    EXPECT_EQ(fields.at("lid_addr1"), "0x0001");
    EXPECT_EQ(fields.at("lid_addr2"), "0xc001");
    EXPECT_EQ(fields.at("pkey"), "0x8012");
    EXPECT_EQ(fields.at("sl"), "5");
    EXPECT_EQ(fields.at("qp1"), "0x040302");
    EXPECT_EQ(fields.at("qp2"), "0xffffff");
    EXPECT_EQ(fields.at("gid_addr1"), "fe80::1");
    EXPECT_EQ(fields.at("gid_addr2"), "ff12::2");
    EXPECT_EQ(fields.at("switch_lid_addr"), "0x0009");
    EXPECT_EQ(fields.at("port_no"), "7");
    // Of others it is not known what lies there: trap 130, and a vendor's 258.
    layers = layers_of(datagram(smp + "82 000001 0082 0002 0000 0000 0001"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice");
    layers = layers_of(datagram(smp + "02 000001 0102 0002 0000 0000 0001"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, Notice");
}

TEST(MadLayers, PortCounters) {
    const auto layers = layers_of(
        datagram("01 04 01 81 0000 0000 0000000000000009 0012 0000 00000000" + test::repeated("00", 40) +
                 "00 01 ffff 0001 02 03 0004 0005 0006 0007 08 09 00 ab 0000 000c 0000000d "
                 "0000000e 0000000f 00000010 00000011"));
    EXPECT_EQ(names_of(layers), "MAD, PortCounters");
    const auto fields = last_of(layers);
    EXPECT_EQ(fields.at("port_select"), "1");
    EXPECT_EQ(fields.at("symbol_error_counter"), "1");
    EXPECT_EQ(fields.at("link_downed_counter"), "3");
    EXPECT_EQ(fields.at("port_xmit_discards"), "7");
    EXPECT_EQ(fields.at("local_link_integrity_errors"), "10");
    EXPECT_EQ(fields.at("excessive_buffer_overrun_errors"), "11");
    EXPECT_EQ(fields.at("vl15_dropped"), "12");
    EXPECT_EQ(fields.at("port_rcv_data"), "14");
    EXPECT_EQ(fields.at("port_xmit_wait"), "17");
}

std::string administration(const std::string& method, const std::string& attribute, const std::string& rmpp,
                           const std::string& offset) {
    return "01 03 02 " + method + " 0000 0000 0000000000000009 " + attribute + " 0000 00000000 " + rmpp +
           " 0000000000000000 " + offset + " 0000 0000000000000000 ";
}

const std::string kPath =
    "0000000000000000 fe800000000000000002c90300001234 fe800000000000000002c90300005678 0003 0002 00000a "
    "40 21 "
    "81 ffff 0002 85 90 92 00 000000000000";

TEST(MadLayers, PathRecord) {
    const auto layers =
        layers_of(datagram(administration("81", "0035", "01 00 00 00 00000000 00000000", "0000") + kPath));
    EXPECT_EQ(names_of(layers), "MAD, RMPP, SA, PathRecord");
    const auto fields = last_of(layers);
    EXPECT_EQ(fields.at("dgid"), "fe80::2:c903:0:1234");
    EXPECT_EQ(fields.at("dlid"), "0x0003");
    EXPECT_EQ(fields.at("flow_label"), "0x0000a");
    EXPECT_EQ(fields.at("hop_limit"), "64");
    EXPECT_EQ(fields.at("tclass"), "0x21");
    EXPECT_EQ(fields.at("reversible"), "1");
    EXPECT_EQ(fields.at("numb_path"), "1");
    EXPECT_EQ(fields.at("sl"), "2");
    EXPECT_EQ(fields.at("mtu"), "5 (4096)");
    EXPECT_EQ(fields.at("rate_selector"), "2 (exactly)");
    EXPECT_EQ(fields.at("rate"), "16 (100 Gb/s)");
    EXPECT_EQ(fields.at("packet_life_time"), "18");
}

/// Of a table each whole record is a layer: in the last segment up to its length, in another whose records
/// began before the first that begins here.
TEST(MadLayers, TableOfRecords) {
    const auto names = [](const std::string& rmpp, const std::string& offset) {
        return names_of(
            layers_of(datagram(administration("92", "0035", rmpp, offset) + kPath + kPath + kPath)));
    };
    EXPECT_EQ(names("01 01 07 00 00000001 00000094", "0008"), "MAD, RMPP, SA, PathRecord, PathRecord");
    EXPECT_EQ(names("01 01 03 00 00000001 00000300", "0008"),
              "MAD, RMPP, SA, PathRecord, PathRecord, PathRecord");
    // Segment 2 begins with the last 56 octets of the fourth record.
    EXPECT_EQ(names("01 01 01 00 00000002 00000000", "0008"), "MAD, RMPP, SA, PathRecord, PathRecord");
    // Offsets and lengths that cannot be, and an ACK.
    EXPECT_EQ(names("01 01 07 00 00000001 00000094", "0000"), "MAD, RMPP, SA");
    EXPECT_EQ(names("01 01 07 00 00000001 00000094", "0007"), "MAD, RMPP, SA");
    EXPECT_EQ(names("01 01 07 00 00000001 00000003", "0008"), "MAD, RMPP, SA");
    EXPECT_EQ(names("01 01 07 00 00000000 ffffffff", "ffff"), "MAD, RMPP, SA, PathRecord");
    EXPECT_EQ(names("01 02 01 00 00000001 00000040", "0008"), "MAD, RMPP, SA");
}

TEST(MadLayers, NodeRecordHasItsParts) {
    const auto layers =
        layers_of(datagram(administration("81", "0011", "01 00 00 00 00000000 00000000", "0000") +
                           "0009 0000 01 01 01 01" + test::repeated("00", 36) + "68 6f 73 74"));
    EXPECT_EQ(names_of(layers), "MAD, RMPP, SA, record of a node, NodeInfo, NodeDescription");
    EXPECT_EQ(last_of(layers).at("text"), "host");
}

/// As the built-in administrator's: a subscription, its record, a report, and the manager behind it.
TEST(MadLayers, InformInfoAndReports) {
    const std::string inform =
        test::repeated("00", 16) + "ffff 0000 0000 01 01 ffff 0042 000001 13 00 ffffff";
    const auto check = [](const std::map<std::string, std::string>& fields) {
        EXPECT_EQ(fields.at("gid"), "::");
        EXPECT_EQ(fields.at("lid_range_begin"), "0xffff");
        EXPECT_EQ(fields.at("is_generic"), "1");
        EXPECT_EQ(fields.at("subscribe"), "1");
        EXPECT_EQ(fields.at("type"), "0xffff");
        EXPECT_EQ(fields.at("trap_number"), "66 (multicast group created)");
        EXPECT_EQ(fields.at("qpn"), "0x000001");
        EXPECT_EQ(fields.at("resp_time_value"), "19");
        EXPECT_EQ(fields.at("producer_type"), "16777215");
    };
    auto layers =
        layers_of(datagram(administration("02", "0003", test::repeated("00", 12), "0000") + inform));
    EXPECT_EQ(names_of(layers), "MAD, RMPP, SA, InformInfo");
    check(last_of(layers));
    layers = layers_of(datagram(administration("81", "00f3", test::repeated("00", 12), "0000") +
                                "fe800000000000000000000000000002 0007 000000000000" + inform));
    EXPECT_EQ(names_of(layers), "MAD, RMPP, SA, record of a subscriber, InformInfo");
    check(last_of(layers));
    layers.pop_back();
    EXPECT_EQ(last_of(layers).at("subscriber_gid"), "fe80::2");
    EXPECT_EQ(last_of(layers).at("subscriber_enum"), "7");
    layers = layers_of(datagram(administration("06", "0002", test::repeated("00", 12), "0000") +
                                "83 000004 0042 0001 0000 000000000000 ff12601bffff00000000000000000abc" +
                                test::repeated("00", 32) + "fe800000000000000000000000000001"));
    EXPECT_EQ(names_of(layers), "MAD, RMPP, SA, Notice, issuer of a notice, GID of a notice");
    EXPECT_EQ(last_of(layers).at("gid"), "ff12:601b:ffff::abc");
    layers.pop_back();
    EXPECT_EQ(last_of(layers).at("issuer_gid"), "fe80::1");
    layers.pop_back();
    EXPECT_EQ(last_of(layers).at("type"), "3 (subnet management)");
    EXPECT_EQ(last_of(layers).at("producer_type"), "4 (class manager)");
    EXPECT_EQ(last_of(layers).at("trap_number"), "66 (multicast group created)");
    EXPECT_EQ(last_of(layers).at("issuer_lid"), "0x0001");
    // Other notices have something else at that place.
    layers = layers_of(datagram(administration("06", "0002", test::repeated("00", 12), "0000") +
                                "81 000002 0080 0001 0000"));
    EXPECT_EQ(names_of(layers), "MAD, RMPP, SA, Notice, issuer of a notice, link of a notice");
}

TEST(MadLayers, SmInfo) {
    const auto layers =
        layers_of(datagram("01 01 01 81 0000 0000 0000000000000009 0020 0000 00000000 0000000000000000" +
                           test::repeated("00", 32) + "0000000000000001 0000000000000000 00000007 03"));
    EXPECT_EQ(names_of(layers), "MAD, SMP LID routed, SMInfo");
    const auto fields = last_of(layers);
    EXPECT_EQ(fields.at("guid"), "0x0000000000000001");
    EXPECT_EQ(fields.at("sm_key"), "0x0000000000000000");
    EXPECT_EQ(fields.at("act_count"), "7");
    EXPECT_EQ(fields.at("priority"), "0");
    EXPECT_EQ(fields.at("sm_state"), "3 (master)");
}

/// What has no version of an IP CM header is private data of AF_IB, which is the program's.
TEST(MadLayers, IpCmHeaderOfARequest) {
    const auto names = [](const std::string& private_data) {
        std::vector<std::byte> bytes = datagram(
            "01 07 02 03 0000 0000 0000000000000001 0010 0000 00000000 00000001 00000000 0000000001061c06");
        const std::vector<std::byte> front = test::from_hex(private_data);
        std::copy(front.begin(), front.end(), bytes.begin() + kMadHeaderBytes + 140);
        return names_of(layers_of(bytes));
    };
    EXPECT_EQ(names("00 40 1c06"), "MAD, CM REQ, IP CM");
    EXPECT_EQ(names("00 60 1c06"), "MAD, CM REQ, IP CM");
    EXPECT_EQ(names("00 80 1c06"), "MAD, CM REQ");
    EXPECT_EQ(names("10 40 1c06"), "MAD, CM REQ");
}

/// Nothing is read behind what was captured; what is whole is shown.
TEST(MadLayers, AnyLengthOfAnyAttribute) {
    test::Random random;
    for (const unsigned mgmt_class : {0x01U, 0x81U, 0x03U, 0x04U, 0x07U, 0x32U}) {
        for (unsigned attribute = 0; attribute < 0x40; ++attribute) {
            std::vector<std::byte> bytes = random.bytes(kMadBytes);
            bytes[1] = static_cast<std::byte>(mgmt_class);
            bytes[16] = std::byte{0};
            bytes[17] = static_cast<std::byte>(attribute);
            std::size_t before = 0;
            for (std::size_t length = 0; length <= bytes.size(); ++length) {
                // Of its own size, so that a sanitizer sees what is read behind it.
                const std::vector<std::byte> cut(bytes.begin(),
                                                 bytes.begin() + static_cast<std::ptrdiff_t>(length));
                const std::size_t shown = layers_of(cut).size();
                ASSERT_GE(shown, before) << mgmt_class << ' ' << attribute << ' ' << length << ' ' << random;
                before = shown;
            }
        }
    }
}

}  // namespace
}  // namespace urnic::wire
