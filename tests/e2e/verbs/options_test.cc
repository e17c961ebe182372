// What the verbs offer for each QP type, and what a device answers to every query.
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

std::string name_of(ibv_qp_type type) { return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD"; }

class QpOptions : public testing::Test {
  protected:
    ibv_qp_init_attr_ex init(ibv_qp_type type) const {
        ibv_qp_init_attr_ex attr{};
        attr.send_cq = attr.recv_cq = home_.cq;
        attr.cap = {8, 8, 1, 1, 0};
        attr.qp_type = type;
        attr.pd = home_.pd;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        if (type == IBV_QPT_XRC_SEND) {
            attr.recv_cq = nullptr;
            attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
        }
        return attr;
    }
    int error_of(ibv_qp_init_attr_ex attr) const {
        errno = 0;
        ibv_qp* qp = ibv_create_qp_ex(home_.context.get(), &attr);
        if (qp == nullptr) return errno;
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        return 0;
    }
    int error_of_ops(ibv_qp_type type, std::uint64_t ops) const {
        ibv_qp_init_attr_ex attr = init(type);
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = ops;
        return error_of(attr);
    }

    Endpoint home_{"urnic0"};
};

// IBA tables 33 to 35: what each transport service can do.
TEST_F(QpOptions, EachTypeOffersItsOperationsAndNoOther) {
    struct Row {
        std::uint64_t operation;
        bool rc, uc, ud;
    };
    constexpr Row kRows[] = {
        {IBV_QP_EX_WITH_SEND, true, true, true},
        {IBV_QP_EX_WITH_SEND_WITH_IMM, true, true, true},
        {IBV_QP_EX_WITH_RDMA_WRITE, true, true, false},
        {IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, true, true, false},
        {IBV_QP_EX_WITH_RDMA_READ, true, false, false},
        {IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, true, false, false},
        {IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, true, false, false},
        {IBV_QP_EX_WITH_SEND_WITH_INV, true, false, false},
        {IBV_QP_EX_WITH_BIND_MW, true, true, false},
        {IBV_QP_EX_WITH_LOCAL_INV, true, true, false},
        {IBV_QP_EX_WITH_ATOMIC_WRITE, true, false, false},
        {IBV_QP_EX_WITH_TSO, false, false, false},
        {std::uint64_t{1} << 40U, false, false, false},
    };
    for (const Row& row : kRows) {
        const bool offered[] = {row.rc, row.uc, row.ud};
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(error_of_ops(kTypes[i], row.operation), offered[i] ? 0 : EOPNOTSUPP)
                << name_of(kTypes[i]) << " with " << row.operation;
        }
        EXPECT_EQ(error_of_ops(IBV_QPT_XRC_SEND, row.operation), row.rc ? 0 : EOPNOTSUPP)
            << "XRC initiator with " << row.operation;
    }
}

TEST_F(QpOptions, WhatCannotBeHonouredIsRefused) {
    for (const std::uint32_t flag : {IBV_QP_CREATE_SCATTER_FCS, IBV_QP_CREATE_CVLAN_STRIPPING,
                                     IBV_QP_CREATE_SOURCE_QPN, IBV_QP_CREATE_PCI_WRITE_END_PADDING}) {
        for (const ibv_qp_type type : kTypes) {
            ibv_qp_init_attr_ex attr = init(type);
            attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
            attr.create_flags = flag;
            EXPECT_EQ(error_of(attr), EOPNOTSUPP) << name_of(type) << " with create flag " << flag;
        }
    }
    for (const std::uint32_t mask :
         {IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QP_INIT_ATTR_IND_TABLE, IBV_QP_INIT_ATTR_RX_HASH}) {
        ibv_qp_init_attr_ex attr = init(IBV_QPT_UD);
        attr.comp_mask |= mask;
        EXPECT_EQ(error_of(attr), EOPNOTSUPP) << mask;
    }
    for (const ibv_qp_type type : {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER}) {
        EXPECT_EQ(error_of(init(type)), EOPNOTSUPP) << type;
    }
    ibv_qp_init_attr_ex none = init(IBV_QPT_RC);
    none.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    EXPECT_EQ(error_of(none), 0) << "no flag at all";
    none.comp_mask = 0;
    EXPECT_EQ(error_of(none), EINVAL) << "no PD";
    none = init(IBV_QPT_RC);
    none.send_cq = nullptr;
    EXPECT_EQ(error_of(none), EINVAL);
}

