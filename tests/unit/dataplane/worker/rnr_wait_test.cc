// A worker that is kept from its CPU before it takes a packet does not take that time off what the packet
// makes wait.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

#include "dataplane/port/frame_pool.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using Clock = std::chrono::steady_clock;

/// Brings RNR NAKs late in the worker's round, and knows when, and when the next request left. On the
/// worker's thread but for the two times.
class LatePort final : public Port {
  public:
    explicit LatePort(Port& below) : below_(below) {}
    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        const std::uint16_t got = below_.rx_burst(queue, frames, count);
        for (std::uint16_t i = 0; i < got; ++i) {
            wire::PacketView view;
            if (wire::parse_frame(frame_bytes(frames[i]), view) != wire::ParseError::kNone ||
                view.header.opcode != wire::kAcknowledge ||
                (view.header.aeth.syndrome & wire::kSyndromeKindMask) != wire::kSyndromeRnrNak) {
                continue;
            }
            const auto until = Clock::now() + std::chrono::microseconds(300);
            while (Clock::now() < until) {
            }
            came_at_ = Clock::now();
        }
        return got;
    }
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        if (came_at_ != Clock::time_point{} && waited_ns == 0) {
            waited_ns = std::chrono::nanoseconds(Clock::now() - came_at_).count();
        }
        return below_.tx_burst(queue, frames, count);
    }
    void set_multicast(std::span<const wire::Mac> groups) override { below_.set_multicast(groups); }
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override { return below_.wait_fd(queue); }

    std::atomic<std::int64_t> waited_ns = 0;

  private:
    Port& below_;
    Clock::time_point came_at_;
};

TEST(RnrWait, BeginsWhenTheNakHasCome) {
    constexpr std::int64_t kTimerNs = 10'000;  // min_rnr_timer 1 (IBA 9.7.5.2.8, table 45)
    std::unique_ptr<LatePort> late;
    Rig rig({.port = [&](std::uint32_t device, Port& port) -> Port* {
        if (device != 0) return &port;
        late = std::make_unique<LatePort>(port);
        return late.get();
    }});
    const auto client = rig.make_client();
    rig::TestCq cq_a(1, 64);
    rig::TestCq cq_b(1, 64);
    rig::TestQp a(rig, *client, 0, 51, 0, cq_a);
    rig::TestQp b(rig, *client, 1, 52, 1, cq_b);
    ASSERT_EQ(a.connect(b), 0);
    ASSERT_EQ(b.connect(a), 0);
    SendRequest send;
    send.opcode = WrOpcode::kSend;
    send.wr_id = 1;
    a.post_send(send);
    ASSERT_TRUE(rig::wait_for([&] { return late->waited_ns != 0; }));
    // The two clocks may differ by a little.
    EXPECT_GE(late->waited_ns, kTimerNs - 100);
    b.post_recv(2, {});
    const auto done = cq_a.wait();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace urnic::dataplane
