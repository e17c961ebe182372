// What ids know of paths and QPs, as the kernel's structures have it.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>

#include "daemon/cm/id.h"

namespace urnic::daemon {

/// The path to the peer, for address handles and QPs.
[[nodiscard]] ib_uverbs_ah_attr address_attributes(const CmId& id);
/// ibv_mtu of the id's RNIC.
[[nodiscard]] std::uint8_t path_mtu_of(const CmId& id);

}  // namespace urnic::daemon
