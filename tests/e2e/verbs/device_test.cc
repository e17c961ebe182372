// What a device says of itself, and how many objects it has room for.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr std::uint8_t kZeroGid[16] = {};

ibv_gid gid_of(ibv_context* context, int index) {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context, 1, index, &gid), 0);
    return gid;
}

TEST(DeviceQuery, PortAndDevice) {
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
    EXPECT_EQ(device.phys_port_cnt, 1);
    EXPECT_GE(device.max_qp, 4096);
    EXPECT_GE(device.max_mr, 65536);
    EXPECT_GE(device.max_sge, 16);
    EXPECT_GE(device.max_qp_rd_atom, 16);
    EXPECT_EQ(device.atomic_cap, IBV_ATOMIC_GLOB);
    EXPECT_NE(device.node_guid, 0U);
    ibv_device_attr_ex extended{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &extended), 0);
    EXPECT_EQ(extended.orig_attr.node_guid, device.node_guid);
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
    EXPECT_GE(port.max_msg_sz, 1U << 30U);
    EXPECT_NE(ibv_query_port(context.get(), 2, &port), 0);
}

// With the other tests of DeviceQuery, DeviceAnswers and DeviceLimits: every field there is.
TEST(DeviceQuery, IdentityPagesAndFlags) {
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_device_attr device{};
    std::memset(&device, 0xaa, sizeof device);
    ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
    EXPECT_EQ(device.vendor_id, 0xff'ffffU);
    EXPECT_EQ(device.vendor_part_id, 0U);
    EXPECT_EQ(device.hw_ver, 0U);
    EXPECT_EQ(device.local_ca_ack_delay, 15)
        << "4.096 us * 2^15, which the connection manager tells peers too";
    EXPECT_EQ(device.device_cap_flags,
              unsigned{IBV_DEVICE_BAD_PKEY_CNTR} | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CURR_QP_STATE_MOD |
                  IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
                  IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                  IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC);
    // Every size of page that the kernel has, and none that is smaller.
    const auto base = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    EXPECT_EQ(device.page_size_cap & (2 * base - 1), base);
    const std::filesystem::path huge = "/sys/kernel/mm/hugepages";
    if (std::filesystem::exists(huge)) {
        for (const auto& entry : std::filesystem::directory_iterator(huge)) {
            const std::string name = entry.path().filename();  // hugepages-2048kB
            const std::uint64_t bytes = std::stoull(name.substr(name.find('-') + 1)) << 10U;
            EXPECT_EQ(device.page_size_cap & bytes, bytes) << name;
        }
    }
}

TEST(DeviceQuery, EveryAttributeOfThePort) {
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_port_attr port{};
    std::memset(&port, 0xaa, sizeof port);
    ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.phys_state, 5);
    EXPECT_EQ(port.max_mtu, IBV_MTU_4096);
    EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
    EXPECT_EQ(port.gid_tbl_len, 16);
    EXPECT_EQ(port.pkey_tbl_len, 128);
    EXPECT_EQ(port.port_cap_flags, unsigned{IBV_PORT_CM_SUP});
    EXPECT_EQ(port.port_cap_flags2, 0);
    EXPECT_EQ(port.max_msg_sz, 1U << 30U);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.active_width, 2) << "4x";
    EXPECT_EQ(port.active_speed, 32) << "EDR, with the width 100 Gb/s";
    EXPECT_EQ(port.max_vl_num, 1);
    // Of InfiniBand's subnet management, which RoCE has none of.
    for (const int none : {int{port.lid}, int{port.sm_lid}, int{port.lmc}, int{port.sm_sl},
                           int{port.subnet_timeout}, int{port.init_type_reply}, int{port.flags}}) {
        EXPECT_EQ(none, 0);
    }
}

