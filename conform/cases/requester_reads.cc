// READ responses and atomic responses that get lost, come out of order, or are not what was asked for.
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(RequesterReads, ResponseInOrder, "9.4.4",
             "First, Middle, Last fill the buffer; the last completes") {
    connect({.mtu = 256});
    post(read(1, 700));
    sends(read_request(1000, 700));
    peer({response_first(1000, 1, 256), response_middle(1001, 256, 256)});
    completes_nothing();
    peer(response_last(1002, 1, 188, 512));
    completes(ok(1).bytes(700).op(WcOpcode::kRdmaRead));
    holds_peer_data(0, 700, 0);
    holds_own_data(700, 324);
}

CONFORM_CASE(RequesterReads, LostFirst, "9.7.6.1.4",
             "a lost First: what is missing is asked for again from there") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 768));
    sends(read_request(1000, 768));
    peer({response_middle(1001, 256, 256), response_last(1002, 1, 256, 512)});
    completes_nothing();
    const std::uint32_t length = asks_again(1000, 0, 256, 768);
    answers_read(1000, 1, length);
    completes(ok(1));
    holds_peer_data(0, 768, 0);
}

CONFORM_CASE(RequesterReads, LostMiddle, "9.7.6.1.4",
             "a lost Middle: the request for the rest has its PSN, its address and a shorter DMALen") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 1024));
    sends(read_request(1000, 1024));
    peer({response_first(1000, 1, 256), response_middle(1002, 256, 512), response_last(1003, 1, 256, 768)});
    completes_nothing();
    const std::uint32_t length = asks_again(1001, 256, 256, 768);
    answers_read(1001, 1, length, 256);
    completes(ok(1));
    holds_peer_data(0, 1024, 0);
}

CONFORM_CASE(RequesterReads, LostLast, "9.7.6.1.3",
             "a lost Last: after the timeout only the rest is asked for") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 600));
    sends(read_request(1000, 600));
    peer({response_first(1000, 1, 256), response_middle(1001, 256, 256)});
    sends_within(kLeast, kMost, read_request(1002, 88, 512));
    peer(response_only(1002, 1, 88, 512));
    completes(ok(1).bytes(600));
    holds_peer_data(0, 600, 0);
}

CONFORM_CASE(RequesterReads, LostOnly, "9.7.6.1.3", "a lost Only: the same request after the timeout") {
    connect({.timeout = kTimeout});
    post(read(1, 100));
    sends(read_request(1000, 100));
    sends_within(kLeast, kMost, read_request(1000, 100));
    peer(response_only(1000, 1, 100));
    completes(ok(1));
    holds_peer_data(0, 100, 0);
}

CONFORM_CASE(RequesterReads, AllResponsesLost, "9.7.6.1.3",
             "no response at all: the whole READ is asked for again") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 1024));
    sends(read_request(1000, 1024));
    sends_within(kLeast, kMost, read_request(1000, 1024));
    answers_read(1000, 1, 1024);
    completes(ok(1));
    holds_peer_data(0, 1024, 0);
}

CONFORM_CASE(RequesterReads, LostAtomicResponse, "9.7.6.1.3",
             "a lost atomic response: the same request after the timeout") {
    connect({.timeout = kTimeout});
    post(fetch_add(1, 9, 64));
    sends(fetch_add_request(1000, 9, 64));
    sends_within(kLeast, kMost, fetch_add_request(1000, 9, 64));
    peer(atomic_ack(1000, 1, 1234));
    completes(ok(1).bytes(8).op(WcOpcode::kFetchAdd));
    holds_word(64, 1234);
}

CONFORM_CASE(
    RequesterReads, ImpliedNakAgainAfterATimeout, "9.7.6.1.4",
    "a response shows a gap, its request is lost: after the timeout the next response shows it again") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 512));
    sends(read_request(1000, 512));
    peer(response_last(1001, 1, 256, 256));
    const std::uint32_t length = asks_again(1000, 0, 256, 512);
    if (is_selective()) {
        sends_within(1, kMost, read_request(1000, length));
        peer(response_only(1000, 1, 256));
    } else {
        sends_within(kLeast, kMost, read_request(1000, 512));
        peer(response_last(1001, 1, 256, 256));
        sends(read_request(1000, 512));
        answers_read(1000, 1, 512);
        counts(&Counters::implied_nak_seq_err, 2);
    }
    completes(ok(1));
    holds_peer_data(0, 512, 0);
}

CONFORM_CASE(RequesterReads, OutOfOrder, "9.7.6.1.4",
             "responses that overtake each other: nothing is lost, nothing completes before all has come") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 768));
    sends(read_request(1000, 768));
    peer(response_first(1000, 1, 256));
    peer(response_last(1002, 1, 256, 512));
    completes_nothing();
    const std::uint32_t length = asks_again(1001, 256, 256, 512);
    // The one that was overtaken comes before the answer to the new request, which then says nothing new.
    peer(response_middle(1001, 256, 256));
    answers_read(1001, 1, length, 256);
    completes(ok(1));
    holds_peer_data(0, 768, 0);
}

