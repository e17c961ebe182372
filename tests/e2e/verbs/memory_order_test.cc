// What a program may rely on when memory and completions race: each test checks every transfer of a seeded
// random run. URNIC_TEST_SEED replays one, URNIC_STRESS_SECONDS makes each run as long (default: short).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

using Clock = std::chrono::steady_clock;

class MemoryOrder : public testing::Test {
  protected:
    MemoryOrder() {
        const char* given = std::getenv("URNIC_TEST_SEED");
        seed_ = given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 0))
                                 : std::random_device{}();
        random_.seed(seed_);
        const char* seconds = std::getenv("URNIC_STRESS_SECONDS");
        seconds_ = seconds != nullptr ? std::strtol(seconds, nullptr, 10) : 0;
        RecordProperty("seed", std::to_string(seed_));
        if (seconds_ > 0) std::printf("URNIC_TEST_SEED=%u\n", seed_);
    }
    void make(ibv_mtu mtu = IBV_MTU_1024) {
        a_ = std::make_unique<Endpoint>("urnic0");
        b_ = std::make_unique<Endpoint>("urnic1");
        connect(*a_, *b_, {.mtu = mtu});
        if (HasFailure()) GTEST_FAIL() << "not connected";
    }
    std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }
    /// Returns whether a run that has done `count` continues.
    bool has_more(std::uint64_t count, std::uint64_t shortest) const {
        return seconds_ > 0 ? Clock::now() < end_ : count < shortest;
    }
    void start_clock() { end_ = Clock::now() + std::chrono::seconds(seconds_); }
    std::string replay() const { return "URNIC_TEST_SEED=" + std::to_string(seed_); }

    unsigned seed_ = 0;
    std::mt19937_64 random_;
    long seconds_ = 0;
    Clock::time_point end_;
    std::unique_ptr<Endpoint> a_, b_;
};

/// Looks at memory before a waiting thread lets others run.
constexpr int kSpins = 500;

/// Every byte tells which transfer it belongs to.
std::uint8_t byte_of(std::uint64_t number) { return static_cast<std::uint8_t>(number % 251 + 1); }

