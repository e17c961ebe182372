// The requester and a receiver that is not ready (IBA 9.7.5.2.8).
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

// The wait that each timer code asks for, as the specification's table 45 has it, in hundredths of a
// millisecond.
constexpr std::uint32_t kRnrTable45[32] = {
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr TimeNs kCentiMs = 10'000;
constexpr std::uint8_t kShort = 1;  // 0.01 ms

CONFORM_CASE(RequesterRnr, ThenSuccess, "9.7.5.2.8",
             "after an RNR NAK the request is repeated, and completes") {
    connect();
    post(send(1, 100));
    sends(send_only(1000, 100));
    peer(rnr_nak(1000, 0, 12));
    completes_nothing();
    sends_within(64 * kCentiMs, 128 * kCentiMs, send_only(1000, 100));
    peer(ack(1000, 1));
    completes(ok(1));
    counts(&Counters::rdma_sends, 1);
    counts(&Counters::rnr_nak_retry_err, 1);
    counts(&Counters::rcvd_rnr_err, 1);
}

CONFORM_CASE(RequesterRnr, EveryTimerCode, "9.7.5.2.8",
             "the wait is at least what the timer code says, for all 32 codes, and ends soon after") {
    for (std::uint8_t code = 0; code < 32; ++code) {
        given("code", code);
        connect({.timeout = 0});
        post(send(1, 8));
        sends(send_only(1000, 8));
        peer(rnr_nak(1000, 0, code));
        const TimeNs wait_ns = kRnrTable45[code] * kCentiMs;
        sends_within(wait_ns, wait_ns + wait_ns / 4, send_only(1000, 8));
        peer(ack(1000, 1));
        completes(ok(1));
    }
}

CONFORM_CASE(RequesterRnr, Exhaustion, "9.7.5.2.8",
             "rnr_retry 0 to 6: so many repetitions, then RNR_RETRY_EXC_ERR, flush and ERR") {
    for (std::uint8_t retries = 0; retries <= 6; ++retries) {
        given("retries", retries);
        connect({.rnr_retry = retries});
        post({send(1, 8), write(2, 8, 64)});
        sends({send_only(1000, 8), write_only(1001, 8, 64)});
        for (std::uint8_t i = 0; i < retries; ++i) {
            peer(rnr_nak(1000, 0, kShort));
            resends_within(kCentiMs, 2 * kCentiMs, {send_only(1000, 8), write_only(1001, 8, 64)});
            completes_nothing();
        }
        peer(rnr_nak(1000, 0, kShort));
        completes({failed(1, WcStatus::kRnrRetryExcErr), flushed(2)});
        counts(&Counters::rnr_nak_retry_err, retries);
        counts(&Counters::req_rnr_retries_exceeded, 1);
        counts(&Counters::rdma_sends, 0);
        state(QpState::kErr);
        silence(1'000'000'000);
    }
}

CONFORM_CASE(RequesterRnr, Infinite, "9.7.5.2.8", "rnr_retry 7 never ends") {
    connect({.retry_cnt = 0, .rnr_retry = 7});
    post(send(1, 8));
    sends(send_only(1000, 8));
    for (int i = 0; i < 200; ++i) {
        peer(rnr_nak(1000, 0, kShort));
        sends_within(kCentiMs, 2 * kCentiMs, send_only(1000, 8));
    }
    completes_nothing();
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterRnr, TakesNothingFromRetryCnt, "9.7.5.2.8",
             "RNR NAKs use up rnr_retry, not retry_cnt") {
    connect({.retry_cnt = 1, .rnr_retry = 6});
    post({send(1, 8), write(2, 8, 64)});
    sends({send_only(1000, 8), write_only(1001, 8, 64)});
    for (int i = 0; i < 5; ++i) {
        peer(rnr_nak(1000, 0, kShort));
        resends_within(kCentiMs, 2 * kCentiMs, {send_only(1000, 8), write_only(1001, 8, 64)});
    }
    peer(sequence_nak(1000, 0));
    resends({send_only(1000, 8), write_only(1001, 8, 64)});
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
}

CONFORM_CASE(RequesterRnr, GivesTransportRetriesBack, "9.7.6.1.3",
             "an RNR NAK shows that the transport works: the requester has all its transport retries again") {
    connect({.timeout = kTimeout, .retry_cnt = 1});
    post(send(1, 8));
    sends(send_only(1000, 8));
    sends_within(kLeast, kMost, send_only(1000, 8));
    peer(rnr_nak(1000, 0, kShort));
    sends_within(kCentiMs, 2 * kCentiMs, send_only(1000, 8));
    sends_within(kLeast, kMost, send_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
    counts(&Counters::local_ack_timeout_err, 2);
}

CONFORM_CASE(RequesterRnr, AcknowledgesWhatLiesBefore, "9.7.5.1.2",
             "an RNR NAK acknowledges everything before its PSN") {
    connect();
    post({write(1, 8, 64), send(2, 8)});
    sends({write_only(1000, 8, 64), send_only(1001, 8)});
    peer(rnr_nak(1001, 1, kShort));
    completes(ok(1));
    sends_within(kCentiMs, 2 * kCentiMs, send_only(1001, 8));
    peer(ack(1001, 2));
    completes(ok(2));
}

CONFORM_CASE(RequesterRnr, CountIsPerRequest, "9.7.5.2.8", "progress gives the RNR retries back") {
    connect({.rnr_retry = 1});
    for (std::uint32_t i = 0; i < 4; ++i) {
        post(send(i, 8));
        sends(send_only(1000 + i, 8));
        peer(rnr_nak(1000 + i, i, kShort));
        sends_within(kCentiMs, 2 * kCentiMs, send_only(1000 + i, 8));
        peer(ack(1000 + i, i + 1));
        completes(ok(i));
    }
}

CONFORM_CASE(RequesterRnr, NothingOvertakes, "9.5",
             "what is posted during the wait waits behind the refused request") {
    connect();
    post(send(1, 8));
    sends(send_only(1000, 8));
    peer(rnr_nak(1000, 0, 26));  // 81.92 ms
    silence(100 * kCentiMs);
    post({write(2, 8, 64), read(3, 8, 128)});
    // The posts may have taken a while.
    sends_within(4096 * kCentiMs, 16384 * kCentiMs,
                 {send_only(1000, 8), write_only(1001, 8, 64), read_request(1002, 8, 128)});
    peer(response_only(1002, 3, 8, 128));
    completes({ok(1), ok(2), ok(3)});
}

CONFORM_CASE(RequesterRnr, NakOfTheLastOfAWriteWithImmediate, "9.7.5.2.8",
             "only what takes a receive is repeated: the packets before were executed") {
    connect({.mtu = 256});
    post(write_imm(1, 512, 9));
    sends({write_first(1000, 512, 256), packet(wire::kWriteLastImm, 1001, 256, 256).imm(9)});
    peer(rnr_nak(1001, 0, kShort));
    sends_within(kCentiMs, 2 * kCentiMs, packet(wire::kWriteLastImm, 1001, 256, 256).imm(9));
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterRnr, NakOfARead, "9.7.5.2.8",
             "a responder without resources for a READ may say so too") {
    connect();
    post(read(1, 8));
    sends(read_request(1000, 8));
    peer(rnr_nak(1000, 0, kShort));
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1000, 8));
    peer(response_only(1000, 1, 8));
    completes(ok(1));
    holds_peer_data(0, 8, 0);
}

CONFORM_CASE(RequesterRnr, NakOfAnAtomic, "9.7.5.2.8",
             "a responder without resources for an atomic may say so: it is repeated") {
    connect();
    post(fetch_add(1, 9, 64));
    sends(fetch_add_request(1000, 9, 64));
    peer(rnr_nak(1000, 0, kShort));
    sends_within(kCentiMs, 2 * kCentiMs, fetch_add_request(1000, 9, 64));
    peer(atomic_ack(1000, 1, 1234));
    completes(ok(1));
    holds_word(64, 1234);
}

CONFORM_CASE(RequesterRnr, NakInsideARead, "9.7.5.2.8",
             "an RNR NAK with the PSN of the next response: the READ continues from there after the wait") {
    connect({.mtu = 256, .timeout = 0});
    post(read(1, 768));
    sends(read_request(1000, 768));
    peer({response_first(1000, 1, 256), rnr_nak(1001, 1, kShort)});
    completes_nothing();
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1001, 512, 256));
    answers_read(1001, 1, 512, 256);
    completes(ok(1));
    holds_peer_data(0, 768, 0);
}

