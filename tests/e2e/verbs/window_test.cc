// Memory windows, regions registered again, null regions, device memory, imports: what an application sees.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
constexpr std::size_t kBytes = 65536;

class Windows : public testing::Test {
  protected:
    void SetUp() override { start({}); }
    void TearDown() override {
        if (mw_ != nullptr) {
            EXPECT_EQ(ibv_dealloc_mw(mw_), 0);
        }
        if (mr_ != nullptr) {
            EXPECT_EQ(ibv_dereg_mr(mr_), 0);
        }
    }
    void start(const EndpointOptions& options) {
        a_ = std::make_unique<Endpoint>("urnic0", options);
        b_ = std::make_unique<Endpoint>("urnic1", options);
        connect(*a_, *b_);
        memory_ = std::make_unique<Buffer>(kBytes);
        mr_ = ibv_reg_mr(b_->pd, memory_->data(), kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
        if (mr_ == nullptr || HasFailure()) GTEST_FAIL() << "no connection or no region";
    }
    void allocate(ibv_mw_type type) {
        mw_ = ibv_alloc_mw(b_->pd, type);
        ASSERT_NE(mw_, nullptr) << std::strerror(errno);
    }
    [[nodiscard]] ibv_mw_bind_info info(std::size_t offset, std::size_t length,
                                        unsigned access = kRemote) const {
        return {mr_, reinterpret_cast<std::uint64_t>(memory_->data()) + offset, length, access};
    }
    void bind_type_2(std::uint64_t wr_id, const ibv_mw_bind_info& what) {
        ibv_send_wr wr = request(IBV_WR_BIND_MW, wr_id, nullptr, 0);
        wr.bind_mw.mw = mw_;
        wr.bind_mw.rkey = mw_->rkey = ibv_inc_rkey(mw_->rkey);
        wr.bind_mw.bind_info = what;
        b_->post(wr);
    }
    /// WRITE of 64 bytes by a; its completion.
    ibv_wc write(std::uint64_t address, std::uint32_t rkey, std::uint32_t seed) {
        fill(a_->at(0), 64, seed);
        ibv_sge sge = a_->sge(0, 64);
        ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, seed, &sge, 1);
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
        a_->post(wr);
        return a_->poll_one();
    }
    [[nodiscard]] std::uint64_t address(std::size_t offset) const {
        return reinterpret_cast<std::uint64_t>(memory_->data()) + offset;
    }

    std::unique_ptr<Endpoint> a_, b_;
    std::unique_ptr<Buffer> memory_;
    ibv_mr* mr_ = nullptr;
    ibv_mw* mw_ = nullptr;
};

TEST_F(Windows, TheDeviceSaysSo) {
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(a_->context.get(), &device), 0);
    EXPECT_GE(device.max_mw, 65536);
    const unsigned flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    EXPECT_EQ(device.device_cap_flags & flags, flags);
}

