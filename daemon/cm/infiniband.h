// What rdma_cm asks subnet administration for: paths and multicast groups.
#pragma once

#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <cstdint>

#include "daemon/cm/id.h"
#include "daemon/state/rnic_state.h"
#include "rnic/cm/events.h"
#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

/// The group of an IP multicast address, as Linux's rdma_cm maps it: that of IPoIB (RFC 4391, section 4), in
/// the port space UDP with a signature of its own.
[[nodiscard]] wire::Gid multicast_gid(const wire::Gid& ip, std::uint16_t pkey, std::uint16_t space);

/// A path as librdmacm reads it.
[[nodiscard]] ib_user_path_rec user_path(const wire::mad::PathRecord& path);
/// The address vector of its packets, which do without a GRH.
[[nodiscard]] ib_uverbs_ah_attr path_attributes(const CmId& id);
/// And of datagrams to a group.
[[nodiscard]] ib_uverbs_ah_attr group_attributes(const wire::mad::McMemberRecord& group);

/// The way back to whoever has sent a request.
[[nodiscard]] wire::mad::PathRecord path_of_request(const RnicState& device, const cm::Event& event);

}  // namespace urnic::daemon
