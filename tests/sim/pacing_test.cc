// The rate that a limited QP sends at, in virtual time: its mean, its bursts, and who shares it.
#include "congestion/profiles.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

constexpr BitsPerSecond kPacedLine = 100'000'000'000;
constexpr TimeNs kMs = 1'000'000;

class Pacing : public RcPair {
  protected:
    void limit(BitsPerSecond rate, std::uint32_t burst_bytes) {
        settings_.rate.algorithm = congestion::Algorithm::kFixed;
        settings_.rate.line_rate = kPacedLine;
        settings_.rate.fixed_rate = rate;
        settings_.burst_bytes = burst_bytes;
    }
    void connect_limited(QpType type = QpType::kRc) {
        connect_pair({}, {.type = type, .congestion = &settings_});
    }
    // Frames with data of that host.
    std::vector<SentPacket> data_of(const std::string& name) {
        std::vector<SentPacket> all = net_.take_packets();
        std::erase_if(all, [&](const SentPacket& p) { return p.from != name || p.payload_bytes == 0; });
        return all;
    }
    // Bits a second from the first frame to the last, which takes its time after it was sent.
    static double mean(const std::vector<SentPacket>& packets) {
        double bits = 0;
        for (std::size_t i = 0; i + 1 < packets.size(); ++i) {
            bits += static_cast<double>(packets[i].frame.size()) * 8;
        }
        return bits / (static_cast<double>(packets.back().time - packets.front().time) / 1e9);
    }
    // The most that went out within `window` beyond what the rate allows in that time.
    static double burst(const std::vector<SentPacket>& packets, BitsPerSecond rate) {
        double most = 0;
        double ahead = 0;
        TimeNs last = packets.front().time;
        for (const SentPacket& packet : packets) {
            ahead = std::max(0.0, ahead - static_cast<double>(packet.time - last) *
                                              static_cast<double>(rate) / 8e9) +
                    static_cast<double>(packet.frame.size());
            last = packet.time;
            most = std::max(most, ahead);
        }
        return most;
    }
    congestion::Settings settings_;
};

TEST_F(Pacing, TheMeanIsTheRateFromTenMegabitOn) {
    for (const BitsPerSecond rate :
         {BitsPerSecond{10'000'000}, BitsPerSecond{1'000'000'000}, BitsPerSecond{40'000'000'000}}) {
        for (const QpType type : {QpType::kRc, QpType::kUc}) {
            net_.take_packets();
            limit(rate, 1);
            connect_limited(type);
            a_->post_send(write(1, 1'000'000));
            ASSERT_TRUE(net_.run());
            EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
            // Without any burst the part of a nanosecond that each packet is late is lost.
            EXPECT_NEAR(mean(data_of("A")) / static_cast<double>(rate), 1, 0.005) << rate;
            net_ = SimNetwork();
        }
    }
}

TEST_F(Pacing, ReadResponsesArePacedAsWell) {
    limit(1'000'000'000, 1);
    connect_limited();
    a_->post_send(read(1, 1'000'000));
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
    EXPECT_NEAR(mean(data_of("B")) / 1e9, 1, 0.001);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 0U);
}

