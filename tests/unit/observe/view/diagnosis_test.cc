// What a page says is wrong, of traces in which it is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "observe/view/diagnosis.h"
#include "tests/unit/observe/view/trace_text.h"

namespace urnic::view {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Finding> diagnose_one(const TraceText& trace, std::size_t connection = 0) {
    const EventLog log = trace.log();
    EXPECT_EQ(log.shortfall(), "");
    const Connection& one = log.connections().at(connection);
    return diagnose(log, one, log.peer_of(one));
}

std::vector<std::string> ids(const std::vector<Finding>& findings) {
    std::vector<std::string> made;
    for (const Finding& finding : findings) made.emplace_back(finding.id);
    return made;
}

TEST(Diagnosis, OfAHealthyQp) {
    TraceText trace;
    for (int psn = 0; psn < 10; ++psn) trace.sent(psn, psn).ack(psn + 0.5, psn);
    EXPECT_THAT(diagnose_one(trace), IsEmpty());
}

TEST(Diagnosis, OfRnrWaits) {
    // 4 of 10 ms.
    TraceText trace;
    trace.sent(0, 5).rnr_nak(1, 5).rnr_nak(2, 5).sent_again(5, 5, "rnr_nak").ack(10, 5);
    const auto findings = diagnose_one(trace);
    ASSERT_THAT(ids(findings), ElementsAre("rnr_waits"));
    EXPECT_EQ(findings[0].sentence,
              "The receiver posts too few receives: 40 % of the time (4.000 ms) went to RNR waits, after 2 "
              "RNR NAKs.");
    EXPECT_THAT(findings[0].evidence, ElementsAre(1, 2));
}

TEST(Diagnosis, OfRnrWaitsToTheEnd) {
    TraceText trace;
    trace.sent(0, 5).rnr_nak(1, 5);
    trace.line(3, trace.group, "window_updated", R"("packets_in_flight":1,"unacknowledged_psn":5)");
    EXPECT_THAT(diagnose_one(trace)[0].sentence, HasSubstr("67 % of the time (2.000 ms)"));
}

TEST(Diagnosis, OfPauses) {
    // Priority 3 for 4 of 10 ms; what is sent holds up nobody here.
    const auto pause = [](TraceText& trace, double time_ms, const char* name, int priority,
                          const char* direction) {
        trace.line(time_ms, "urnic0", name,
                   fmt::format(R"("priority":{},"direction":"{}")", priority, direction));
    };
    TraceText trace;
    pause(trace, -5, "pfc_paused", 5, "sent");
    trace.sent(0, 5);
    pause(trace, 1, "pfc_paused", 3, "received");
    pause(trace, 2, "pfc_paused", 1, "received");
    pause(trace, 3, "pfc_resumed", 1, "received");
    pause(trace, 5, "pfc_resumed", 3, "received");
    trace.line(5, "urnic0", "pfc_paused", R"("priority":8,"direction":"received")");
    trace.ack(10, 5);
    const EventLog log = trace.log();
    EXPECT_THAT(log.shortfall(), HasSubstr("1 lines are no events"));
    ASSERT_EQ(log.connections().size(), 1U) << "an RNIC is no QP";
    EXPECT_EQ(log.connections()[0].events[0].kind, Kind::kPaused) << "begun before the QP's first event";
    const auto findings = diagnose(log, log.connections()[0], nullptr);
    ASSERT_THAT(ids(findings), ElementsAre("paused"));
    EXPECT_THAT(findings[0].sentence, HasSubstr("2 pauses, priority 3 for"));
    EXPECT_THAT(findings[0].sentence, HasSubstr("(4.000 ms)"));
}

TEST(Diagnosis, OfAnIncast) {
    const std::string cnp = R"("opcode":"CNP","psn":0,"dest_qpn":18,"payload_length":16,"ack_req":false)";
    TraceText trace;
    trace.line(0, "urnic2/0x11", "cnp_sent", cnp).line(4, "urnic2/0x11", "cnp_sent", cnp);
    trace.line(2, "urnic2/0x12", "cnp_sent", cnp).line(3, "urnic1/0x13", "cnp_sent", cnp);
    trace.line(9, "urnic2/0x14", "cnp_sent", cnp);  // later, and alone
    EXPECT_THAT(ids(diagnose_one(trace, 0)), ElementsAre("ecn_marks", "incast"));
    EXPECT_THAT(diagnose_one(trace, 0)[1].sentence, HasSubstr("Incast: 2 QPs"));
    EXPECT_THAT(ids(diagnose_one(trace, 1)), ElementsAre("ecn_marks", "incast"));
    EXPECT_THAT(ids(diagnose_one(trace, 2)), ElementsAre("ecn_marks"));
    EXPECT_THAT(ids(diagnose_one(trace, 3)), ElementsAre("ecn_marks"));
}

TEST(Diagnosis, OfARateThatIsCut) {
    TraceText trace;
    trace.line(
        0, trace.group, "cnp_received",
        R"("opcode":"CNP","psn":0,"dest_qpn":18,"payload_length":16,"ack_req":false,"fate":"delivered")");
    trace.line(0, trace.group, "rate_changed",
               R"("cause":"cnp","bits_per_s":250000000,"old_bits_per_s":1000000000)");
    trace.line(1, trace.group, "rate_changed",
               R"("cause":"timer","bits_per_s":625000000,"old_bits_per_s":250000000)");
    trace.line(2, trace.group, "timer_expired", R"("timer":"ack","retries":1,"retry_limit":7)");
    EXPECT_THAT(diagnose_one(trace)[0].sentence, HasSubstr("to 250.0 Mbit/s at the least"));
}

TEST(Diagnosis, OfNaksWhoseRequestsAreElsewhere) {
    TraceText trace;
    trace.rnr_nak(1, 5).nak(2, 6, "PSN sequence error").ack(9, 6);
    const auto findings = diagnose_one(trace);
    EXPECT_THAT(ids(findings), ElementsAre("packet_loss", "rnr_waits"));
    EXPECT_EQ(findings[0].sentence,
              "Requests are lost on their way: 1 NAK of the peer named a gap in the PSNs.");
    EXPECT_EQ(findings[1].sentence, "The receiver posts too few receives: 1 RNR NAK came.");
}

TEST(Diagnosis, OfAReceiverWithoutReceives) {
    TraceText trace;
    trace.received(0, 1, "no-receive").received(1, 1, "delivered");
    EXPECT_THAT(ids(diagnose_one(trace)), ElementsAre("no_receives"));
}

/// A NAK for PSN 2 with 8 on their way, for which so many go again.
TraceText nak_with(int resent) {
    TraceText trace;
    for (int psn = 0; psn < 10; ++psn) trace.sent(psn * 0.1, psn);
    trace.nak(1, 2, "PSN sequence error");
    for (int psn = 2; psn < 2 + resent; ++psn) trace.sent_again(1.1, psn, "nak");
    trace.ack(2, 9);
    return trace;
}

TEST(Diagnosis, OfGoBackN) {
    const auto findings = diagnose_one(nak_with(8));
    ASSERT_THAT(ids(findings), ElementsAre("go_back_n"));
    EXPECT_THAT(findings[0].sentence, HasSubstr("8 packets went again for 1 NAK of a lost packet"));
    EXPECT_THAT(findings[0].sentence, HasSubstr("seems to be one that discards early packets"));
}

TEST(Diagnosis, OfALossThatIsRepairedAlone) {
    EXPECT_THAT(ids(diagnose_one(nak_with(1))), ElementsAre("packet_loss"));
}

TEST(Diagnosis, OfAPeerThatIsSeenToDiscard) {
    TraceText trace = nak_with(1);
    trace.group = "urnic1/0x12";
    trace.dest_qpn = 0x11;
    trace.received(0.9, 3, "early-dropped").sent(3, 7, 0, "RC Acknowledge");
    const auto findings = diagnose_one(trace);
    ASSERT_THAT(ids(findings), ElementsAre("go_back_n"));
    EXPECT_THAT(findings[0].sentence, HasSubstr("Go-back-N: the peer discards early packets"));
    EXPECT_THAT(ids(diagnose_one(trace, 1)), ElementsAre("early_discarded"));
}

TEST(Diagnosis, OfAPathMtuThatDoesNotPass) {
    TraceText trace;
    trace.sent(0, 1, 1024).ack(1, 1).sent(2, 2, 4096);
    for (int time = 10; time < 50; time += 10) trace.sent_again(time, 2, "timeout", 4096);
    const auto findings = diagnose_one(trace);
    ASSERT_THAT(ids(findings), ElementsAre("path_mtu"));
    EXPECT_EQ(findings[0].count, 4);
    EXPECT_EQ(findings[0].sentence,
              "Timeouts because the path MTU does not pass: packets with 4096 bytes of payload are never "
              "answered, those "
              "with 1024 are.");
}

TEST(Diagnosis, OfTimeoutsThatAreNotOfSize) {
    // The same size passed before, and again later.
    TraceText trace;
    trace.sent(0, 1, 4096).ack(1, 1).sent(2, 2, 4096).sent_again(10, 2, "timeout", 4096).ack(11, 2);
    EXPECT_THAT(ids(diagnose_one(trace)), ElementsAre("timeouts"));
    // A large one that passed at the second try.
    TraceText late;
    late.sent(0, 1, 64).ack(1, 1).sent(2, 2, 4096).sent_again(10, 2, "timeout", 4096).ack(11, 2);
    EXPECT_THAT(ids(diagnose_one(late)), ElementsAre("timeouts"));
    // One that is stuck, of a size that passed.
    TraceText stuck;
    stuck.sent(0, 1, 1024).ack(1, 1).sent(2, 2, 1024).sent_again(10, 2, "timeout", 1024);
    EXPECT_THAT(ids(diagnose_one(stuck)), ElementsAre("timeouts"));
}

TEST(Diagnosis, OfAPeerThatIsGone) {
    TraceText trace;
    trace.sent(0, 1).sent_again(10, 1, "timeout");
    trace.line(20, trace.group, "state_changed", R"("old":"RTS","new":"ERR")");
    const auto findings = diagnose_one(trace);
    EXPECT_THAT(ids(findings), ElementsAre("error_state", "nothing_answered"));
    EXPECT_EQ(findings[0].sentence, "The QP went to ERR, after timeouts.");
}

TEST(Diagnosis, OfDuplicates) {
    TraceText trace;
    trace.received(0, 1, "delivered").received(1, 1, "duplicate").sent(1, 1, 0, "RC Acknowledge");
    EXPECT_THAT(diagnose_one(trace)[0].sentence,
                HasSubstr("lost or late, or the network duplicates packets"));
    // With the other end, which sent it once.
    TraceText once = trace;
    once.group = "urnic1/0x12";
    once.dest_qpn = 0x11;
    once.sent(2, 1).ack(2, 1);
    EXPECT_THAT(diagnose_one(once)[0].sentence,
                HasSubstr("1 request came a second time: the network duplicates packets"));
    // Or again, because no answer came.
    TraceText again = once;
    again.sent_again(3, 1, "timeout");
    EXPECT_THAT(diagnose_one(again)[0].sentence, HasSubstr("the answers to them are lost or late"));
    EXPECT_THAT(diagnose_one(again, 1)[0].sentence, HasSubstr("although the requests had arrived"));
}

TEST(Diagnosis, OfReordering) {
    TraceText trace;
    trace.received(0, 2, "early-kept").received(1, 1, "delivered").sent(1, 2, 0, "RC Acknowledge");
    EXPECT_THAT(ids(diagnose_one(trace)), ElementsAre("early_packets"));
    TraceText both = trace;
    both.group = "urnic1/0x12";
    both.dest_qpn = 0x11;
    both.sent(0, 1).sent(0, 2).ack(2, 2);
    EXPECT_THAT(ids(diagnose_one(both)), ElementsAre("reordering"));
    both.sent_again(3, 1, "nak");
    EXPECT_THAT(ids(diagnose_one(both)), ElementsAre("early_packets"));
}

TEST(Diagnosis, OfRefusals) {
    TraceText trace;
    trace.sent(0, 1).nak(1, 1, "remote access error");
    const auto findings = diagnose_one(trace);
    ASSERT_THAT(ids(findings), ElementsAre("access_error"));
    EXPECT_THAT(findings[0].sentence, HasSubstr("R_Key"));
    TraceText invalid;
    invalid.sent(0, 1).nak(1, 1, "invalid request").sent(2, 2).nak(3, 2, "no code of ours");
    EXPECT_THAT(ids(diagnose_one(invalid)), ElementsAre("invalid_request", "nak"));
    TraceText other;
    other.received(0, 1, "refused");
    EXPECT_THAT(ids(diagnose_one(other)), ElementsAre("refused"));
}

TEST(Diagnosis, OfCongestionAndDrops) {
    TraceText trace;
    const std::string cnp = R"("opcode":"CNP","psn":0,"dest_qpn":17,"payload_length":0,"ack_req":false)";
    trace.line(0, trace.group, "cnp_received", cnp + R"(,"fate":"delivered")")
        .line(1, trace.group, "cnp_sent", cnp);
    const std::string write =
        R"("opcode":"RC WRITE Only","psn":1,"dest_qpn":17,"payload_length":9,"ack_req":true)";
    trace.line(2, trace.group, "packet_dropped", write + R"(,"trigger":"rx_icrc_encapsulated")");
    trace.line(3, trace.group, "packet_dropped", write + R"(,"trigger":"drop_qp_state")");
    trace.line(4, trace.group, "packet_dropped", write + R"(,"trigger":"drop_of_tomorrow")");
    EXPECT_THAT(ids(diagnose_one(trace)), ElementsAre("cnps_cut_rate", "ecn_marks", "dropped_packets",
                                                      "dropped_packets", "damaged_packets"));
}

TEST(Diagnosis, OfSlowMessages) {
    TraceText trace;
    for (int i = 0; i < 200; ++i) {
        const double duration_ms = i % 50 == 7 ? 2 : 0.01;
        trace.line(i, trace.group, "message_acknowledged",
                   fmt::format(R"("opcode":"RC WRITE","duration":{})", duration_ms));
    }
    const auto findings = diagnose_one(trace);
    ASSERT_THAT(ids(findings), ElementsAre("slow_messages"));
    EXPECT_EQ(findings[0].sentence,
              "One message of a hundred takes 2000.0 us or longer, 200 times the median of 10.0 us.");
}

TEST(Diagnosis, HasBoundedEvidence) {
    TraceText trace;
    for (int i = 0; i < 1000; ++i) trace.received(i, 1, "duplicate");
    const auto findings = diagnose_one(trace);
    EXPECT_EQ(findings[0].count, 1000);
    EXPECT_EQ(findings[0].evidence.size(), kMostEvidence);
}

}  // namespace
}  // namespace urnic::view
