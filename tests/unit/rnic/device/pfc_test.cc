// Priority flow control at a port in virtual time: who is paused until when, the watchdog, and what is asked
// of the link's other end.
#include <gtest/gtest.h>

#include <atomic>
#include <initializer_list>
#include <utility>

#include "rnic/device/pfc_receiver.h"
#include "rnic/device/pfc_sender.h"

namespace urnic {
namespace {

/// 1 Gbit/s: a quantum is 512 ns.
constexpr TimeNs kQuantumNs = 512;
constexpr TimeNs kWatchdogNs = 1'000'000;

struct Port {
    PfcSettings settings{
        .rx_priorities = 0xff, .link_bits_per_second = 1'000'000'000, .watchdog_ns = kWatchdogNs};
    PfcCounters counters;
    PfcReceiver pauses{settings, counters};

    bool receive(TimeNs now, std::initializer_list<std::pair<unsigned, std::uint16_t>> times) {
        wire::Pfc frame;
        // What is not enabled is not looked at, whatever stands there.
        std::fill(std::begin(frame.pause_quanta), std::end(frame.pause_quanta), 0x7777);
        for (const auto& [priority, quanta] : times) {
            frame.class_enable |= static_cast<std::uint8_t>(1U << priority);
            frame.pause_quanta[priority] = quanta;
        }
        return pauses.receive(now, frame);
    }
    [[nodiscard]] const PfcCounters::Priority& at(unsigned priority) const {
        return counters.priorities[priority];
    }
};

TEST(PfcSettings, QuantaAre512BitTimesRoundedUp) {
    PfcSettings settings;
    settings.link_bits_per_second = 10'000'000'000;
    EXPECT_EQ(settings.duration_ns(0), 0U);
    EXPECT_EQ(settings.duration_ns(1), 52U);  // 51.2
    EXPECT_EQ(settings.duration_ns(0xffff), 3'355'392U);
    settings.link_bits_per_second = 1'000'000;
    EXPECT_EQ(settings.duration_ns(0xffff), 33'553'920'000U);
    settings.link_bits_per_second = 400'000'000'000;
    EXPECT_EQ(settings.duration_ns(1), 2U);  // 1.28
}

TEST(PfcReceiver, NothingIsPausedToBeginWith) {
    Port port;
    EXPECT_TRUE(port.pauses.none());
    EXPECT_EQ(port.pauses.paused(5), 0);
    EXPECT_EQ(port.pauses.first_end(5), kNever);
    EXPECT_EQ(port.pauses.paused_ns(5, 3), 0U);
}

TEST(PfcReceiver, PausesWhatIsNamedUntilItsTime) {
    Port port;
    EXPECT_FALSE(port.receive(1000, {{3, 100}, {7, 10}}));
    EXPECT_FALSE(port.pauses.none());
    EXPECT_EQ(port.pauses.paused(1000), 0x88);
    EXPECT_EQ(port.pauses.first_end(1000), 1000 + 10 * kQuantumNs);
    EXPECT_EQ(port.pauses.paused(1000 + 10 * kQuantumNs - 1), 0x88);
    EXPECT_EQ(port.pauses.paused(1000 + 10 * kQuantumNs), 0x08);
    EXPECT_EQ(port.pauses.first_end(1000 + 10 * kQuantumNs), 1000 + 100 * kQuantumNs);
    EXPECT_EQ(port.pauses.paused(1000 + 100 * kQuantumNs - 1), 0x08);
    EXPECT_EQ(port.pauses.paused(1000 + 100 * kQuantumNs), 0);
    EXPECT_EQ(port.pauses.first_end(1000 + 100 * kQuantumNs), kNever);
    EXPECT_FALSE(port.pauses.none()) << "nobody has looked";
    port.pauses.expire(1000 + 100 * kQuantumNs);
    EXPECT_TRUE(port.pauses.none());
    EXPECT_EQ(port.pauses.paused_ns(9'000'000, 3), 100 * kQuantumNs);
    EXPECT_EQ(port.pauses.paused_ns(9'000'000, 7), 10 * kQuantumNs);
    EXPECT_EQ(port.at(3).rx_pause.value(), 1U);
    EXPECT_EQ(port.at(3).rx_resume.value(), 0U);
    EXPECT_EQ(port.at(4).rx_pause.value(), 0U);
}

TEST(PfcReceiver, ZeroQuantaResumeThatPriorityAlone) {
    Port port;
    (void)port.receive(0, {{0, 1000}, {5, 1000}});
    EXPECT_TRUE(port.receive(700, {{5, 0}}));
    EXPECT_EQ(port.pauses.paused(700), 0x01);
    EXPECT_EQ(port.pauses.paused_ns(5000, 5), 700U);
    EXPECT_EQ(port.pauses.paused_ns(5000, 0), 5000U);
    EXPECT_EQ(port.at(5).rx_resume.value(), 1U);
    EXPECT_FALSE(port.receive(800, {{5, 0}})) << "nothing to end";
    EXPECT_EQ(port.at(5).rx_resume.value(), 2U);
}

TEST(PfcReceiver, ANewFrameCountsFromItsArrival) {
    Port port;
    (void)port.receive(0, {{2, 100}});
    EXPECT_FALSE(port.receive(10'000, {{2, 100}}));
    EXPECT_EQ(port.pauses.first_end(10'000), 10'000 + 100 * kQuantumNs);
    EXPECT_TRUE(port.receive(20'000, {{2, 1}})) << "a shorter one";
    EXPECT_EQ(port.pauses.first_end(20'000), 20'000 + kQuantumNs);
    port.pauses.expire(30'000);
    EXPECT_EQ(port.pauses.paused_ns(30'000, 2), 20'000 + kQuantumNs);
}

TEST(PfcReceiver, APauseThatRanOutUnseenCountsToItsEnd) {
    Port port;
    (void)port.receive(0, {{2, 10}});
    (void)port.receive(500'000, {{2, 10}});
    EXPECT_EQ(port.pauses.paused_ns(500'000, 2), 10 * kQuantumNs);
    EXPECT_EQ(port.pauses.paused_ns(500'100, 2), 10 * kQuantumNs + 100);
    EXPECT_EQ(port.pauses.paused_ns(900'000, 2), 20 * kQuantumNs);
}

TEST(PfcReceiver, PrioritiesThatAreNotHonouredOnlyCount) {
    Port port;
    port.settings.rx_priorities = 0x10;
    (void)port.receive(0, {{3, 100}, {4, 100}});
    EXPECT_EQ(port.pauses.paused(1), 0x10);
    EXPECT_EQ(port.at(3).rx_pause.value(), 1U);
    (void)port.receive(1, {{3, 0}, {4, 0}});
    EXPECT_EQ(port.at(3).rx_resume.value(), 1U);
    EXPECT_TRUE(port.pauses.none());
}

TEST(PfcReceiver, AFrameWithoutClassesDoesNothing) {
    Port port;
    EXPECT_FALSE(port.receive(0, {}));
    EXPECT_TRUE(port.pauses.none());
}

TEST(PfcReceiver, TheWatchdogEndsAPauseThatIsRenewedForEver) {
    Port port;
    TimeNs now = 0;
    for (; now < kWatchdogNs; now += 100'000) {
        (void)port.receive(now, {{1, 1000}});
        EXPECT_EQ(port.pauses.paused(now), 0x02) << now;
    }
    EXPECT_EQ(port.at(1).watchdog.value(), 0U);
    EXPECT_EQ(port.pauses.paused(kWatchdogNs - 1), 0x02);
    EXPECT_EQ(port.pauses.paused(kWatchdogNs), 0) << "whether a frame comes or not";
    for (; now < 5 * kWatchdogNs; now += 100'000) {
        (void)port.receive(now, {{1, 1000}, {6, 1}});
        EXPECT_EQ(port.pauses.paused(now) & 0x02, 0) << now;
        EXPECT_EQ(port.pauses.paused(now) & 0x40, 0x40) << "others are honoured";
    }
    EXPECT_EQ(port.at(1).watchdog.value(), 1U);
    EXPECT_EQ(port.at(1).rx_pause.value(), 50U);
    EXPECT_EQ(port.at(1).rx_ignored.value(), 40U);
    EXPECT_EQ(port.pauses.paused_ns(now, 1), kWatchdogNs);
}

TEST(PfcReceiver, AfterAStormThatEndsPausesAreHeededAgain) {
    Port port;
    const auto storm = [&](TimeNs from) {
        for (TimeNs now = from; now <= from + kWatchdogNs; now += 100'000) {
            (void)port.receive(now, {{1, 1000}});
        }
        return from + kWatchdogNs;
    };
    // It falls silent for as long as it asked for,
    TimeNs end = storm(0) + 1000 * kQuantumNs;
    (void)port.receive(end - 1, {{1, 1}});
    EXPECT_EQ(port.pauses.paused(end - 1), 0);
    end += 1000 * kQuantumNs;
    (void)port.receive(end, {{1, 1}});
    EXPECT_EQ(port.pauses.paused(end), 0x02);
    // or says so, and some time has gone by.
    end = storm(end);
    EXPECT_EQ(port.pauses.paused(end), 0);
    (void)port.receive(end, {{1, 0}});
    (void)port.receive(end + kWatchdogNs - 1, {{1, 1}});
    EXPECT_EQ(port.pauses.paused(end + kWatchdogNs - 1), 0);
    (void)port.receive(end + kWatchdogNs, {{1, 0}});
    (void)port.receive(end + kWatchdogNs, {{1, 1}});
    EXPECT_EQ(port.pauses.paused(end + kWatchdogNs), 0x02);
    EXPECT_EQ(port.at(1).watchdog.value(), 2U);
}

TEST(PfcReceiver, AnInterruptedPauseIsNoStorm) {
    Port port;
    for (TimeNs now = 0; now < 10 * kWatchdogNs; now += 100'000) {
        (void)port.receive(now, {{1, 100}});  // runs out between two
        EXPECT_EQ(port.pauses.paused(now), 0x02) << now;
    }
    EXPECT_EQ(port.at(1).watchdog.value(), 0U);
}

TEST(PfcReceiver, AResumeDoesNotResetTheWatchdog) {
    Port port;
    constexpr TimeNs kEnd = 20 * kWatchdogNs;
    for (TimeNs now = 0; now < kEnd; now += 100'000) {
        (void)port.receive(now, {{1, 1000}, {2, 1000}});
        (void)port.receive(now + 90'000, {{2, 0}});
        (void)port.receive(now + 99'000, {{1, 0}});
    }
    EXPECT_LE(port.pauses.paused_ns(kEnd, 1), kEnd * 6 / 10) << "a storm with breaks of a hundredth";
    EXPECT_GE(port.at(1).watchdog.value(), 5U);
    EXPECT_EQ(port.pauses.paused_ns(kEnd, 2), kEnd * 9 / 10) << "congestion that is hard, but real";
    EXPECT_EQ(port.at(2).watchdog.value(), 0U);
}

TEST(PfcReceiver, OneLongPauseIsCutToo) {
    Port port;
    (void)port.receive(0, {{1, 0xffff}});
    EXPECT_EQ(port.pauses.first_end(0), kWatchdogNs);
    port.pauses.expire(kWatchdogNs);
    EXPECT_EQ(port.at(1).watchdog.value(), 1U);
    EXPECT_EQ(port.at(1).rx_ignored.value(), 0U);
}

TEST(PfcReceiver, WithoutAWatchdogItWaitsForEver) {
    Port port;
    port.settings.watchdog_ns = 0;
    TimeNs now = 0;
    for (; now < 50 * kWatchdogNs; now += 100'000) {
        (void)port.receive(now, {{1, 0xffff}});
    }
    EXPECT_EQ(port.pauses.paused(now), 0x02);
    EXPECT_EQ(port.at(1).watchdog.value(), 0U);
}

TEST(PfcReceiver, ALinkThatGoesPausesNothing) {
    Port port;
    EXPECT_FALSE(port.pauses.clear(0));
    (void)port.receive(0, {{1, 1000}, {2, 1}});
    EXPECT_TRUE(port.pauses.clear(2000));
    EXPECT_TRUE(port.pauses.none());
    EXPECT_EQ(port.pauses.paused_ns(5000, 1), 2000U);
    EXPECT_EQ(port.pauses.paused_ns(5000, 2), kQuantumNs);
    EXPECT_EQ(port.at(1).rx_resume.value(), 0U);
}

using Wanted = PfcSender::Wanted;

struct Asking {
    PfcSettings settings{
        .link_bits_per_second = 1'000'000'000, .tx_priorities = 0x08, .xoff_frames = 100, .xon_frames = 10};
    std::atomic<std::uint32_t> askers{0};
    PfcSender a{settings, askers, 0};
    PfcSender b{settings, askers, 5};
    TimeNs renewal_ns = settings.duration_ns(0xffff) / 2;
};

TEST(PfcSender, AsksAboveXoffAndLetsGoAtXon) {
    Asking port;
    EXPECT_EQ(port.a.look(0, 100), Wanted::kNothing);
    EXPECT_EQ(port.a.look(1, 101), Wanted::kPause);
    EXPECT_EQ(port.a.look(2, 101), Wanted::kPause) << "until it is sent";
    port.a.sent(3);
    EXPECT_EQ(port.a.look(4, 5000), Wanted::kNothing);
    EXPECT_EQ(port.a.look(5, 11), Wanted::kNothing);
    EXPECT_EQ(port.a.look(6, 10), Wanted::kResume);
    EXPECT_EQ(port.a.look(7, 50), Wanted::kResume) << "until it is sent";
    port.a.sent(8);
    EXPECT_EQ(port.a.look(9, 50), Wanted::kNothing);
    EXPECT_EQ(port.askers, 0U);
}

TEST(PfcSender, RenewsAPauseWhenHalfOfItIsOver) {
    Asking port;
    EXPECT_EQ(port.a.look(0, 101), Wanted::kPause);
    port.a.sent(50);
    EXPECT_EQ(port.a.look(50 + port.renewal_ns - 1, 50), Wanted::kNothing);
    EXPECT_EQ(port.a.look(50 + port.renewal_ns, 50), Wanted::kPause);
    port.a.sent(50 + port.renewal_ns);
    EXPECT_EQ(port.a.look(50 + 2 * port.renewal_ns - 1, 50), Wanted::kNothing);
    EXPECT_EQ(port.a.look(50 + 2 * port.renewal_ns, 50), Wanted::kPause);
}

TEST(PfcSender, TheLastWorkerLetsGo) {
    Asking port;
    EXPECT_EQ(port.a.look(0, 101), Wanted::kPause);
    port.a.sent(0);
    EXPECT_EQ(port.b.look(1, 101), Wanted::kPause);
    port.b.sent(1);
    EXPECT_EQ(port.a.look(2, 0), Wanted::kNothing);
    EXPECT_EQ(port.b.look(3, 0), Wanted::kResume);
    port.b.sent(3);
    EXPECT_EQ(port.askers, 0U);
}

TEST(PfcSender, WhoFillsUpAgainBeforeItsResumeIsSentAsksAgain) {
    Asking port;
    EXPECT_EQ(port.a.look(0, 101), Wanted::kPause);
    port.a.sent(0);
    EXPECT_EQ(port.a.look(1, 0), Wanted::kResume);
    EXPECT_EQ(port.a.look(2, 200), Wanted::kPause);
    port.a.sent(2);
    EXPECT_EQ(port.a.look(3, 200), Wanted::kNothing);
    EXPECT_EQ(port.askers, 1U);
}

TEST(PfcSender, ThresholdsOfZeroWork) {
    Asking port;
    port.settings.xoff_frames = 1;
    port.settings.xon_frames = 0;
    EXPECT_EQ(port.a.look(0, 1), Wanted::kNothing);
    EXPECT_EQ(port.a.look(0, 2), Wanted::kPause);
    port.a.sent(0);
    EXPECT_EQ(port.a.look(0, 1), Wanted::kNothing);
    EXPECT_EQ(port.a.look(0, 0), Wanted::kResume);
}

}  // namespace
}  // namespace urnic