TEST(DeviceQuery, GidsAndPartitionKeys) {
    for (const int number : {0, 1}) {
        const Context context = open_device("urnic" + std::to_string(number));
        ASSERT_NE(context, nullptr);
        ibv_port_attr port{};
        ASSERT_EQ(ibv_query_port(context.get(), 1, &port), 0);
        const ibv_gid link_local = gid_of(context.get(), 0);
        EXPECT_EQ(link_local.raw[0], 0xfe);
        EXPECT_EQ(link_local.raw[1], 0x80);
        const std::uint8_t mapped[16] = {0, 0, 0,    0,    0,   0,  0, 0,
                                         0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(number + 1)};
        const ibv_gid second = gid_of(context.get(), 1);
        EXPECT_EQ(std::memcmp(second.raw, mapped, 16), 0);
        for (int i = 2; i < port.gid_tbl_len; ++i) {
            EXPECT_EQ(std::memcmp(gid_of(context.get(), i).raw, kZeroGid, 16), 0) << i;
        }
        ibv_gid_entry entry{};
        ASSERT_EQ(ibv_query_gid_ex(context.get(), 1, 1, &entry, 0), 0);
        EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
        ibv_gid beyond{};
        EXPECT_NE(ibv_query_gid(context.get(), 1, port.gid_tbl_len, &beyond), 0);
        __be16 pkey = 0;
        ASSERT_EQ(ibv_query_pkey(context.get(), 1, 0, &pkey), 0);
        EXPECT_EQ(pkey, 0xffff);
        for (int i = 1; i < port.pkey_tbl_len; ++i) {
            ASSERT_EQ(ibv_query_pkey(context.get(), 1, i, &pkey), 0) << i;
            EXPECT_EQ(pkey, 0) << i;
        }
    }
}

TEST(DeviceQuery, QpAttributesAreThoseThatWereSet) {
    const Endpoint a("urnic0");
    const Endpoint b("urnic1");
    connect(a, b, {.mtu = IBV_MTU_1024, .timeout = 13, .retry_cnt = 5, .rnr_retry = 6, .min_rnr_timer = 12});
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(a.qp, &attr, 0x1fffff, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attr.path_mtu, IBV_MTU_1024);
    EXPECT_EQ(attr.timeout, 13);
    EXPECT_EQ(attr.retry_cnt, 5);
    EXPECT_EQ(attr.rnr_retry, 6);
    EXPECT_EQ(attr.min_rnr_timer, 12);
    EXPECT_EQ(attr.dest_qp_num, b.qp->qp_num);
    EXPECT_EQ(attr.port_num, 1);
    EXPECT_EQ(attr.ah_attr.is_global, 1);
    EXPECT_EQ(attr.ah_attr.grh.sgid_index, address_of(b.context.get()).grh.sgid_index);
    EXPECT_EQ(init.qp_type, IBV_QPT_RC);
    EXPECT_GE(init.cap.max_send_wr, 128U);
    EXPECT_EQ(init.send_cq, a.cq);
}

TEST(DeviceRoom, QueuesOfTheLargestSizeAreMade) {
    const Context context = open_device("urnic0");
    ASSERT_NE(context, nullptr);
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
    ibv_cq* cq = ibv_create_cq(context.get(), device.max_cqe, nullptr, nullptr, 0);
    ASSERT_NE(cq, nullptr);
    EXPECT_GE(cq->cqe, device.max_cqe);
    ibv_pd* pd = ibv_alloc_pd(context.get());
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.cap.max_send_wr = static_cast<std::uint32_t>(device.max_qp_wr);
    init.cap.max_recv_wr = static_cast<std::uint32_t>(device.max_qp_wr);
    init.cap.max_send_sge = static_cast<std::uint32_t>(device.max_sge);
    init.cap.max_recv_sge = static_cast<std::uint32_t>(device.max_sge);
    init.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    if (qp != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    init.cap.max_send_wr += 1;
    EXPECT_EQ(ibv_create_qp(pd, &init), nullptr);
    EXPECT_EQ(ibv_create_cq(context.get(), device.max_cqe + 1, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(ibv_create_cq(context.get(), 0, nullptr, nullptr, 0), nullptr);
    // A CQ in use is not destroyed.
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST(DeviceRoom, ObjectsInUseStay) {
    const Endpoint a("urnic0");
    ASSERT_TRUE(a.ok());
    EXPECT_NE(ibv_destroy_cq(a.cq), 0);
    EXPECT_NE(ibv_dealloc_pd(a.pd), 0);
    EXPECT_EQ(a.state(), IBV_QPS_RESET);
}

}  // namespace
}  // namespace urnic::e2e
