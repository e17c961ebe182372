// Each header's table: there and back, its reserved bits, and bytes written down by hand from the
// specifications.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/address_text.h"
#include "rnic/wire/dissect/eth/headers.h"
#include "rnic/wire/dissect/ib/link.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/dissect/ipoib/ipoib.h"
#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/mad/performance_attributes.h"
#include "rnic/wire/mad/subnet_attributes.h"
#include "tests/support/hex.h"
#include "tests/support/random_bytes.h"

namespace urnic::wire {
namespace {

struct Expected {
    const HeaderTable* table;
    std::size_t length_bytes;
    std::size_t reserved_bits;  // counted in the specification
};

void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.table->name; }

const Expected kNoticeTables[] = {
    {&mad::kNoticeIssuerTable, 16, 0},      {&mad::kNoticeGidTable, 22, 48},
    {&mad::kNoticeLinkTable, 2, 0},         {&mad::kNoticeCapabilityTable, 14, 41},
    {&mad::kNoticeMKeyTable, 54, 32},       {&mad::kNoticeKeysTable, 50, 28},
    {&mad::kNoticeSwitchPkeyTable, 51, 20},
};

std::vector<Expected> all_tables() {
    std::vector<Expected> tables = {
        {&kEthernetTable, 14, 0},
        {&kVlanTable, 4, 0},
        {&kIpv4Table, 20, 0},
        {&kUdpTable, 8, 0},
        {&kPfcTable, 20, 8},
        {&kLrhTable, 8, 2 + 5},
        {&kGrhTable, 40, 0},
        {&kRawHeaderTable, 4, 16},
        {&kBthTable, 12, 6 + 7},
        {&kIpoibEncapsulationTable, 4, 16},
        {&kIpoibArpTable, 56, 0},
        {&kMadTable, 24, 16},
        {&kSmpDirectedTable, 256, 16 + 28 * 8},
        {&kSmpLidRoutedTable, 232, std::size_t{8} * (32 + 128)},
        {&cm::Req::table(), 232, 32 + 32 + (6 + 3 + 3) * 2},
        {&cm::Mra::table(), 232, 6 + 3},
        {&cm::Rej::table(), 232, 6 + 1},
        {&cm::Rep::table(), 232, 8 + 8 + 8 + 4},
        {&cm::Rtu::table(), 232, 0},
        {&cm::Dreq::table(), 232, 8},
        {&cm::Drep::table(), 232, 0},
        {&cm::SidrReq::table(), 232, 16},
        {&cm::SidrRep::table(), 232, 16 + 8},
        {&cm::Lap::table(), 232, 32 + 3 + 32 + 4 + 2 + 3 + 3},
        {&cm::Apr::table(), 232, 16},
        {&cm::kIpCmHeaderTable, 36, 4},
        {&mad::kNodeDescriptionTable, 64, 0},
        {&mad::kNodeInfoTable, 40, 0},
        {&mad::kSwitchInfoTable, 20, 11},
        {&mad::kPortInfoTable, 64, 17},
        {&mad::kGuidInfoTable, 64, 0},
        {&mad::kPkeyBlockTable, 64, 0},
        {&mad::kSlToVlMappingTable, 8, 0},
        {&mad::kVlArbitrationTable, 64, 0},
        {&mad::kLinearForwardingTable, 64, 0},
        {&mad::kRandomForwardingTable, 64, 0},
        {&mad::kMulticastForwardingTable, 64, 0},
        {&mad::kSmInfoTable, 21, 0},
        {&mad::kNoticeTable, 64, 0},
        {&mad::kClassPortInfoTable, 72, 8},
        {&mad::kPortCountersTable, 44, 8},
        {&mad::kPortCountersExtendedTable, 72, 40},
        {&mad::kRmppTable, 12, 0},
        {&mad::kSaHeaderTable, 20, 16},
        {&mad::kLidRecordTable, 4, 16},
        {&mad::kPortRecordTable, 4, 0},
        {&mad::kTwoPortRecordTable, 8, 32},
        {&mad::kBlockRecordTable, 8, 32},
        {&mad::kMulticastBlockRecordTable, 8, 35},
        {&mad::kPkeyBlockRecordTable, 8, 24},
        {&mad::kGuidBlockRecordTable, 8, 40},
        {&mad::kLinkRecordTable, 6, 0},
        {&mad::kServiceRecordTable, 176, 16},
        {&mad::kPathRecordTable, 64, 51},
        {&mad::kMcMemberRecordTable, 52, 23},
        {&mad::kInformInfoTable, 36, 27},
        {&mad::kSubscriberRecordTable, 24, 48},
    };
    tables.insert(tables.end(), std::begin(kNoticeTables), std::end(kNoticeTables));
    const std::size_t extended_lengths[] = {4, 8, 4, 4, 16, 28, 4, 8, 4, 4, 16};
    const std::size_t extended_reserved[] = {8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 128};
    for (std::size_t i = 0; i < extended_headers().size(); ++i) {
        tables.push_back({&extended_headers()[i].table, extended_lengths[i], extended_reserved[i]});
    }
    return tables;
}

/// Room for any structure, of the alignment that they need.
struct alignas(16) Object {
    std::byte bytes[1024]{};
};

std::vector<std::byte> read_and_write(const HeaderTable& table, const std::vector<std::byte>& wire,
                                      Object& object) {
    read_fields(table, wire.data(), &object);
    std::vector<std::byte> written(table.length_bytes, std::byte{0xee});
    write_fields(table, &object, written.data());
    return written;
}

class HeaderTables : public testing::TestWithParam<Expected> {};

TEST_P(HeaderTables, HasItsLengthAndItsReservedBits) {
    const HeaderTable& table = *GetParam().table;
    EXPECT_EQ(table.length_bytes, GetParam().length_bytes);
    Object object;
    std::size_t reserved = 0;
    for (const std::byte byte :
         read_and_write(table, std::vector<std::byte>(table.length_bytes, std::byte{0xff}), object)) {
        reserved += 8U - static_cast<unsigned>(std::popcount(std::to_integer<unsigned>(byte)));
    }
    EXPECT_EQ(reserved, GetParam().reserved_bits);
}

TEST_P(HeaderTables, AnyBytesAndAnyFieldsComeBack) {
    const HeaderTable& table = *GetParam().table;
    test::Random random;
    Object ones;
    const std::vector<std::byte> defined =
        read_and_write(table, std::vector<std::byte>(table.length_bytes, std::byte{0xff}), ones);
    for (int round = 0; round < 200; ++round) {
        std::vector<std::byte> wire = random.bytes(table.length_bytes);
        Object object;
        const std::vector<std::byte> written = read_and_write(table, wire, object);
        for (std::size_t i = 0; i < wire.size(); ++i) {
            wire[i] &= defined[i];
        }
        ASSERT_EQ(written, wire) << random;
        Object again;
        read_fields(table, written.data(), &again);
        ASSERT_EQ(std::memcmp(object.bytes, again.bytes, sizeof object.bytes), 0) << random;
    }
}

TEST_P(HeaderTables, EachFieldOwnsItsBits) {
    const HeaderTable& table = *GetParam().table;
    for (const Field& field : table.fields) {
        std::vector<std::byte> wire(table.length_bytes);
        for (std::size_t bit = field.bit_offset; bit < std::size_t{field.bit_offset} + field.bit_width;
             ++bit) {
            wire[bit / 8] |= std::byte{0x80} >> bit % 8;
        }
        Object object;
        read_fields(table, wire.data(), &object);
        for (const Field& other : table.fields) {
            if (other.is_bytes()) {
                const std::byte expected = &other == &field ? std::byte{0xff} : std::byte{0};
                for (std::size_t i = 0; i < other.member_bytes; ++i) {
                    ASSERT_EQ(object.bytes[other.member_offset + i], expected)
                        << field.name << ", " << other.name;
                }
            } else {
                const std::uint64_t ones = ~std::uint64_t{0} >> (64U - field.bit_width % 65U);
                ASSERT_EQ(field_number(other, &object), &other == &field ? ones : 0)
                    << field.name << ", " << other.name;
            }
        }
    }
}

std::string table_name(const testing::TestParamInfo<Expected>& info) {
    std::string name;
    for (const char letter : std::string(info.param.table->name)) {
        name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
    }
    return name;
}
INSTANTIATE_TEST_SUITE_P(All, HeaderTables, testing::ValuesIn(all_tables()), table_name);

template <class T>
T read_hex(const HeaderTable& table, const std::string& text) {
    const std::vector<std::byte> wire = test::from_hex(text);
    EXPECT_EQ(wire.size(), table.length_bytes);
    T object;
    read_fields(table, wire.data(), &object);
    return object;
}

// IBA 7.7: VL 7, LVer 0, SL 1, LNH 2, DLID 0x375c, 14 words, SLID 0x17d2.
TEST(HeaderBytes, Lrh) {
    const auto lrh = read_hex<Lrh>(kLrhTable, "70 12 37 5c 00 0e 17 d2");
    EXPECT_EQ(lrh, (Lrh{7, 0, 1, kLnhTransport, 0x375c, 14, 0x17d2}));
}

TEST(HeaderBytes, Bth) {
    const auto bth = read_hex<PacketHeader>(kBthTable, "0a a0 24 bb c0 b1 b3 00 80 ec 2a 01");
    EXPECT_EQ(bth.opcode, 0x0a);
    EXPECT_TRUE(bth.solicited);
    EXPECT_FALSE(bth.mig_req);
    EXPECT_EQ(bth.pad_count, 2);
    EXPECT_EQ(bth.pkey, 0x24bb);
    EXPECT_TRUE(bth.fecn);
    EXPECT_TRUE(bth.becn);
    EXPECT_EQ(bth.dest_qp, 0xb1b300U);
    EXPECT_TRUE(bth.ack_req);
    EXPECT_EQ(bth.psn, Psn(0xec2a01));
}

// 802.1Qbb: classes 0 and 3 paused for 0xffff quanta, class 4 resumed.
TEST(HeaderBytes, Pfc) {
    const auto pfc = read_hex<Pfc>(kPfcTable, "0101 0019 ffff 0000 0000 ffff 0000 0000 0000 0000");
    EXPECT_EQ(pfc.class_enable, 0x19);
    EXPECT_EQ(pfc.pause_quanta[0], 0xffff);
    EXPECT_EQ(pfc.pause_quanta[3], 0xffff);
    EXPECT_EQ(pfc.pause_quanta[4], 0);
}

// RFC 4391 9.1.1.
TEST(HeaderBytes, IpoibArp) {
    const auto arp =
        read_hex<IpoibArp>(kIpoibArpTable,
                           "0020 0800 14 04 0002 00 00004a fe80000000000000 0002c90300001234 0a000001 "
                           "80 00004b fe80000000000000 0002c90300005678 0a000002");
    EXPECT_EQ(arp.hardware_type, kArpHardwareInfiniBand);
    EXPECT_EQ(arp.operation, 2);
    EXPECT_EQ(arp.sender.qpn, 0x4aU);
    EXPECT_EQ(arp.target.flags, 0x80);
    EXPECT_EQ(arp.target.qpn, 0x4bU);
    EXPECT_EQ(gid_text(arp.sender.gid), "fe80::2:c903:0:1234");
    EXPECT_EQ(ipv4_text(arp.target_ip), "10.0.0.2");
}

TEST(HeaderBytes, SmpDirectedRoute) {
    const std::string text =
        "01 81 01 81 8001 02 03 0000000000000abc 0011 0000 00000001 1122334455667788 ffff fffe" +
        test::repeated("00", 28) + test::repeated("d1", 64) + "00 01 05" + test::repeated("00", 61) +
        test::repeated("e2", 64);
    const auto smp = read_hex<SmpDirected>(kSmpDirectedTable, text);
    EXPECT_TRUE(smp.direction);
    EXPECT_EQ(smp.status, 1);
    EXPECT_EQ(smp.hop_pointer, 2);
    EXPECT_EQ(smp.hop_count, 3);
    EXPECT_EQ(smp.transaction_id, 0xabcU);
    EXPECT_EQ(smp.attribute_id, 0x0011);
    EXPECT_EQ(smp.m_key, 0x1122334455667788U);
    EXPECT_EQ(smp.dr_slid, 0xffff);
    EXPECT_EQ(smp.dr_dlid, 0xfffe);
    EXPECT_EQ(smp.data[0], 0xd1);
    EXPECT_EQ(smp.data[63], 0xd1);
    EXPECT_EQ(smp.initial_path[1], 1);
    EXPECT_EQ(smp.initial_path[2], 5);
    EXPECT_EQ(smp.return_path[63], 0xe2);
}

TEST(Text, Hexadecimal) {
    EXPECT_EQ(hex_text(0, 4), "0x0000");
    EXPECT_EQ(hex_text(0xabcdef, 2), "0xabcdef");
}

TEST(Names, MadClasses) {
    EXPECT_STREQ(mad_class_name(0x03), "SubnAdm");
    EXPECT_STREQ(mad_class_name(0x10), "DevAdm");
    EXPECT_STREQ(mad_class_name(0x11), "BootMgt");
    EXPECT_STREQ(mad_class_name(0x12), "BIS");
    EXPECT_STREQ(mad_class_name(0x21), "CongMgt");
    EXPECT_STREQ(mad_class_name(0x32), "OpenIB ping");
    EXPECT_STREQ(mad_class_name(0x33), "OpenIB SysStat");
    EXPECT_EQ(mad_class_name(0x02), nullptr);
    EXPECT_EQ(mad_class_name(0x31), nullptr);
}

TEST(Names, MadMethods) {
    EXPECT_STREQ(mad_method_name(0x12), "GetTable");
    EXPECT_STREQ(mad_method_name(0x13), "GetTraceTable");
    EXPECT_STREQ(mad_method_name(0x14), "GetMulti");
    EXPECT_STREQ(mad_method_name(0x15), "Delete");
    EXPECT_STREQ(mad_method_name(0x92), "GetTableResp");
    EXPECT_STREQ(mad_method_name(0x93), "GetTraceTableResp");
    EXPECT_STREQ(mad_method_name(0x94), "GetMultiResp");
    EXPECT_STREQ(mad_method_name(0x95), "DeleteResp");
    EXPECT_EQ(mad_method_name(0x16), nullptr);
}

TEST(Names, Syndromes) {
    EXPECT_STREQ(syndrome_name(0x00), "ACK");
    EXPECT_STREQ(syndrome_name(0x1f), "ACK, no credit limit");
    EXPECT_STREQ(syndrome_name(0x2e), "RNR NAK");
    EXPECT_STREQ(syndrome_name(0x60), "NAK PSN sequence error");
    EXPECT_STREQ(syndrome_name(0x64), "NAK invalid RD request");
    EXPECT_EQ(syndrome_name(0x65), nullptr);
    EXPECT_EQ(syndrome_name(0x40), nullptr);
    EXPECT_EQ(syndrome_name(0x80), nullptr);
}

}  // namespace
}  // namespace urnic::wire
