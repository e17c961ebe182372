// Priority flow control (IEEE 802.1Qbb): what the other end of the tester's link does about pauses. That is
// the device where nothing is between the two, and else the switch that stands there.
#include <algorithm>
#include <array>
#include <iterator>

#include "conform/live_cases/live_script.h"
#include "rnic/wire/dissect/eth/pause_frame.h"

namespace urnic::conform {

namespace {

constexpr std::uint8_t kDscp24 = 24U << 2U;  // of priority 3, where eight DSCPs have one
constexpr std::uint8_t kAllPriorities = 0xff;
constexpr std::uint16_t kMostQuanta = 0xffff;  // 335 us of a link of 100 Gbit/s
constexpr TimeNs kRenewPause = 150'000;
constexpr TimeNs kHold = 20 * kMillisecond;
constexpr TimeNs kLongestPause = 5 * kSecond;  // that of a link of 10 Mbit/s is 3.4 s

}  // namespace

class LivePause : public LiveScript {
  protected:
    void connect_untagged() {
        if (live().vlan() != 0) {
            throw NotApplicable("pause frames have no VLAN tag, and the port puts one");
        }
        connect({.traffic_class = kDscp24});
        psn_ = options().psn_b;
    }
    /// The same time for each priority, of which those with a bit are named.
    [[nodiscard]] FrameBytes pause_frame(std::uint8_t priorities, std::uint16_t quanta) {
        wire::Pfc pause;
        pause.class_enable = priorities;
        std::fill(std::begin(pause.pause_quanta), std::end(pause.pause_quanta), quanta);
        std::array<std::byte, wire::kPauseFrameBytes> frame{};
        wire::build_pause_frame(bench().path().src_mac, pause, frame);
        return {frame.begin(), frame.end()};
    }
    /// What takes all pauses back, and pauses nothing.
    [[nodiscard]] FrameBytes resume_frame() { return pause_frame(kAllPriorities, 0); }
    void resume() { live().transmit_together({resume_frame()}); }
    /// The next WRITE, right behind this frame.
    void transmit_behind(const FrameBytes& frame) {
        live().transmit_together({frame, built(write_only(psn_++, 8))});
    }
    /// Returns whether a WRITE is not acknowledged while this frame is sent again and again.
    [[nodiscard]] bool is_stopped_by(const FrameBytes& frame) {
        transmit_behind(frame);
        const TimeNs end = now() + kHold;
        while (live().real_now() < end && bench().next(live().real_now() + kRenewPause) == nullptr) {
            live().transmit_together({frame});
        }
        // What came by then may be seen later.
        const bool is_stopped = bench().next(end) == nullptr;
        resume();
        require(next_but_cnps(bench().tolerance().patience_ns).has_value(),
                is_stopped ? "a pause was taken back, and a WRITE is not acknowledged within a second"
                           : "a WRITE is not acknowledged");
        return is_stopped;
    }
    /// The median of some times from a WRITE behind a pause to its ACK, when nobody takes it back.
    [[nodiscard]] TimeNs time_behind_a_pause(std::uint16_t quanta) {
        constexpr int kTimes = 3;
        std::vector<TimeNs> times;
        for (int i = 0; i < kTimes; ++i) {
            transmit_behind(pause_frame(kAllPriorities, quanta));
            const TimeNs begin = now();
            const std::optional<SeenFrame> answer = next_but_cnps(kLongestPause);
            if (!answer) {
                resume();
            }
            require(answer.has_value(),
                    "a pause of " + std::to_string(quanta) +
                        " quanta was not renewed, and a WRITE is not acknowledged within " +
                        duration_text(kLongestPause));
            times.push_back(now() - begin);
        }
        return median(times);
    }

  private:
    std::uint32_t psn_ = 0;
};

CONFORM_CASE_IN(LivePause, Priorities, "IEEE 802.1Qbb 36.1",
                "a pause stops the packets of its priority until it is taken back, and those of no other") {
    constexpr unsigned kRounds = 3;
    connect_untagged();
    bool is_slow = false;
    std::string times;
    std::string stopping;
    unsigned count = 0;
    for (unsigned priority = 0; priority < 8; ++priority) {
        given("priority", priority);
        const FrameBytes frame = pause_frame(static_cast<std::uint8_t>(1U << priority), kMostQuanta);
        unsigned stopped = 0;
        for (unsigned i = 0; i < kRounds; ++i) {
            is_slow = is_stopped_by(resume_frame()) || is_slow;
            stopped += is_stopped_by(frame) ? 1U : 0U;
        }
        times += (priority == 0 ? "" : ", ") + std::to_string(stopped);
        if (stopped == kRounds) {
            stopping += (count++ == 0 ? "" : ", ") + std::to_string(priority);
        }
    }
    // A device that is slow without a pause looks as if it was stopped.
    require(is_slow || count <= 1, "packets of one QP stop for pauses of priorities " + stopping);
    measured("a QP with DSCP 24 stops for pauses of priority",
             is_slow      ? "cannot be told: without a pause, too, it takes more than " + duration_text(kHold)
             : count == 0 ? "none"
                          : stopping);
    measured("stopped by " + std::to_string(kRounds) + " pauses of each, 0 to 7", times + " times");
    leave_the_rest();
}

CONFORM_CASE_IN(LivePause, RunsOut, "IEEE 802.1Qbb 36.1",
                "a pause that is not renewed ends when its time has run out") {
    connect_untagged();
    const TimeNs without = time_behind_a_pause(0);
    const TimeNs half = time_behind_a_pause(kMostQuanta / 2);
    const TimeNs whole = time_behind_a_pause(kMostQuanta);
    measured("from a WRITE to its ACK, behind a pause of 0 quanta", duration_text(without));
    measured("of 32767 quanta", duration_text(half));
    measured("of 65535 quanta", duration_text(whole));
    leave_the_rest();
}

CONFORM_CASE_IN(LivePause, TimesWithoutABit, "IEEE 802.1Qbb 36.1 (IEEE 802.3 31D)",
                "the times of priorities that a pause does not name mean nothing") {
    constexpr unsigned kRounds = 5;
    connect_untagged();
    const FrameBytes frame = pause_frame(0, kMostQuanta);
    unsigned without = 0;
    unsigned stopped = 0;
    for (unsigned i = 0; i < kRounds; ++i) {
        without += is_stopped_by(resume_frame()) ? 1U : 0U;
        stopped += is_stopped_by(frame) ? 1U : 0U;
    }
    require(without != 0 || stopped < kRounds, "a pause that names no priority stops a QP");
    leave_the_rest();
}

}  // namespace urnic::conform