// Every attribute of a type comes back from ibv_query_qp() as it was set.
TEST_F(QpOptions, AttributesComeBack) {
    for (const ibv_qp_type type : kTypes) {
        SCOPED_TRACE(name_of(type));
        const Endpoint a("urnic0", {.type = type, .signal_all = true});
        const Endpoint b("urnic1", {.type = type});
        PathOptions path{
            .mtu = IBV_MTU_512, .timeout = 11, .retry_cnt = 3, .rnr_retry = 2, .min_rnr_timer = 9};
        path.max_rd_atomic = 7;
        path.access = IBV_ACCESS_REMOTE_WRITE;
        connect(a, b, path);
        ibv_qp_attr attr{};
        ibv_qp_init_attr given{};
        ASSERT_EQ(ibv_query_qp(a.qp, &attr, ~0, &given), 0);
        EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
        EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
        EXPECT_EQ(attr.port_num, 1);
        EXPECT_EQ(attr.pkey_index, 0);
        EXPECT_EQ(attr.sq_draining, 0);
        EXPECT_EQ(attr.path_mig_state, IBV_MIG_MIGRATED);
        EXPECT_EQ(attr.sq_psn, path.psn_a);
        EXPECT_EQ(attr.cap.max_send_wr, given.cap.max_send_wr);
        if (type == IBV_QPT_UD) {
            EXPECT_EQ(attr.qkey, path.qkey);
        } else {
            EXPECT_EQ(attr.path_mtu, IBV_MTU_512);
            EXPECT_EQ(attr.dest_qp_num, b.qp->qp_num);
            EXPECT_EQ(attr.rq_psn, path.psn_b);
            EXPECT_EQ(attr.qp_access_flags, static_cast<unsigned>(IBV_ACCESS_REMOTE_WRITE));
            EXPECT_EQ(attr.ah_attr.is_global, 1);
            EXPECT_EQ(attr.ah_attr.port_num, 1);
            const ibv_ah_attr peer = address_of(b.context.get());
            EXPECT_EQ(attr.ah_attr.grh.sgid_index, peer.grh.sgid_index);
            EXPECT_EQ(attr.ah_attr.dlid, peer.dlid);
            EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, peer.grh.dgid.raw, 16), 0);
        }
        if (type == IBV_QPT_RC) {
            EXPECT_EQ(attr.timeout, 11);
            EXPECT_EQ(attr.retry_cnt, 3);
            EXPECT_EQ(attr.rnr_retry, 2);
            EXPECT_EQ(attr.min_rnr_timer, 9);
            EXPECT_EQ(attr.max_rd_atomic, 7);
            EXPECT_EQ(attr.max_dest_rd_atomic, 7);
        }
        EXPECT_EQ(given.qp_type, type);
        EXPECT_EQ(given.qp_context, a.qp->qp_context);
        EXPECT_EQ(given.send_cq, a.cq);
        EXPECT_EQ(given.recv_cq, a.cq);
        EXPECT_EQ(given.srq, nullptr);
        EXPECT_EQ(given.sq_sig_all, 1);
        EXPECT_GE(given.cap.max_send_wr, 128U);
        EXPECT_GE(given.cap.max_send_sge, 16U);
        EXPECT_GE(given.cap.max_inline_data, 256U);
    }
}