TEST_F(Windows, TypeOneIsBoundReboundAndUnbound) {
    allocate(IBV_MW_TYPE_1);
    const std::uint32_t first = mw_->rkey;
    ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info(4096, 4096)};
    ASSERT_EQ(ibv_bind_mw(b_->qp, mw_, &bind), 0);
    b_->expect_success(1, IBV_WC_BIND_MW);
    const std::uint32_t bound = mw_->rkey;
    EXPECT_NE(bound, first);
    EXPECT_EQ(write(address(4096), bound, 5).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data() + 4096, 64, 5), -1);
    EXPECT_EQ(ibv_dereg_mr(mr_), EBUSY) << "a window is bound to it";
    bind.bind_info = info(8192, 4096);
    bind.wr_id = 2;
    ASSERT_EQ(ibv_bind_mw(b_->qp, mw_, &bind), 0);
    b_->expect_success(2, IBV_WC_BIND_MW);
    EXPECT_EQ(write(address(8192), mw_->rkey, 6).status, IBV_WC_SUCCESS);
    bind.bind_info = info(0, 0, 0);
    bind.wr_id = 3;
    ASSERT_EQ(ibv_bind_mw(b_->qp, mw_, &bind), 0);
    b_->expect_success(3, IBV_WC_BIND_MW);
    EXPECT_EQ(write(address(8192), mw_->rkey, 7).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, TypeTwoFromBindToRemoteInvalidation) {
    allocate(IBV_MW_TYPE_2);
    bind_type_2(1, info(0, 4096));
    b_->expect_success(1, IBV_WC_BIND_MW);
    EXPECT_EQ(write(address(0), mw_->rkey, 5).status, IBV_WC_SUCCESS);
    b_->post_recv(20, {b_->sge(0, 64)});
    ibv_sge sge = a_->sge(0, 64);
    ibv_send_wr wr = request(IBV_WR_SEND_WITH_INV, 2, &sge, 1);
    wr.invalidate_rkey = mw_->rkey;
    a_->post(wr);
    a_->expect_success(2, IBV_WC_SEND);
    const ibv_wc received = b_->poll_one();
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.wr_id, 20U);
    EXPECT_EQ(received.wc_flags & IBV_WC_WITH_INV, unsigned{IBV_WC_WITH_INV});
    EXPECT_EQ(received.invalidated_rkey, mw_->rkey);
    const std::uint32_t gone = mw_->rkey;
    bind_type_2(3, info(0, 64, kRemote | IBV_ACCESS_ZERO_BASED));
    b_->expect_success(3, IBV_WC_BIND_MW);
    EXPECT_EQ(write(0, mw_->rkey, 6).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data(), 64, 6), -1);
    wr = request(IBV_WR_LOCAL_INV, 4, nullptr, 0);
    wr.invalidate_rkey = mw_->rkey;
    b_->post(wr);
    b_->expect_success(4, IBV_WC_LOCAL_INV);
    EXPECT_EQ(write(0, gone, 7).status, IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Windows, ABindThatMayNotBe) {
    allocate(IBV_MW_TYPE_2);
    bind_type_2(1, info(0, kBytes + 1));
    EXPECT_EQ(b_->poll_one().status, IBV_WC_MW_BIND_ERR);
    EXPECT_EQ(b_->state(), IBV_QPS_ERR);
    ibv_mw_bind bind{.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info(0, 64)};
    EXPECT_EQ(ibv_bind_mw(b_->qp, mw_, &bind), EINVAL) << "for type 1 alone";
}

TEST_F(Windows, TypeOneIsNotForWorkRequests) {
    allocate(IBV_MW_TYPE_1);
    ibv_send_wr wr = request(IBV_WR_BIND_MW, 1, nullptr, 0);
    wr.bind_mw.mw = mw_;
    wr.bind_mw.rkey = ibv_inc_rkey(mw_->rkey);
    wr.bind_mw.bind_info = info(0, 64);
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(b_->qp, &wr, &bad), EINVAL);
}

TEST_F(Windows, ExtendedPosting) {
    TearDown();
    mr_ = nullptr;
    start({.extended = true});
    allocate(IBV_MW_TYPE_2);
    mw_->rkey = ibv_inc_rkey(mw_->rkey);
    const ibv_mw_bind_info what = info(0, 4096);
    ibv_wr_start(b_->qp_ex);
    b_->qp_ex->wr_id = 1;
    b_->qp_ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(b_->qp_ex, mw_, mw_->rkey, &what);
    ASSERT_EQ(ibv_wr_complete(b_->qp_ex), 0);
    b_->expect_success(1, IBV_WC_BIND_MW);
    EXPECT_EQ(write(address(0), mw_->rkey, 5).status, IBV_WC_SUCCESS);
    ibv_wr_start(b_->qp_ex);
    b_->qp_ex->wr_id = 2;
    ibv_wr_local_inv(b_->qp_ex, mw_->rkey);
    ASSERT_EQ(ibv_wr_complete(b_->qp_ex), 0);
    b_->expect_success(2, IBV_WC_LOCAL_INV);
    EXPECT_EQ(write(address(0), mw_->rkey, 6).status, IBV_WC_REM_ACCESS_ERR);
}

