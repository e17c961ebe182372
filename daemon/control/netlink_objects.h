// Answers by RDMA netlink with entries: one for each object of the asker's on an RNIC.
#pragma once

#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "daemon/cm/id.h"
#include "daemon/control/netlink_answer.h"
#include "daemon/control/object_walk.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/device.h"

namespace urnic::daemon {

/// The number of an RNIC's only port.
inline constexpr std::uint32_t kPortNumber = 1;

/// What one request is about.
struct Question {
    const ControlState& control;
    std::uint32_t index = 0;  // of the RNIC
    bool has_port = false;

    [[nodiscard]] const RnicState& rnic() const { return *control.devices[index]; }
    [[nodiscard]] const dataplane::Device& device() const { return *rnic().device; }
};

/// Those of rdma_cm; nullptr: it has none.
[[nodiscard]] const HandleTable<CmId>* cm_ids_of(const ClientState& client);

/// Returns whether all of them did.
inline bool have_put(std::initializer_list<int> results) {
    return std::all_of(results.begin(), results.end(), [](int result) { return result == 0; });
}

inline bool put_device(nl_msg* to, const Question& question) {
    return have_put({nla_put_u32(to, RDMA_NLDEV_ATTR_DEV_INDEX, question.index),
                     nla_put_string(to, RDMA_NLDEV_ATTR_DEV_NAME, question.device().name.c_str())});
}

/// Of that RNIC, or one that listens there as everywhere.
inline bool is_on(const CmId& id, const RnicState& rnic) {
    return id.device == &rnic ||
           std::any_of(id.listeners.begin(), id.listeners.end(),
                       [&](const CmId::Listener& listener) { return listener.device == &rnic; });
}

// Each is a step: entries of the next objects. Returns whether there may be more.

[[nodiscard]] bool add_qp_entries(NetlinkAnswer& answer, const Question& question,
                                  const ClientFrom& client_from, ObjectPosition& at);
[[nodiscard]] bool add_cm_id_entries(NetlinkAnswer& answer, const Question& question,
                                     const ClientFrom& client_from, ObjectPosition& at);
[[nodiscard]] bool add_cq_entries(NetlinkAnswer& answer, const Question& question,
                                  const ClientFrom& client_from, ObjectPosition& at);
/// Without keys and addresses, which the kernel gives to CAP_NET_ADMIN alone.
[[nodiscard]] bool add_mr_entries(NetlinkAnswer& answer, const Question& question,
                                  const ClientFrom& client_from, ObjectPosition& at);
[[nodiscard]] bool add_pd_entries(NetlinkAnswer& answer, const Question& question,
                                  const ClientFrom& client_from, ObjectPosition& at);
[[nodiscard]] bool add_srq_entries(NetlinkAnswer& answer, const Question& question,
                                   const ClientFrom& client_from, ObjectPosition& at);

}  // namespace urnic::daemon
