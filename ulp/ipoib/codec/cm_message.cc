#include "ulp/ipoib/codec/cm_message.h"

namespace urnic::ipoib {

namespace {

/// Base version 1, class 7 (communication management), class version 2, method 3 (Send): IBA 13.4, 16.7.
constexpr std::uint32_t kMadHead = 0x01070203;
constexpr std::size_t kMadHeaderOctets = 24;
constexpr std::size_t kReqPrivate = 140;
constexpr std::size_t kRepPrivate = 36;
/// "Loop for ever" of an RNR NAK; 7 retries of a packet.
constexpr std::uint8_t kRetries = 7;
/// 4.096 us * 2^18: a second.
constexpr std::uint8_t kResponseTimeout = 18;

void put_u24(Octets octets, std::size_t at, std::uint32_t value) {
    put_u16(octets, at, static_cast<std::uint16_t>(value >> 8U));
    put_u8(octets, at + 2, static_cast<std::uint8_t>(value));
}
std::uint32_t u24_at(ConstOctets octets, std::size_t at) {
    return static_cast<std::uint32_t>(u16_at(octets, at)) << 8U | u8_at(octets, at + 2);
}
void put_u64(Octets octets, std::size_t at, std::uint64_t value) {
    put_u32(octets, at, static_cast<std::uint32_t>(value >> 32U));
    put_u32(octets, at + 4, static_cast<std::uint32_t>(value));
}
std::uint64_t u64_at(ConstOctets octets, std::size_t at) {
    return static_cast<std::uint64_t>(u32_at(octets, at)) << 32U | u32_at(octets, at + 4);
}

/// A word of UD QPN in its low 24 bits, and one of receive MTU.
void write_private(Octets body, std::size_t at, const CmMessage& message) {
    put_u32(body, at, message.ud_qpn & 0xFFFFFFU);
    put_u32(body, at + 4, message.receive_mtu);
}
void read_private(ConstOctets body, std::size_t at, CmMessage& message) {
    message.ud_qpn = u32_at(body, at) & 0xFFFFFFU;
    message.receive_mtu = u32_at(body, at + 4);
}

void write_req(Octets body, const CmMessage& message) {
    put_u64(body, 8, message.service_id);
    // A CA GUID: that of the GID.
    std::copy_n(message.local_gid.begin() + 8, 8, body.begin() + 16);
    put_u24(body, 32, message.qpn);
    put_u8(body, 43, static_cast<std::uint8_t>(kResponseTimeout << 3U | (message.transport & 3U) << 1U));
    put_u24(body, 44, message.starting_psn);
    put_u8(body, 47, static_cast<std::uint8_t>(kResponseTimeout << 3U | kRetries));
    put_u16(body, 48, message.pkey);
    put_u8(body, 50, static_cast<std::uint8_t>(message.path_mtu << 4U | kRetries));
    put_u8(body, 51, 0x08);  // the receive queue is shared
    std::copy(message.local_gid.begin(), message.local_gid.end(), body.begin() + 56);
    std::copy(message.remote_gid.begin(), message.remote_gid.end(), body.begin() + 72);
    write_private(body, kReqPrivate, message);
}

void read_req(ConstOctets body, CmMessage& message) {
    message.remote_comm_id = 0;
    message.service_id = u64_at(body, 8);
    message.qpn = u24_at(body, 32);
    message.transport = u8_at(body, 43) >> 1U & 3U;
    message.starting_psn = u24_at(body, 44);
    message.pkey = u16_at(body, 48);
    message.path_mtu = u8_at(body, 50) >> 4U;
    std::copy_n(body.begin() + 56, message.local_gid.size(), message.local_gid.begin());
    std::copy_n(body.begin() + 72, message.remote_gid.size(), message.remote_gid.begin());
    read_private(body, kReqPrivate, message);
}

}  // namespace

Mad write_cm(const CmMessage& message) {
    Mad mad{};
    put_u32(mad, 0, kMadHead);
    put_u64(mad, 8, message.transaction);
    put_u16(mad, 16, static_cast<std::uint16_t>(message.kind));
    const Octets body = Octets(mad).subspan(kMadHeaderOctets);
    put_u32(body, 0, message.local_comm_id);
    put_u32(body, 4, message.kind == CmKind::kReq ? 0 : message.remote_comm_id);
    switch (message.kind) {
        case CmKind::kReq:
            write_req(body, message);
            break;
        case CmKind::kRep:
            put_u24(body, 12, message.qpn);
            put_u24(body, 20, message.starting_psn);
            put_u8(body, 27, kRetries << 5U | 0x10U);  // the receive queue is shared
            write_private(body, kRepPrivate, message);
            break;
        case CmKind::kRej:
            put_u8(body, 8, static_cast<std::uint8_t>(message.rejected << 6U));
            put_u16(body, 10, message.reason);
            break;
        case CmKind::kDreq:
            put_u24(body, 8, message.qpn);
            break;
        case CmKind::kRtu:
        case CmKind::kDrep:
            break;
    }
    return mad;
}

std::optional<CmMessage> read_cm(ConstOctets mad) {
    if (mad.size() != kMadOctets || u32_at(mad, 0) != kMadHead) {
        return std::nullopt;
    }
    CmMessage message;
    message.kind = static_cast<CmKind>(u16_at(mad, 16));
    message.transaction = u64_at(mad, 8);
    const ConstOctets body = mad.subspan(kMadHeaderOctets);
    message.local_comm_id = u32_at(body, 0);
    message.remote_comm_id = u32_at(body, 4);
    switch (message.kind) {
        case CmKind::kReq:
            read_req(body, message);
            return message;
        case CmKind::kRep:
            message.qpn = u24_at(body, 12);
            message.starting_psn = u24_at(body, 20);
            read_private(body, kRepPrivate, message);
            return message;
        case CmKind::kRej:
            message.rejected = u8_at(body, 8) >> 6U;
            message.reason = u16_at(body, 10);
            return message;
        case CmKind::kDreq:
            message.qpn = u24_at(body, 8);
            return message;
        case CmKind::kRtu:
        case CmKind::kDrep:
            return message;
    }
    return std::nullopt;
}

}  // namespace urnic::ipoib
