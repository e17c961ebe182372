#include "daemon/device_caps.h"

#include "daemon/state/multicast_groups.h"
#include "rnic/device/address_handles.h"
#include "rnic/mem/key_table.h"
#include "rnic/qp/limits.h"

namespace urnic::daemon {

abi::DeviceCaps caps_of(const dataplane::Device& device) {
    abi::DeviceCaps caps{};
    caps.node_guid = device.node_guid;
    caps.max_mr_size = abi::kMemoryFileBytes;
    caps.max_qp = 16384;
    caps.max_qp_wr = abi::kMaxQueueEntries;
    caps.max_sge = abi::kMaxSge;
    caps.max_sge_rd = abi::kMaxSge;
    caps.max_inline = abi::kMaxInlineBytes;
    caps.max_cq = 16384;
    caps.max_cqe = abi::kMaxCqEntries - 1;
    caps.max_mr = 65536;
    caps.max_mw = 65536;
    static_assert(65536 + 65536 <= KeyTable::kMaxKeys);
    caps.max_dm_bytes = 4U << 20U;
    caps.max_pd = 32768;
    caps.max_ah = AddressHandles::kSlots;
    caps.max_srq = 16384;
    caps.max_srq_wr = abi::kMaxQueueEntries;
    caps.max_srq_sge = abi::kMaxSge;
    caps.max_qp_rd_atom = kMaxRdAtomic;
    caps.max_qp_init_rd_atom = kMaxRdAtomic;
    caps.max_res_rd_atom = kMaxRdAtomic * caps.max_qp;
    caps.gid_table_len = dataplane::Device::kGidTableLength;
    caps.pkey_table_len = PkeyTable::kEntries;
    caps.num_ports = 1;
    caps.max_mcast_grp = MulticastGroups::kMaxGroups;
    caps.max_mcast_qp_attach = MulticastGroups::kMaxMembers;
    caps.max_total_mcast_qp_attach = MulticastGroups::kMaxMemberships;
    return caps;
}

}  // namespace urnic::daemon
