// Shared receive queues through the stock libibverbs.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "abi/queues.h"
#include "tests/e2e/verbs/shared_side.h"

namespace urnic::e2e {
namespace {

class Srq : public testing::Test {
  protected:
    void make_srq(std::uint32_t max_wr) {
        ibv_srq_init_attr init{};
        init.attr.max_wr = max_wr;
        init.attr.max_sge = 1;
        srq_ = ibv_create_srq(b_.pd, &init);
        ASSERT_NE(srq_, nullptr) << std::strerror(errno);
        EXPECT_GE(init.attr.max_wr, max_wr);
        max_wr_ = init.attr.max_wr;
    }
    void add_pair(ibv_qp_type type) {
        from_.push_back(a_.make_qp(type));
        to_.push_back(b_.make_qp(type, srq_));
        e2e::to_rts(from_.back(), b_.context.get(), to_.back()->qp_num);
        e2e::to_rts(to_.back(), a_.context.get(), from_.back()->qp_num);
    }
    void TearDown() override {
        for (ibv_qp* qp : from_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
        for (ibv_qp* qp : to_) EXPECT_EQ(ibv_destroy_qp(qp), 0);
        if (srq_ != nullptr) {
            EXPECT_EQ(ibv_destroy_srq(srq_), 0);
        }
    }

    SharedSide a_{"urnic0"};
    SharedSide b_{"urnic1"};
    ibv_srq* srq_ = nullptr;
    std::uint32_t max_wr_ = 0;
    std::vector<ibv_qp*> from_, to_;
};

TEST_F(Srq, QpsOfTwoServicesTakeTurns) {
    make_srq(16);
    add_pair(IBV_QPT_RC);
    add_pair(IBV_QPT_UC);
    add_pair(IBV_QPT_RC);
    fill(a_.buffer.data(), 5000, 3);
    for (std::uint64_t i = 0; i < 60; ++i) {
        const std::size_t qp = (i * 7) % 3;
        ASSERT_EQ(b_.post(srq_, i, (i % 16) * 5000, 5000), 0);
        a_.send(from_[qp], i, 0, 5000 - i);
        EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
        const ibv_wc wc = SharedSide::poll(b_.cq);
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_EQ(wc.wr_id, i);
        EXPECT_EQ(wc.qp_num, to_[qp]->qp_num);
        EXPECT_EQ(wc.byte_len, 5000 - i);
        EXPECT_EQ(first_difference(b_.buffer.data() + (i % 16) * 5000, 5000 - i, 3), -1);
    }
}

TEST_F(Srq, HoldsWhatItSaysAndASlotIsFreeBeforeItsCompletionIsPolled) {
    make_srq(5);
    add_pair(IBV_QPT_RC);
    for (std::uint64_t i = 0; i < max_wr_; ++i) {
        ASSERT_EQ(b_.post(srq_, i, 0, 64), 0);
    }
    EXPECT_EQ(b_.post(srq_, 99, 0, 64), ENOMEM);
    a_.send(from_[0], 1, 0, 64);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(b_.post(srq_, 99, 0, 64), 0);
    EXPECT_EQ(b_.post(srq_, 99, 0, 64), ENOMEM);
    ibv_sge two[2] = {b_.sge(0, 1), b_.sge(0, 1)};
    ibv_recv_wr wr{};
    wr.sg_list = two;
    wr.num_sge = 17;
    ibv_recv_wr* bad = nullptr;
    EXPECT_NE(ibv_post_srq_recv(srq_, &wr, &bad), 0);
    EXPECT_EQ(bad, &wr);
    EXPECT_EQ(ibv_post_recv(to_[0], &wr, &bad), EINVAL) << "its receives are the SRQ's";
}

TEST_F(Srq, AttributesAndWhatKeepsIt) {
    ibv_device_attr device{};
    ASSERT_EQ(ibv_query_device(b_.context.get(), &device), 0);
    EXPECT_GT(device.max_srq, 0);
    make_srq(static_cast<std::uint32_t>(device.max_srq_wr));
    EXPECT_EQ(max_wr_, static_cast<std::uint32_t>(device.max_srq_wr));
    ibv_srq_init_attr init{};
    init.attr.max_wr = max_wr_ + 1;
    EXPECT_EQ(ibv_create_srq(b_.pd, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
    init.attr = {.max_wr = 4, .max_sge = static_cast<std::uint32_t>(device.max_srq_sge) + 1, .srq_limit = 0};
    EXPECT_EQ(ibv_create_srq(b_.pd, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
    add_pair(IBV_QPT_RC);
    EXPECT_EQ(ibv_destroy_srq(srq_), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(b_.pd), EBUSY);
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(srq_, &number), 0);
    EXPECT_NE(number, 0U);
    ibv_qp_attr attr{};
    ibv_qp_init_attr queried{};
    EXPECT_EQ(ibv_query_qp(to_[0], &attr, IBV_QP_STATE, &queried), 0);
    EXPECT_EQ(queried.srq, srq_);
    ibv_srq_init_attr_ex extended{};
    extended.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    extended.srq_type = IBV_SRQT_BASIC;
    extended.pd = b_.pd;
    ibv_srq* second = ibv_create_srq_ex(b_.context.get(), &extended);
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(ibv_destroy_srq(second), 0);
    extended.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
    extended.srq_type = IBV_SRQT_TM;
    EXPECT_EQ(ibv_create_srq_ex(b_.context.get(), &extended), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Srq, AsItWasAskedForAndNothingUnknown) {
    ibv_srq_init_attr_ex init{};
    init.srq_context = this;
    init.attr = {.max_wr = 5, .max_sge = 1, .srq_limit = 0};
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    init.srq_type = IBV_SRQT_BASIC;
    init.pd = b_.pd;
    const auto error_of = [&](const ibv_srq_init_attr_ex& asked) {
        ibv_srq_init_attr_ex attr = asked;
        errno = 0;
        ibv_srq* srq = ibv_create_srq_ex(b_.context.get(), &attr);
        if (srq == nullptr) return errno;
        EXPECT_EQ(srq->srq_context, this);
        EXPECT_EQ(srq->pd, b_.pd);
        EXPECT_GE(attr.attr.max_sge, 1U);
        ibv_srq_attr queried{};
        EXPECT_EQ(ibv_query_srq(srq, &queried), 0);
        EXPECT_EQ(queried.max_sge, attr.attr.max_sge) << "told and kept are the same";
        EXPECT_EQ(queried.max_wr, attr.attr.max_wr);
        EXPECT_EQ(ibv_destroy_srq(srq), 0);
        return 0;
    };
    EXPECT_EQ(error_of(init), 0);
    ibv_srq_init_attr_ex bad = init;
    bad.comp_mask |= 1U << 20U;
    EXPECT_EQ(error_of(bad), EOPNOTSUPP) << "a field that nobody knows";
    bad = init;
    bad.srq_type = IBV_SRQT_TM;
    EXPECT_EQ(error_of(bad), EOPNOTSUPP);
    bad = init;
    bad.comp_mask &= ~unsigned{IBV_SRQ_INIT_ATTR_PD};
    EXPECT_EQ(error_of(bad), EINVAL) << "no PD";
    bad = init;
    bad.srq_type = IBV_SRQT_XRC;
    EXPECT_EQ(error_of(bad), EINVAL) << "neither domain nor CQ";
    bad.comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
    bad.cq = b_.cq;
    EXPECT_EQ(error_of(bad), EINVAL) << "no domain";
}

TEST_F(Srq, KeepsItsParentDomain) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = b_.pd;
    ibv_pd* parent = ibv_alloc_parent_domain(b_.context.get(), &attr);
    ASSERT_NE(parent, nullptr) << std::strerror(errno);
    ibv_srq_init_attr init{};
    init.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    ibv_srq* srq = ibv_create_srq(parent, &init);
    ASSERT_NE(srq, nullptr) << std::strerror(errno);
    EXPECT_EQ(ibv_dealloc_pd(parent), EBUSY);
    EXPECT_EQ(ibv_destroy_srq(srq), 0);
    EXPECT_EQ(ibv_dealloc_pd(parent), 0);
}

TEST_F(Srq, AChildPostsNothing) {
    make_srq(4);
    const pid_t child = fork_child();
    if (child == 0) _exit(b_.post(srq_, 1, 0, 64) != 0 ? 0 : 1);
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    for (std::uint32_t i = 0; i < max_wr_; ++i) EXPECT_EQ(b_.post(srq_, i, 0, 64), 0);
    EXPECT_NE(b_.post(srq_, 9, 0, 64), 0);
}

/// Mappings of this process.
std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) ++count;
    return count;
}

TEST_F(Srq, AResizeLeavesNoMappingBehind) {
    make_srq(16);
    const std::size_t before = mappings();
    for (std::uint32_t i = 0; i < 200; ++i) {
        ibv_srq_attr attr{};
        attr.max_wr = i % 2 == 0 ? 1000 : 16;
        ASSERT_EQ(ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR), 0);
    }
    EXPECT_LT(mappings(), before + 50);
}

TEST_F(Srq, LimitEventComesOnceAndDestructionTakesBackWhatNobodyRead) {
    make_srq(8);
    add_pair(IBV_QPT_RC);
    for (std::uint64_t i = 0; i < 6; ++i) {
        ASSERT_EQ(b_.post(srq_, i, 0, 64), 0);
    }
    const auto arm = [&](std::uint32_t limit) {
        ibv_srq_attr attr{};
        attr.srq_limit = limit;
        return ibv_modify_srq(srq_, &attr, IBV_SRQ_LIMIT);
    };
    const auto limit = [&] {
        ibv_srq_attr attr{};
        EXPECT_EQ(ibv_query_srq(srq_, &attr), 0);
        EXPECT_EQ(attr.max_wr, max_wr_);
        return attr.srq_limit;
    };
    EXPECT_EQ(arm(max_wr_ + 1), EINVAL);
    EXPECT_EQ(arm(5), 0);
    EXPECT_EQ(limit(), 5U);
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_.send(from_[0], i, 0, 64);
        EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    }
    EXPECT_EQ(next_event(b_.context.get(), IBV_EVENT_SRQ_LIMIT_REACHED).element.srq, srq_);
    EXPECT_EQ(limit(), 0U) << "disarmed";
    EXPECT_FALSE(has_event(b_.context.get())) << "one event for each arming";
    // Armed again, and the event is never read: destruction comes back all the same, and takes it away.
    EXPECT_EQ(arm(3), 0);
    a_.send(from_[0], 9, 0, 64);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(limit(), 0U);
    EXPECT_EQ(ibv_destroy_qp(to_[0]), 0);
    to_.clear();
    EXPECT_EQ(ibv_destroy_srq(srq_), 0);
    srq_ = nullptr;
    EXPECT_FALSE(has_event(b_.context.get())) << "an event names an SRQ that is gone";
}

/// The posted receive with that number in this process's mappings of ring memory; nullptr: none.
abi::RecvWqe* find_in_rings(std::uint64_t wr_id) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        if (line.find("urnic-rings") == std::string::npos) continue;
        std::uintptr_t begin = 0;
        std::uintptr_t end = 0;
        if (std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) != 2) continue;
        for (std::uintptr_t at = begin; at + sizeof(abi::RecvWqe) <= end; at += alignof(abi::RecvWqe)) {
            auto* wqe = reinterpret_cast<abi::RecvWqe*>(at);
            if (wqe->wr_id == wr_id) return wqe;
        }
    }
    return nullptr;
}

