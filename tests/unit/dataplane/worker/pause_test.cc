// Pause frames at real workers: QPs of a paused priority wait without being lost, the others go on.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/prefetch_port.h"
#include "dataplane/wire/emulated_network.h"
#include "rnic/wire/dissect/eth/pause_frame.h"
#include "tests/unit/dataplane/rig.h"
#include "tests/unit/dataplane/wire/emulated.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::TestCq;
using rig::TestQp;

/// 1 Mbit/s: 0xffff quanta are 33 s, which no test waits for.
constexpr std::uint64_t kSlowLink = 1'000'000;
constexpr std::uint16_t kForEver = 0xffff;

TimeNs monotonic_ns() {
    return static_cast<TimeNs>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

// Two QPs from device 0 to device 1 whose packets have priority 0, on each worker.
class PauseTest : public testing::TestWithParam<std::uint32_t> {
  protected:
    PauseTest()
        : rig_({.num_workers = GetParam()}),
          client_(rig_.make_client()),
          cq_a_(rig_.num_workers(), 64),
          cq_b_(rig_.num_workers(), 64),
          a_(rig_, *client_, 0, 21, 0, cq_a_),
          b_(rig_, *client_, 1, 22, 1, cq_b_) {
        EXPECT_EQ(a_.connect(b_), 0);
        EXPECT_EQ(b_.connect(a_), 0);
        rig_.call(0, [&] {
            rig_.device(0).pfc.link_bits_per_second = kSlowLink;
            rig_.device(0).pfc.watchdog_ns = 0;
        });
    }

    /// A frame from device 1 to the link's other ends.
    void inject(std::span<const std::byte> bytes) {
        rte_mbuf* frame = nullptr;
        ASSERT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        std::memcpy(rte_pktmbuf_mtod(frame, std::byte*), bytes.data(), bytes.size());
        frame->data_len = static_cast<std::uint16_t>(bytes.size());
        frame->pkt_len = static_cast<std::uint32_t>(bytes.size());
        rig_.call(0, [&] { ASSERT_EQ(rig_.local_switch().port(1).tx_burst(0, &frame, 1), 1); });
        for (std::uint32_t worker = 0; worker < rig_.num_workers(); ++worker) {
            rig_.handoff().wakeup().wake(worker);
        }
    }
    void inject(std::uint8_t priorities, std::uint16_t quanta) {
        wire::Pfc pause;
        pause.class_enable = priorities;
        std::fill(std::begin(pause.pause_quanta), std::end(pause.pause_quanta), quanta);
        std::array<std::byte, wire::kPauseFrameBytes> frame;
        wire::build_pause_frame(rig_.device(1).mac, pause, frame);
        inject(frame);
    }
    const PfcCounters::Priority& counters(std::uint32_t priority = 0) {
        return rig_.device(0).pfc_counters.priorities[priority];
    }
    void pause(std::uint16_t quanta = kForEver) {
        const std::uint64_t before = counters().rx_pause.value();
        inject(0x01, quanta);
        ASSERT_TRUE(rig::wait_for([&] { return counters().rx_pause.value() == before + 1; }));
        let_workers_look();
    }
    void resume() { inject(0x01, 0); }
    /// Each worker begins some rounds. A call is none: one to a worker that sleeps runs on the caller's
    /// thread.
    void let_workers_look() {
        for (int round = 0; round < 3; ++round) {
            for (std::uint32_t worker = 0; worker < rig_.num_workers(); ++worker) {
                const std::uint64_t before = rig_.worker(worker).last_round();
                ASSERT_TRUE(rig::wait_for([&] {
                    rig_.handoff().wakeup().wake(worker);
                    return rig_.worker(worker).last_round() != before;
                }));
            }
        }
    }
    void expect_success(TestCq& cq, std::uint64_t wr_id) {
        const auto completion = cq.wait();
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->status, WcStatus::kSuccess);
        EXPECT_EQ(completion->wr_id, wr_id);
    }
    std::uint64_t sent() { return rig_.count(0, &Counters::sent_pkts); }

    Rig rig_;
    std::unique_ptr<rig::TestClient> client_;
    TestCq cq_a_;
    TestCq cq_b_;
    TestQp a_;
    TestQp b_;
};