// A storage server's loop: bind, tell the key, have the peer write and invalidate, again and again; all in
// one post.
TEST_F(Windows, ManyRoundsPipelined) {
    allocate(IBV_MW_TYPE_2);
    for (std::uint64_t round = 0; round < 300; ++round) {
        ibv_send_wr bind = request(IBV_WR_BIND_MW, round, nullptr, 0, 0);
        bind.bind_mw.mw = mw_;
        bind.bind_mw.rkey = mw_->rkey = ibv_inc_rkey(mw_->rkey);
        bind.bind_mw.bind_info = info(round * 64, 64);
        *reinterpret_cast<std::uint32_t*>(b_->at(0)) = mw_->rkey;
        ibv_sge key = b_->sge(0, 4);
        ibv_send_wr tell = request(IBV_WR_SEND, round, &key, 1);
        bind.next = &tell;
        a_->post_recv(round, {a_->sge(4096, 4)});
        b_->post_recv(round, {b_->sge(4096, 64)});
        b_->post(bind);
        ASSERT_EQ(a_->poll_one().status, IBV_WC_SUCCESS);
        const std::uint32_t rkey = *reinterpret_cast<std::uint32_t*>(a_->at(4096));
        fill(a_->at(0), 64, static_cast<std::uint32_t>(round));
        ibv_sge data = a_->sge(0, 64);
        ibv_send_wr write = request(IBV_WR_RDMA_WRITE, round, &data, 1, 0);
        write.wr.rdma.remote_addr = address(round * 64);
        write.wr.rdma.rkey = rkey;
        ibv_send_wr invalidate = request(IBV_WR_SEND_WITH_INV, round, &data, 1);
        invalidate.invalidate_rkey = rkey;
        write.next = &invalidate;
        a_->post(write);
        ASSERT_EQ(a_->poll_one().status, IBV_WC_SUCCESS);
        for (int i = 0; i < 2; ++i) {  // of the SEND, and of the receive that invalidated
            const ibv_wc wc = b_->poll_one();
            ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
            if (wc.opcode == IBV_WC_RECV) {
                EXPECT_EQ(wc.invalidated_rkey, rkey);
            }
        }
        EXPECT_EQ(first_difference(memory_->data() + round * 64, 64, static_cast<std::uint32_t>(round)), -1);
    }
}

// --- Regions ----------------------------------------------------------------------------------------------

class Regions : public Windows {};

TEST_F(Regions, RegisteredAgain) {
    const Buffer other(kBytes);
    constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    const std::uint32_t rkey = mr_->rkey;
    ASSERT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kWritable), 0);
    EXPECT_EQ(mr_->rkey, rkey);
    EXPECT_EQ(write(address(0), rkey, 1).status, IBV_WC_SUCCESS);
    ASSERT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data() + 100, 10'000, 0), 0);
    EXPECT_EQ(mr_->addr, other.data() + 100);
    EXPECT_EQ(write(reinterpret_cast<std::uint64_t>(other.data()) + 100, mr_->rkey, 2).status,
              IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(other.data() + 100, 64, 2), -1);
    EXPECT_EQ(first_difference(memory_->data(), 64, 1), -1) << "what was there before";
    fill(memory_->data(), 64, 3);
    EXPECT_EQ(first_difference(memory_->data(), 64, 3), -1);
    ibv_pd* pd = ibv_alloc_pd(b_->context.get());
    ASSERT_EQ(ibv_rereg_mr(
                  mr_, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION,
                  pd, memory_->data(), 4096, kWritable),
              0);
    EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
    EXPECT_EQ(write(address(0), mr_->rkey, 4).status, IBV_WC_REM_ACCESS_ERR) << "another PD than the QP's";
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    mr_ = nullptr;
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    fill(memory_->data(), kBytes, 5);
    EXPECT_EQ(first_difference(memory_->data(), kBytes, 5), -1);
}

TEST_F(Regions, RefusedToBeRegisteredAgain) {
    EXPECT_EQ(ibv_rereg_mr(mr_, 0x80, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 0, 0),
              IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(
        ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, reinterpret_cast<void*>(4096), 4096, 0),
        IBV_REREG_MR_ERR_CMD)
        << "nothing is mapped there";
}

