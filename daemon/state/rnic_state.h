// One RNIC as the control thread keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/state/multicast_groups.h"
#include "daemon/state/qp_numbers.h"
#include "daemon/state/xrc_domain.h"
#include "dataplane/device/device.h"
#include "dataplane/handoff/key_violation_inbox.h"
#include "dataplane/handoff/mad_inbox.h"

namespace urnic::daemon {

/// One RNIC and what is in use on it.
struct RnicState {
    RnicState(dataplane::Device& d, std::uint32_t num_workers) : device(&d), qp_numbers(num_workers) {}
    dataplane::Device* device;
    QpNumbers qp_numbers;
    QpNumbers srq_numbers{1};  // any worker's
    std::vector<std::unique_ptr<XrcDomain>> xrc_domains;
    std::uint32_t num_qps = 0;
    std::uint32_t num_cqs = 0;
    std::uint32_t num_mrs = 0;
    std::uint32_t num_pds = 0;
    std::uint32_t num_ahs = 0;
    MulticastGroups groups;
    std::unique_ptr<dataplane::MadInbox> mads;                     // see listen_for_mads()
    std::unique_ptr<dataplane::KeyViolationInbox> key_violations;  // of InfiniBand: see SubnetService
    std::uint32_t num_mws = 0;
    std::uint32_t num_dms = 0;
    std::uint32_t num_srqs = 0;
};

}  // namespace urnic::daemon
