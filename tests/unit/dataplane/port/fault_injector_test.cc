// The port with faults: alone between a worker's bursts and a port that the test plays, and under real
// workers.
#include "dataplane/port/fault_injector.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <thread>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/frame_sender.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using fault::Action;
using fault::Rule;

/// Keeps what is sent and gives out what it was given.
class PlayedPort final : public Port {
  public:
    ~PlayedPort() override {
        for (std::deque<rte_mbuf*>* queue : {&sent, &arriving}) {
            for (rte_mbuf* frame : *queue) {
                free_frames({&frame, 1});
            }
        }
    }
    std::uint16_t rx_burst(std::uint32_t /*queue*/, rte_mbuf** frames, std::uint16_t count) override {
        std::uint16_t given = 0;
        for (; given < count && !arriving.empty(); ++given) {
            frames[given] = arriving.front();
            arriving.pop_front();
        }
        return given;
    }
    std::uint16_t tx_burst(std::uint32_t /*queue*/, rte_mbuf** frames, std::uint16_t count) override {
        std::uint16_t taken = 0;
        for (; taken < count && room != 0; ++taken, --room) {
            sent.push_back(frames[taken]);
        }
        return taken;
    }
    void set_multicast(std::span<const wire::Mac> /*groups*/) override {}
    [[nodiscard]] int wait_fd(std::uint32_t /*queue*/) const override { return 42; }
    [[nodiscard]] bool must_be_polled(std::uint32_t /*queue*/) const override { return true; }

    std::deque<rte_mbuf*> sent;
    std::deque<rte_mbuf*> arriving;
    std::uint32_t room = 1'000'000;
};

rte_mbuf* make_frame(std::uint32_t psn, std::uint32_t qpn) {
    wire::PathSpec spec;
    spec.src_mac = {2, 0, 0, 0, 0, 1};
    spec.dst_mac = {2, 0, 0, 0, 0, 2};
    spec.src_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
    spec.dst_gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
    wire::PacketHeader header;
    header.opcode = wire::kSendOnly;
    header.dest_qp = qpn;
    header.psn = Psn(psn);
    rte_mbuf* frame = nullptr;
    EXPECT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
    const std::size_t length = wire::build_frame(wire::make_path(spec), header, {},
                                                 {rte_pktmbuf_mtod(frame, std::byte*), kFrameRoomBytes});
    frame->data_len = static_cast<std::uint16_t>(length);
    frame->pkt_len = static_cast<std::uint32_t>(length);
    return frame;
}

std::uint32_t psn_of(const rte_mbuf* frame) {
    wire::PacketView view;
    EXPECT_EQ(wire::parse_frame(frame_bytes(frame), view), wire::ParseError::kNone);
    return view.header.psn.value();
}

using ActivePtr = std::shared_ptr<fault::ActiveRule>;

ActivePtr activate(const Rule& rule) { return std::make_shared<fault::ActiveRule>(rule, 1, 1); }

std::shared_ptr<const fault::Plan> plan_of(const std::vector<ActivePtr>& rules) {
    return std::make_shared<const fault::Plan>(rules);
}

class FaultPortTest : public testing::Test {
  protected:
    FaultPortTest() : before_(rte_mempool_avail_count(rig::frame_pool())) {}
    ~FaultPortTest() override {
        port.reset();
        below.reset();
        EXPECT_EQ(rte_mempool_avail_count(rig::frame_pool()), before_) << "frames leaked";
    }
    ActivePtr use(const Rule& rule) {
        ActivePtr active = activate(rule);
        auto plan = plan_of({active});
        port->swap_plan(plan);
        return active;
    }
    void no_faults() {
        std::shared_ptr<const fault::Plan> none;
        port->swap_plan(none);
    }
    /// Returns how many were taken.
    std::uint16_t send(const std::vector<std::uint32_t>& psns, std::uint32_t qpn = 5) {
        std::vector<rte_mbuf*> frames;
        for (const std::uint32_t psn : psns) {
            frames.push_back(make_frame(psn, qpn));
        }
        const std::uint16_t taken =
            port->tx_burst(0, frames.data(), static_cast<std::uint16_t>(frames.size()));
        for (std::size_t i = taken; i < frames.size(); ++i) {
            free_frames({&frames[i], 1});
        }
        return taken;
    }
    /// A round of the worker that receives.
    std::vector<std::uint32_t> receive(std::uint16_t count = 32) {
        std::vector<rte_mbuf*> frames(count);
        const std::uint16_t got = port->rx_burst(0, frames.data(), count);
        std::vector<std::uint32_t> psns;
        for (std::uint16_t i = 0; i < got; ++i) {
            psns.push_back(psn_of(frames[i]));
            free_frames({&frames[i], 1});
        }
        return psns;
    }
    [[nodiscard]] std::vector<std::uint32_t> sent() const {
        std::vector<std::uint32_t> psns;
        for (const rte_mbuf* frame : below->sent) {
            psns.push_back(psn_of(frame));
        }
        return psns;
    }

