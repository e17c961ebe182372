// Frames that are taken from a port ahead of time come out once each, in their order. The port is one of the
// in-process wire, whose rings hold what a driver's queue would.
#include "dataplane/port/prefetch_port.h"

#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include <array>
#include <cstring>
#include <deque>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/in_process_switch.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

constexpr wire::Mac kSender{2, 0, 0, 0, 2, 0};
constexpr wire::Mac kReceiver{2, 0, 0, 0, 2, 1};

class ReadAheadTest : public testing::Test {
  protected:
    ReadAheadTest()
        : before_(rte_mempool_avail_count(rig::frame_pool())),
          handoff_(state_, 1),
          switch_({{kSender, {}}, {kReceiver, {}}}, handoff_) {}
    ~ReadAheadTest() override {
        drain(switch_.port(1), 1'000);
        EXPECT_EQ(rte_mempool_avail_count(rig::frame_pool()), before_) << "frames leaked";
    }

    void send(std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            rte_mbuf* frame = nullptr;
            ASSERT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
            auto* const bytes = rte_pktmbuf_mtod(frame, std::uint8_t*);
            std::memset(bytes, 0, 60);
            std::memcpy(bytes, kReceiver.data(), 6);
            std::memcpy(bytes + 6, kSender.data(), 6);
            std::memcpy(bytes + 20, &next_, sizeof next_);
            ++next_;
            frame->data_len = 60;
            frame->pkt_len = 60;
            ASSERT_EQ(switch_.port(0).tx_burst(0, &frame, 1), 1);
        }
    }
    /// Takes up to so many, a burst at a time, and checks that none is missing before them.
    std::uint32_t drain(Port& port, std::uint32_t most, std::uint16_t burst = 7) {
        std::uint32_t count = 0;
        while (count < most) {
            std::array<rte_mbuf*, 32> frames{};
            const auto wanted = static_cast<std::uint16_t>(std::min<std::uint32_t>(burst, most - count));
            const std::uint16_t got = port.rx_burst(0, frames.data(), wanted);
            EXPECT_LE(got, wanted);
            for (std::uint16_t i = 0; i < got; ++i) {
                std::uint32_t number = 0;
                std::memcpy(&number, rte_pktmbuf_mtod(frames[i], std::uint8_t*) + 20, sizeof number);
                EXPECT_EQ(number, expected_++);
            }
            free_frames({frames.data(), got});
            count += got;
            if (got == 0) {
                break;
            }
        }
        return count;
    }

    unsigned before_;
    abi::DaemonState state_{};
    WorkerHandoff handoff_;
    InProcessSwitch switch_;
    std::uint32_t next_ = 0;
    std::uint32_t expected_ = 0;
};

TEST_F(ReadAheadTest, CountsWhatWaitsUpToItsRoom) {
    PrefetchPort port(switch_.port(1), 1, 100);
    EXPECT_EQ(port.rx_waiting(0), 0U);
    send(70);
    EXPECT_EQ(port.rx_waiting(0), 70U);
    EXPECT_EQ(port.rx_waiting(0), 70U);
    send(60);
    EXPECT_EQ(port.rx_waiting(0), 100U);
    EXPECT_EQ(switch_.port(1).rx_waiting(0), 30U) << "the rest waits where it was";
    EXPECT_EQ(drain(port, 1'000), 130U);
    EXPECT_EQ(port.rx_waiting(0), 0U);
}

TEST_F(ReadAheadTest, WhatWasTakenAheadComesFirstHoweverOftenItIsAskedFor) {
    PrefetchPort port(switch_.port(1), 1, 33);
    std::uint32_t taken = 0;
    for (std::uint32_t step = 0; step < 200; ++step) {
        send(step % 11);
        const std::uint32_t waiting = port.rx_waiting(0);
        EXPECT_EQ(waiting, std::min(next_ - taken, 33U));
        taken += drain(port, step % 13);
    }
    EXPECT_EQ(taken + drain(port, 1'000), next_);
}

TEST_F(ReadAheadTest, WithoutTheQuestionNothingIsTakenAhead) {
    PrefetchPort port(switch_.port(1), 1, 33);
    send(5);
    EXPECT_EQ(drain(port, 2), 2U);
    EXPECT_EQ(switch_.port(1).rx_waiting(0), 3U);
}

TEST_F(ReadAheadTest, WhatNobodyFetchesIsFreed) {
    PrefetchPort port(switch_.port(1), 1, 33);
    send(20);
    EXPECT_EQ(drain(port, 1), 1U);
    EXPECT_EQ(port.rx_waiting(0), 19U);
}

/// Nothing waits there; it tells what it is asked.
struct LossyPort final : Port {
    std::uint16_t rx_burst(std::uint32_t, rte_mbuf**, std::uint16_t) override { return 0; }
    std::uint16_t tx_burst(std::uint32_t, rte_mbuf**, std::uint16_t) override { return 0; }
    void set_multicast(std::span<const wire::Mac>) override {}
    std::uint64_t rx_missed() override { return missed; }
    int wait_fd(std::uint32_t) const override { return -1; }
    std::uint64_t missed = 0;
};

TEST(ReadAhead, WhatTheDriverLostIsToldAsItCountsIt) {
    LossyPort below;
    PrefetchPort port(below, 1, 33);
    for (const std::uint64_t missed : {0U, 7U, 7U, 12U}) {
        below.missed = missed;
        EXPECT_EQ(port.rx_missed(), missed);
    }
}

}  // namespace
}  // namespace urnic::dataplane
