#include "rnic/cm/messages.h"

namespace urnic::cm {

namespace {

constexpr std::uint32_t kBits24 = 0xff'ffff;
constexpr std::uint16_t kPermissiveLid = 0xffff;
constexpr std::uint8_t kServiceExtended = 3;
constexpr std::uint8_t kExtendedXrc = 1;

bool is_qpn(std::uint32_t qpn) { return qpn >= kFirstQpn && qpn <= kBits24; }

/// Puts the IP CM header in front of the private data.
template <std::size_t Size>
void fill_private(std::array<std::uint8_t, Size>& to, const std::optional<wire::cm::IpCmHeader>& ip,
                  std::span<const std::uint8_t> from) {
    std::size_t offset = 0;
    if (ip) {
        std::array<std::byte, wire::cm::kIpCmHeaderBytes> bytes{};
        wire::write_fields(wire::cm::kIpCmHeaderTable, &*ip, bytes.data());
        std::transform(bytes.begin(), bytes.end(), to.begin(),
                       [](std::byte byte) { return std::to_integer<std::uint8_t>(byte); });
        offset = bytes.size();
    }
    fill(to, from, offset);
}

template <std::size_t Size>
bool fits_private(const std::array<std::uint8_t, Size>& field, bool ip, std::size_t length) {
    return length + (ip ? wire::cm::kIpCmHeaderBytes : 0) <= field.size();
}

}  // namespace

bool is_valid(const Route& route) {
    return route.flow_label <= 0xfffff && route.sl <= 15 && (route.hop_limit != 0 || route.is_infiniband()) &&
           route.local_gid != wire::Gid{} && route.remote_gid != wire::Gid{};
}

bool is_valid(const ConnectParams& params) {
    return is_valid(params.route) && is_qpn(params.local_qpn) && params.starting_psn <= kBits24 &&
           params.retry_count <= 7 && params.rnr_retry_count <= 7 && params.path_mtu >= 1 &&
           params.path_mtu <= 5 && params.packet_rate <= 63 && params.local_ack_timeout <= 31 &&
           params.response_timeout <= 31 && params.max_cm_retries <= 15 &&
           fits_private(wire::cm::Req{}.private_data, params.ip.has_value(), params.private_data.size());
}

bool is_valid(const AcceptParams& params, Transport transport) {
    return is_qpn(params.local_qpn) && params.starting_psn <= kBits24 && params.target_ack_delay <= 31 &&
           params.rnr_retry_count <= 7 &&
           (transport != Transport::kUc || (params.responder_resources | params.initiator_depth) == 0) &&
           fits_private(wire::cm::Rep{}.private_data, false, params.private_data.size());
}

bool is_valid(const SidrReqParams& params) {
    return is_valid(params.route) && params.response_timeout <= 31 && params.max_cm_retries <= 15 &&
           fits_private(wire::cm::SidrReq{}.private_data, params.ip.has_value(), params.private_data.size());
}

wire::cm::Req make_req(Handle id, std::uint64_t ca_guid, const ConnectParams& params) {
    wire::cm::Req req;
    req.local_comm_id = id;
    req.service_id = params.service_id;
    req.local_ca_guid = ca_guid;
    req.local_qkey = params.local_qkey;
    req.local_qpn = params.local_qpn;
    req.initiator_depth = params.initiator_depth;
    req.remote_cm_response_timeout = params.response_timeout;
    req.local_cm_response_timeout = params.response_timeout;
    req.end_to_end_flow_control = params.flow_control;
    req.starting_psn = params.starting_psn;
    req.pkey = params.route.pkey;
    req.path_mtu = params.path_mtu;
    req.max_cm_retries = params.max_cm_retries;
    switch (params.transport) {
        case Transport::kRc:
            break;
        case Transport::kUc:
            req.transport_service_type = 1;
            break;
        case Transport::kXrc:
            req.transport_service_type = kServiceExtended;
            req.extended_transport_type = kExtendedXrc;
            break;
    }
    if (params.transport != Transport::kXrc) {  // an XRC initiator has no responder
        req.responder_resources = params.responder_resources;
        req.retry_count = params.retry_count;
        req.rnr_retry_count = params.rnr_retry_count;
        req.srq = params.srq;
    }
    const bool is_infiniband = params.route.is_infiniband();
    req.primary.local_lid = is_infiniband ? params.route.local_lid : kPermissiveLid;
    req.primary.remote_lid = is_infiniband ? params.route.remote_lid : kPermissiveLid;
    req.primary.subnet_local = is_infiniband;
    req.primary.local_gid = params.route.local_gid;
    req.primary.remote_gid = params.route.remote_gid;
    req.primary.flow_label = params.route.flow_label;
    req.primary.packet_rate = params.packet_rate;
    req.primary.traffic_class = params.route.traffic_class;
    req.primary.hop_limit = params.route.hop_limit;
    req.primary.sl = params.route.sl;
    req.primary.local_ack_timeout = params.local_ack_timeout;
    fill_private(req.private_data, params.ip, params.private_data);
    return req;
}

wire::cm::Rep make_rep(const Connection& connection, std::uint64_t ca_guid, bool no_failover,
                       const AcceptParams& params) {
    wire::cm::Rep rep;
    rep.local_comm_id = connection.id;
    rep.remote_comm_id = connection.info.remote_comm_id;
    rep.local_qkey = params.local_qkey;
    rep.starting_psn = params.starting_psn;
    rep.responder_resources = params.responder_resources;
    rep.target_ack_delay = params.target_ack_delay;
    rep.failover_accepted = no_failover ? 1 : 0;
    rep.rnr_retry_count = params.rnr_retry_count;
    rep.local_ca_guid = ca_guid;
    if (connection.info.transport == Transport::kXrc) {
        rep.local_eecn = params.local_qpn;
        rep.srq = true;
    } else {
        rep.local_qpn = params.local_qpn;
        rep.initiator_depth = params.initiator_depth;
        rep.end_to_end_flow_control = params.flow_control;
        rep.srq = params.srq;
    }
    fill(rep.private_data, params.private_data);
    return rep;
}

wire::cm::Rej make_rej(std::uint32_t local_id, std::uint32_t remote_id, AboutMessage about,
                       const RejectParams& params) {
    wire::cm::Rej rej;
    rej.local_comm_id = local_id;
    rej.remote_comm_id = remote_id;
    rej.message_rejected = about;
    rej.reason = params.reason;
    rej.reject_info_length = static_cast<std::uint8_t>(params.info.size());
    fill(rej.additional_info, params.info);
    fill(rej.private_data, params.private_data);
    return rej;
}

wire::cm::SidrReq make_sidr_req(Handle id, const SidrReqParams& params) {
    wire::cm::SidrReq req;
    req.request_id = id;
    req.pkey = params.route.pkey;
    req.service_id = params.service_id;
    fill_private(req.private_data, params.ip, params.private_data);
    return req;
}

}  // namespace urnic::cm
