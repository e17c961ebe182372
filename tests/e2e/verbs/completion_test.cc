// Completion queues beyond the plain calls: overruns, moderated events, timestamps, sizes that change under
// load.
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t now_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

class CompletionQueues : public testing::Test {
  protected:
    void make(const EndpointOptions& options, const EndpointOptions& peer = {}) {
        a_ = std::make_unique<Endpoint>("urnic0", options);
        b_ = std::make_unique<Endpoint>("urnic1", peer);
        connect(*a_, *b_);
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    void write(std::uint64_t wr_id) {
        ibv_sge sge = a_->sge(0, 64);
        ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, wr_id, &sge, 1, *b_, 0);
        a_->post(wr);
    }
    void expect_writes(std::uint64_t from, std::uint64_t to) {
        for (std::uint64_t i = from; i < to; ++i) a_->expect_success(i, IBV_WC_RDMA_WRITE);
    }
    /// When it returns, the QP's worker has done with every event for completions that are there already.
    void settle() { (void)a_->state(); }
    bool wakes(int timeout_ms) const {
        pollfd waiting{a_->channel->fd, POLLIN, 0};
        return poll(&waiting, 1, timeout_ms) == 1;
    }
    void take_event() {
        ibv_cq* cq = nullptr;
        void* cq_context = nullptr;
        ASSERT_TRUE(becomes_readable(a_->channel->fd)) << "no event came";
        ASSERT_EQ(ibv_get_cq_event(a_->channel, &cq, &cq_context), 0);
        EXPECT_EQ(cq, a_->cq);
        ibv_ack_cq_events(cq, 1);
    }
    int moderate(std::uint16_t count, std::uint16_t period_us) {
        ibv_modify_cq_attr attr{};
        attr.attr_mask = IBV_CQ_ATTR_MODERATE;
        attr.moderate = {count, period_us};
        return ibv_modify_cq(a_->cq, &attr);
    }
    bool no_event() const { return !has_event(a_->context.get()); }

    std::unique_ptr<Endpoint> a_, b_;
};

TEST_F(CompletionQueues, AnOverrunIsTheErrorOfTheCqAndOfTheQp) {
    make({.cq_entries = 4});
    for (std::uint64_t i = 0; i < 32; ++i) write(i);
    EXPECT_EQ(next_event(a_->context.get(), IBV_EVENT_CQ_ERR).element.cq, a_->cq);
    EXPECT_EQ(next_event(a_->context.get(), IBV_EVENT_QP_FATAL).element.qp, a_->qp);
    EXPECT_EQ(a_->state(), IBV_QPS_ERR);
    expect_writes(0, 4);  // what had room is there
    EXPECT_TRUE(no_event()) << "one event for one overrun";
}

TEST_F(CompletionQueues, AnIgnoredOverrunLosesCompletionsAndNothingElse) {
    make({.cq_entries = 4, .extended = true, .cq_flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN});
    for (std::uint64_t i = 0; i < 32; ++i) write(i);
    // A WRITE's data is there once a later READ has brought it back.
    fill(a_->at(1000), 8, 3);
    ibv_sge sge = a_->sge(1000, 8);
    ibv_send_wr last = rdma(IBV_WR_RDMA_WRITE, 32, &sge, 1, *b_, 1000, 0);
    a_->post(last);
    ibv_sge back = a_->sge(2000, 8);
    ibv_send_wr read = rdma(IBV_WR_RDMA_READ, 33, &back, 1, *b_, 1000, 0);
    a_->post(read);
    EXPECT_TRUE(comes([&] { return first_difference(a_->at(2000), 8, 3) == -1; }))
        << "no data of the READ came";
    EXPECT_EQ(a_->state(), IBV_QPS_RTS);
    EXPECT_TRUE(no_event());
    expect_writes(0, 4);
    write(40);
    a_->expect_success(40, IBV_WC_RDMA_WRITE);
}

TEST_F(CompletionQueues, ModerationWaitsForItsCount) {
    make({.with_channel = true});
    ASSERT_EQ(moderate(16, 0), 0);
    for (std::uint64_t round = 0; round < 10; ++round) {
        ASSERT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
        for (std::uint64_t i = 0; i < 15; ++i) write(i);
        expect_writes(0, 15);
        settle();
        EXPECT_FALSE(wakes(0)) << "an event for fewer completions";
        write(15);
        take_event();
        expect_writes(15, 16);
    }
    // Back to an event for each completion.
    ASSERT_EQ(moderate(0, 0), 0);
    ASSERT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
    write(1);
    take_event();
    expect_writes(1, 2);
}

