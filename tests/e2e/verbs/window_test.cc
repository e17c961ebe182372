// Memory windows, regions registered again, null regions, device memory: what an application sees.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr int kRemoteAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
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
        if (HasFailure()) GTEST_FAIL() << "no connection";
        memory_ = std::make_unique<Buffer>(kBytes);
        mr_ = ibv_reg_mr(b_->pd, memory_->data(), kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
        if (mr_ == nullptr) GTEST_FAIL() << "no region: " << std::strerror(errno);
    }
    void allocate(ibv_mw_type type) {
        mw_ = ibv_alloc_mw(b_->pd, type);
        ASSERT_NE(mw_, nullptr) << std::strerror(errno);
    }
    [[nodiscard]] ibv_mw_bind_info info(std::size_t offset, std::size_t length,
                                        unsigned access = kRemoteAccess) const {
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
    bind_type_2(3, info(0, 64, kRemoteAccess | IBV_ACCESS_ZERO_BASED));
    b_->expect_success(3, IBV_WC_BIND_MW);
    EXPECT_EQ(write(0, mw_->rkey, 6).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data(), 64, 6), -1);
    wr = request(IBV_WR_LOCAL_INV, 4, nullptr, 0);
    wr.invalidate_rkey = mw_->rkey;
    b_->post(wr);
    b_->expect_success(4, IBV_WC_LOCAL_INV);
    EXPECT_EQ(write(0, gone, 7).status, IBV_WC_REM_ACCESS_ERR);
}

// The low 8 bits of a key are the program's, the index is the window's (IBA 10.6.3): whatever else `rkey`
// says.
TEST_F(Windows, ABindTakesTheWindowFromItsPointer) {
    allocate(IBV_MW_TYPE_2);
    ibv_mw* other = ibv_alloc_mw(b_->pd, IBV_MW_TYPE_2);
    ASSERT_NE(other, nullptr) << std::strerror(errno);
    const std::uint32_t index = mw_->rkey & ~0xffU;
    const std::uint32_t others_key = other->rkey;
    std::uint64_t wr_id = 0;
    for (const std::uint32_t wanted : {0x42U, ibv_inc_rkey(others_key), 0xffff'ffffU}) {
        mw_->rkey = 0;  // a public field: the program may have written anything there
        ibv_send_wr wr = request(IBV_WR_BIND_MW, ++wr_id, nullptr, 0);
        wr.bind_mw.mw = mw_;
        wr.bind_mw.rkey = wanted;
        wr.bind_mw.bind_info = info(0, 4096);
        b_->post(wr);
        EXPECT_EQ(mw_->rkey, index | (wanted & 0xffU)) << "once it is posted";
        EXPECT_EQ(wr.bind_mw.rkey, wanted);
        EXPECT_EQ(other->rkey, others_key);
        b_->expect_success(wr_id, IBV_WC_BIND_MW);
        EXPECT_EQ(write(address(0), mw_->rkey, 5).status, IBV_WC_SUCCESS);
        EXPECT_EQ(first_difference(memory_->data(), 64, 5), -1);
        wr = request(IBV_WR_LOCAL_INV, ++wr_id, nullptr, 0);
        wr.invalidate_rkey = mw_->rkey;
        b_->post(wr);
        b_->expect_success(wr_id, IBV_WC_LOCAL_INV);
        if (HasFailure()) break;
    }
    EXPECT_EQ(ibv_dealloc_mw(other), 0);
}

TEST_F(Windows, ABindThatIsNotPostedLeavesTheKey) {
    allocate(IBV_MW_TYPE_2);
    const std::uint32_t before = mw_->rkey;
    ibv_send_wr wr = request(IBV_WR_BIND_MW, 1, nullptr, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
    wr.bind_mw.mw = mw_;
    wr.bind_mw.rkey = ibv_inc_rkey(before);
    wr.bind_mw.bind_info = info(0, 64);
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(b_->qp, &wr, &bad), EINVAL) << "there is nothing to be inline";
    EXPECT_EQ(mw_->rkey, before);
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

TEST_F(Windows, ExtendedBindsTakeTheWindowFromItsPointer) {
    TearDown();
    mr_ = nullptr;
    start({.extended = true});
    allocate(IBV_MW_TYPE_2);
    ibv_mw* other = ibv_alloc_mw(b_->pd, IBV_MW_TYPE_2);
    ASSERT_NE(other, nullptr) << std::strerror(errno);
    const std::uint32_t before = mw_->rkey;
    const std::uint32_t bound = (before & ~0xffU) | 0x42;
    const ibv_mw_bind_info what = info(0, 4096);
    const ibv_mw_bind_info what_other = info(4096, 4096);
    const auto build = [&] {
        ibv_wr_start(b_->qp_ex);
        b_->qp_ex->wr_id = 1;
        b_->qp_ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_bind_mw(b_->qp_ex, mw_, 0x42, &what);
        ibv_wr_set_sge(b_->qp_ex, b_->mr->lkey, b_->address(0), 64);  // means nothing, harms nothing
        b_->qp_ex->wr_id = 2;
        ibv_wr_bind_mw(b_->qp_ex, other, bound, &what_other);
    };
    build();
    ibv_wr_abort(b_->qp_ex);
    EXPECT_EQ(mw_->rkey, before) << "nothing was posted";
    build();
    EXPECT_EQ(mw_->rkey, before) << "nothing is posted yet";
    ASSERT_EQ(ibv_wr_complete(b_->qp_ex), 0);
    EXPECT_EQ(mw_->rkey, bound);
    EXPECT_EQ(other->rkey & 0xffU, 0x42U);
    EXPECT_NE(other->rkey, bound);
    b_->expect_success(1, IBV_WC_BIND_MW);
    b_->expect_success(2, IBV_WC_BIND_MW);
    EXPECT_EQ(write(address(0), mw_->rkey, 5).status, IBV_WC_SUCCESS);
    EXPECT_EQ(write(address(4096), other->rkey, 6).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data() + 4096, 64, 6), -1);
    EXPECT_EQ(ibv_dealloc_mw(other), 0);
}

TEST_F(Windows, ExtendedInvalidationByThePeer) {
    TearDown();
    mr_ = nullptr;
    start({.extended = true});
    allocate(IBV_MW_TYPE_2);
    bind_type_2(1, info(0, 4096));
    b_->expect_success(1, IBV_WC_BIND_MW);
    b_->post_recv(20, {b_->sge(0, 64)});
    ibv_wr_start(a_->qp_ex);
    a_->qp_ex->wr_id = 2;
    a_->qp_ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send_inv(a_->qp_ex, mw_->rkey);
    ibv_wr_set_sge(a_->qp_ex, a_->mr->lkey, a_->address(0), 64);
    ASSERT_EQ(ibv_wr_complete(a_->qp_ex), 0);
    a_->expect_success(2, IBV_WC_SEND);
    ibv_poll_cq_attr attr{};
    int started = ENOENT;
    ASSERT_TRUE(comes([&] { return (started = ibv_start_poll(b_->cq_ex, &attr)) != ENOENT; }))
        << "no completion came";
    ASSERT_EQ(started, 0);
    EXPECT_EQ(b_->cq_ex->wr_id, 20U);
    EXPECT_EQ(b_->cq_ex->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(b_->cq_ex), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_wc_flags(b_->cq_ex), unsigned{IBV_WC_WITH_INV});
    EXPECT_EQ(ibv_wc_read_invalidated_rkey(b_->cq_ex), mw_->rkey);
    ibv_end_poll(b_->cq_ex);
    EXPECT_EQ(write(address(0), mw_->rkey, 7).status, IBV_WC_REM_ACCESS_ERR);
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

// The addresses that the application gave it stay until it gives the region others.
TEST_F(Regions, AddressesOfTheApplicationsOwn) {
    constexpr std::uint64_t kFirst = 0x7700'0000'0040;
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    ibv_mr* mr = ibv_reg_mr_iova(b_->pd, memory_->data() + 64, 4096, kFirst, kAccess);
    ASSERT_NE(mr, nullptr) << std::strerror(errno);
    EXPECT_EQ(mr->addr, memory_->data() + 64);
    EXPECT_EQ(write(kFirst, mr->rkey, 1).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data() + 64, 64, 1), -1);
    ASSERT_EQ(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAccess | IBV_ACCESS_REMOTE_READ),
        0);
    EXPECT_EQ(write(kFirst + 4096 - 64, mr->rkey, 2).status, IBV_WC_SUCCESS) << "with other rights alone";
    EXPECT_EQ(first_difference(memory_->data() + 4096, 64, 2), -1);
    // A list names them, too: nothing else leads to the region.
    a_->post_recv(3, {a_->sge(4096, 64)});
    ibv_sge sge{kFirst + 4096 - 64, 64, mr->lkey};
    ibv_send_wr wr = request(IBV_WR_SEND, 4, &sge, 1);
    b_->post(wr);
    b_->expect_success(4, IBV_WC_SEND);
    EXPECT_EQ(a_->poll_one().status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(a_->at(4096), 64, 2), -1);
    ASSERT_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory_->data(), 4096, 0), 0);
    EXPECT_EQ(write(address(0), mr->rkey, 5).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data(), 64, 5), -1);
    EXPECT_EQ(write(kFirst, mr->rkey, 6).status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(ibv_dereg_mr(mr), 0);
}