    using Psns = std::vector<std::uint32_t>;

    std::unique_ptr<PlayedPort> below = std::make_unique<PlayedPort>();
    TimeNs now = 1'000'000;
    std::unique_ptr<FaultInjector> port = std::make_unique<FaultInjector>(*below, now);

  private:
    unsigned before_;
};

TEST_F(FaultPortTest, WithoutAPlanEverythingGoesThrough) {
    EXPECT_TRUE(port->drained());
    EXPECT_EQ(send({1, 2, 3}), 3);
    EXPECT_EQ(sent(), (Psns{1, 2, 3}));
    EXPECT_EQ(port->next_event(), kNever);
    EXPECT_EQ(port->wait_fd(0), 42);
    EXPECT_TRUE(port->must_be_polled(0));
}

TEST_F(FaultPortTest, DropsWhatIsSentAndWhatArrives) {
    const auto rule = use({.direction = fault::Direction::kBoth, .psn = 2});
    EXPECT_EQ(send({1, 2, 3}), 3) << "a lost packet was taken";
    EXPECT_EQ(sent(), (Psns{1, 3}));
    below->arriving = {make_frame(2, 5), make_frame(4, 5)};
    EXPECT_EQ(receive(), (Psns{4}));
    EXPECT_EQ(rule->hits, 2U);
}

TEST_F(FaultPortTest, AFrameThatOthersReadIsCopiedBeforeItIsChanged) {
    use({.action = Action::kEcn, .direction = fault::Direction::kRx});
    rte_mbuf* shared = make_frame(1, 5);
    const std::vector<std::byte> before(frame_bytes(shared).begin(), frame_bytes(shared).end());
    rte_mbuf_refcnt_update(shared, 1);
    below->arriving = {shared};
    rte_mbuf* received = nullptr;
    ASSERT_EQ(port->rx_burst(0, &received, 1), 1);
    EXPECT_NE(received, shared);
    EXPECT_EQ(frame_bytes(received)[15], before[15] | std::byte{3});
    EXPECT_TRUE(std::equal(before.begin(), before.end(), frame_bytes(shared).begin()));
    EXPECT_EQ(rte_mbuf_refcnt_read(shared), 1);
    free_frames({&received, 1});
    free_frames({&shared, 1});
}

