// What ids know of paths and QPs, as the kernel's structures have it.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include "abi/control_cm.h"
#include "daemon/cm/id.h"
#include "daemon/cm/service.h"
#include "rnic/wire/mad/administration_attributes.h"

namespace urnic::daemon {

/// The path to the peer, for address handles and QPs.
[[nodiscard]] ib_uverbs_ah_attr address_attributes(const CmId& id);
/// ibv_mtu of the id's RNIC.
[[nodiscard]] std::uint8_t path_mtu_of(const CmId& id);
/// The path, or of an id that has none yet what is known of it. The id has a device.
[[nodiscard]] wire::mad::PathRecord path_of(const CmId& id);
/// What INIT_QP_ATTR answers: attributes for a change of the id's QP to that ibv_qp_state. 0 or EINVAL.
[[nodiscard]] int describe_qp_attr(const CmService& service, const CmId& id, std::uint32_t state,
                                   ib_uverbs_qp_attr& attr);
/// What QUERY_ROUTE answers.
[[nodiscard]] rdma_ucm_query_route_resp describe_route(const CmId& id);
/// Both, for an application that will ask.
[[nodiscard]] abi::CmIdSnapshot snapshot_of(const CmService& service, const CmId& id);

}  // namespace urnic::daemon