CONFORM_CASE(
    RequesterRnr, NakOfAReadUnderWay, "9.7.5.2.8",
    "an RNR NAK with the PSN of the request, behind responses to it: the READ continues after the wait") {
    connect({.mtu = 256, .timeout = 0});
    post(read(1, 768));
    sends(read_request(1000, 768));
    peer({response_first(1000, 1, 256), rnr_nak(1000, 1, kShort)});
    completes_nothing();
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1001, 512, 256));
    // The responder may continue as if it had not stopped.
    peer({response_middle(1001, 256, 256), rnr_nak(1001, 1, kShort)});
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1002, 256, 512));
    peer(response_last(1002, 1, 256, 512));
    completes(ok(1));
    holds_peer_data(0, 768, 0);
}

CONFORM_CASE(
    RequesterRnr, NakOfAReadUnderWayCounts, "9.7.5.2.8",
    "an RNR NAK of a READ under way takes a retry; without one left it fails nothing, as a duplicate") {
    for (const std::uint8_t retries : {1, 0}) {
        given("retries", retries);
        connect({.mtu = 256, .timeout = kTimeout, .rnr_retry = retries});
        post(read(1, 512));
        sends(read_request(1000, 512));
        peer({response_first(1000, 1, 256), rnr_nak(1000, 1, kShort)});
        completes_nothing();
        const TimeNs least = retries != 0 ? kCentiMs : kLeast;
        sends_within(least, retries != 0 ? 2 * kCentiMs : kMost, read_request(1001, 256, 256));
        peer(rnr_nak(1001, 1, kShort));
        completes(failed(1, WcStatus::kRnrRetryExcErr));
        state(QpState::kErr);
    }
}

