#include "rnic/cm/checks.h"

#include <algorithm>

namespace urnic::cm {

namespace {

Refusal refuse(RejectReason reason, std::span<const std::uint8_t> info = {}) {
    Refusal refusal;
    refusal.reason = reason;
    refusal.info_bytes = static_cast<std::uint8_t>(info.size());
    std::copy(info.begin(), info.end(), refusal.info.begin());
    return refusal;
}

}  // namespace

HeaderCheck check_header(const ReceivedMad& mad, wire::MadHeader& header) {
    wire::read_fields(wire::kMadTable, mad.bytes.data(), &header);
    if (mad.src_qp != wire::kQp1 || header.base_version != 1 ||
        header.mgmt_class != wire::kMadClassCommunication || header.method != wire::kMadSend) {
        return HeaderCheck::kMalformed;
    }
    if (header.class_version == wire::cm::kClassVersion) {
        return HeaderCheck::kGood;
    }
    return header.attribute_id == wire::cm::Req::kAttributeId ? HeaderCheck::kClassVersion
                                                              : HeaderCheck::kMalformed;
}

std::optional<Transport> transport_of(const wire::cm::Req& req) {
    switch (req.transport_service_type) {
        case 0:
            return Transport::kRc;
        case 1:
            return Transport::kUc;
        case 3:
            return req.extended_transport_type == 1 ? std::optional(Transport::kXrc) : std::nullopt;
        default:
            return std::nullopt;
    }
}

std::optional<Refusal> check_req(const wire::cm::Req& req, const ReceivedMad& mad, const PkeyTable& pkeys,
                                 std::uint8_t max_path_mtu, const IpOwners& owners) {
    if (!transport_of(req)) {
        return refuse(kRejInvalidTransportType);
    }
    if (req.primary.remote_gid != mad.dst_gid) {
        return refuse(kRejPrimaryGid, mad.dst_gid);
    }
    // The connection would go to somebody who has not asked for it.
    if (req.primary.local_gid != mad.src_gid || (mad.slid != 0 && req.primary.local_lid != mad.slid)) {
        return refuse(kRejUnsupported);
    }
    if (req.path_mtu < 1 || req.path_mtu > max_path_mtu) {
        return refuse(kRejPathMtu, std::span(&max_path_mtu, 1));
    }
    if (req.local_qpn < kFirstQpn || !pkeys.find(req.pkey)) {
        return refuse(kRejUnsupported);
    }
    if (has_ip_header(req.service_id, req.private_data, owners)) {
        const wire::cm::IpCmHeader ip = ip_header(req.private_data);
        if (!is_known_version(ip) || !is_consistent(ip, mad, owners)) {
            return refuse(kRejConsumer);
        }
    }
    return std::nullopt;
}

wire::cm::IpCmHeader ip_header(std::span<const std::uint8_t> private_data) {
    wire::cm::IpCmHeader ip;
    wire::read_fields(wire::cm::kIpCmHeaderTable, std::as_bytes(private_data).data(), &ip);
    return ip;
}

wire::Gid full_address(const wire::cm::IpCmHeader& ip, const wire::Gid& address) {
    if (ip.ip_version != 4) {
        return address;
    }
    wire::Gid full{};
    full[10] = 0xff;
    full[11] = 0xff;
    std::copy(address.begin() + 12, address.end(), full.begin() + 12);
    return full;
}

bool is_consistent(const wire::cm::IpCmHeader& ip, const ReceivedMad& mad, const IpOwners& owners) {
    return (owners.are_gids() && mad.src_gid == mad.dst_gid) ||
           (owners.gid_of(full_address(ip, ip.src_address)) == mad.src_gid &&
            owners.gid_of(full_address(ip, ip.dst_address)) == mad.dst_gid);
}

/// As Linux: what does not look like a header is private data of AF_IB.
bool has_ip_header(std::uint64_t service_id, std::span<const std::uint8_t> private_data,
                   const IpOwners& owners) {
    return wire::cm::is_ip_cm_service(service_id) &&
           (owners.are_gids() || is_known_version(ip_header(private_data)));
}

RequestedAddress requested_address(std::uint64_t service_id, std::span<const std::uint8_t> private_data,
                                   const ReceivedMad& mad, const IpOwners& owners) {
    if (owners.are_gids() || !wire::cm::is_ip_cm_service(service_id)) {
        return {mad.dst_gid};
    }
    if (!has_ip_header(service_id, private_data, owners)) {
        return {mad.dst_gid, true};
    }
    const wire::cm::IpCmHeader ip = ip_header(private_data);
    return {full_address(ip, ip.dst_address)};
}

bool is_well_formed(const wire::cm::Rej& rej) {
    return rej.reject_info_length <= rej.additional_info.size() && rej.message_rejected <= 2;
}

}  // namespace urnic::cm