CONFORM_CASE(RequesterReads, LateResponsesAfterTheTimeout, "9.7.6.1.3",
             "responses to the first request that come after the second went out are as good as any") {
    connect({.mtu = 256, .timeout = kTimeout});
    post(read(1, 512));
    sends(read_request(1000, 512));
    sends_within(kLeast, kMost, read_request(1000, 512));
    peer({response_first(1000, 1, 256), response_last(1001, 1, 256, 256)});
    completes(ok(1));
    peer({response_first(1000, 1, 256), response_last(1001, 1, 256, 256)});
    completes_nothing();
    holds_peer_data(0, 512, 0);
}

CONFORM_CASE(RequesterReads, RepeatedResponses, "9.7.6.1.1",
             "responses that come twice write and complete once") {
    connect({.mtu = 256});
    post(read(1, 512));
    sends(read_request(1000, 512));
    peer({response_first(1000, 1, 256), response_first(1000, 1, 256)});
    completes_nothing();
    peer({response_last(1001, 1, 256, 256), response_last(1001, 1, 256, 256)});
    completes(ok(1));
    holds_peer_data(0, 512, 0);
}

CONFORM_CASE(RequesterReads, ManyAtOnce, "9.4.4",
             "READs outstanding together complete in the order of their requests") {
    connect({.mtu = 256});
    post({read(1, 300), read(2, 8, 1024), read(3, 0, 2048)});
    sends({read_request(1000, 300), read_request(1002, 8, 1024), read_request(1003, 0, 2048)});
    peer({response_first(1000, 1, 256), response_last(1001, 1, 44, 256), response_only(1002, 2, 8, 1024)});
    completes({ok(1).bytes(300), ok(2).bytes(8)});
    peer(response_only(1003, 3, 0));
    completes(ok(3).bytes(0));
    holds_peer_data(0, 300, 0);
    holds_peer_data(1024, 8, 1024);
}

CONFORM_CASE(RequesterReads, ScatteredBuffer, "9.4.4",
             "a response is spread over the entries of the scatter list") {
    connect({.mtu = 256});
    SendRequest request = read(1, 0);
    request.sge = {memory().sge(4096, 100), memory().sge(8192, 7), memory().sge(12288, 193)};
    post(request);
    sends(read_request(1000, 300));
    answers_read(1000, 1, 300);
    completes(ok(1).bytes(300));
    holds_peer_data(4096, 100, 0);
    holds_peer_data(8192, 7, 100);
    holds_peer_data(12288, 193, 107);
}

// Each of these is an answer that no responder may give: the WR fails and the QP goes to ERR.
class BadResponse : public Script {
  protected:
    // Requests are in flight as the test left them; `answer` makes the oldest fail, and nothing of it is
    // written.
    void is_bad(const ScriptPackets& answer, std::uint64_t wr_id = 1) {
        peer(answer);
        completes({failed(wr_id, WcStatus::kBadRespErr), flushed(wr_id + 1)});
        state(QpState::kErr);
        silence(kMost);
    }
    void read_and_write(std::uint32_t read_length) {
        connect({.mtu = 256, .timeout = kTimeout});
        post({read(1, read_length), write(2, 8, 16384)});
        const std::uint32_t psns = read_length == 0 ? 1 : (read_length + 255) / 256;
        sends({read_request(1000, read_length), write_only(1000 + psns, 8, 16384)});
    }
};

CONFORM_CASE_IN(BadResponse, ShortFirst, "9.9.2", "READ response First of less than the path MTU") {
    read_and_write(600);
    is_bad(response_first(1000, 1, 255));
    holds_own_data(0, 600);
}

CONFORM_CASE_IN(BadResponse, LongFirst, "9.9.2", "READ response First of more than the path MTU") {
    read_and_write(600);
    is_bad(response_first(1000, 1, 260));
    holds_own_data(0, 600);
}

CONFORM_CASE_IN(BadResponse, ShortMiddle, "9.9.2", "READ response Middle of less than the path MTU") {
    read_and_write(768);
    peer(response_first(1000, 1, 256));
    is_bad(response_middle(1001, 252, 256));
    holds_own_data(256, 512);
}

CONFORM_CASE_IN(BadResponse, LengthOfLast, "9.9.2",
                "READ response Last shorter, longer, of zero bytes, of a whole path MTU where less is left") {
    for (const std::uint32_t length : {0U, 87U, 89U, 92U, 256U}) {
        given("length", length);
        read_and_write(600);
        peer({response_first(1000, 1, 256), response_middle(1001, 256, 256)});
        is_bad(response_last(1002, 1, length, 512));
        holds_own_data(512, 512);
    }
}

CONFORM_CASE_IN(BadResponse, LengthOfOnly, "9.9.2",
                "READ response Only shorter or longer than what was asked for") {
    for (const std::uint32_t length : {0U, 99U, 101U, 256U}) {
        given("length", length);
        read_and_write(100);
        is_bad(response_only(1000, 1, length));
        holds_own_data(0, 512);
    }
}

