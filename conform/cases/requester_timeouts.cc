// The transport timer and the retry counter (IBA 9.7.6.1.3).
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

class RequesterTimeouts : public Script {
  protected:
    // The timer ends once more, and with it the QP.
    void gives_up(std::uint64_t wr_id) {
        completes_within(kLeast, kMost, failed(wr_id, WcStatus::kRetryExcErr));
        counts(&Counters::req_transport_retries_exceeded, 1);
        state(QpState::kErr);
        silence(100 * kMost);
    }
};

CONFORM_CASE_IN(RequesterTimeouts, Exhaustion, "9.7.6.1.3",
                "retry_cnt 0 to 7: exactly so many repetitions (7 is seven), then RETRY_EXC_ERR") {
    for (std::uint8_t retries = 0; retries <= 7; ++retries) {
        given("retries", retries);
        connect({.timeout = kTimeout, .retry_cnt = retries});
        post(write(1, 8));
        sends(write_only(1000, 8));
        for (std::uint8_t i = 0; i < retries; ++i) {
            sends_within(kLeast, kMost, write_only(1000, 8));
        }
        gives_up(1);
    }
}

CONFORM_CASE_IN(RequesterTimeouts, EveryTimeoutCode, "9.7.6.1.3",
                "timeout codes 1 to 31: the repetition comes between 1 and 4 times 4.096 us * 2^code") {
    for (std::uint8_t code = 1; code <= 31; ++code) {
        given("code", code);
        connect({.timeout = code});
        post(write(1, 8));
        sends(write_only(1000, 8));
        sends_within(least_timeout(code), most_timeout(code), write_only(1000, 8));
        peer(ack(1000, 1));
        completes(ok(1));
    }
}

CONFORM_CASE_IN(
    RequesterTimeouts, SlowAnswersGetLonger, "9.9.2.1.1",
    "a peer whose last answer took three quarters of the timeout gets one and a half for the next") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    silence(kLeast * 3 / 4);
    peer(ack(1000, 1));
    completes(ok(1));
    post(write(2, 8));
    sends(write_only(1001, 8));
    silence(kLeast * 5 / 4);
    peer(ack(1001, 2));
    completes(ok(2));
}