TEST_P(PauseTest, ARequestWaitsForTheResume) {
    pause();
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 5});
    let_workers_look();
    EXPECT_EQ(sent(), 0U);
    // Nobody is kept busy by it.
    const std::uint32_t worker = a_.worker();
    EXPECT_TRUE(rig::wait_for([&] { return rig_.asleep(worker); }));
    EXPECT_EQ(rig_.count(1, &Counters::xmit_wait_ns), 0U);
    const TimeNs paused_at = monotonic_ns();
    while (monotonic_ns() - paused_at < 1'000'000) {
    }
    resume();
    expect_success(cq_a_, 5);
    EXPECT_GE(rig_.count(0, &Counters::xmit_wait_ns), 1'000'000U);
    EXPECT_EQ(rig_.count(0, &Counters::retrans_pkts), 0U);
    EXPECT_EQ(counters().rx_resume.value(), 1U);
}

TEST_P(PauseTest, AnAnswerWaitsToo) {
    pause();
    b_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 6});
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(0, &Counters::rcvd_pkts) >= 2; }));  // with the pause
    let_workers_look();
    EXPECT_EQ(sent(), 0U);
    resume();
    expect_success(cq_b_, 6);
}

TEST_P(PauseTest, APauseRunsOut) {
    pause(2);  // 1 ms
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 7});
    expect_success(cq_a_, 7);
    rig_.call(0, [&] {
        rig_.device(0).pfc_receiver.expire(kNever - 1);
        EXPECT_EQ(rig_.device(0).pfc_receiver.paused_ns(kNever - 1, 0), 2 * 512'000U);
    });
}

TEST_P(PauseTest, OtherPrioritiesGoOn) {
    inject(0xfe, kForEver);
    ASSERT_TRUE(rig::wait_for([&] { return counters(7).rx_pause.value() == 1; }));
    let_workers_look();
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 8});
    expect_success(cq_a_, 8);
}

TEST_P(PauseTest, TheSenderOfAPauseIsNotPausedItself) {
    pause();
    EXPECT_TRUE(rig_.device(1).pfc_receiver.none());
    EXPECT_EQ(rig_.device(1).pfc_counters.priorities[0].rx_pause.value(), 0U);
}

TEST_P(PauseTest, AQpCanBeDestroyedWhileItWaits) {
    pause();
    {
        TestQp third(rig_, *client_, 0, 23, 2, cq_a_);
        TestQp fourth(rig_, *client_, 0, 25, 3, cq_a_);
        ASSERT_EQ(third.connect(b_), 0);
        ASSERT_EQ(fourth.connect(b_), 0);
        third.post_send({.opcode = WrOpcode::kWrite, .wr_id = 9});
        fourth.post_send({.opcode = WrOpcode::kWrite, .wr_id = 10});
        a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 11});
        let_workers_look();
    }
    resume();
    expect_success(cq_a_, 11);
}

TEST_P(PauseTest, AQpIsFlushedWhileItWaits) {
    pause();
    for (std::uint64_t wr_id = 0; wr_id < 40; ++wr_id) {
        a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = wr_id});
    }
    let_workers_look();
    abi::QpAttr attr{};
    attr.state = QpState::kErr;
    attr.mask = kQpAttrState;
    ASSERT_EQ(a_.modify(attr), 0);
    for (std::uint64_t wr_id = 0; wr_id < 40; ++wr_id) {
        const auto completion = cq_a_.wait();
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->status, WcStatus::kWrFlushErr);
        EXPECT_EQ(completion->wr_id, wr_id);
    }
    EXPECT_EQ(sent(), 0U);
}