TEST_F(CompletionQueues, ModerationGivesUpAfterItsPeriod) {
    make({.with_channel = true});
    constexpr std::uint16_t kPeriodUs = 30'000;
    ASSERT_EQ(moderate(1000, kPeriodUs), 0);
    for (int round = 0; round < 3; ++round) {
        ASSERT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
        const auto before = Clock::now();
        write(1);
        take_event();
        EXPECT_GE(Clock::now() - before, std::chrono::microseconds(kPeriodUs));
        expect_writes(1, 2);
    }
    ibv_modify_cq_attr attr{};
    EXPECT_EQ(ibv_modify_cq(a_->cq, &attr), EINVAL);
    attr.attr_mask = IBV_CQ_ATTR_RESERVED;
    EXPECT_EQ(ibv_modify_cq(a_->cq, &attr), EOPNOTSUPP);
}

TEST_F(CompletionQueues, LargestModeration) {
    make({.with_channel = true});
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(a_->context.get(), nullptr, &device), 0);
    const ibv_cq_moderation_caps most = device.cq_mod_caps;
    ASSERT_EQ(moderate(most.max_cq_count, most.max_cq_period), 0);
    ASSERT_EQ(ibv_req_notify_cq(a_->cq, 0), 0);
    const auto before = Clock::now();
    write(1);
    take_event();
    EXPECT_GE(Clock::now() - before, std::chrono::microseconds(most.max_cq_period));
    expect_writes(1, 2);
}

TEST_F(CompletionQueues, TimestampsLieBetweenThePostAndThePoll) {
    make({.extended = true,
          .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK});
    // The worker's clock follows the system's within this, see dataplane/worker/tsc_clock.h.
    constexpr std::uint64_t kDriftNs = 1'000'000;
    const auto raw_clock = [this] {
        ibv_values_ex values{};
        values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
        EXPECT_EQ(ibv_query_rt_values_ex(a_->context.get(), &values), 0);
        EXPECT_EQ(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
        return static_cast<std::uint64_t>(values.raw_clock.tv_sec) * 1'000'000'000 +
               static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
    };
    std::uint64_t last = 0;
    for (std::uint64_t round = 0; round < 50; ++round) {
        const std::uint64_t raw_before = raw_clock();
        const std::uint64_t wall_before = now_ns(CLOCK_REALTIME);
        for (std::uint64_t i = 0; i < 8; ++i) write(i);
        for (int got = 0; got < 8;) {
            ibv_poll_cq_attr attr{};
            ASSERT_TRUE(comes([&] { return ibv_start_poll(a_->cq_ex, &attr) == 0; })) << "no completion came";
            do {
                const std::uint64_t raw = ibv_wc_read_completion_ts(a_->cq_ex);
                const std::uint64_t wall = ibv_wc_read_completion_wallclock_ns(a_->cq_ex);
                EXPECT_GE(raw, last) << "the completions of one QP go forward";
                last = raw;
                EXPECT_GE(raw + kDriftNs, raw_before);
                EXPECT_LE(raw, raw_clock() + kDriftNs);
                EXPECT_GE(wall + kDriftNs, wall_before);
                EXPECT_LE(wall, now_ns(CLOCK_REALTIME) + kDriftNs);
                ++got;
            } while (ibv_next_poll(a_->cq_ex) == 0);
            ibv_end_poll(a_->cq_ex);
        }
    }
}

TEST_F(CompletionQueues, ASingleThreadedCqWorks) {
    make({.extended = true, .cq_flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED});
    for (std::uint64_t i = 0; i < 100; ++i) write(i);
    expect_writes(0, 100);
    ASSERT_EQ(ibv_resize_cq(a_->cq, 5000), 0);
    write(7);
    a_->expect_success(7, IBV_WC_RDMA_WRITE);
}

TEST_F(CompletionQueues, ASizeBelowWhatWaitsToBePolledIsRefused) {
    make({.cq_entries = 64});
    for (std::uint64_t i = 0; i < 40; ++i) write(i);
    // A later READ's data tells that all have completed.
    ibv_sge back = a_->sge(4096, 8);
    *reinterpret_cast<std::uint64_t*>(b_->at(4096)) = 77;
    ibv_send_wr read = rdma(IBV_WR_RDMA_READ, 40, &back, 1, *b_, 4096);
    a_->post(read);
    const auto* arrived = reinterpret_cast<const std::atomic<std::uint64_t>*>(a_->at(4096));
    ASSERT_TRUE(comes([&] { return arrived->load() == 77; })) << "no data of the READ came";
    EXPECT_EQ(ibv_resize_cq(a_->cq, 16), EINVAL);
    EXPECT_GE(a_->cq->cqe, 64);
    ASSERT_EQ(ibv_resize_cq(a_->cq, 128), 0);
    EXPECT_EQ(ibv_resize_cq(a_->cq, 16), EINVAL) << "those from before the first resize count as well";
    expect_writes(0, 40);
    a_->expect_success(40, IBV_WC_RDMA_READ);
    EXPECT_EQ(ibv_resize_cq(a_->cq, 16), 0);
    write(41);
    a_->expect_success(41, IBV_WC_RDMA_WRITE);
}

unsigned seed_of_test() {
    const char* given = std::getenv("URNIC_TEST_SEED");
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 0)) : std::random_device{}();
}

