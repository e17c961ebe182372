// QPs that acknowledge and keep time as another RNIC does (QpConfig::acks_each_request, timer_tick_ns).
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

constexpr TimeNs kTickNs = 4'000'000;
constexpr std::uint8_t kTimeout = 10;  // 4.19 ms, a little more than a tick
constexpr TimeNs kTimeoutNs = TimeNs{4096} << kTimeout;

class Imitating : public RcPair {
  protected:
    std::vector<std::uint32_t> acknowledged() {
        std::vector<std::uint32_t> psns;
        for (const SentPacket& packet : net_.take_packets()) {
            if (packet.from == "B" && packet.header.opcode == wire::kAcknowledge) {
                psns.push_back(packet.header.psn.value());
            }
        }
        return psns;
    }
    // What five WRITEs in one burst are answered with.
    std::vector<std::uint32_t> acknowledged_of_a_burst() {
        for (std::uint32_t i = 0; i < 5; ++i) {
            wire::PacketHeader header = to_b_memory(wire::kWriteOnly, kPsn + i, 0);
            header.ack_req = i != 3;
            deliver_to_b(header);
        }
        b_->progress();
        return acknowledged();
    }
    // When A's lost request goes again, from its first time on.
    std::vector<TimeNs> times_of_a_lost_write() {
        lose("A", {1});
        a_->post_send(write(1, 100));
        EXPECT_TRUE(net_.run());
        std::vector<TimeNs> times;
        for (const SentPacket& packet : net_.take_packets()) {
            if (packet.from == "A") {
                times.push_back(packet.time);
            }
        }
        return times;
    }
    static constexpr std::uint32_t kPsn = 1000;
};

TEST_F(Imitating, EachRequestThatAsksHasAnAckOfItsOwn) {
    connect_pair({.psn_a = kPsn}, {.acks_each_request = true});
    EXPECT_EQ(acknowledged_of_a_burst(), (std::vector<std::uint32_t>{kPsn, kPsn + 1, kPsn + 2, kPsn + 4}));
}

TEST_F(Imitating, OtherwiseOneAnswersABurst) {
    connect_pair({.psn_a = kPsn});
    EXPECT_EQ(acknowledged_of_a_burst(), (std::vector<std::uint32_t>{kPsn + 4}));
}

TEST_F(Imitating, ATimeoutEndsAtATickAndNotBefore) {
    connect_pair({.timeout = kTimeout}, {.timer_tick_ns = kTickNs});
    const std::vector<TimeNs> times = times_of_a_lost_write();
    ASSERT_EQ(times.size(), 2U);
    EXPECT_GE(times[1] - times[0], kTimeoutNs);
    EXPECT_LT(times[1] - times[0], kTimeoutNs + kTickNs);
    EXPECT_EQ(times[1] % kTickNs, 0U) << times[1];
    EXPECT_EQ(a_->poll_send(), (std::vector{ok(1)}));
}

TEST_F(Imitating, OtherwiseItEndsWhenItsTimeHasCome) {
    connect_pair({.timeout = kTimeout});
    const std::vector<TimeNs> times = times_of_a_lost_write();
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times[1] - times[0], kTimeoutNs) << "no tick";
}

TEST_F(Imitating, AWaitBehindAnRnrNakEndsAtATick) {
    connect_pair({.min_rnr_timer = 12}, {.timer_tick_ns = kTickNs});  // 0.64 ms
    a_->post_send(send(1, 100));
    net_.run_for(kTickNs / 2);
    post_receives(1, 100);
    EXPECT_TRUE(net_.run());
    std::vector<TimeNs> times;
    for (const SentPacket& packet : net_.take_packets()) {
        if (packet.from == "A") {
            times.push_back(packet.time);
        }
    }
    ASSERT_EQ(times.size(), 2U);
    EXPECT_EQ(times[1] % kTickNs, 0U) << times[1];
    EXPECT_EQ(a_->poll_send(), (std::vector{ok(1)}));
}

}  // namespace
}  // namespace urnic::sim