TEST_F(Regions, ZeroBased) {
    ibv_mr* mr = ibv_reg_mr(b_->pd, memory_->data() + 64, 4096,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED |
                                IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    EXPECT_EQ(write(4096 - 64, mr->rkey, 1).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data() + 4096, 64, 1), -1);
    EXPECT_EQ(write(4096 - 63, mr->rkey, 1).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, WhatIsNotOffered) {
    EXPECT_EQ(ibv_reg_mr(b_->pd, memory_->data(), 64, IBV_ACCESS_ON_DEMAND), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(ibv_reg_dmabuf_mr(b_->pd, 0, 4096, 0, -1, 0), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    ibv_sge sge = b_->sge(0, 64);
    EXPECT_EQ(ibv_advise_mr(b_->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
}

TEST_F(Regions, NullRegion) {
    ibv_mr* mr = ibv_alloc_null_mr(a_->pd);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    // Sends zeros from it; what is received into it is gone.
    fill(b_->at(0), 64, 9);
    b_->post_recv(1, {b_->sge(0, 64)});
    ibv_sge nothing{0x1000, 64, mr->lkey};
    ibv_send_wr wr = request(IBV_WR_SEND, 2, &nothing, 1);
    a_->post(wr);
    a_->expect_success(2, IBV_WC_SEND);
    EXPECT_EQ(b_->poll_one().status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_other(b_->at(0), 64, 0), -1);
    wr = rdma(IBV_WR_RDMA_READ, 3, &nothing, 1, *b_, 0);
    a_->post(wr);
    a_->expect_success(3, IBV_WC_RDMA_READ);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, DeviceMemory) {
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(b_->context.get(), nullptr, &device), 0);
    ASSERT_GT(device.max_dm_size, 0U);
    ibv_alloc_dm_attr attr{};
    attr.length = device.max_dm_size + 1;
    EXPECT_EQ(ibv_alloc_dm(b_->context.get(), &attr), nullptr);
    attr.length = device.max_dm_size;
    ibv_dm* dm = ibv_alloc_dm(b_->context.get(), &attr);
    ASSERT_NE(dm, nullptr) << std::strerror(errno);
    ibv_mr* mr = ibv_reg_dm_mr(b_->pd, dm, 4096, 4096,
                               IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    EXPECT_EQ(write(128, mr->rkey, 1).status, IBV_WC_SUCCESS);
    std::uint8_t copy[64];
    EXPECT_EQ(ibv_memcpy_from_dm(copy, dm, 4096 + 128, sizeof copy), 0);
    EXPECT_EQ(first_difference(copy, sizeof copy, 1), -1);
    fill(copy, sizeof copy, 2);
    EXPECT_EQ(ibv_memcpy_to_dm(dm, 4096, copy, sizeof copy), 0);
    a_->post_recv(5, {a_->sge(4096, 64)});
    ibv_sge sge{0, 64, mr->lkey};
    ibv_send_wr wr = request(IBV_WR_SEND, 6, &sge, 1);
    b_->post(wr);
    b_->expect_success(6, IBV_WC_SEND);
    EXPECT_EQ(a_->poll_one().status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(a_->at(4096), 64, 2), -1);
    EXPECT_EQ(ibv_memcpy_from_dm(copy, dm, device.max_dm_size - 60, 64), EFAULT);
    EXPECT_EQ(ibv_memcpy_to_dm(dm, 2, copy, 4), EFAULT);
    EXPECT_EQ(ibv_free_dm(dm), EBUSY);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_free_dm(dm), 0);
}

// --- Imports ----------------------------------------------------------------------------------------------

void send_fd(int socket, int fd) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}

int receive_fd(int socket) {
    char byte = 0;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    int fd = -1;
    if (recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message) != nullptr) {
        std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    }
    return fd;
}

/// Takes the QP to RTS, its own peer: 0, or the number of the step that failed.
int connect_to_itself(ibv_context* context, ibv_qp* qp) {
    ibv_gid_entry gid{};
    if (ibv_query_gid_ex(context, 1, 1, &gid, 0) != 0) return 9;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
        return 10;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = gid.gid;
    attr.ah_attr.grh.sgid_index = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        return 11;
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.max_rd_atomic = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                          IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        return 12;
    return 0;
}

/// What a process does that was sent a command fd: 0, or the number of the step that failed.
int use_import(int socket) {
    struct Names {
        std::uint32_t pd, mr, dm;
        std::uint64_t addr;
    } names{};
    const int fd = receive_fd(socket);
    if (fd < 0 || read(socket, &names, sizeof names) != sizeof names) return 1;
    ibv_context* context = ibv_import_device(fd);
    if (context == nullptr) return 2;
    if (std::strcmp(ibv_get_device_name(context->device), "urnic1") != 0) return 3;
    ibv_pd* pd = ibv_import_pd(context, names.pd);
    if (pd == nullptr) return 4;
    ibv_mr* mr = ibv_import_mr(pd, names.mr);
    if (mr == nullptr || mr->length != kBytes) return 5;
    ibv_dm* dm = ibv_import_dm(context, names.dm);
    std::uint32_t word = 0;
    if (dm == nullptr || ibv_memcpy_from_dm(&word, dm, 0, 4) != 0 || word != 77) return 6;
    if (ibv_import_mr(pd, names.mr + 1000) != nullptr || ibv_import_pd(context, names.pd + 1000) != nullptr)
        return 7;
    // A loop-back connection in the imported PD, through which the other process's memory is read.
    ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    ibv_qp* qp = ibv_create_qp(pd, &init);
    if (cq == nullptr || qp == nullptr) return 8;
    if (const int step = connect_to_itself(context, qp); step != 0) return step;
    // From the first half of the other's region to its second half, with its keys alone.
    ibv_sge sge{names.addr + kBytes / 2, 64, mr->lkey};
    ibv_send_wr wr = request(IBV_WR_RDMA_READ, 1, &sge, 1);
    wr.wr.rdma.remote_addr = names.addr;
    wr.wr.rdma.rkey = mr->rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp, &wr, &bad) != 0) return 13;
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    if (wc.status != IBV_WC_SUCCESS) return 14;
    if (ibv_dereg_mr(mr) != EOPNOTSUPP) return 15;
    ibv_unimport_mr(mr);
    ibv_unimport_dm(dm);
    ibv_unimport_pd(pd);  // before the QP goes, as pyverbs does
    if (ibv_destroy_qp(qp) != 0 || ibv_destroy_cq(cq) != 0) return 16;
    return ibv_close_device(context) == 0 ? 0 : 17;
}