// A program that polls the last byte of its buffer (perftest's latency tools do) and then uses the rest.
TEST_F(MemoryOrder, TheLastByteOfAWriteBecomesVisibleLast) {
    SCOPED_TRACE(replay());
    for (const ibv_mtu mtu : {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096}) {
        make(mtu);
        start_clock();
        for (std::uint64_t round = 0; has_more(round, 300); ++round) {
            const std::uint32_t length = 1 + (below(4) == 0 ? below(40'000) : below(300));
            const std::uint32_t source = below(4096);
            const std::uint32_t target = below(4096);
            std::memset(b_->at(target), 0, length);
            std::memset(a_->at(source), byte_of(round), length);
            ibv_sge sge = a_->sge(source, length);
            ibv_send_wr wr = rdma(IBV_WR_RDMA_WRITE, round, &sge, 1, *b_, target);
            a_->post(wr);
            const std::atomic_ref<std::uint8_t> last(*b_->at(target + length - 1));
            const auto deadline = Clock::now() + std::chrono::milliseconds(kPatienceMs);
            for (int misses = 0; last.load(std::memory_order_acquire) == 0; ++misses) {
                if (misses % kSpins != kSpins - 1) continue;
                if (Clock::now() > deadline) break;
                std::this_thread::yield();  // the daemon may want this core
            }
            ASSERT_EQ(first_other(b_->at(target), length, byte_of(round)), -1)
                << length << " bytes to offset " << target << ", round " << round << ", MTU " << mtu;
            a_->expect_success(round, IBV_WC_RDMA_WRITE);
        }
    }
}

// Receives complete in the order in which they were posted, and with all their data.
TEST_F(MemoryOrder, DataComesBeforeItsCompletion) {
    SCOPED_TRACE(replay());
    make();
    constexpr std::uint32_t kSlots = 32;
    constexpr std::uint32_t kSlotBytes = 16'384;
    struct Expected {
        std::uint32_t length;
        std::uint32_t slot;
        bool write;
    };
    std::deque<Expected> under_way;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    std::uint64_t completed = 0;
    for (std::uint32_t i = 0; i < kSlots; ++i) b_->post_recv(i, {b_->sge(i * kSlotBytes, kSlotBytes)});
    start_clock();
    const auto deadline = Clock::now() + std::chrono::minutes(3) + std::chrono::seconds(seconds_);
    while (has_more(received, 8000) || received < sent || completed < sent) {
        ASSERT_LT(Clock::now(), deadline) << "stuck after " << received;
        while (has_more(sent, 8000) && under_way.size() < kSlots && sent - completed < kSlots) {
            // WRITE with immediate takes a receive too; its data goes past it.
            const bool write = below(2) == 0;
            const std::uint32_t length = 1 + (below(8) == 0 ? below(kSlotBytes - 1) : below(200));
            const auto slot = static_cast<std::uint32_t>(sent % kSlots);
            const std::size_t at = std::size_t{slot} * kSlotBytes;
            std::memset(a_->at(at), byte_of(sent), length);
            ibv_sge sge = a_->sge(at, length);
            ibv_send_wr wr = write ? rdma(IBV_WR_RDMA_WRITE_WITH_IMM, sent, &sge, 1, *b_, at)
                                   : request(IBV_WR_SEND_WITH_IMM, sent, &sge, 1);
            wr.imm_data = static_cast<std::uint32_t>(sent);
            a_->post(wr);
            under_way.push_back({length, slot, write});
            ++sent;
        }
        ibv_wc wc[8];
        const int got = ibv_poll_cq(b_->cq, 8, wc);
        ASSERT_GE(got, 0);
        for (int i = 0; i < got; ++i) {
            ASSERT_FALSE(under_way.empty());
            const Expected expected = under_way.front();
            under_way.pop_front();
            ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS);
            ASSERT_EQ(wc[i].imm_data, static_cast<std::uint32_t>(received)) << "out of order";
            ASSERT_EQ(wc[i].wr_id, expected.slot);
            ASSERT_EQ(wc[i].byte_len, expected.length);
            ASSERT_EQ(wc[i].opcode, expected.write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
            const std::size_t at = std::size_t{expected.slot} * kSlotBytes;
            ASSERT_EQ(first_other(b_->at(at), expected.length, byte_of(received)), -1)
                << "message " << received << " of " << expected.length << " bytes";
            ++received;
            b_->post_recv(expected.slot, {b_->sge(at, kSlotBytes)});
        }
        const int sends = ibv_poll_cq(a_->cq, 8, wc);
        ASSERT_GE(sends, 0);
        for (int i = 0; i < sends; ++i) {
            ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS);
            ASSERT_EQ(wc[i].wr_id, completed++);
        }
    }
}

// Requests of every kind complete in the order of their posting, and what a READ or an atomic operation
// brings lies in memory by then (IBA 9.7.5, 10.8.3.3).
TEST_F(MemoryOrder, CompletionsComeInOrderWhateverTheOperation) {
    SCOPED_TRACE(replay());
    make();
    constexpr std::uint32_t kWindow = 48;
    constexpr std::size_t kWord = 1U << 20U;  // of b_, counted up by each FETCH_ADD
    constexpr std::size_t kSource = 2U << 20U;
    constexpr std::uint32_t kReadBytes = 5000;
    fill(b_->at(kSource), kReadBytes, 9);
    std::uint64_t adds = 0;
    struct Sent {
        ibv_wc_opcode opcode;
        std::uint64_t old;  // of FETCH_ADD
        std::uint32_t length;
    };
    std::deque<Sent> under_way;
    std::uint64_t posted = 0;
    std::uint64_t completed = 0;
    const auto place = [](std::uint64_t number) { return std::size_t{number % kWindow} * 8192; };
    start_clock();
    const auto deadline = Clock::now() + std::chrono::minutes(3) + std::chrono::seconds(seconds_);
    while (has_more(completed, 8000) || completed < posted) {
        ASSERT_LT(Clock::now(), deadline) << "stuck after " << completed;
        while (has_more(posted, 8000) && under_way.size() < kWindow) {
            const std::size_t at = place(posted);
            const std::uint32_t kind = below(3);
            const std::uint32_t length = kind == 1 ? 8 : 1 + below(kReadBytes);
            std::memset(a_->at(at), 0, length);
            ibv_sge sge = a_->sge(at, length);
            ibv_send_wr wr = kind == 0   ? rdma(IBV_WR_RDMA_READ, posted, &sge, 1, *b_, kSource)
                             : kind == 1 ? atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, posted, &sge, *b_, kWord, 1)
                                         : rdma(IBV_WR_RDMA_WRITE, posted, &sge, 1, *b_, 3U << 20U);
            a_->post(wr);
            under_way.push_back({kind == 0   ? IBV_WC_RDMA_READ
                                 : kind == 1 ? IBV_WC_FETCH_ADD
                                             : IBV_WC_RDMA_WRITE,
                                 kind == 1 ? adds++ : 0, length});
            ++posted;
        }
        ibv_wc wc[8];
        const int got = ibv_poll_cq(a_->cq, 8, wc);
        ASSERT_GE(got, 0);
        for (int i = 0; i < got; ++i) {
            const Sent sent = under_way.front();
            under_way.pop_front();
            ASSERT_EQ(wc[i].status, IBV_WC_SUCCESS);
            ASSERT_EQ(wc[i].wr_id, completed) << "out of order";
            ASSERT_EQ(wc[i].opcode, sent.opcode);
            const std::size_t at = place(completed++);
            if (sent.opcode == IBV_WC_RDMA_READ) {
                ASSERT_EQ(first_difference(a_->at(at), sent.length, 9), -1);
            } else if (sent.opcode == IBV_WC_FETCH_ADD) {
                std::uint64_t old = 0;
                std::memcpy(&old, a_->at(at), sizeof old);
                ASSERT_EQ(old, sent.old);
            }
        }
    }
}