// What no provider writes, and a program that is astray may.
TEST_F(Srq, AScribbledReceiveIsTheErrorOfTheSrq) {
    constexpr std::uint64_t kNumber = 0xfeed'face'cafe'f00d;
    make_srq(8);
    add_pair(IBV_QPT_RC);
    ASSERT_EQ(b_.post(srq_, kNumber, 0, 64), 0);
    abi::RecvWqe* wqe = find_in_rings(kNumber);
    ASSERT_NE(wqe, nullptr);
    wqe->num_sge = 1000;
    a_.send(from_[0], 1, 0, 64);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_REM_OP_ERR);
    bool told = false;
    for (bool qp_failed = false; !(told && qp_failed);) {
        const auto event = next_event(b_.context.get());
        ASSERT_TRUE(event.has_value()) << "no event came, of the SRQ " << told << ", of the QP " << qp_failed;
        told |= event->event_type == IBV_EVENT_SRQ_ERR && event->element.srq == srq_;
        qp_failed |= event->event_type == IBV_EVENT_QP_FATAL && event->element.qp == to_[0];
    }
}

TEST_F(Srq, ResizedWhileMessagesCome) {
    constexpr std::uint64_t kMessages = 5'000;
    constexpr std::uint64_t kBetween = 20;  // receives posted from one resize to the next
    make_srq(64);
    add_pair(IBV_QPT_RC);
    add_pair(IBV_QPT_RC);
    std::atomic<bool> done{false};
    std::atomic<std::uint64_t> progress{0};
    std::thread resizer([&] {
        std::uint32_t wanted = 64;
        for (std::uint64_t next = kBetween; !done.load();) {
            if (progress.load() < next) {
                std::this_thread::yield();
                continue;
            }
            next += kBetween;
            wanted = wanted == 64 ? 500 : 64;
            ibv_srq_attr attr{};
            attr.max_wr = wanted;
            const int error = ibv_modify_srq(srq_, &attr, IBV_SRQ_MAX_WR);
            EXPECT_TRUE(error == 0 || (error == EINVAL && wanted == 64)) << error;
        }
    });
    std::uint64_t posted = 0, sent = 0, acknowledged = 0, received = 0;
    std::vector<bool> seen(kMessages);
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(4 * kPatienceMs);
    // No ASSERT from here on: it would leave without the thread's end.
    while (received < kMessages && std::chrono::steady_clock::now() < give_up && !HasFailure()) {
        while (posted < kMessages && b_.post(srq_, posted, (posted % 1000) * 64, 64) == 0) ++posted;
        progress.store(posted);
        while (sent < kMessages && sent - acknowledged < 100) {
            a_.send(from_[sent % 2], sent, 0, 64);
            ++sent;
        }
        ibv_wc wc{};
        while (ibv_poll_cq(a_.cq, 1, &wc) == 1) {
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            ++acknowledged;
        }
        while (ibv_poll_cq(b_.cq, 1, &wc) == 1) {
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            EXPECT_LT(wc.wr_id, kMessages);
            if (HasFailure()) break;
            EXPECT_FALSE(seen[wc.wr_id]) << "taken twice";
            seen[wc.wr_id] = true;
            ++received;
        }
    }
    done.store(true);
    resizer.join();
    EXPECT_EQ(received, kMessages);
}

TEST_F(Srq, TheLastReceiveOfAQpInErrorIsTold) {
    make_srq(8);
    add_pair(IBV_QPT_RC);
    add_pair(IBV_QPT_RC);
    ASSERT_EQ(b_.post(srq_, 1, 0, 64), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ASSERT_EQ(ibv_modify_qp(to_[0], &attr, IBV_QP_STATE), 0);
    EXPECT_EQ(next_event(b_.context.get(), IBV_EVENT_QP_LAST_WQE_REACHED).element.qp, to_[0]);
    a_.send(from_[1], 2, 0, 64);
    EXPECT_EQ(SharedSide::poll(a_.cq).status, IBV_WC_SUCCESS);
    const ibv_wc wc = SharedSide::poll(b_.cq);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.qp_num, to_[1]->qp_num) << "the receive stayed for the other";
}

}  // namespace
}  // namespace urnic::e2e
