/// Messages of the connection manager (IBA 12.6) as connected mode uses them (RFC 4755, section 6): whole
/// management datagrams of 256 octets. They travel between the UD QPs of two links behind an encapsulation
/// header of their own, since a program has no access to QP1, where the connection manager of InfiniBand is.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ulp/ipoib/codec/link_address.h"

namespace urnic::ipoib {

/// The type in the encapsulation header: the first one for local experiments (IEEE 802, local experimental
/// EtherType 1). A link without connected mode drops it, as any type that it does not know.
inline constexpr std::uint16_t kTypeCm = 0x88B5;
inline constexpr std::size_t kMadOctets = 256;
using Mad = std::array<std::byte, kMadOctets>;

/// Attribute IDs (IBA 12.6).
enum class CmKind : std::uint16_t {
    kReq = 0x0010,
    kRej = 0x0012,
    kRep = 0x0013,
    kRtu = 0x0014,
    kDreq = 0x0015,
    kDrep = 0x0016,
};

/// Reasons of a REJ (IBA 12.6.7.2).
enum class RejectReason : std::uint16_t {
    kNoQp = 1,
    kNoResources = 3,
    kInvalidCommId = 6,
    kInvalidServiceId = 8,
    kInvalidTransport = 9,
    kInvalidPathMtu = 26,
    kConsumer = 28,
};

/// The fields that a link sets or looks at; `REQ` and so on: in these messages alone.
struct CmMessage {
    CmKind kind = CmKind::kReq;
    std::uint64_t transaction = 0;
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;  ///< all but REQ
    std::uint64_t service_id = 0;      ///< REQ
    std::uint32_t qpn = 0;             ///< REQ, REP: of the RC QP; DREQ: the receiver's
    std::uint32_t starting_psn = 0;    ///< REQ, REP
    std::uint8_t transport = 0;        ///< REQ: 0 RC, 1 UC
    std::uint16_t pkey = 0;            ///< REQ
    std::uint8_t path_mtu = 0;         ///< REQ: 1: 256 octets ... 5: 4096
    Gid local_gid{};                   ///< REQ: of the sender
    Gid remote_gid{};                  ///< REQ
    std::uint8_t rejected = 0;         ///< REJ: 0 REQ, 1 REP
    std::uint16_t reason = 0;          ///< REJ
    /// REQ and REP, private data (RFC 4755, section 6): the sender's UD QP, and the octets that it receives,
    /// encapsulation header included.
    std::uint32_t ud_qpn = 0;
    std::uint32_t receive_mtu = 0;
};

/// Of the link whose UD QP has that number.
[[nodiscard]] constexpr std::uint64_t connected_mode_service(std::uint32_t ud_qpn) {
    return 0x1000'0000'0000'0000ULL | ud_qpn;
}

[[nodiscard]] Mad write_cm(const CmMessage& message);
/// None: another length, class, version or method, or a message that connected mode does not use.
[[nodiscard]] std::optional<CmMessage> read_cm(ConstOctets mad);

}  // namespace urnic::ipoib