CONFORM_CASE_IN(RequesterTimeouts, ZeroIsNever, "9.7.6.1.3", "timeout code 0: the requester waits for ever") {
    connect({.timeout = 0});
    silence(1000);
    post({write(1, 8), read(2, 8, 64)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    silence(TimeNs{30} * 24 * 3600 * 1'000'000'000);
    peer({ack(1000, 1), response_only(1001, 2, 8, 64)});
    completes({ok(1), ok(2)});
}

CONFORM_CASE_IN(RequesterTimeouts, ProgressRestartsTheTimer, "9.7.6.1.3",
                "an ACK of something new gives what is still outstanding a whole timeout") {
    connect({.timeout = kTimeout});
    post({write(1, 8), write(2, 8, 64)});
    sends({write_only(1000, 8), write_only(1001, 8, 64)});
    silence(kLeast * 9 / 10);
    peer(ack(1000, 1));
    completes(ok(1));
    sends_within(kLeast, kMost, write_only(1001, 8, 64));
    peer(ack(1001, 2));
    completes(ok(2));
}

CONFORM_CASE_IN(RequesterTimeouts, EachReadResponseRestartsTheTimer, "9.7.6.1.3",
                "a slow stream of responses is progress: nothing is asked for twice") {
    connect({.mtu = 256, .timeout = kTimeout, .retry_cnt = 0});
    post(read(1, 2560));
    sends(read_request(1000, 2560));
    for (std::uint32_t i = 0; i < 10; ++i) {
        silence(kLeast * 9 / 10);
        peer(i == 0   ? response_first(1000, 1, 256)
             : i == 9 ? response_last(1009, 1, 256, 2304)
                      : response_middle(1000 + i, 256, std::size_t{i} * 256));
    }
    completes(ok(1));
    holds_peer_data(0, 2560, 0);
}

CONFORM_CASE_IN(RequesterTimeouts, BeginsWithTheRequest, "9.7.6.1.3",
                "the timer begins when the request goes out, however long the QP was idle") {
    connect({.timeout = kTimeout});
    silence(50 * kMost);
    post(write(1, 8));
    sends(write_only(1000, 8));
    sends_within(kLeast, kMost, write_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(RequesterTimeouts, StopsWhenAllIsAnswered, "9.7.6.1.3", "nothing outstanding, no timer") {
    connect({.timeout = kTimeout, .retry_cnt = 0});
    post({write(1, 8), read(2, 8, 64)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    peer(response_only(1001, 2, 8, 64));
    completes({ok(1), ok(2)});
    silence(100 * kMost);
    state(QpState::kRts);
}

CONFORM_CASE_IN(RequesterTimeouts, ProgressGivesRetriesBack, "9.7.6.1.3",
                "the retry counter is per progress: each request lost once") {
    connect({.timeout = kTimeout, .retry_cnt = 1});
    for (std::uint32_t i = 0; i < 5; ++i) {
        post(write(i, 8));
        sends(write_only(1000 + i, 8));
        sends_within(kLeast, kMost, write_only(1000 + i, 8));
        peer(ack(1000 + i, i + 1));
        completes(ok(i));
    }
}

CONFORM_CASE_IN(RequesterTimeouts, PartOfAMessageGivesRetriesBack, "9.7.6.1.3",
                "an ACK inside a message is progress too") {
    connect({.mtu = 256, .timeout = kTimeout, .retry_cnt = 1});
    post(write(1, 512));
    sends({write_first(1000, 512, 256), write_last(1001, 256, 256)});
    resends_within(kLeast, kMost, write_first(1000, 512, 256));
    if_repeated(write_last(1001, 256, 256), {});
    peer(ack(1000, 0));
    sends_within(kLeast, kMost, write_last(1001, 256, 256));
    peer(ack(1001, 1));
    completes(ok(1));
}

CONFORM_CASE_IN(
    RequesterTimeouts, SequenceNaksCount, "9.7.6.1.3",
    "NAK 0x60 again and again for the same PSN: retry_cnt 0 to 7 repetitions, then RETRY_EXC_ERR") {
    for (std::uint8_t retries = 0; retries <= 7; ++retries) {
        given("retries", retries);
        connect({.timeout = kTimeout, .retry_cnt = retries});
        post({write(1, 8), write(2, 8, 64)});
        sends({write_only(1000, 8), write_only(1001, 8, 64)});
        peer(ack(1000, 1));
        completes(ok(1));
        for (std::uint8_t i = 0; i < retries; ++i) {
            silence(1000);
            peer(sequence_nak(1001, 1));
            sends(write_only(1001, 8, 64));
        }
        peer(sequence_nak(1001, 1));
        completes(failed(2, WcStatus::kRetryExcErr));
        state(QpState::kErr);
        silence(100 * kMost);
    }
}

CONFORM_CASE_IN(RequesterTimeouts, OneCounterForAllCauses, "9.7.6.1.3",
                "timeouts and NAK 0x60 take from the same retry counter") {
    connect({.timeout = kTimeout, .retry_cnt = 3});
    post(write(1, 8));
    sends(write_only(1000, 8));
    sends_within(kLeast, kMost, write_only(1000, 8));
    peer(sequence_nak(1000, 0));
    sends(write_only(1000, 8));
    no_answer(write_only(1000, 8));
    sends_within(kLeast / 2, kMost - kLeast / 2, write_only(1000, 8));
    gives_up(1);
}

CONFORM_CASE_IN(RequesterTimeouts, GhostsAreNoProgress, "9.7.6.1.1",
                "ACKs of old PSNs neither restart the timer nor give retries back") {
    connect({.timeout = kTimeout, .retry_cnt = 1});
    post(write(1, 8));
    sends(write_only(1000, 8));
    for (int i = 0; i < 3; ++i) {
        silence(kLeast * 3 / 10);
        peer({ack(900, 0), sequence_nak(900, 0)});
    }
    sends_within(kLeast / 10, kMost - kLeast * 9 / 10, write_only(1000, 8));
    for (int i = 0; i < 3; ++i) {
        silence(kLeast * 3 / 10);
        peer({ack(900, 0), sequence_nak(900, 0)});
    }
    wait(kMost - kLeast * 9 / 10);
    completes(failed(1, WcStatus::kRetryExcErr));
    state(QpState::kErr);
}

CONFORM_CASE_IN(RequesterTimeouts, HalfAnsweredRead, "9.7.6.1.3",
                "a READ whose rest never comes fails; what is behind it is flushed") {
    connect({.mtu = 256, .timeout = kTimeout, .retry_cnt = 1});
    post({write(1, 8, 8192), read(2, 512)});
    sends({write_only(1000, 8, 8192), read_request(1001, 512)});
    peer(response_first(1001, 2, 256));
    completes(ok(1));
    sends_within(kLeast, kMost, read_request(1002, 256, 256));
    gives_up(2);
}

CONFORM_CASE_IN(
    RequesterTimeouts, FailureFlushesInOrder, "10.3.1.7",
    "RETRY_EXC_ERR of one, WR_FLUSH_ERR of all behind it, unsignaled ones and receives included") {
    connect({.timeout = kTimeout, .retry_cnt = 0});
    post_receive(100, 64);
    post_receive(101, 64);
    post({write(1, 8), write(2, 8), unsignaled(write(3, 8)), read(4, 8, 64), send(5, 8)});
    sends({write_only(1000, 8), write_only(1001, 8), write_only(1002, 8), read_request(1003, 8, 64),
           send_only(1004, 8)});
    peer(sequence_nak(1001, 1));
    completes({ok(1), failed(2, WcStatus::kRetryExcErr), flushed(3), flushed(4), flushed(5)});
    receives({flushed(100), flushed(101)});
    state(QpState::kErr);
}

}  // namespace
}  // namespace urnic::conform
