// Messages of connected mode beside the codec of the connection manager, which shares nothing with theirs.
#include "ulp/ipoib/codec/cm_message.h"

#include <gtest/gtest.h>

#include <cstring>

#include "rnic/wire/mad/cm.h"
#include "tests/unit/ulp/ipoib/octets_of.h"

namespace urnic::ipoib::test {
namespace {

using wire::kMadHeaderBytes;

wire::MadHeader header_of(const Mad& mad) {
    wire::MadHeader header;
    wire::read_fields(wire::kMadTable, mad.data(), &header);
    return header;
}

template <class M>
M body_of(const Mad& mad) {
    EXPECT_EQ(header_of(mad).attribute_id, M::kAttributeId);
    return wire::cm::parse_cm<M>(
        wire::cm::MessageBytes(mad.data() + kMadHeaderBytes, wire::cm::kMessageBytes));
}

template <std::size_t N>
std::uint32_t word(const std::array<std::uint8_t, N>& octets, std::size_t at) {
    return static_cast<std::uint32_t>(octets[at]) << 24U | static_cast<std::uint32_t>(octets[at + 1]) << 16U |
           static_cast<std::uint32_t>(octets[at + 2]) << 8U | octets[at + 3];
}

CmMessage message_of(CmKind kind) {
    return {.kind = kind,
            .transaction = 0x0102030405060708,
            .local_comm_id = 0x11223344,
            .remote_comm_id = kind == CmKind::kReq ? 0U : 0x55667788U,
            .service_id = kind == CmKind::kReq ? connected_mode_service(0xABCDEF) : 0,
            .qpn = 0x123456,
            .starting_psn = 0xFEDCBA,
            .transport = 0,
            .pkey = 0xFFFF,
            .path_mtu = 5,
            .local_gid = gid_of("fe80::1"),
            .remote_gid = gid_of("fe80::2"),
            .rejected = 1,
            .reason = 28,
            .ud_qpn = 0x654321,
            .receive_mtu = 65524};
}

TEST(IpoibCmMessage, Req) {
    const Mad mad = write_cm(message_of(CmKind::kReq));
    const wire::MadHeader header = header_of(mad);
    EXPECT_EQ(header.base_version, 1);
    EXPECT_EQ(header.mgmt_class, wire::kMadClassCommunication);
    EXPECT_EQ(header.class_version, wire::cm::kClassVersion);
    EXPECT_EQ(header.method, wire::kMadSend);
    EXPECT_EQ(header.transaction_id, 0x0102030405060708U);
    const auto req = body_of<wire::cm::Req>(mad);
    EXPECT_EQ(req.local_comm_id, 0x11223344U);
    EXPECT_EQ(req.service_id, 0x1000000000ABCDEFU);
    EXPECT_EQ(req.local_qpn, 0x123456U);
    EXPECT_EQ(req.starting_psn, 0xFEDCBAU);
    EXPECT_EQ(req.transport_service_type, 0);
    EXPECT_EQ(req.pkey, 0xFFFF);
    EXPECT_EQ(req.path_mtu, 5);
    EXPECT_EQ(req.retry_count, 7);
    EXPECT_EQ(req.rnr_retry_count, 7);
    EXPECT_TRUE(req.srq);
    EXPECT_EQ(std::memcmp(&req.primary.local_gid, gid_of("fe80::1").data(), 16), 0);
    EXPECT_EQ(std::memcmp(&req.primary.remote_gid, gid_of("fe80::2").data(), 16), 0);
    EXPECT_EQ(word(req.private_data, 0), 0x654321U);
    EXPECT_EQ(word(req.private_data, 4), 65524U);
}

TEST(IpoibCmMessage, Others) {
    const auto rep = body_of<wire::cm::Rep>(write_cm(message_of(CmKind::kRep)));
    EXPECT_EQ(rep.local_comm_id, 0x11223344U);
    EXPECT_EQ(rep.remote_comm_id, 0x55667788U);
    EXPECT_EQ(rep.local_qpn, 0x123456U);
    EXPECT_EQ(rep.starting_psn, 0xFEDCBAU);
    EXPECT_EQ(rep.rnr_retry_count, 7);
    EXPECT_TRUE(rep.srq);
    EXPECT_EQ(word(rep.private_data, 0), 0x654321U);
    EXPECT_EQ(word(rep.private_data, 4), 65524U);
    const auto rej = body_of<wire::cm::Rej>(write_cm(message_of(CmKind::kRej)));
    EXPECT_EQ(rej.message_rejected, 1);
    EXPECT_EQ(rej.reason, 28);
    const auto dreq = body_of<wire::cm::Dreq>(write_cm(message_of(CmKind::kDreq)));
    EXPECT_EQ(dreq.remote_qpn_eecn, 0x123456U);
    EXPECT_EQ(body_of<wire::cm::Rtu>(write_cm(message_of(CmKind::kRtu))).remote_comm_id, 0x55667788U);
    EXPECT_EQ(body_of<wire::cm::Drep>(write_cm(message_of(CmKind::kDrep))).local_comm_id, 0x11223344U);
}

TEST(IpoibCmMessage, BothWays) {
    for (const CmKind kind :
         {CmKind::kReq, CmKind::kRep, CmKind::kRtu, CmKind::kRej, CmKind::kDreq, CmKind::kDrep}) {
        const Mad mad = write_cm(message_of(kind));
        const std::optional<CmMessage> read = read_cm(mad);
        ASSERT_TRUE(read);
        EXPECT_EQ(write_cm(*read), mad);
    }
}

}  // namespace
}  // namespace urnic::ipoib::test