TEST_P(PauseTest, TimersDoNotRunOutWhileNothingCanBeSent) {
    TestQp lonely(rig_, *client_, 0, 27, 4, cq_a_);
    ASSERT_EQ(lonely.connect(b_, 5, 16), 0);  // an ACK timeout of 268 ms, and 7 retries
    abi::QpAttr attr{};
    attr.state = QpState::kErr;
    attr.mask = kQpAttrState;
    ASSERT_EQ(b_.modify(attr), 0);  // answers nothing
    lonely.post_send({.opcode = WrOpcode::kWrite, .wr_id = 12});
    ASSERT_TRUE(rig::wait_for([&] { return sent() >= 1; }));
    pause();
    const std::uint64_t before = rig_.count(0, &Counters::local_ack_timeout_err);
    ASSERT_TRUE(rig::wait_for([&] {
        TimeNs paused_ns = 0;
        rig_.call(0, [&] { paused_ns = rig_.device(0).pfc_receiver.paused_ns(monotonic_ns(), 0); });
        return paused_ns > 600'000'000;
    }));
    EXPECT_EQ(rig_.count(0, &Counters::local_ack_timeout_err), before);
    EXPECT_FALSE(cq_a_.poll().has_value());
    resume();
    const auto completion = cq_a_.wait();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, WcStatus::kRetryExcErr);
}

TEST_P(PauseTest, TheWatchdogLetsGo) {
    rig_.call(0, [&] { rig_.device(0).pfc.watchdog_ns = 3'000'000; });
    pause();
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 13});
    expect_success(cq_a_, 13);
    inject(0x01, kForEver);
    EXPECT_TRUE(rig::wait_for([&] { return counters().rx_ignored.value() == 1; }));
    EXPECT_EQ(counters().watchdog.value(), 1U);
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 14});
    expect_success(cq_a_, 14);
}

TEST_P(PauseTest, APortThatGoesDownForgetsItsPauses) {
    pause();
    for (std::uint32_t worker = rig_.num_workers(); worker-- != 0;) {
        rig_.call(worker, [&] { rig_.worker(worker).set_port(0, false); });
    }
    EXPECT_TRUE(rig_.device(0).pfc_receiver.none());
    for (std::uint32_t worker = rig_.num_workers(); worker-- != 0;) {
        rig_.call(worker, [&] { rig_.worker(worker).set_port(0, true); });
    }
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 15});
    expect_success(cq_a_, 15);
}

TEST_P(PauseTest, MalformedFramesCountAndPauseNothing) {
    wire::Pfc pause;
    pause.class_enable = 0xff;
    std::fill(std::begin(pause.pause_quanta), std::end(pause.pause_quanta), kForEver);
    std::array<std::byte, wire::kPauseFrameBytes> good;
    wire::build_pause_frame(rig_.device(1).mac, pause, good);
    std::uint64_t expected = 0;
    const auto expect_malformed = [&](std::span<const std::byte> frame) {
        inject(frame);
        ++expected;
        EXPECT_TRUE(
            rig::wait_for([&] { return rig_.device(0).pfc_counters.rx_malformed.value() == expected; }));
    };
    auto frame = good;
    frame[15] = std::byte{1};  // the pause of 802.3
    frame[14] = std::byte{0};
    expect_malformed(frame);
    frame = good;
    std::memcpy(frame.data(), rig_.device(0).mac.data(), 6);  // to the RNIC itself
    expect_malformed(frame);
    expect_malformed(std::span(good).first(33));
    expect_malformed(std::span(good).first(14));
    EXPECT_EQ(rig_.count(0, &Counters::drop_malformed), expected);
    EXPECT_TRUE(rig_.device(0).pfc_receiver.none());
    a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 16});
    expect_success(cq_a_, 16);
}

INSTANTIATE_TEST_SUITE_P(Workers, PauseTest, testing::Values(1U, 2U));

// Of a slow link: no pause has to be renewed.
constexpr PfcSettings kAsks{
    .link_bits_per_second = kSlowLink, .tx_priorities = 0x08, .xoff_frames = 100, .xon_frames = 10};

/// For a QP of worker 1 that is not there, from device 0 to device 1; short, so that many fit the port.
rte_mbuf* stray_frame(Rig& rig) {
    rte_mbuf* frame = rig::Emulated::make_frame(0, 1, wire::kEct0, 5);
    auto* const bytes = rte_pktmbuf_mtod(frame, std::byte*);
    std::memcpy(bytes, rig.device(1).mac.data(), 6);
    std::memcpy(bytes + 6, rig.device(0).mac.data(), 6);
    frame->data_len = 60;
    frame->pkt_len = 60;
    return frame;
}

