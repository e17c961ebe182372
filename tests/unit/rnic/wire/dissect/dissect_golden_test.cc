// Every captured packet parses in full, CM messages included, and is built again from its parsed fields.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/address_text.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/mad/cm.h"
#include "tests/support/packet_build.h"
#include "tests/support/pcap.h"

namespace urnic::wire {
namespace {

/// The MAD built again from header and CM message, each parsed and written through its structure.
std::vector<std::byte> rebuild_mad(std::span<const std::byte> mad, std::map<std::uint16_t, int>& attributes) {
    MadHeader header;
    read_fields(kMadTable, mad.data(), &header);
    EXPECT_EQ(header.mgmt_class, kMadClassCommunication);
    EXPECT_EQ(header.class_version, cm::kClassVersion);
    ++attributes[header.attribute_id];
    const auto message =
        cm::parse_message(header.attribute_id, mad.subspan<kMadHeaderBytes, cm::kMessageBytes>());
    std::vector<std::byte> built(kMadBytes);
    write_fields(kMadTable, &header, built.data());
    EXPECT_TRUE(message.has_value());
    if (message) {
        EXPECT_EQ(cm::attribute_id(*message), header.attribute_id);
        const auto place = std::span(built).subspan<kMadHeaderBytes, cm::kMessageBytes>();
        std::visit([place](const auto& one) { cm::build_cm(one, place); }, *message);
    }
    return built;
}

TEST(GoldenCaptures, EveryPacketIsParsedAndBuiltAgain) {
    std::size_t roce_packets = 0;
    std::map<std::uint16_t, int> attributes;
    for (const auto& entry : std::filesystem::directory_iterator(URNIC_GOLDEN_DIR)) {
        if (entry.path().extension() != ".pcap") {
            continue;
        }
        SCOPED_TRACE(entry.path());
        for (const std::vector<std::byte>& frame : test::read_pcap(entry.path())) {
            Packet packet;
            parse_packet(LinkLayer::kEthernet, frame, frame.size(), packet);
            if (packet.outcome == Outcome::kForeign) {
                EXPECT_FALSE(packet.has_transport);
                continue;
            }
            ++roce_packets;
            ASSERT_EQ(packet.outcome, Outcome::kComplete) << packet.reason;
            ASSERT_EQ(packet.icrc_verdict, CheckVerdict::kGood);
            std::vector<std::byte> mad;
            if (packet.transport.opcode == 0x64 && packet.transport.dest_qp == kQp1) {
                ASSERT_EQ(packet.payload.size(), kMadBytes);
                mad = rebuild_mad(packet.payload, attributes);
                packet.payload = mad;
            }
            std::vector<std::byte> built(kMaxPacketBytes);
            built.resize(build_packet(packet, built));
            ASSERT_EQ(built, frame);
        }
    }
    EXPECT_EQ(roce_packets, 671U);
    const std::map<std::uint16_t, int> expected = {
        {cm::Req::kAttributeId, 1},     {cm::Rep::kAttributeId, 1},  {cm::Rtu::kAttributeId, 1},
        {cm::Dreq::kAttributeId, 1},    {cm::Drep::kAttributeId, 1}, {cm::SidrReq::kAttributeId, 1},
        {cm::SidrRep::kAttributeId, 1},
    };
    EXPECT_EQ(attributes, expected);
}

/// rping from 10.77.0.12 to port 7174 of 10.77.0.11, as tshark 4.0 reads it.
TEST(GoldenCaptures, TheFirstPacketOfRpingIsItsRequest) {
    const auto frames = test::read_pcap(std::string(URNIC_GOLDEN_DIR) + "/rping.pcap");
    Packet packet;
    parse_packet(LinkLayer::kEthernet, frames.at(0), frames.at(0).size(), packet);
    const auto req = cm::parse_cm<cm::Req>(packet.payload.subspan<kMadHeaderBytes, cm::kMessageBytes>());
    EXPECT_EQ(req.local_comm_id, 0xa3db6aebU);
    EXPECT_EQ(req.service_id, 0x01061c06U);
    EXPECT_EQ(req.local_ca_guid, 0x505400fffe770012U);
    EXPECT_EQ(req.local_qpn, 0x1eU);
    EXPECT_EQ(req.starting_psn, 4263611U);
    EXPECT_EQ(req.retry_count, 7);
    EXPECT_EQ(req.rnr_retry_count, 7);
    EXPECT_EQ(req.path_mtu, 3);
    EXPECT_EQ(req.max_cm_retries, 15);
    EXPECT_EQ(gid_text(req.primary.remote_gid), "::ffff:10.77.0.11");
    cm::IpCmHeader header;
    ASSERT_TRUE(cm::is_ip_cm_service(req.service_id));
    read_fields(cm::kIpCmHeaderTable, reinterpret_cast<const std::byte*>(req.private_data.data()), &header);
    EXPECT_EQ(header.ip_version, 4);
    EXPECT_EQ(header.src_port, 59160);
    EXPECT_EQ(gid_text(header.dst_address), "::10.77.0.11");
}

TEST(CmMessages, UnknownAttributesAreNone) {
    const std::vector<std::byte> body(cm::kMessageBytes);
    for (unsigned attribute = 0; attribute < 0x10000; ++attribute) {
        const auto message = cm::parse_message(static_cast<std::uint16_t>(attribute),
                                               std::span(body).first<cm::kMessageBytes>());
        ASSERT_EQ(message.has_value(), attribute >= 0x10 && attribute <= 0x1a) << attribute;
    }
}

}  // namespace
}  // namespace urnic::wire