TEST(Imports, AnotherProcessUsesWhatItWasSent) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    const pid_t child = fork();  // before anything is opened: a process of its own
    if (child == 0) {
        close(pair[0]);
        _exit(use_import(pair[1]));
    }
    close(pair[1]);
    const Context context = open_device("urnic1");
    ASSERT_NE(context, nullptr);
    const Buffer memory(kBytes);
    fill(memory.data(), kBytes / 2, 3);
    ibv_pd* pd = ibv_alloc_pd(context.get());
    ibv_mr* mr = ibv_reg_mr(pd, memory.data(), kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    ibv_alloc_dm_attr dm_attr{};
    dm_attr.length = 4096;
    ibv_dm* dm = ibv_alloc_dm(context.get(), &dm_attr);
    ASSERT_TRUE(pd != nullptr && mr != nullptr && dm != nullptr);
    const std::uint32_t word = 77;
    EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, &word, 4), 0);
    send_fd(pair[0], context->cmd_fd);
    struct {
        std::uint32_t pd, mr, dm;
        std::uint64_t addr;
    } names{pd->handle, mr->handle, dm->handle, reinterpret_cast<std::uint64_t>(memory.data())};
    ASSERT_EQ(::write(pair[0], &names, sizeof names), static_cast<ssize_t>(sizeof names));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << "the step that failed";
    EXPECT_EQ(first_difference(memory.data() + kBytes / 2, 64, 3), -1);
    close(pair[0]);
    EXPECT_EQ(ibv_free_dm(dm), 0);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST(Imports, NothingElseIsADevice) {
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    EXPECT_EQ(ibv_import_device(null), nullptr);
    EXPECT_EQ(ibv_import_device(-1), nullptr);
    close(null);
    Context context = open_device("urnic0");
    const int token = dup(context->cmd_fd);
    context.reset();
    EXPECT_EQ(ibv_import_device(token), nullptr) << "it was closed";
    close(token);
}

}  // namespace
}  // namespace urnic::e2e