TEST_F(FaultPortTest, ADelayedPacketGoesOutWhenTheWorkerLooksAfterItsTime) {
    use({.action = Action::kDelay, .psn = 1, .delay_ns = 5'000});
    send({1, 2});
    EXPECT_EQ(sent(), (Psns{2}));
    EXPECT_FALSE(port->drained());
    EXPECT_EQ(port->next_event(), now + 5'000);
    now += 4'999;
    receive();
    EXPECT_EQ(sent(), (Psns{2}));
    now += 1;
    receive();
    EXPECT_EQ(sent(), (Psns{2, 1}));
    EXPECT_EQ(port->next_event(), kNever);
}

TEST_F(FaultPortTest, DelayedPacketsKeepTheirOrder) {
    use({.action = Action::kDelay, .direction = fault::Direction::kRx, .delay_ns = 5'000});
    below->arriving = {make_frame(1, 5), make_frame(2, 5)};
    EXPECT_EQ(receive(), Psns{});
    now += 2'000;
    below->arriving = {make_frame(3, 5)};
    EXPECT_EQ(receive(), Psns{});
    now += 3'000;
    EXPECT_EQ(receive(), (Psns{1, 2}));
    now += 10'000;
    EXPECT_EQ(receive(), (Psns{3}));
}

TEST_F(FaultPortTest, AReorderedPacketWaitsForLaterOnesOfItsQp) {
    use({.action = Action::kReorder, .psn = 1, .packets = 2});
    send({1});
    send({2});
    send({7, 8, 9}, 6);
    EXPECT_EQ(sent(), (Psns{2, 7, 8, 9})) << "packets of another QP do not count";
    send({3, 4});
    EXPECT_EQ(sent(), (Psns{2, 7, 8, 9, 3, 1, 4}));
    EXPECT_EQ(port->next_event(), kNever);
}

TEST_F(FaultPortTest, AReorderedPacketDoesNotWaitForEver) {
    use({.action = Action::kReorder, .psn = 1});
    send({1});
    EXPECT_EQ(port->next_event(), now + Rule::kDefaultReorderNs);
    now += Rule::kDefaultReorderNs;
    receive();
    EXPECT_EQ(sent(), (Psns{1}));
    send({2, 3});
    EXPECT_EQ(sent(), (Psns{1, 2, 3}));
}

TEST_F(FaultPortTest, DuplicatesComeAtOnceOrLate) {
    use({.action = Action::kDuplicate, .psn = 1});
    send({1, 2});
    EXPECT_EQ(sent(), (Psns{1, 1, 2}));
    use({.action = Action::kDuplicate, .psn = 3, .delay_ns = 7'000});
    send({3, 4});
    EXPECT_EQ(sent(), (Psns{1, 1, 2, 3, 4}));
    now += 7'000;
    receive();
    EXPECT_EQ(sent(), (Psns{1, 1, 2, 3, 4, 3}));
    EXPECT_NE(below->sent[0], below->sent[1]);
    EXPECT_EQ(below->sent[0]->pkt_len, below->sent[1]->pkt_len);
}

TEST_F(FaultPortTest, ADuplicateHasTheSenderOfTheOriginal) {
    use({.action = Action::kDuplicate, .psn = 1});
    rte_mbuf* frame = make_frame(1, 7);
    set_sender(*frame, 40);
    ASSERT_EQ(port->tx_burst(0, &frame, 1), 1);
    ASSERT_EQ(below->sent.size(), 2U);
    for (const rte_mbuf* each : below->sent) {
        EXPECT_TRUE(may_be_from(*each, 40));
        EXPECT_FALSE(may_be_from(*each, 41));
    }
}

TEST_F(FaultPortTest, WhatAFullPortLeavesIsDecidedOnce) {
    const auto rule = use({.action = Action::kEcn});
    below->room = 2;
    EXPECT_EQ(send({1, 2, 3, 4}), 4) << "taken, if not sent";
    EXPECT_EQ(sent(), (Psns{1, 2}));
    EXPECT_EQ(port->next_event(), 0U) << "the worker must not sleep on it";
    EXPECT_EQ(send({5}), 0) << "no more while some are left";
    below->room = 1000;
    receive();
    EXPECT_EQ(sent(), (Psns{1, 2, 3, 4}));
    EXPECT_EQ(send({5}), 1);
    EXPECT_EQ(rule->seen, 5U);
}

TEST_F(FaultPortTest, WhatIsHeldIsBounded) {
    const auto rule = use({.action = Action::kDelay, .delay_ns = 1'000});
    const Psns burst(16, 1);
    constexpr std::uint32_t kSent = 3 * FaultInjector::kMaxHeld / 2 / 16 * 16;
    for (std::uint32_t i = 0; i < kSent; i += 16) {
        ASSERT_EQ(send(burst), 16);
    }
    EXPECT_EQ(rule->hits, kSent);
    EXPECT_EQ(rule->missed, kSent - FaultInjector::kMaxHeld);
    below->room = 100;
    now += 1'000;
    receive();
    below->room = 10'000;
    receive();
    EXPECT_EQ(below->sent.size(), FaultInjector::kMaxHeld);
}

TEST_F(FaultPortTest, MoreThanTheCallerTakesStaysInOrder) {
    use({.action = Action::kDuplicate, .direction = fault::Direction::kRx});
    Psns expected;
    for (std::uint32_t psn = 0; psn < 3000; ++psn) {
        below->arriving.push_back(make_frame(psn, 5));
        expected.insert(expected.end(), {psn, psn});
        if (psn % 16 == 15) {
            const Psns got = receive();
            ASSERT_EQ(got,
                      Psns(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(got.size())));
            expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(got.size()));
        }
    }
    for (Psns got = receive(); !got.empty(); got = receive()) {
        expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(got.size()));
    }
    EXPECT_TRUE(expected.empty());
}

TEST_F(FaultPortTest, RemovingTheFaultLeavesWhatIsHeldItsTime) {
    use({.action = Action::kDelay, .delay_ns = 1'000});
    send({1});
    no_faults();
    EXPECT_FALSE(port->drained());
    send({2});
    now += 1'000;
    receive();
    EXPECT_EQ(sent(), (Psns{2, 1}));
    EXPECT_TRUE(port->drained());
}

TEST_F(FaultPortTest, WhatIsHeldAtTheEndIsFreed) {
    use({.action = Action::kDelay, .direction = fault::Direction::kBoth, .delay_ns = 1'000});
    send({1, 2, 3});
    below->arriving = {make_frame(4, 5)};
    receive();
    below->room = 1;
    now += 1'000;
    receive(1);
}

/// Under real workers.
struct Pair {
    /// Local ACK timeout 20: 4 s, so that no worker has to be given a processor soon.
    explicit Pair(rig::Rig& rig, std::uint8_t timeout = 20)
        : cq_a(rig.num_workers(), 256),
          cq_b(rig.num_workers(), 256),
          client(rig.make_client()),
          key_a(rig.register_memory(0, memory_a)),
          key_b(rig.register_memory(1, memory_b)),
          a(rig, *client, 0, 40, 3, cq_a),
          b(rig, *client, 1, 41, 70, cq_b) {
        EXPECT_EQ(a.connect(b, 5, timeout), 0);
        EXPECT_EQ(b.connect(a, 5, timeout), 0);
    }
    /// Writes and compares. Fails with what went wrong.
    [[nodiscard]] testing::AssertionResult write(std::uint32_t salt, std::uint32_t length = kBytes) {
        for (std::size_t i = 0; i < length; ++i) {
            memory_a.data()[i] = static_cast<std::byte>((i * 2654435761U + salt) >> 13U);
        }
        rig::SendRequest request;
        request.opcode = WrOpcode::kWrite;
        request.wr_id = salt;
        request.sge = {rig::sge(memory_a, 0, length, key_a)};
        request.remote_addr = reinterpret_cast<std::uint64_t>(memory_b.data());
        request.rkey = key_b;
        a.post_send(request);
        const auto completion = cq_a.wait();
        if (!completion) {
            return testing::AssertionFailure() << "WRITE " << salt << " does not complete";
        }
        if (completion->status != WcStatus::kSuccess || completion->wr_id != salt) {
            return testing::AssertionFailure()
                   << "WRITE " << salt << ": the completion is of " << completion->wr_id << ", with status "
                   << static_cast<int>(completion->status);
        }
        if (std::memcmp(memory_a.data(), memory_b.data(), length) != 0) {
            return testing::AssertionFailure() << "WRITE " << salt << " brought other bytes";
        }
        return testing::AssertionSuccess();
    }

    static constexpr std::uint32_t kBytes = 64 * 1024;
    rig::TestCq cq_a;
    rig::TestCq cq_b;
    std::unique_ptr<rig::TestClient> client;
    rig::PageMemory memory_a{kBytes};
    rig::PageMemory memory_b{kBytes};
    std::uint32_t key_a;
    std::uint32_t key_b;
    rig::TestQp a;
    rig::TestQp b;
};

/// As the control thread does it: one plan for a device on every worker.
void set_faults(rig::Rig& rig, std::uint32_t device, const std::vector<ActivePtr>& rules) {
    for (std::uint32_t worker = 0; worker < rig.num_workers(); ++worker) {
        auto plan = rules.empty() ? nullptr : plan_of(rules);
        rig.worker(worker).call([&] { rig.worker(worker).swap_faults(device, plan); });
    }
}

TEST(FaultyWorker, ASleepingWorkerWakesForADelayedPacket) {
    rig::Rig rig({});
    Pair pair(rig);
    // Long enough that the worker sleeps meanwhile; the QP's own timer, after 4 s, would be later.
    const auto rule = activate({.action = Action::kDelay, .count = 1, .delay_ns = 1'500'000'000});
    set_faults(rig, 0, {rule});
    std::atomic<bool> slept{false};
    std::atomic<bool> done{false};
    std::thread watcher([&] { slept = rig::wait_for([&] { return rig.asleep(0) || done; }) && !done; });
    EXPECT_TRUE(pair.write(1, 1000));
    done = true;
    watcher.join();
    EXPECT_TRUE(slept);
    EXPECT_EQ(rule->hits, 1U);
    EXPECT_EQ(rig.count(0, &Counters::local_ack_timeout_err), 0U) << "the packet came too late or not at all";
}

/// Writes again and again until it is told to stop, or until one fails: what follows would only say so again.
class WritingApplication {
  public:
    explicit WritingApplication(Pair& pair)
        : thread_([this, &pair] {
              for (std::uint32_t salt = 1; !stop_ && !failed_; ++salt) {
                  const testing::AssertionResult result = pair.write(salt);
                  EXPECT_TRUE(result);
                  failed_ = !result;
              }
          }) {}
    ~WritingApplication() {
        stop_ = true;
        thread_.join();
    }
    WritingApplication(const WritingApplication&) = delete;
    WritingApplication& operator=(const WritingApplication&) = delete;
    [[nodiscard]] bool failed() const { return failed_; }

  private:
    std::atomic<bool> stop_{false};
    std::atomic<bool> failed_{false};
    std::thread thread_;
};

TEST(FaultyWorker, PlansChangeWhileTrafficRuns) {
    rig::Rig rig({.num_workers = 2});
    Pair pair(rig);
    // What gets lost is in the middle of a message, where the next packet shows it: only when it gets lost a
    // second time somebody waits for the ACK timeout.
    const std::vector<Rule> kinds = {
        {.action = Action::kDrop, .opcode = wire::kWriteMiddle, .probability = 0.05},
        {.action = Action::kReorder, .probability = 0.1, .packets = 3},
        {.action = Action::kDuplicate, .probability = 0.1, .delay_ns = 50'000},
        {.action = Action::kDelay, .probability = 0.1, .delay_ns = 100'000},
        {.action = Action::kCorrupt, .opcode = wire::kWriteMiddle, .probability = 0.02}};
    // Calls belong to one thread; the application is another.
    WritingApplication application(pair);
    for (std::uint32_t round = 0; round < 40; ++round) {
        Rule rule = kinds[round % kinds.size()];
        const std::uint32_t device = round % 2;
        // The second RNIC sends nothing but acknowledgements.
        rule.direction = rule.opcode && device == 1 ? fault::Direction::kRx : fault::Direction::kTx;
        const auto active = activate(rule);
        set_faults(rig, device, {active});
        ASSERT_TRUE(rig::wait_for([&] { return active->hits >= 2 || application.failed(); }))
            << "round " << round;
        ASSERT_FALSE(application.failed()) << "round " << round;
        if (round % 3 == 0) {
            set_faults(rig, device, {});
        }
    }
    set_faults(rig, 0, {});
    set_faults(rig, 1, {});
}

TEST(FaultyWorker, APortWithoutFaultsIsLeftAlone) {
    rig::Rig rig({});
    Pair pair(rig);
    const auto rule = activate({.action = Action::kEcn});
    set_faults(rig, 0, {rule});
    EXPECT_TRUE(pair.write(1));
    const std::uint64_t seen = rule->seen;
    EXPECT_GT(seen, 0U);
    set_faults(rig, 0, {});
    EXPECT_TRUE(pair.write(2));
    EXPECT_EQ(rule->seen, seen);
}

}  // namespace
}  // namespace urnic::dataplane