/// Posts FETCH_ADDs of 1 to a word and notes what each found there.
void add_from_afar(const Endpoint& from, const Endpoint& to, std::size_t word, std::uint64_t count,
                   std::vector<std::uint64_t>& found) {
    constexpr std::uint64_t kWindow = 12;
    std::uint64_t posted = 0;
    for (std::uint64_t completed = 0; completed < count;) {
        for (; posted < count && posted - completed < kWindow; ++posted) {
            ibv_sge sge = from.sge(8 * (posted % kWindow), 8);
            ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, posted, &sge, to, word, 1);
            from.post(wr);
        }
        const ibv_wc wc = from.poll_one();
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.wr_id, completed);
        std::uint64_t old = 0;
        std::memcpy(&old, from.at(8 * (completed++ % kWindow)), sizeof old);
        found.push_back(old);
    }
}

// IBV_ATOMIC_GLOB: the CPU's atomic operations and those of two peers on one word. Every addition finds
// another value, and none is lost.
TEST_F(MemoryOrder, AtomicsOfTheCpuAndOfPeersAreOne) {
    SCOPED_TRACE(replay());
    make();
    const Endpoint second_peer("urnic1");
    const Endpoint second("urnic0");
    connect(second, second_peer);
    ibv_mr* shared = ibv_reg_mr(second_peer.pd, b_->at(0), 4096,
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_WRITE);
    ASSERT_NE(shared, nullptr);
    start_clock();
    for (int run = 0; run == 0 || (seconds_ > 0 && Clock::now() < end_); ++run) {
        const std::size_t word = 8 * below(8);
        const std::uint64_t remote = 6000 + below(2000);
        const std::atomic_ref<std::uint64_t> counter(*reinterpret_cast<std::uint64_t*>(b_->at(word)));
        counter.store(0);
        std::vector<std::uint64_t> found[2];
        std::uint64_t local = 0;  // as long as the peers add
        std::atomic<bool> peers_are_done{false};
        std::thread cpu([&] {
            for (; !peers_are_done.load(); ++local) {
                if (local % 2 == 0) {
                    counter.fetch_add(1);
                    continue;
                }
                std::uint64_t now = counter.load();
                while (!counter.compare_exchange_weak(now, now + 1)) {
                }
            }
        });
        std::thread peer([&] { add_from_afar(*a_, *b_, word, remote, found[0]); });
        constexpr std::uint64_t kWindow = 12;
        for (std::uint64_t posted = 0; found[1].size() < remote && !HasFatalFailure();) {
            for (; posted < remote && posted - found[1].size() < kWindow; ++posted) {
                ibv_sge sge = second.sge(8 * (posted % kWindow), 8);
                ibv_send_wr wr = atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, posted, &sge, second_peer, 0, 1);
                wr.wr.atomic.remote_addr = b_->address(word);
                wr.wr.atomic.rkey = shared->rkey;
                second.post(wr);
            }
            second.expect_success(found[1].size(), IBV_WC_FETCH_ADD);
            std::uint64_t old = 0;
            std::memcpy(&old, second.at(8 * (found[1].size() % kWindow)), sizeof old);
            found[1].push_back(old);
        }
        peer.join();
        peers_are_done.store(true);
        cpu.join();
        EXPECT_EQ(counter.load(), 2 * remote + local);
        std::vector<std::uint64_t> all;
        for (const auto& values : found) {
            ASSERT_EQ(values.size(), remote);
            std::uint64_t before = 0;
            for (std::size_t i = 0; i < values.size(); ++i) {
                ASSERT_LT(values[i], 2 * remote + local);
                ASSERT_TRUE(i == 0 || values[i] > before) << "the word went back";
                before = values[i];
            }
            all.insert(all.end(), values.begin(), values.end());
        }
        std::sort(all.begin(), all.end());
        EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "two additions found one value";
    }
    EXPECT_EQ(ibv_dereg_mr(shared), 0);
}