TEST_F(QpOptions, ARateLimitIsKeptUntilReset) {
    for (const ibv_qp_type type : kTypes) {
        SCOPED_TRACE(name_of(type));
        const Endpoint a("urnic0", {.type = type});
        const Endpoint b("urnic1", {.type = type});
        ibv_qp_rate_limit_attr limit{};
        limit.rate_limit = 5000;
        EXPECT_EQ(ibv_modify_qp_rate_limit(a.qp, &limit), EINVAL) << "the QP cannot send yet";
        connect(a, b);
        ibv_qp_attr attr{};
        ibv_qp_init_attr given{};
        ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &given), 0);
        EXPECT_EQ(attr.rate_limit, 0U);
        ASSERT_EQ(ibv_modify_qp_rate_limit(a.qp, &limit), 0);
        ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &given), 0);
        EXPECT_EQ(attr.rate_limit, 5000U);
        attr.rate_limit = 77;
        ASSERT_EQ(ibv_modify_qp(a.qp, &attr, IBV_QP_RATE_LIMIT), 0);
        ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &given), 0);
        EXPECT_EQ(attr.rate_limit, 77U);
        EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
        ASSERT_EQ(to_state(a, IBV_QPS_RESET), 0);
        ASSERT_EQ(ibv_query_qp(a.qp, &attr, IBV_QP_RATE_LIMIT, &given), 0);
        EXPECT_EQ(attr.rate_limit, 0U);
    }
}

TEST_F(QpOptions, ADeviceWithoutConnectionOptionsOrAPromiseOfOrder) {
    ibv_ece ece{1, 2, 3};
    EXPECT_EQ(ibv_query_ece(home_.qp, &ece), EOPNOTSUPP);
    EXPECT_EQ(ibv_set_ece(home_.qp, &ece), EOPNOTSUPP);
    ece.vendor_id = 0x2c9;
    EXPECT_EQ(ibv_set_ece(home_.qp, &ece), EOPNOTSUPP);
    for (const ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
        EXPECT_EQ(ibv_query_qp_data_in_order(home_.qp, op, 0), 0);
    }
}

/// What a call that must fail left in errno; 0 if it succeeded.
template <class Call>
int errno_of(Call call) {
    errno = 0;
    return call() == nullptr ? errno : 0;
}

// Objects of raw Ethernet, flow steering and counting: docs/verbs.md says why there are none.
TEST_F(QpOptions, ObjectsThatTheDeviceDoesNotHave) {
    ibv_context* context = home_.context.get();
    ibv_wq_init_attr wq{};
    wq.wq_type = IBV_WQT_RQ;
    wq.max_wr = wq.max_sge = 1;
    wq.pd = home_.pd;
    wq.cq = home_.cq;
    EXPECT_EQ(errno_of([&] { return ibv_create_wq(context, &wq); }), EOPNOTSUPP);
    ibv_rwq_ind_table_init_attr table{};
    EXPECT_EQ(errno_of([&] { return ibv_create_rwq_ind_table(context, &table); }), EOPNOTSUPP);
    ibv_flow_attr flow{};
    EXPECT_EQ(errno_of([&] { return ibv_create_flow(home_.qp, &flow); }), EOPNOTSUPP);
    ibv_flow_action_esp_attr esp{};
    EXPECT_EQ(errno_of([&] { return ibv_create_flow_action_esp(context, &esp); }), EOPNOTSUPP);
    ibv_counters_init_attr counters{};
    EXPECT_EQ(errno_of([&] { return ibv_create_counters(context, &counters); }), EOPNOTSUPP);
    EXPECT_EQ(errno_of([&] { return ibv_reg_dmabuf_mr(home_.pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE); }),
              EOPNOTSUPP);
    ibv_sge sge = home_.sge(0, 4096);
    EXPECT_EQ(ibv_advise_mr(home_.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
}

TEST(DeviceAnswers, EveryExtendedAttribute) {
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_device_attr_ex attr{};
    std::memset(&attr, 0xaa, sizeof attr);
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attr), 0);
    EXPECT_EQ(attr.comp_mask, 0U);
    EXPECT_EQ(attr.completion_timestamp_mask, ~std::uint64_t{0});
    EXPECT_EQ(attr.hca_core_clock, 1'000'000U);
    EXPECT_EQ(attr.cq_mod_caps.max_cq_count, 0xffff);
    EXPECT_EQ(attr.cq_mod_caps.max_cq_period, 0xffff);
    EXPECT_EQ(attr.phys_port_cnt_ex, 1U);
    EXPECT_EQ(attr.device_cap_flags_ex & 0xffff'ffffU, attr.orig_attr.device_cap_flags);
    // What a software device without page faults of its own, flow steering and raw Ethernet does not have.
    EXPECT_EQ(attr.odp_caps.general_caps, 0U);
    EXPECT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps, 0U);
    EXPECT_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps, 0U);
    EXPECT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps, 0U);
    EXPECT_EQ(attr.xrc_odp_caps, 0U);
    EXPECT_EQ(attr.tso_caps.max_tso, 0U);
    EXPECT_EQ(attr.tso_caps.supported_qpts, 0U);
    EXPECT_EQ(attr.rss_caps.supported_qpts, 0U);
    EXPECT_EQ(attr.rss_caps.max_rwq_indirection_tables, 0U);
    EXPECT_EQ(attr.rss_caps.rx_hash_function, 0U);
    EXPECT_EQ(attr.max_wq_type_rq, 0U);
    EXPECT_EQ(attr.packet_pacing_caps.qp_rate_limit_max, 0U) << "a limit is kept, not enforced";
    EXPECT_EQ(attr.packet_pacing_caps.supported_qpts, 0U);
    EXPECT_EQ(attr.raw_packet_caps, 0U);
    EXPECT_EQ(attr.tm_caps.max_num_tags, 0U);
    EXPECT_EQ(attr.tm_caps.flags, 0U);
    EXPECT_EQ(attr.pci_atomic_caps.fetch_add, 0U);
    ibv_query_device_ex_input input{};
    input.comp_mask = 1;
    EXPECT_EQ(ibv_query_device_ex(context.get(), &input, &attr), EINVAL);
}

