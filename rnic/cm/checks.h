// What is looked at before a message from the network is believed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "rnic/cm/ip_owners.h"
#include "rnic/cm/types.h"
#include "rnic/device/gsi.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"

namespace urnic::cm {

/// Why a REQ is rejected before any listener is asked, and what goes with the reason (IBA 12.6.7.2).
struct Refusal {
    std::uint16_t reason = 0;
    std::array<std::uint8_t, 16> info{};
    std::uint8_t info_bytes = 0;
    [[nodiscard]] std::span<const std::uint8_t> information() const {
        return std::span(info).first(info_bytes);
    }
};

enum class HeaderCheck : std::uint8_t {
    kGood,
    kMalformed,
    kClassVersion,  // a REQ of another version of the class
};

/// The common header, and that it came from a QP 1.
[[nodiscard]] HeaderCheck check_header(const ReceivedMad& mad, wire::MadHeader& header);

/// The transport of a REQ; nullopt: none of ours.
[[nodiscard]] std::optional<Transport> transport_of(const wire::cm::Req& req);

/// A REQ's own fields against the packet that it came in and what we can do.
[[nodiscard]] std::optional<Refusal> check_req(const wire::cm::Req& req, const ReceivedMad& mad,
                                               const PkeyTable& pkeys, std::uint8_t max_path_mtu,
                                               const IpOwners& owners);

/// The IP CM header of private data.
[[nodiscard]] wire::cm::IpCmHeader ip_header(std::span<const std::uint8_t> private_data);
/// An address of an IP CM header as an IPv4-mapped or IPv6 address.
[[nodiscard]] wire::Gid full_address(const wire::cm::IpCmHeader& ip, const wire::Gid& address);
/// Its addresses are those of the ports that the packet came from and to. Over RoCE any will do between two
/// QPs of one address: loopback's are no GIDs.
[[nodiscard]] bool is_consistent(const wire::cm::IpCmHeader& ip, const ReceivedMad& mad,
                                 const IpOwners& owners);
/// Returns whether the private data of a request has the header, good or bad. Over RoCE all to the service's
/// IDs have it; over InfiniBand those of AF_IB do without.
[[nodiscard]] bool has_ip_header(std::uint64_t service_id, std::span<const std::uint8_t> private_data,
                                 const IpOwners& owners);

/// What tells listeners apart.
struct RequestedAddress {
    wire::Gid address{};  // the IP address that the request is for where it is no GID, else the packet's GID
    bool is_by_gid = false;  // for listeners with Families::kGid
};
[[nodiscard]] RequestedAddress requested_address(std::uint64_t service_id,
                                                 std::span<const std::uint8_t> private_data,
                                                 const ReceivedMad& mad, const IpOwners& owners);

/// A REJ's own fields: lengths, which message.
[[nodiscard]] bool is_well_formed(const wire::cm::Rej& rej);

}  // namespace urnic::cm
