#include "rnic/wire/mad/cm.h"

#include <type_traits>

namespace urnic::wire::cm {

namespace {

constexpr std::uint16_t at(unsigned byte, unsigned bit = 0) {
    return static_cast<std::uint16_t>(byte * 8 + bit);
}

template <std::size_t Count>
const char* pick(const std::array<const char*, Count>& names, std::uint64_t value) {
    return value < Count ? names[value] : nullptr;
}

const char* transport_name(std::uint64_t type) {
    return pick(std::array<const char*, 4>{"RC", "UC", "RD", "extended"}, type);
}
const char* mtu_name(std::uint64_t mtu) {
    return pick(std::array<const char*, 6>{nullptr, "256", "512", "1024", "2048", "4096"}, mtu);
}
const char* mraed_name(std::uint64_t message) {
    return pick(std::array<const char*, 3>{"REQ", "REP", "LAP"}, message);
}
const char* rejected_name(std::uint64_t message) {
    return pick(std::array<const char*, 3>{"REQ", "REP", "no message"}, message);
}
const char* failover_name(std::uint64_t failover) {
    return pick(std::array<const char*, 3>{"accepted", "not supported", "rejected"}, failover);
}
const char* sidr_status_name(std::uint64_t status) {
    return pick(std::array<const char*, 6>{"QP is valid", "service ID not supported", "rejected by provider",
                                           "no QP available", "redirect", "version not supported"},
                status);
}
const char* ap_status_name(std::uint64_t status) {
    return pick(std::array<const char*, 14>{"path loaded", "invalid communication instance", "not supported",
                                            "rejected", "redirect", "already current", "QPN or EECN mismatch",
                                            "LID rejected", "GID rejected", "flow label rejected",
                                            "traffic class rejected", "hop limit rejected",
                                            "packet rate rejected", "SL rejected"},
                status);
}
// IBA table 110.
const char* reject_reason_name(std::uint64_t reason) {
    static constexpr std::array<const char*, 36> kNames = {
        nullptr,
        "no QP available",
        "no EEC available",
        "no resources available",
        "timeout",
        "unsupported request",
        "invalid communication ID",
        "invalid communication instance",
        "invalid service ID",
        "invalid transport service type",
        "stale connection",
        "RDC does not exist",
        "primary remote port GID rejected",
        "primary remote port LID rejected",
        "invalid primary SL",
        "invalid primary traffic class",
        "invalid primary hop limit",
        "invalid primary packet rate",
        "alternate remote port GID rejected",
        "alternate remote port LID rejected",
        "invalid alternate SL",
        "invalid alternate traffic class",
        "invalid alternate hop limit",
        "invalid alternate packet rate",
        "port and CM redirection",
        "port redirection",
        "invalid path MTU",
        "insufficient responder resources",
        "consumer reject",
        "RNR retry count reject",
        "duplicate local communication ID",
        "invalid class version",
        "invalid primary flow label",
        "invalid alternate flow label",
        nullptr,
        "vendor option not supported",
    };
    return pick(kNames, reason);
}

using enum FieldFormat;

constexpr Field kReqFields[] = {
    URNIC_WIRE_FIELD(Req, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Req, service_id, at(8), 64, kHex),
    URNIC_WIRE_FIELD(Req, local_ca_guid, at(16), 64, kHex),
    URNIC_WIRE_FIELD(Req, local_qkey, at(28), 32, kHex),
    URNIC_WIRE_FIELD(Req, local_qpn, at(32), 24, kHex),
    URNIC_WIRE_FIELD(Req, responder_resources, at(35), 8, kDecimal),
    URNIC_WIRE_FIELD(Req, local_eecn, at(36), 24, kHex),
    URNIC_WIRE_FIELD(Req, initiator_depth, at(39), 8, kDecimal),
    URNIC_WIRE_FIELD(Req, remote_eecn, at(40), 24, kHex),
    URNIC_WIRE_FIELD(Req, remote_cm_response_timeout, at(43), 5, kDecimal),
    URNIC_WIRE_NAMED(Req, transport_service_type, at(43, 5), 2, kDecimal, transport_name),
    URNIC_WIRE_FIELD(Req, end_to_end_flow_control, at(43, 7), 1, kDecimal),
    URNIC_WIRE_FIELD(Req, starting_psn, at(44), 24, kDecimal),
    URNIC_WIRE_FIELD(Req, local_cm_response_timeout, at(47), 5, kDecimal),
    URNIC_WIRE_FIELD(Req, retry_count, at(47, 5), 3, kDecimal),
    URNIC_WIRE_FIELD(Req, pkey, at(48), 16, kHex),
    URNIC_WIRE_NAMED(Req, path_mtu, at(50), 4, kDecimal, mtu_name),
    URNIC_WIRE_FIELD(Req, rdc_exists, at(50, 4), 1, kDecimal),
    URNIC_WIRE_FIELD(Req, rnr_retry_count, at(50, 5), 3, kDecimal),
    URNIC_WIRE_FIELD(Req, max_cm_retries, at(51), 4, kDecimal),
    URNIC_WIRE_FIELD(Req, srq, at(51, 4), 1, kDecimal),
    URNIC_WIRE_FIELD(Req, extended_transport_type, at(51, 5), 3, kDecimal),
    URNIC_WIRE_FIELD(Req, primary.local_lid, at(52), 16, kHex),
    URNIC_WIRE_FIELD(Req, primary.remote_lid, at(54), 16, kHex),
    URNIC_WIRE_FIELD(Req, primary.local_gid, at(56), 128, kGid),
    URNIC_WIRE_FIELD(Req, primary.remote_gid, at(72), 128, kGid),
    URNIC_WIRE_FIELD(Req, primary.flow_label, at(88), 20, kHex),
    URNIC_WIRE_FIELD(Req, primary.packet_rate, at(91, 2), 6, kDecimal),
    URNIC_WIRE_FIELD(Req, primary.traffic_class, at(92), 8, kHex),
    URNIC_WIRE_FIELD(Req, primary.hop_limit, at(93), 8, kDecimal),
    URNIC_WIRE_FIELD(Req, primary.sl, at(94), 4, kDecimal),
    URNIC_WIRE_FIELD(Req, primary.subnet_local, at(94, 4), 1, kDecimal),
    URNIC_WIRE_FIELD(Req, primary.local_ack_timeout, at(95), 5, kDecimal),
    URNIC_WIRE_FIELD(Req, alternate.local_lid, at(96), 16, kHex),
    URNIC_WIRE_FIELD(Req, alternate.remote_lid, at(98), 16, kHex),
    URNIC_WIRE_FIELD(Req, alternate.local_gid, at(100), 128, kGid),
    URNIC_WIRE_FIELD(Req, alternate.remote_gid, at(116), 128, kGid),
    URNIC_WIRE_FIELD(Req, alternate.flow_label, at(132), 20, kHex),
    URNIC_WIRE_FIELD(Req, alternate.packet_rate, at(135, 2), 6, kDecimal),
    URNIC_WIRE_FIELD(Req, alternate.traffic_class, at(136), 8, kHex),
    URNIC_WIRE_FIELD(Req, alternate.hop_limit, at(137), 8, kDecimal),
    URNIC_WIRE_FIELD(Req, alternate.sl, at(138), 4, kDecimal),
    URNIC_WIRE_FIELD(Req, alternate.subnet_local, at(138, 4), 1, kDecimal),
    URNIC_WIRE_FIELD(Req, alternate.local_ack_timeout, at(139), 5, kDecimal),
    URNIC_WIRE_FIELD(Req, private_data, at(140), 92 * 8, kBytes),
};
constexpr Field kMraFields[] = {
    URNIC_WIRE_FIELD(Mra, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Mra, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_NAMED(Mra, message_mraed, at(8), 2, kDecimal, mraed_name),
    URNIC_WIRE_FIELD(Mra, service_timeout, at(9), 5, kDecimal),
    URNIC_WIRE_FIELD(Mra, private_data, at(10), 222 * 8, kBytes),
};
constexpr Field kRejFields[] = {
    URNIC_WIRE_FIELD(Rej, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Rej, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_NAMED(Rej, message_rejected, at(8), 2, kDecimal, rejected_name),
    URNIC_WIRE_FIELD(Rej, reject_info_length, at(9), 7, kDecimal),
    URNIC_WIRE_NAMED(Rej, reason, at(10), 16, kDecimal, reject_reason_name),
    URNIC_WIRE_FIELD(Rej, additional_info, at(12), 72 * 8, kBytes),
    URNIC_WIRE_FIELD(Rej, private_data, at(84), 148 * 8, kBytes),
};
constexpr Field kRepFields[] = {
    URNIC_WIRE_FIELD(Rep, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Rep, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_FIELD(Rep, local_qkey, at(8), 32, kHex),
    URNIC_WIRE_FIELD(Rep, local_qpn, at(12), 24, kHex),
    URNIC_WIRE_FIELD(Rep, local_eecn, at(16), 24, kHex),
    URNIC_WIRE_FIELD(Rep, starting_psn, at(20), 24, kDecimal),
    URNIC_WIRE_FIELD(Rep, responder_resources, at(24), 8, kDecimal),
    URNIC_WIRE_FIELD(Rep, initiator_depth, at(25), 8, kDecimal),
    URNIC_WIRE_FIELD(Rep, target_ack_delay, at(26), 5, kDecimal),
    URNIC_WIRE_NAMED(Rep, failover_accepted, at(26, 5), 2, kDecimal, failover_name),
    URNIC_WIRE_FIELD(Rep, end_to_end_flow_control, at(26, 7), 1, kDecimal),
    URNIC_WIRE_FIELD(Rep, rnr_retry_count, at(27), 3, kDecimal),
    URNIC_WIRE_FIELD(Rep, srq, at(27, 3), 1, kDecimal),
    URNIC_WIRE_FIELD(Rep, local_ca_guid, at(28), 64, kHex),
    URNIC_WIRE_FIELD(Rep, private_data, at(36), 196 * 8, kBytes),
};
constexpr Field kRtuFields[] = {
    URNIC_WIRE_FIELD(Rtu, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Rtu, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_FIELD(Rtu, private_data, at(8), 224 * 8, kBytes),
};
constexpr Field kDreqFields[] = {
    URNIC_WIRE_FIELD(Dreq, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Dreq, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_FIELD(Dreq, remote_qpn_eecn, at(8), 24, kHex),
    URNIC_WIRE_FIELD(Dreq, private_data, at(12), 220 * 8, kBytes),
};
constexpr Field kDrepFields[] = {
    URNIC_WIRE_FIELD(Drep, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Drep, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_FIELD(Drep, private_data, at(8), 224 * 8, kBytes),
};
constexpr Field kSidrReqFields[] = {
    URNIC_WIRE_FIELD(SidrReq, request_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(SidrReq, pkey, at(4), 16, kHex),
    URNIC_WIRE_FIELD(SidrReq, service_id, at(8), 64, kHex),
    URNIC_WIRE_FIELD(SidrReq, private_data, at(16), 216 * 8, kBytes),
};
constexpr Field kSidrRepFields[] = {
    URNIC_WIRE_FIELD(SidrRep, request_id, at(0), 32, kHex),
    URNIC_WIRE_NAMED(SidrRep, status, at(4), 8, kDecimal, sidr_status_name),
    URNIC_WIRE_FIELD(SidrRep, additional_info_length, at(5), 8, kDecimal),
    URNIC_WIRE_FIELD(SidrRep, qpn, at(8), 24, kHex),
    URNIC_WIRE_FIELD(SidrRep, service_id, at(12), 64, kHex),
    URNIC_WIRE_FIELD(SidrRep, qkey, at(20), 32, kHex),
    URNIC_WIRE_FIELD(SidrRep, additional_info, at(24), 72 * 8, kBytes),
    URNIC_WIRE_FIELD(SidrRep, private_data, at(96), 136 * 8, kBytes),
};
constexpr Field kLapFields[] = {
    URNIC_WIRE_FIELD(Lap, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Lap, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_FIELD(Lap, remote_qpn_eecn, at(12), 24, kHex),
    URNIC_WIRE_FIELD(Lap, remote_cm_response_timeout, at(15), 5, kDecimal),
    URNIC_WIRE_FIELD(Lap, alternate.local_lid, at(20), 16, kHex),
    URNIC_WIRE_FIELD(Lap, alternate.remote_lid, at(22), 16, kHex),
    URNIC_WIRE_FIELD(Lap, alternate.local_gid, at(24), 128, kGid),
    URNIC_WIRE_FIELD(Lap, alternate.remote_gid, at(40), 128, kGid),
    URNIC_WIRE_FIELD(Lap, alternate.flow_label, at(56), 20, kHex),
    URNIC_WIRE_FIELD(Lap, alternate.traffic_class, at(59), 8, kHex),
    URNIC_WIRE_FIELD(Lap, alternate.hop_limit, at(60), 8, kDecimal),
    URNIC_WIRE_FIELD(Lap, alternate.packet_rate, at(61, 2), 6, kDecimal),
    URNIC_WIRE_FIELD(Lap, alternate.sl, at(62), 4, kDecimal),
    URNIC_WIRE_FIELD(Lap, alternate.subnet_local, at(62, 4), 1, kDecimal),
    URNIC_WIRE_FIELD(Lap, alternate.local_ack_timeout, at(63), 5, kDecimal),
    URNIC_WIRE_FIELD(Lap, private_data, at(64), 168 * 8, kBytes),
};
constexpr Field kAprFields[] = {
    URNIC_WIRE_FIELD(Apr, local_comm_id, at(0), 32, kHex),
    URNIC_WIRE_FIELD(Apr, remote_comm_id, at(4), 32, kHex),
    URNIC_WIRE_FIELD(Apr, additional_info_length, at(8), 8, kDecimal),
    URNIC_WIRE_NAMED(Apr, ap_status, at(9), 8, kDecimal, ap_status_name),
    URNIC_WIRE_FIELD(Apr, additional_info, at(12), 72 * 8, kBytes),
    URNIC_WIRE_FIELD(Apr, private_data, at(84), 148 * 8, kBytes),
};
constexpr Field kIpCmHeaderFields[] = {
    URNIC_WIRE_FIELD(IpCmHeader, major_version, at(0), 4, kDecimal),
    URNIC_WIRE_FIELD(IpCmHeader, minor_version, at(0, 4), 4, kDecimal),
    URNIC_WIRE_FIELD(IpCmHeader, ip_version, at(1), 4, kDecimal),
    URNIC_WIRE_FIELD(IpCmHeader, src_port, at(2), 16, kDecimal),
    URNIC_WIRE_FIELD(IpCmHeader, src_address, at(4), 128, kGid),
    URNIC_WIRE_FIELD(IpCmHeader, dst_address, at(20), 128, kGid),
};
static_assert(well_formed(kReqFields, kMessageBytes) && well_formed(kMraFields, kMessageBytes));
static_assert(well_formed(kRejFields, kMessageBytes) && well_formed(kRepFields, kMessageBytes));
static_assert(well_formed(kRtuFields, kMessageBytes) && well_formed(kDreqFields, kMessageBytes));
static_assert(well_formed(kDrepFields, kMessageBytes) && well_formed(kSidrReqFields, kMessageBytes));
static_assert(well_formed(kSidrRepFields, kMessageBytes) && well_formed(kLapFields, kMessageBytes));
static_assert(well_formed(kAprFields, kMessageBytes));
static_assert(well_formed(kIpCmHeaderFields, kIpCmHeaderBytes));

constexpr HeaderTable kReqTable = {"CM REQ", kMessageBytes, kReqFields};
constexpr HeaderTable kMraTable = {"CM MRA", kMessageBytes, kMraFields};
constexpr HeaderTable kRejTable = {"CM REJ", kMessageBytes, kRejFields};
constexpr HeaderTable kRepTable = {"CM REP", kMessageBytes, kRepFields};
constexpr HeaderTable kRtuTable = {"CM RTU", kMessageBytes, kRtuFields};
constexpr HeaderTable kDreqTable = {"CM DREQ", kMessageBytes, kDreqFields};
constexpr HeaderTable kDrepTable = {"CM DREP", kMessageBytes, kDrepFields};
constexpr HeaderTable kSidrReqTable = {"CM SIDR_REQ", kMessageBytes, kSidrReqFields};
constexpr HeaderTable kSidrRepTable = {"CM SIDR_REP", kMessageBytes, kSidrRepFields};
constexpr HeaderTable kLapTable = {"CM LAP", kMessageBytes, kLapFields};
constexpr HeaderTable kAprTable = {"CM APR", kMessageBytes, kAprFields};

/// Tries the alternatives of Message one after the other.
template <std::size_t Index = 0>
std::optional<Message> parse_alternative(std::uint16_t attribute_id, MessageBytes wire) {
    if constexpr (Index == std::variant_size_v<Message>) {
        return std::nullopt;
    } else {
        using M = std::variant_alternative_t<Index, Message>;
        return attribute_id == M::kAttributeId ? std::optional<Message>(parse_cm<M>(wire))
                                               : parse_alternative<Index + 1>(attribute_id, wire);
    }
}

}  // namespace

const HeaderTable kIpCmHeaderTable = {"IP CM", kIpCmHeaderBytes, kIpCmHeaderFields};

const HeaderTable& Req::table() { return kReqTable; }
const HeaderTable& Mra::table() { return kMraTable; }
const HeaderTable& Rej::table() { return kRejTable; }
const HeaderTable& Rep::table() { return kRepTable; }
const HeaderTable& Rtu::table() { return kRtuTable; }
const HeaderTable& Dreq::table() { return kDreqTable; }
const HeaderTable& Drep::table() { return kDrepTable; }
const HeaderTable& SidrReq::table() { return kSidrReqTable; }
const HeaderTable& SidrRep::table() { return kSidrRepTable; }
const HeaderTable& Lap::table() { return kLapTable; }
const HeaderTable& Apr::table() { return kAprTable; }

std::optional<Message> parse_message(std::uint16_t attribute_id, MessageBytes wire) {
    return parse_alternative(attribute_id, wire);
}

std::uint16_t attribute_id(const Message& message) {
    return std::visit([](const auto& one) { return std::decay_t<decltype(one)>::kAttributeId; }, message);
}

const HeaderTable& table_of(const Message& message) {
    return std::visit([](const auto& one) -> const HeaderTable& { return one.table(); }, message);
}

}  // namespace urnic::wire::cm