CONFORM_CASE(RequesterRnr, NakBehindTheOldestRead, "9.7.6.1.1",
             "an RNR NAK with a PSN before the oldest READ, or behind what was sent, is ignored") {
    connect({.mtu = 256, .timeout = 0});
    post({write(1, 8, 64), read(2, 512)});
    sends({write_only(1000, 8, 64), read_request(1001, 512)});
    peer(response_first(1001, 2, 256));
    completes(ok(1));
    peer({rnr_nak(1000, 1, kShort), rnr_nak(1003, 2, kShort)});
    silence(kSecond);
    peer(response_last(1002, 2, 256, 256));
    completes(ok(2));
}

CONFORM_CASE(
    RequesterRnr, NakBehindALostResponse, "9.7.5.2.8",
    "an RNR NAK inside a READ, with a response lost before it: all that is missing is asked for, after "
    "the wait") {
    connect({.mtu = 256, .timeout = 0});
    post(read(1, 1024));
    sends(read_request(1000, 1024));
    peer({response_first(1000, 1, 256), rnr_nak(1002, 1, 12)});
    completes_nothing();
    sends_within(64 * kCentiMs, 128 * kCentiMs, read_request(1001, 768, 256));
    answers_read(1001, 1, 768, 256);
    completes(ok(1));
    holds_peer_data(0, 1024, 0);
}

CONFORM_CASE(
    RequesterRnr, AnswerGoesOnWithoutAFirst, "9.7.5.2.8",
    "a responder that refused a READ for its own want of resources may begin the answer with a Middle, "
    "or with a Last, as Linux rxe does") {
    connect({.mtu = 256, .timeout = 0});
    post(read(1, 768));
    sends(read_request(1000, 768));
    peer(rnr_nak(1000, 1, kShort));
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1000, 768));
    peer({response_middle(1000, 256), response_middle(1001, 256, 256), response_last(1002, 1, 256, 512)});
    completes(ok(1));
    holds_peer_data(0, 768, 0);
    post(read(2, 8, 1024));
    sends(read_request(1003, 8, 1024));
    peer(rnr_nak(1003, 2, kShort));
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1003, 8, 1024));
    peer(response_last(1003, 2, 8, 1024));
    completes(ok(2));
    holds_peer_data(1024, 8, 1024);
}

CONFORM_CASE(
    RequesterRnr, NextRequestSetsTheAnswerGoing, "9.7.5.2.8",
    "of a refused READ the answer may come during the wait, set going by the next request, which is lost") {
    connect({.mtu = 256, .timeout = 0});
    post({read(1, 512), read(2, 8, 1024)});
    sends({read_request(1000, 512), read_request(1002, 8, 1024)});
    peer({rnr_nak(1000, 1, kShort), response_middle(1000, 256), response_last(1001, 1, 256, 256)});
    completes(ok(1));
    sends_within(kCentiMs, 2 * kCentiMs, read_request(1002, 8, 1024));
    peer(response_only(1002, 2, 8, 1024));
    completes(ok(2));
    holds_peer_data(0, 512, 0);
}

CONFORM_CASE(
    RequesterRnr, LostNakOfARead, "9.7.6.1.3",
    "the RNR NAK of a READ got lost: the answer to the repeated request may begin with a Middle, too") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 512));
    sends(read_request(1000, 512));
    sends_within(kLeast, kMost, read_request(1000, 512));
    peer({response_middle(1000, 256), response_last(1001, 1, 256, 256)});
    completes(ok(1));
    holds_peer_data(0, 512, 0);
}

CONFORM_CASE(RequesterRnr, NoTimeoutDuringTheWait, "9.7.6.1.3",
             "the transport timer does not run while the requester waits; it begins with the repetition") {
    constexpr std::uint8_t kTimeout = 2;  // 16.4 us, the wait is 40 times as long
    connect({.timeout = kTimeout, .retry_cnt = 1});
    post(send(1, 8));
    sends(send_only(1000, 8));
    peer(rnr_nak(1000, 0, 12));
    sends_within(64 * kCentiMs, 128 * kCentiMs, send_only(1000, 8));
    sends_within(least_timeout(kTimeout), most_timeout(kTimeout), send_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE(RequesterRnr, LateAckEndsTheWait, "9.7.6.1.2",
             "an ACK that comes during the wait completes the request: nothing is repeated") {
    connect();
    post(send(1, 8));
    sends(send_only(1000, 8));
    peer(rnr_nak(1000, 0, 26));  // 81.92 ms
    peer(ack(1000, 1));
    completes(ok(1));
    silence(1'000'000'000);
    post(send(2, 8));
    sends(send_only(1001, 8));
    peer(ack(1001, 2));
    completes(ok(2));
}

}  // namespace
}  // namespace urnic::conform
