// Device and port queries.
#include <errno.h>
#include <stdio.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

constexpr std::uint32_t kNsClockKhz = 1'000'000;  // completion timestamps count nanoseconds
constexpr std::uint16_t kMaxModeration = 0xffff;  // all that ibv_moderate_cq can say
constexpr std::uint32_t kNoVendor = 0xff'ffff;    // as rxe: no IEEE OUI stands for a software device
constexpr std::uint64_t kDeviceAtomicWrite = std::uint64_t{1} << 40U;  // IBV_DEVICE_ATOMIC_WRITE
constexpr std::uint8_t kLocalAckDelay = 15;  // 4.096 us * 2^15: the daemon shares its cores with others

void fill_device(const abi::DeviceCaps& caps, struct ibv_device_attr& attr) {
    snprintf(attr.fw_ver, sizeof attr.fw_ver, "%s", URNIC_VERSION);
    attr.node_guid = caps.node_guid;
    attr.sys_image_guid = caps.node_guid;
    attr.max_mr_size = caps.max_mr_size;
    attr.page_size_cap = 0xfffff000;  // 4 KB and everything above
    attr.vendor_id = kNoVendor;
    attr.max_qp = static_cast<int>(caps.max_qp);
    attr.max_qp_wr = static_cast<int>(caps.max_qp_wr);
    attr.device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |
                            IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN |
                            IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_MEM_WINDOW |
                            IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                            IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC;
    attr.max_sge = static_cast<int>(caps.max_sge);
    attr.max_sge_rd = static_cast<int>(caps.max_sge_rd);
    attr.max_cq = static_cast<int>(caps.max_cq);
    attr.max_cqe = static_cast<int>(caps.max_cqe);
    attr.max_mr = static_cast<int>(caps.max_mr);
    attr.max_mw = static_cast<int>(caps.max_mw);
    attr.max_pd = static_cast<int>(caps.max_pd);
    attr.max_mcast_grp = static_cast<int>(caps.max_mcast_grp);
    attr.max_mcast_qp_attach = static_cast<int>(caps.max_mcast_qp_attach);
    attr.max_total_mcast_qp_attach = static_cast<int>(caps.max_total_mcast_qp_attach);
    attr.max_ah = static_cast<int>(caps.max_ah);
    attr.max_srq = static_cast<int>(caps.max_srq);
    attr.max_srq_wr = static_cast<int>(caps.max_srq_wr);
    attr.max_srq_sge = static_cast<int>(caps.max_srq_sge);
    attr.max_qp_rd_atom = static_cast<int>(caps.max_qp_rd_atom);
    attr.max_res_rd_atom = static_cast<int>(caps.max_res_rd_atom);
    attr.max_qp_init_rd_atom = static_cast<int>(caps.max_qp_init_rd_atom);
    attr.atomic_cap = IBV_ATOMIC_GLOB;
    attr.max_pkeys = static_cast<std::uint16_t>(caps.pkey_table_len);
    attr.local_ca_ack_delay = kLocalAckDelay;
    attr.phys_port_cnt = static_cast<std::uint8_t>(caps.num_ports);
}

}  // namespace

int query_device(struct ibv_context* ibv_context, const struct ibv_query_device_ex_input* input,
                 struct ibv_device_attr_ex* attr, std::size_t attr_size) {
    if (input != nullptr && input->comp_mask != 0) {
        return EINVAL;
    }
    if (attr == nullptr || attr_size < sizeof attr->orig_attr) {
        return EINVAL;
    }
    struct ibv_device_attr_ex all {};
    fill_device(context_of(ibv_context)->caps, all.orig_attr);
    all.completion_timestamp_mask = ~std::uint64_t{0};
    all.hca_core_clock = kNsClockKhz;
    all.cq_mod_caps.max_cq_count = kMaxModeration;
    all.cq_mod_caps.max_cq_period = kMaxModeration;
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags | kDeviceAtomicWrite;
    all.max_dm_size = context_of(ibv_context)->caps.max_dm_bytes;
    all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
    // Callers of other releases have a shorter or a longer struct.
    std::memset(reinterpret_cast<std::byte*>(attr), 0, attr_size);
    std::memcpy(reinterpret_cast<std::byte*>(attr), &all, attr_size < sizeof all ? attr_size : sizeof all);
    return 0;
}

int query_port(struct ibv_context* ibv_context, std::uint8_t port_num, struct ibv_port_attr* attr) {
    Context* context = context_of(ibv_context);
    abi::QueryPortRequest request{};
    request.context = context->handle;
    request.port_num = port_num;
    abi::QueryPortReply reply{};
    const int error = context->session->call(abi::Op::kQueryPort, request, reply);
    if (error != 0) {
        return error;
    }
    attr->state = static_cast<enum ibv_port_state>(reply.state);
    attr->max_mtu = static_cast<enum ibv_mtu>(reply.max_mtu);
    attr->active_mtu = static_cast<enum ibv_mtu>(reply.active_mtu);
    attr->gid_tbl_len = static_cast<int>(reply.gid_table_len);
    attr->port_cap_flags = reply.port_cap_flags;
    attr->max_msg_sz = reply.max_msg_sz;
    attr->bad_pkey_cntr = reply.bad_pkey_counter;
    attr->qkey_viol_cntr = reply.qkey_violation_counter;
    attr->pkey_tbl_len = reply.pkey_table_len;
    attr->lid = reply.lid;
    attr->lmc = reply.lmc;
    attr->sm_lid = reply.sm_lid;
    attr->sm_sl = reply.sm_sl;
    attr->max_vl_num = reply.max_vl_num;
    attr->active_width = reply.active_width;
    attr->active_speed = reply.active_speed;
    attr->phys_state = reply.phys_state;
    attr->link_layer = reply.link_layer;
    return 0;
}

int query_rt_values(struct ibv_context*, struct ibv_values_ex* values) {
    const std::uint32_t wanted = values->comp_mask;
    values->comp_mask = 0;
    if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
        // The clock of completion timestamps: one tick a nanosecond, all of it in tv_nsec. Programs take the
        // raw clock from there alone, or add the seconds.
        struct timespec now {};
        clock_gettime(CLOCK_MONOTONIC, &now);
        values->raw_clock.tv_sec = 0;
        values->raw_clock.tv_nsec = now.tv_sec * 1'000'000'000 + now.tv_nsec;
        values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    }
    return 0;
}

}  // namespace urnic::provider