TEST_F(Regions, RefusedToBeRegisteredAgain) {
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
    ASSERT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kAccess), 0);
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
    const Buffer other(kBytes);
    fill(other.data(), kBytes, 8);
    allocate(IBV_MW_TYPE_2);
    bind_type_2(1, info(0, 4096));
    b_->expect_success(1, IBV_WC_BIND_MW);
    EXPECT_EQ(ibv_rereg_mr(mr_, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), kBytes, 0),
              IBV_REREG_MR_ERR_CMD)
        << "a window is bound to it";
    EXPECT_EQ(errno, EBUSY);
    // Region and window are as they were, and so is the memory that the region did not get.
    EXPECT_EQ(mr_->addr, memory_->data());
    EXPECT_EQ(write(address(0), mw_->rkey, 2).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data(), 64, 2), -1);
    EXPECT_EQ(write(address(kBytes - 64), mr_->rkey, 3).status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_difference(memory_->data() + kBytes - 64, 64, 3), -1);
    EXPECT_EQ(first_difference(other.data(), kBytes, 8), -1);
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
    fill(b_->at(0), 64, 9);
    b_->post_recv(4, {b_->sge(0, 64)});
    wr = request(IBV_WR_SEND, 5, &nothing, 1);
    a_->post(wr);
    a_->expect_success(5, IBV_WC_SEND);
    EXPECT_EQ(b_->poll_one().status, IBV_WC_SUCCESS);
    EXPECT_EQ(first_other(b_->at(0), 64, 0), -1) << "what the READ brought is gone";
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

}  // namespace
}  // namespace urnic::e2e
