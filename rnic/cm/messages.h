// MADs of the connection manager: their common header, and what our parameters become on the wire.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "rnic/cm/connection.h"
#include "rnic/cm/types.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"

namespace urnic::cm {

using MadBytes = std::array<std::byte, wire::kMadBytes>;

/// Which message a MRA or REJ is about (IBA 12.6.6, 12.6.7).
enum AboutMessage : std::uint8_t { kAboutReq = 0, kAboutRep = 1, kAboutNone = 2 };

/// The message behind a header with our class, version and method.
template <class M>
[[nodiscard]] MadBytes build_mad(const M& message, std::uint64_t transaction_id) {
    MadBytes bytes{};
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassCommunication;
    header.class_version = wire::cm::kClassVersion;
    header.method = wire::kMadSend;
    header.transaction_id = transaction_id;
    header.attribute_id = M::kAttributeId;
    wire::write_fields(wire::kMadTable, &header, bytes.data());
    wire::cm::build_cm(message, std::span<std::byte, wire::cm::kMessageBytes>(
                                    bytes.data() + wire::kMadHeaderBytes, wire::cm::kMessageBytes));
    return bytes;
}

/// Copies to the front; `from` has to fit.
template <std::size_t Size>
void fill(std::array<std::uint8_t, Size>& to, std::span<const std::uint8_t> from, std::size_t offset = 0) {
    std::copy(from.begin(), from.end(), to.begin() + static_cast<std::ptrdiff_t>(offset));
}

/// 4.096 us * 2^exponent (IBA 12.7); the exponent is cut to `most`, and to 1 ms from below, as in Linux.
[[nodiscard]] constexpr TimeNs cm_time_ns(std::uint8_t exponent, std::uint8_t most) {
    return TimeNs{4096} << std::clamp<std::uint8_t>(exponent, 8, most);
}

[[nodiscard]] bool is_valid(const Route& route);
/// Fields in range, private data not too long.
[[nodiscard]] bool is_valid(const ConnectParams& params);
[[nodiscard]] bool is_valid(const AcceptParams& params, Transport transport);
[[nodiscard]] bool is_valid(const SidrReqParams& params);

[[nodiscard]] wire::cm::Req make_req(Handle id, std::uint64_t ca_guid, const ConnectParams& params);
[[nodiscard]] wire::cm::Rep make_rep(const Connection& connection, std::uint64_t ca_guid, bool no_failover,
                                     const AcceptParams& params);
[[nodiscard]] wire::cm::Rej make_rej(std::uint32_t local_id, std::uint32_t remote_id, AboutMessage about,
                                     const RejectParams& params);
[[nodiscard]] wire::cm::SidrReq make_sidr_req(Handle id, const SidrReqParams& params);

/// The QP number of a REP: an XRC target's lies in the EECN field (IBA annex A14).
[[nodiscard]] inline std::uint32_t qpn_of(const wire::cm::Rep& rep, Transport transport) {
    return transport == Transport::kXrc ? rep.local_eecn : rep.local_qpn;
}

}  // namespace urnic::cm