// Compare-and-swap from both sides: each success is a step, and there are as many steps as successes.
TEST_F(MemoryOrder, CompareAndSwapIsWonOnce) {
    SCOPED_TRACE(replay());
    make();
    const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(b_->at(64)));
    word.store(0);
    std::atomic<bool> done{false};
    std::uint64_t cpu_won = 0;
    std::thread cpu([&] {
        while (!done.load()) {
            std::uint64_t now = word.load();
            cpu_won += word.compare_exchange_strong(now, now + 1) ? 1 : 0;
            std::this_thread::yield();
        }
    });
    std::uint64_t peer_won = 0;
    std::uint64_t guess = 0;
    start_clock();
    for (std::uint64_t round = 0; has_more(round, 300); ++round) {
        ibv_sge sge = a_->sge(0, 8);
        ibv_send_wr wr = atomic(IBV_WR_ATOMIC_CMP_AND_SWP, round, &sge, *b_, 64, guess, guess + 1);
        a_->post(wr);
        a_->expect_success(round, IBV_WC_COMP_SWAP);
        std::uint64_t old = 0;
        std::memcpy(&old, a_->at(0), sizeof old);
        peer_won += old == guess ? 1 : 0;
        guess = old == guess ? guess + 1 : old;
        // A peer that always comes late would win nothing: now and then the CPU's next step is guessed.
        guess += below(3) == 0 ? 1 : 0;
    }
    done.store(true);
    cpu.join();
    EXPECT_EQ(word.load(), cpu_won + peer_won);
}

}  // namespace
}  // namespace urnic::e2e
