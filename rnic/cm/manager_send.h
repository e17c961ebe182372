// How the parts of the manager send.
#pragma once

#include <variant>

#include "rnic/cm/checks.h"
#include "rnic/cm/manager.h"

namespace urnic::cm {

/// Of a connection: kept, since it may have to be sent again.
template <class M>
void Manager::send(Connection& connection, const M& message, std::uint64_t transaction_id, Call call) {
    connection.mad = build_mad(message, transaction_id);
    connection.sent_attribute_id = M::kAttributeId;
    send_again(connection, call);
}

/// To whom a message came from, without a connection.
template <class M>
bool Manager::answer(const Incoming& in, const M& message, Call call) {
    if (!answers_.take(call.now)) {
        ++stats_.unanswered;
        return false;
    }
    Route route;
    route.local_gid = in.mad.dst_gid;
    route.remote_gid = in.mad.src_gid;
    route.pkey = in.mad.pkey;
    route.remote_lid = in.mad.slid;
    route.sl = in.mad.sl;
    ++stats_.sent;
    call.out.send({route, build_mad(message, in.transaction_id)});
    return true;
}

/// The consumer's part of a message's private data.
[[nodiscard]] inline std::span<const std::uint8_t> private_data_of(const wire::cm::Message& message) {
    return std::visit(
        [](const auto& one) {
            const std::span<const std::uint8_t> all(one.private_data);
            if constexpr (requires { one.pkey; }) {
                return wire::cm::is_ip_cm_service(one.service_id) ? all.subspan(wire::cm::kIpCmHeaderBytes)
                                                                  : all;
            } else {
                return all;
            }
        },
        message);
}

}  // namespace urnic::cm