CONFORM_CASE_IN(BadResponse, DataForAnEmptyRead, "9.9.2", "READ response with data to a READ of zero bytes") {
    read_and_write(0);
    is_bad(response_only(1000, 1, 4));
    holds_own_data(0, 512);
}

CONFORM_CASE_IN(BadResponse, MiddleForFirst, "9.9.2", "READ response Middle where the READ begins") {
    read_and_write(600);
    is_bad(response_middle(1000, 256));
    holds_own_data(0, 600);
}

CONFORM_CASE_IN(BadResponse, LastForOnly, "9.9.2", "READ response Last where the READ has one packet") {
    read_and_write(100);
    is_bad(response_last(1000, 1, 100));
    holds_own_data(0, 100);
}

CONFORM_CASE_IN(BadResponse, FirstForMiddle, "9.9.2",
                "READ response First inside a READ that was asked for once") {
    read_and_write(768);
    peer(response_first(1000, 1, 256));
    is_bad(response_first(1001, 1, 256, 256));
    holds_own_data(256, 512);
}

CONFORM_CASE_IN(BadResponse, OnlyForLast, "9.9.2",
                "READ response Only at the end of a READ that was asked for once") {
    read_and_write(300);
    peer(response_first(1000, 1, 256));
    is_bad(response_only(1001, 1, 44, 256));
    holds_own_data(256, 256);
}

CONFORM_CASE_IN(BadResponse, FirstForOnly, "9.9.2", "READ response First where the READ has one packet") {
    read_and_write(256);
    is_bad(response_first(1000, 1, 256));
    holds_own_data(0, 256);
}

CONFORM_CASE_IN(BadResponse, MiddleForLast, "9.9.2", "READ response Middle where the READ ends") {
    read_and_write(512);
    peer(response_first(1000, 1, 256));
    is_bad(response_middle(1001, 256, 256));
    holds_own_data(256, 256);
}

CONFORM_CASE_IN(BadResponse, AtomicForRead, "9.9.2", "ATOMIC Acknowledge for a READ of eight bytes") {
    read_and_write(8);
    is_bad(atomic_ack(1000, 1, 7));
    holds_own_data(0, 8);
}

CONFORM_CASE_IN(BadResponse, ReadForAtomic, "9.9.2", "READ response of eight bytes for an atomic") {
    connect();
    post({fetch_add(1, 1), write(2, 8, 64)});
    sends({fetch_add_request(1000, 1), write_only(1001, 8, 64)});
    is_bad(response_only(1000, 1, 8));
    holds_own_data(0, 8);
}

CONFORM_CASE_IN(BadResponse, ReadForWrite, "9.9.2", "READ response for a WRITE") {
    connect();
    post({write(1, 8), write(2, 8, 64)});
    sends({write_only(1000, 8), write_only(1001, 8, 64)});
    is_bad(response_only(1000, 1, 8));
    holds_own_data(0, 8);
}

CONFORM_CASE_IN(BadResponse, AtomicForSend, "9.9.2", "ATOMIC Acknowledge for a SEND") {
    connect();
    post({send(1, 8), write(2, 8, 64)});
    sends({send_only(1000, 8), write_only(1001, 8, 64)});
    is_bad(atomic_ack(1000, 1, 7));
    holds_own_data(0, 8);
}

CONFORM_CASE_IN(BadResponse, SyndromeOfAReadResponse, "9.7.5.2",
                "READ response First, Last or Only whose AETH is not an ACK's") {
    for (const std::uint8_t syndrome : {0x21, 0x40, 0x60, 0x61, 0x62, 0x63, 0x7f}) {
        given("syndrome", syndrome);
        read_and_write(600);
        is_bad(response_first(1000, 1, 256).aeth(syndrome, 1));
        holds_own_data(0, 256);
        read_and_write(300);
        peer(response_first(1000, 1, 256));
        is_bad(response_last(1001, 1, 44, 256).aeth(syndrome, 1));
        holds_own_data(256, 256);
        read_and_write(8);
        is_bad(response_only(1000, 1, 8).aeth(syndrome, 1));
        holds_own_data(0, 256);
    }
}

CONFORM_CASE_IN(BadResponse, SyndromeOfAnAtomicResponse, "9.7.5.2",
                "ATOMIC Acknowledge whose AETH is not an ACK's") {
    for (const std::uint8_t syndrome : {0x21, 0x40, 0x60, 0x62}) {
        given("syndrome", syndrome);
        connect();
        post({fetch_add(1, 1), write(2, 8, 64)});
        sends({fetch_add_request(1000, 1), write_only(1001, 8, 64)});
        is_bad(atomic_ack(1000, 1, 7).aeth(syndrome, 1));
        holds_own_data(0, 8);
    }
}

}  // namespace
}  // namespace urnic::conform