// A QP that was silent sends up to `burst_bytes` at once, and then at its rate.
TEST_F(Pacing, BurstsAreBounded) {
    limit(1'000'000'000, 16'384);
    connect_limited();
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_->post_send(write(i, 300'000));
        ASSERT_TRUE(net_.run());
        net_.run_for(100 * kMs);
    }
    const auto packets = data_of("A");
    // The frame at the end of a burst may go beyond it, and one more follows a burst at once.
    EXPECT_GT(burst(packets, 1'000'000'000), 16'384 - 1100);
    EXPECT_LT(burst(packets, 1'000'000'000), 16'384 + 2 * 1100);
}

// The worker was late: what was not sent meanwhile goes out at once, within the burst, and the mean stays.
TEST_F(Pacing, ALateWorkerLosesNothingWithinTheBurst) {
    limit(1'000'000'000, 65'536);
    connect_limited();
    net_.keep_trace = true;
    a_->post_send(write(1, 1'000'000));
    for (int i = 0; i < 100; ++i) {
        // Events of 100 us happen at their end.
        net_.skip(100'000);
    }
    ASSERT_TRUE(net_.run());
    const auto packets = data_of("A");
    EXPECT_NEAR(mean(packets) / 1e9, 1, 0.08);  // the first burst is on top of the rate
    EXPECT_LT(burst(packets, 1'000'000'000), 65'536 + 2 * 1100);
}

// Both directions of one QP share its rate, and neither waits for the other's end.
TEST_F(Pacing, RequestsAndResponsesTakeTurns) {
    limit(1'000'000'000, 1);
    connect_limited();
    a_->post_send(write(1, 300'000));
    b_->post_send({.opcode = WrOpcode::kRead,
                   .wr_id = 2,
                   .sge = {b_mem_->sge(500'000, 300'000)},
                   .remote_addr = a_mem_->addr(500'000),
                   .rkey = a_mem_->key()});
    ASSERT_TRUE(net_.run());
    const auto packets = data_of("A");
    EXPECT_NEAR(mean(packets) / 1e9, 1, 0.001);
    const auto is_response = [](const SentPacket& p) { return p.header.opcode >= wire::kReadResponseFirst; };
    const std::size_t half = packets.size() / 2;
    const auto responses =
        std::count_if(packets.begin(), packets.begin() + static_cast<std::ptrdiff_t>(half), is_response);
    EXPECT_NEAR(static_cast<double>(responses) / static_cast<double>(half), 0.5, 0.02);
    EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
    EXPECT_EQ(b_->poll_send(), std::vector{ok(2)});
}

// Acknowledgements do not wait for the pacer: the peer's timer runs.
TEST_F(Pacing, AcknowledgementsAreNotHeldUp) {
    limit(10'000'000, 1);
    connect_limited();
    b_->qp().use_congestion_settings(0, nullptr);
    a_->post_send(write(1, 500'000));  // 0.4 s
    net_.run_for(10 * kMs);
    b_->post_send({.opcode = WrOpcode::kWrite,
                   .wr_id = 2,
                   .sge = {b_mem_->sge(600'000, 100)},
                   .remote_addr = a_mem_->addr(600'000),
                   .rkey = a_mem_->key()});
    net_.run_for(3'000);
    EXPECT_EQ(b_->poll_send(), std::vector{ok(2)});
}

// Losses at a low rate: what goes again is paced, too, and nothing is sent twice for the pacer's sake.
TEST_F(Pacing, RecoversFromLosses) {
    limit(50'000'000, 1);
    for (const bool holds : {false, true}) {
        net_ = SimNetwork();
        connect_pair({}, {.holds_early_packets = holds, .congestion = &settings_});
        lose("A", {20, 21, 55});
        a_->post_send(write(1, 200'000));
        a_->post_send(read(2, 100'000, 300'000));
        ASSERT_TRUE(net_.run());
        EXPECT_EQ(a_->poll_send(), (std::vector{ok(1), ok(2)}));
        EXPECT_TRUE(same(0, 200'000));
        EXPECT_LT(mean(data_of("A")), 50.5e6);
        net_.lose = {};
    }
}

// Answers come after 2 us and more: that is little for the paper's thresholds, and much for others.
TEST_F(Pacing, TimelyGoesByTheTimeThatAnswersTake) {
    constexpr BitsPerSecond kLine = 10'000'000'000;
    settings_.rate = {.algorithm = congestion::Algorithm::kTimely, .line_rate = kLine};
    settings_.rate.timely = congestion::timely_of_paper();
    settings_.rate.timely.min_rate = 100'000'000;
    connect_limited();
    const auto rate_after_a_write = [&](TimeNs t_low_ns, TimeNs t_high_ns) {
        settings_.rate.timely.t_low_ns = t_low_ns;
        settings_.rate.timely.t_high_ns = t_high_ns;
        a_->post_send(write(1, 1'000'000));
        EXPECT_TRUE(net_.run());
        EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
        return a_->qp().flow().rate();
    };
    EXPECT_EQ(rate_after_a_write(50'000, 500'000), kLine);
    EXPECT_EQ(rate_after_a_write(0, 1'000), settings_.rate.timely.min_rate);
    EXPECT_EQ(b_->qp().flow().rate(), kLine) << "it only answers";
    const BitsPerSecond risen = rate_after_a_write(50'000, 500'000);
    EXPECT_GT(risen, settings_.rate.timely.min_rate);
    EXPECT_LT(risen, kLine);
    EXPECT_EQ(a_->counters.retrans_pkts.value(), 0U);
}

TEST_F(Pacing, NewSettingsHoldAtOnce) {
    limit(10'000, 1);  // a packet takes nearly a second
    connect_limited();
    a_->post_send(write(1, 500'000));
    net_.run_for(10 * kMs);
    EXPECT_EQ(data_of("A").size(), 1U);
    settings_.rate.fixed_rate = kPacedLine;
    a_->qp().use_congestion_settings(net_.now(), &settings_);
    ASSERT_TRUE(net_.run());
    EXPECT_LT(data_of("A").back().time, 11 * kMs);
    EXPECT_EQ(a_->poll_send(), std::vector{ok(1)});
}

}  // namespace
}  // namespace urnic::sim
