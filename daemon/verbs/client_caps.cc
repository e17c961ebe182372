#include "daemon/verbs/client_caps.h"

#include <algorithm>
#include <bit>

#include "abi/queues.h"

namespace urnic::daemon {

abi::DeviceCaps client_caps(abi::DeviceCaps caps, const ClientLimits& limits, const User& user,
                            std::uint32_t num_workers) {
    caps.max_qp = user.at_most(Resource::kQps, std::min(caps.max_qp, limits.max_qps));
    caps.max_cq = user.at_most(Resource::kCqs, std::min(caps.max_cq, limits.max_cqs));
    caps.max_mr = user.at_most(Resource::kMrs, std::min(caps.max_mr, limits.max_mrs));
    caps.max_mw = user.at_most(Resource::kMws, std::min(caps.max_mw, limits.max_mws));
    caps.max_pd = user.at_most(Resource::kPds, std::min(caps.max_pd, limits.max_pds));
    caps.max_ah = user.at_most(Resource::kAhs, std::min(caps.max_ah, limits.max_ahs));
    caps.max_total_mcast_qp_attach = user.at_most(
        Resource::kMcastAttachments, std::min(caps.max_total_mcast_qp_attach, limits.max_mcast_attachments));
    caps.max_mcast_grp = user.at_most(Resource::kMcastGroups, caps.max_mcast_grp);
    caps.max_srq = user.at_most(Resource::kSrqs, std::min(caps.max_srq, limits.max_srqs));
    caps.max_mr_size =
        user.at_most(ByteResource::kRegistered, std::min(caps.max_mr_size, limits.max_registered_bytes));
    caps.max_dm_bytes = user.at_most(ByteResource::kDeviceMemory,
                                     std::min(caps.max_dm_bytes, limits.max_device_memory_bytes));
    caps.max_res_rd_atom = caps.max_qp * caps.max_qp_rd_atom;
    // Queues come in powers of two, and all of a client's lie in its ring memory.
    const std::uint64_t ring_bytes = user.at_most(ByteResource::kRings, limits.max_ring_bytes);
    const std::uint64_t qp_entry =
        std::uint64_t{abi::send_stride(caps.max_sge, caps.max_inline)} + abi::recv_stride(caps.max_sge);
    while (caps.max_qp_wr > 1 && std::bit_ceil(caps.max_qp_wr) * qp_entry > ring_bytes) {
        caps.max_qp_wr /= 2;
    }
    while (caps.max_cqe > 1 && abi::cq_bytes(num_workers, std::bit_ceil(caps.max_cqe)) > ring_bytes) {
        caps.max_cqe /= 2;
    }
    return caps;
}

}  // namespace urnic::daemon