// Frames come for a worker that does not run: when it does again it asks the switch to stop, and then to go
// on.
TEST(BacklogTest, OnAnEmulatedNetworkItPausesTheSwitch) {
    std::unique_ptr<EmulatedNetwork> network;
    Rig rig({.num_workers = 2,
             .pfc = {{.rx_priorities = 0xff}, kAsks},
             .prepare =
                 [&network](InProcessSwitch& local_switch, WorkerHandoff& handoff) {
                     EmulatedNetwork::Options options;
                     options.topology = netsim::star(2, {.rate = 1'000'000'000, .delay_ns = 1'000});
                     options.switches.buffer_bytes = 1'000'000;
                     options.pool = rig::frame_pool();
                     network = std::make_unique<EmulatedNetwork>(options, local_switch, 2, handoff);
                 },
             .port = [&network](std::uint32_t device, Port&) { return &network->port(device); }});
    std::atomic<bool> holds = false;
    std::atomic<bool> over = false;
    std::thread holder([&] {
        rig.call(1, [&] {
            holds = true;
            (void)rig::wait_for([&] { return over.load(); });
        });
    });
    EXPECT_TRUE(rig::wait_for([&] { return holds.load(); }));
    constexpr std::uint64_t kFrames = 200;
    rig.call(0, [&] {
        for (std::uint64_t i = 0; i < kFrames; ++i) {
            rte_mbuf* frame = stray_frame(rig);
            EXPECT_EQ(network->port(0).tx_burst(0, &frame, 1), 1);
        }
    });
    const auto view = [&](auto&& of) {
        decltype(of()) value{};
        rig.call(0, [&] { value = of(); });
        return value;
    };
    EXPECT_TRUE(rig::wait_for([&] {
        return view([&] {
            return network->view(1).counters.tx_packets == kFrames &&
                   network->port(1).next_event(0) == kNever;
        });
    }));
    EXPECT_EQ(rig.device(1).pfc_counters.priorities[3].tx_pause.value(), 0U);
    over = true;
    holder.join();
    const PfcCounters::Priority& counters = rig.device(1).pfc_counters.priorities[3];
    EXPECT_TRUE(rig::wait_for([&] { return counters.tx_resume.value() == 1; }));
    EXPECT_EQ(counters.tx_pause.value(), 1U);
    EXPECT_TRUE(
        rig::wait_for([&] { return view([&] { return network->view(1).counters.pauses_received; }) == 1; }));
    EXPECT_EQ(view([&] { return network->view(0).counters.pauses_received; }), 0U);
    EXPECT_EQ(rig.device(0).pfc_counters.priorities[3].rx_pause.value(), 0U) << "nobody behind the switch";
}

// The same where the port does not tell how many frames wait, as memif does not.
TEST(BacklogTest, OnAPortThatDoesNotTellFramesAreTakenAheadAndCounted) {
    std::unique_ptr<PrefetchPort> ahead;
    Rig rig({.pfc = {{.rx_priorities = 0xff}, kAsks},
             .port = [&ahead](std::uint32_t device, Port& port) -> Port* {
                 if (device == 0) {
                     return &port;
                 }
                 ahead = std::make_unique<PrefetchPort>(port, 1, kAsks.xoff_frames + 1);
                 return ahead.get();
             }});
    rig.call(0, [&] {
        for (int i = 0; i < 200; ++i) {
            rte_mbuf* frame = stray_frame(rig);
            EXPECT_EQ(rig.local_switch().port(0).tx_burst(0, &frame, 1), 1);
        }
    });
    rig.handoff().wakeup().wake(0);  // it is the receiver, too; the call may have found it asleep
    const PfcCounters::Priority& counters = rig.device(0).pfc_counters.priorities[3];
    EXPECT_TRUE(rig::wait_for([&] { return counters.rx_resume.value() == 1; }));
    EXPECT_EQ(counters.rx_pause.value(), 1U);
    // Its own two come back on this wire.
    EXPECT_TRUE(rig::wait_for([&] { return rig.count(1, &Counters::rcvd_pkts) == 202; }));
}

}  // namespace
}  // namespace urnic::dataplane
