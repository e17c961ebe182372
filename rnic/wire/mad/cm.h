// Messages of the communication manager (IBA 12.6, 12.8, 12.11): what follows the common MAD header.
// Each structure names its attribute and its table; parse_cm() and build_cm() go both ways.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "rnic/wire/fields.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/packet_view.h"

namespace urnic::wire::cm {

inline constexpr std::size_t kMessageBytes = kMadBytes - kMadHeaderBytes;
inline constexpr std::uint8_t kClassVersion = 2;

/// One path of a REQ or LAP. Local and remote are the sender's view. Times are exponents: 4.096 us * 2^n.
struct PathInfo {
    std::uint16_t local_lid = 0;
    std::uint16_t remote_lid = 0;
    Gid local_gid{};
    Gid remote_gid{};
    std::uint32_t flow_label = 0;
    std::uint8_t packet_rate = 0;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 0;
    std::uint8_t sl = 0;
    bool subnet_local = false;
    std::uint8_t local_ack_timeout = 0;
    bool operator==(const PathInfo&) const = default;
};

/// Request for communication.
struct Req {
    static constexpr std::uint16_t kAttributeId = 0x0010;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint64_t service_id = 0;
    std::uint64_t local_ca_guid = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t local_qpn = 0;
    std::uint8_t responder_resources = 0;
    std::uint32_t local_eecn = 0;
    std::uint8_t initiator_depth = 0;
    std::uint32_t remote_eecn = 0;
    std::uint8_t remote_cm_response_timeout = 0;
    std::uint8_t transport_service_type = 0;  // 0 RC, 1 UC, 2 RD, 3 see extended_transport_type
    bool end_to_end_flow_control = false;
    std::uint32_t starting_psn = 0;
    std::uint8_t local_cm_response_timeout = 0;
    std::uint8_t retry_count = 0;
    std::uint16_t pkey = 0;
    std::uint8_t path_mtu = 0;  // 1: 256 ... 5: 4096
    bool rdc_exists = false;
    std::uint8_t rnr_retry_count = 0;
    std::uint8_t max_cm_retries = 0;
    bool srq = false;
    std::uint8_t extended_transport_type = 0;
    PathInfo primary;
    PathInfo alternate;
    std::array<std::uint8_t, 92> private_data{};
    bool operator==(const Req&) const = default;
};

/// Message receipt acknowledgment.
struct Mra {
    static constexpr std::uint16_t kAttributeId = 0x0011;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t message_mraed = 0;  // 0 REQ, 1 REP, 2 LAP
    std::uint8_t service_timeout = 0;
    std::array<std::uint8_t, 222> private_data{};
    bool operator==(const Mra&) const = default;
};

/// Reject.
struct Rej {
    static constexpr std::uint16_t kAttributeId = 0x0012;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t message_rejected = 0;  // 0 REQ, 1 REP, 2 no message
    std::uint8_t reject_info_length = 0;
    std::uint16_t reason = 0;
    std::array<std::uint8_t, 72> additional_info{};
    std::array<std::uint8_t, 148> private_data{};
    bool operator==(const Rej&) const = default;
};

/// Reply to a request for communication.
struct Rep {
    static constexpr std::uint16_t kAttributeId = 0x0013;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t local_qkey = 0;
    std::uint32_t local_qpn = 0;
    std::uint32_t local_eecn = 0;
    std::uint32_t starting_psn = 0;
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t target_ack_delay = 0;
    std::uint8_t failover_accepted = 0;
    bool end_to_end_flow_control = false;
    std::uint8_t rnr_retry_count = 0;
    bool srq = false;
    std::uint64_t local_ca_guid = 0;
    std::array<std::uint8_t, 196> private_data{};
    bool operator==(const Rep&) const = default;
};

/// Ready to use.
struct Rtu {
    static constexpr std::uint16_t kAttributeId = 0x0014;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::array<std::uint8_t, 224> private_data{};
    bool operator==(const Rtu&) const = default;
};

/// Request for communication release.
struct Dreq {
    static constexpr std::uint16_t kAttributeId = 0x0015;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t remote_qpn_eecn = 0;
    std::array<std::uint8_t, 220> private_data{};
    bool operator==(const Dreq&) const = default;
};

/// Reply to a request for communication release.
struct Drep {
    static constexpr std::uint16_t kAttributeId = 0x0016;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::array<std::uint8_t, 224> private_data{};
    bool operator==(const Drep&) const = default;
};

/// Service ID resolution request.
struct SidrReq {
    static constexpr std::uint16_t kAttributeId = 0x0017;
    static const HeaderTable& table();
    std::uint32_t request_id = 0;
    std::uint16_t pkey = 0;
    std::uint64_t service_id = 0;
    std::array<std::uint8_t, 216> private_data{};
    bool operator==(const SidrReq&) const = default;
};

/// Service ID resolution response.
struct SidrRep {
    static constexpr std::uint16_t kAttributeId = 0x0018;
    static const HeaderTable& table();
    std::uint32_t request_id = 0;
    std::uint8_t status = 0;
    std::uint8_t additional_info_length = 0;
    std::uint32_t qpn = 0;
    std::uint64_t service_id = 0;
    std::uint32_t qkey = 0;
    std::array<std::uint8_t, 72> additional_info{};
    std::array<std::uint8_t, 136> private_data{};
    bool operator==(const SidrRep&) const = default;
};

/// Load alternate path.
struct Lap {
    static constexpr std::uint16_t kAttributeId = 0x0019;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint32_t remote_qpn_eecn = 0;
    std::uint8_t remote_cm_response_timeout = 0;
    PathInfo alternate;
    std::array<std::uint8_t, 168> private_data{};
    bool operator==(const Lap&) const = default;
};

/// Alternate path response.
struct Apr {
    static constexpr std::uint16_t kAttributeId = 0x001a;
    static const HeaderTable& table();
    std::uint32_t local_comm_id = 0;
    std::uint32_t remote_comm_id = 0;
    std::uint8_t additional_info_length = 0;
    std::uint8_t ap_status = 0;
    std::array<std::uint8_t, 72> additional_info{};
    std::array<std::uint8_t, 148> private_data{};
    bool operator==(const Apr&) const = default;
};

using Message = std::variant<Req, Mra, Rej, Rep, Rtu, Dreq, Drep, SidrReq, SidrRep, Lap, Apr>;

using MessageBytes = std::span<const std::byte, kMessageBytes>;

/// `wire` is what follows the common MAD header.
template <class M>
[[nodiscard]] M parse_cm(MessageBytes wire) {
    M message;
    read_fields(M::table(), wire.data(), &message);
    return message;
}
template <class M>
void build_cm(const M& message, std::span<std::byte, kMessageBytes> wire) {
    write_fields(M::table(), &message, wire.data());
}

/// The message that the attribute of the MAD names; nullopt: the connection manager has no such attribute.
[[nodiscard]] std::optional<Message> parse_message(std::uint16_t attribute_id, MessageBytes wire);
[[nodiscard]] std::uint16_t attribute_id(const Message& message);
[[nodiscard]] const HeaderTable& table_of(const Message& message);

/// What the RDMA IP CM service puts in front of the private data of REQ and SIDR_REQ (IBA annex A11).
struct IpCmHeader {
    std::uint8_t major_version = 0;
    std::uint8_t minor_version = 0;
    std::uint8_t ip_version = 0;  // 4 or 6
    std::uint16_t src_port = 0;
    Gid src_address{};  // IPv4 in the last four bytes, zeros before
    Gid dst_address{};
    bool operator==(const IpCmHeader&) const = default;
};
inline constexpr std::size_t kIpCmHeaderBytes = 36;
extern const HeaderTable kIpCmHeaderTable;
/// Returns whether its versions are ones that there are. Over InfiniBand private data with others has no such
/// header: requests of rdma_cm's AF_IB do without.
[[nodiscard]] constexpr bool is_known_version(const IpCmHeader& ip) {
    return ip.major_version == 0 && (ip.ip_version == 4 || ip.ip_version == 6);
}

/// Service IDs of the RDMA IP CM service are 0x0000'0000'01pp'PPPP: IP protocol (or port space) and port.
[[nodiscard]] constexpr bool is_ip_cm_service(std::uint64_t service_id) { return service_id >> 24U == 1; }

}  // namespace urnic::wire::cm