TEST(DeviceAnswers, TablesAndNames) {
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
    EXPECT_NE(device.fw_ver[0], '\0');
    EXPECT_EQ(device.node_guid, ibv_get_device_guid(context->device));
    EXPECT_EQ(device.sys_image_guid, device.node_guid);
    EXPECT_EQ(context->device->node_type, IBV_NODE_CA);
    EXPECT_EQ(context->device->transport_type, IBV_TRANSPORT_IB);
    EXPECT_STREQ(ibv_node_type_str(context->device->node_type), "InfiniBand channel adapter");
    EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
    EXPECT_GE(ibv_get_device_index(context->device), -1);
    ibv_gid_entry table[32];
    EXPECT_EQ(ibv_query_gid_table(context.get(), table, 32, 0), 2);
    for (std::uint32_t i = 0; i < 2; ++i) {
        EXPECT_EQ(table[i].gid_index, i);
        EXPECT_EQ(table[i].port_num, 1U);
        EXPECT_EQ(table[i].gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
        ibv_gid_entry one{};
        ASSERT_EQ(ibv_query_gid_ex(context.get(), 1, i, &one, 0), 0);
        EXPECT_EQ(std::memcmp(&one.gid, &table[i].gid, sizeof one.gid), 0);
    }
    EXPECT_EQ(ibv_query_gid_table(context.get(), table, 1, 0), -EINVAL);
    ibv_gid_entry empty{};
    EXPECT_EQ(ibv_query_gid_ex(context.get(), 1, 5, &empty, 0), ENODATA);
    EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, 0xffff), 0);
    EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, 0x1234), -1);
    __be16 pkey = 0;
    EXPECT_NE(ibv_query_pkey(context.get(), 1, device.max_pkeys, &pkey), 0);
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.pkey_tbl_len, device.max_pkeys);
    EXPECT_NE(port.port_cap_flags & IBV_PORT_CM_SUP, 0U);
    EXPECT_EQ(port.phys_state, 5);
    EXPECT_EQ(port.lid, 0);
    EXPECT_EQ(port.sm_lid, 0);
    EXPECT_EQ(port.flags, 0);
    EXPECT_EQ(port.port_cap_flags2, 0);
}

}  // namespace
}  // namespace urnic::e2e
