// The private interface between libibverbs and its providers, private ABI 34 (rdma-core v34 to v56). Debian
// ships no header for it, so what this provider needs is declared here. The layouts are those of every
// release from v39 to v56 but for one, which qp_ex_flag_offset() finds out.
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

namespace urnic::provider {

extern "C" {

struct ListNode {
    ListNode* next;
    ListNode* previous;
};

/// What libibverbs found in sysfs (struct verbs_sysfs_dev). Read only.
struct SysfsDevice {
    ListNode entry;
    void* provider_data;
    const void* match;
    unsigned int flags;
    char sysfs_name[IBV_SYSFS_NAME_MAX];  // "uverbs_urnic0"
    dev_t sysfs_cdev;
    char ibdev_name[IBV_SYSFS_NAME_MAX];  // "urnic0"
    char ibdev_path[IBV_SYSFS_PATH_MAX];
    char modalias[512];
    std::uint64_t node_guid;
    std::uint32_t driver_id;
    enum ibv_node_type node_type;
    int ibdev_index;
    std::uint32_t num_ports;
    std::uint32_t abi_version;
    struct timespec time_created;
};

struct DeviceOps;

/// struct verbs_device: allocated by the provider, filled by libibverbs.
struct PrivateDevice {
    struct ibv_device device;
    const DeviceOps* ops;
    int refcount;
    ListNode entry;
    SysfsDevice* sysfs;
    std::uint64_t core_support;
};

/// struct verbs_device_ops: what a provider registers.
struct DeviceOps {
    const char* name;
    std::uint32_t match_min_abi_version;
    std::uint32_t match_max_abi_version;
    const void* match_table;
    const DeviceOps** static_providers;
    bool (*match_device)(SysfsDevice* sysfs_device);
    struct verbs_context* (*alloc_context)(struct ibv_device* device, int cmd_fd, void* private_data);
    struct verbs_context* (*import_context)(struct ibv_device* device, int cmd_fd);
    PrivateDevice* (*alloc_device)(SysfsDevice* sysfs_device);
    void (*uninit_device)(PrivateDevice* device);
};

/// enum ibv_mr_type. What is not kMrOrdinary libibverbs neither registers again nor keeps from children.
enum MrType : int { kMrOrdinary = 0, kMrNull = 1, kMrImported = 2 };

/// struct verbs_mr. libibverbs reads `type` and `access` when the region is deregistered.
struct PrivateMr {
    struct ibv_mr mr;
    int type;  // MrType
    int access;
};

/// An operation that this provider leaves to libibverbs, which answers EOPNOTSUPP for it.
using NotOffered = void (*)();

/// struct verbs_context_ops: one pointer for each operation, in alphabetical order.
struct ContextOps {
    NotOffered advise_mr;
    struct ibv_dm* (*alloc_dm)(struct ibv_context*, struct ibv_alloc_dm_attr*);
    struct ibv_mw* (*alloc_mw)(struct ibv_pd*, enum ibv_mw_type);
    struct ibv_mr* (*alloc_null_mr)(struct ibv_pd*);
    struct ibv_pd* (*alloc_parent_domain)(struct ibv_context*, struct ibv_parent_domain_init_attr*);
    struct ibv_pd* (*alloc_pd)(struct ibv_context*);
    struct ibv_td* (*alloc_td)(struct ibv_context*, struct ibv_td_init_attr*);
    NotOffered async_event;
    NotOffered attach_counters_point_flow;
    int (*attach_mcast)(struct ibv_qp*, const union ibv_gid*, std::uint16_t lid);
    int (*bind_mw)(struct ibv_qp*, struct ibv_mw*, struct ibv_mw_bind*);
    int (*close_xrcd)(struct ibv_xrcd*);
    NotOffered cq_event;
    struct ibv_ah* (*create_ah)(struct ibv_pd*, struct ibv_ah_attr*);
    NotOffered create_counters;
    struct ibv_cq* (*create_cq)(struct ibv_context*, int, struct ibv_comp_channel*, int);
    struct ibv_cq_ex* (*create_cq_ex)(struct ibv_context*, struct ibv_cq_init_attr_ex*);
    NotOffered create_flow;
    NotOffered create_flow_action_esp;
    struct ibv_qp* (*create_qp)(struct ibv_pd*, struct ibv_qp_init_attr*);
    struct ibv_qp* (*create_qp_ex)(struct ibv_context*, struct ibv_qp_init_attr_ex*);
    NotOffered create_rwq_ind_table;
    struct ibv_srq* (*create_srq)(struct ibv_pd*, struct ibv_srq_init_attr*);
    struct ibv_srq* (*create_srq_ex)(struct ibv_context*, struct ibv_srq_init_attr_ex*);
    NotOffered create_wq;
    int (*dealloc_mw)(struct ibv_mw*);
    int (*dealloc_pd)(struct ibv_pd*);
    int (*dealloc_td)(struct ibv_td*);
    int (*dereg_mr)(PrivateMr*);
    int (*destroy_ah)(struct ibv_ah*);
    NotOffered destroy_counters;
    int (*destroy_cq)(struct ibv_cq*);
    NotOffered destroy_flow;
    NotOffered destroy_flow_action;
    int (*destroy_qp)(struct ibv_qp*);
    NotOffered destroy_rwq_ind_table;
    int (*destroy_srq)(struct ibv_srq*);
    NotOffered destroy_wq;
    int (*detach_mcast)(struct ibv_qp*, const union ibv_gid*, std::uint16_t lid);
    void (*free_context)(struct ibv_context*);
    int (*free_dm)(struct ibv_dm*);
    int (*get_srq_num)(struct ibv_srq*, std::uint32_t*);
    struct ibv_dm* (*import_dm)(struct ibv_context*, std::uint32_t);
    struct ibv_mr* (*import_mr)(struct ibv_pd*, std::uint32_t);
    struct ibv_pd* (*import_pd)(struct ibv_context*, std::uint32_t);
    int (*modify_cq)(struct ibv_cq*, struct ibv_modify_cq_attr*);
    NotOffered modify_flow_action_esp;
    int (*modify_qp)(struct ibv_qp*, struct ibv_qp_attr*, int);
    int (*modify_qp_rate_limit)(struct ibv_qp*, struct ibv_qp_rate_limit_attr*);
    int (*modify_srq)(struct ibv_srq*, struct ibv_srq_attr*, int);
    NotOffered modify_wq;
    struct ibv_qp* (*open_qp)(struct ibv_context*, struct ibv_qp_open_attr*);
    struct ibv_xrcd* (*open_xrcd)(struct ibv_context*, struct ibv_xrcd_init_attr*);
    int (*poll_cq)(struct ibv_cq*, int, struct ibv_wc*);
    int (*post_recv)(struct ibv_qp*, struct ibv_recv_wr*, struct ibv_recv_wr**);
    int (*post_send)(struct ibv_qp*, struct ibv_send_wr*, struct ibv_send_wr**);
    NotOffered post_srq_ops;
    int (*post_srq_recv)(struct ibv_srq*, struct ibv_recv_wr*, struct ibv_recv_wr**);
    int (*query_device_ex)(struct ibv_context*, const struct ibv_query_device_ex_input*,
                           struct ibv_device_attr_ex*, std::size_t);
    NotOffered query_ece;
    int (*query_port)(struct ibv_context*, std::uint8_t, struct ibv_port_attr*);
    int (*query_qp)(struct ibv_qp*, struct ibv_qp_attr*, int, struct ibv_qp_init_attr*);
    int (*query_qp_data_in_order)(struct ibv_qp*, enum ibv_wr_opcode, std::uint32_t);
    int (*query_rt_values)(struct ibv_context*, struct ibv_values_ex*);
    int (*query_srq)(struct ibv_srq*, struct ibv_srq_attr*);
    NotOffered read_counters;
    struct ibv_mr* (*reg_dm_mr)(struct ibv_pd*, struct ibv_dm*, std::uint64_t, std::size_t, unsigned int);
    NotOffered reg_dmabuf_mr;
    struct ibv_mr* (*reg_mr)(struct ibv_pd*, void*, std::size_t, std::uint64_t, int);
    int (*req_notify_cq)(struct ibv_cq*, int);
    int (*rereg_mr)(PrivateMr*, int, struct ibv_pd*, void*, std::size_t, int);
    int (*resize_cq)(struct ibv_cq*, int);
    NotOffered set_ece;
    void (*unimport_dm)(struct ibv_dm*);
    void (*unimport_mr)(struct ibv_mr*);
    void (*unimport_pd)(struct ibv_pd*);
};
static_assert(sizeof(ContextOps) == 76 * sizeof(void*));

void verbs_register_driver_34(const DeviceOps* ops);
/// Allocates `size` zeroed bytes, of which the verbs_context begins at `offset`; takes over cmd_fd. NULL with
/// errno set.
void* _verbs_init_and_alloc_context(struct ibv_device* device, int cmd_fd, std::size_t size,
                                    struct verbs_context* offset, std::uint32_t driver_id);
void verbs_set_ops(struct verbs_context* context, const ContextOps* ops);
/// Closes cmd_fd and async_fd; the memory stays the provider's.
void verbs_uninit_context(struct verbs_context* context);

}  // extern "C"

/// Bytes that a QP keeps for struct verbs_qp, whatever the release of libibverbs.
inline constexpr std::size_t kPrivateQpRoom = 512;
/// Where struct verbs_qp of the loaded libibverbs has its comp_mask (344, 352 or 360: it follows ibv_qp_ex,
/// which grew). 0: not found, so extended work requests cannot be offered.
std::size_t qp_ex_flag_offset();
/// The flag in that comp_mask that makes ibv_qp_to_qp_ex() answer.
inline constexpr std::uint32_t kPrivateQpEx = 1U << 1U;

/// ibv_port_attr grew to 56 bytes in v49: everything this provider writes must lie in the first 52.
static_assert(sizeof(struct ibv_port_attr) == 52 || sizeof(struct ibv_port_attr) == 56);

}  // namespace urnic::provider