// One thread posts and polls on two QPs of one CQ, another changes the size all the time.
TEST_F(CompletionQueues, NothingIsLostOrReorderedWhileTheSizeChanges) {
    const unsigned seed = seed_of_test();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    constexpr std::uint32_t kWindow = 64;   // of each QP
    constexpr std::uint64_t kPerQp = 6000;  // at least
    constexpr int kLeastResizes = 10;
    make({.max_send_wr = kWindow, .cq_entries = 2 * kWindow});
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = a_->cq;
    init.cap = {kWindow, 1, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    Endpoint second("urnic0");
    const Endpoint second_peer("urnic1");
    ASSERT_EQ(ibv_destroy_qp(second.qp), 0);
    second.qp = ibv_create_qp(a_->pd, &init);  // on the first side's CQ
    ASSERT_NE(second.qp, nullptr);
    connect(second, second_peer);
    std::atomic<bool> done{false};
    std::atomic<int> resizes{0};
    std::thread resizer([&] {
        std::mt19937 random(seed);
        while (!done.load()) {
            const int wanted = static_cast<int>(2 * kWindow + random() % 2000);
            ASSERT_EQ(ibv_resize_cq(a_->cq, wanted), 0);
            ASSERT_GE(a_->cq->cqe, wanted);
            resizes.fetch_add(1);
            std::this_thread::yield();
        }
    });
    struct Flow {
        const Endpoint& from;
        const Endpoint& to;
        std::uint64_t posted = 0;
        std::uint64_t completed = 0;
    } flows[2] = {{*a_, *b_}, {second, second_peer}};
    const auto deadline = Clock::now() + std::chrono::minutes(3);
    bool good = true;
    const auto posts = [&](const Flow& flow) {
        return flow.posted < kPerQp || resizes.load() < kLeastResizes;
    };
    const auto has_more = [&](const Flow& flow) { return posts(flow) || flow.completed < flow.posted; };
    while (good && !HasFailure() && (has_more(flows[0]) || has_more(flows[1])) && Clock::now() < deadline) {
        for (Flow& flow : flows) {
            while (posts(flow) && flow.posted - flow.completed < kWindow) {
                ibv_sge sge = a_->sge(0, 8);
                ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, flow.posted++, &sge, 1, flow.to, 0);
                flow.from.post(wr);
            }
        }
        ibv_wc completions[16];
        const int got = ibv_poll_cq(a_->cq, 16, completions);
        good = good && got >= 0;
        for (int i = 0; i < got; ++i) {
            Flow& flow = flows[completions[i].qp_num == second.qp->qp_num ? 1 : 0];
            good = good && completions[i].status == IBV_WC_SUCCESS && completions[i].wr_id == flow.completed;
            EXPECT_EQ(completions[i].wr_id, flow.completed);
            ++flow.completed;
        }
    }
    done.store(true);
    resizer.join();
    EXPECT_TRUE(good);
    for (const Flow& flow : flows) {
        EXPECT_GE(flow.completed, kPerQp);
        EXPECT_EQ(flow.completed, flow.posted);
    }
    EXPECT_GE(resizes.load(), kLeastResizes);
    EXPECT_TRUE(no_event());
}

}  // namespace
}  // namespace urnic::e2e
