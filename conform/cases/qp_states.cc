// QP states: what runs in each, draining, flushing, starting over (IBA 10.3.1).
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(QpStates, NothingBeforeRts, "10.3.1.3", "what is posted in INIT and RTR goes out in RTS") {
    create();
    post(write(1, 8));
    silence(1000);
    rtr();
    post(write(2, 8));
    silence(1000);
    rts();
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
}

CONFORM_CASE(QpStates, NoResponsesBeforeRts, "10.3.1.3",
             "responses that come in RTR mean nothing, also later") {
    create();
    rtr();
    post(write(1, 8));
    peer({ack(1000, 1), nak(1000, 0, wire::kNakInvalidRequest)});
    rts();
    sends(write_only(1000, 8));
    completes_nothing();
    peer(ack(1000, 1));
    completes(ok(1));
}

CONFORM_CASE(
    QpStates, ErrFlushesInOrder, "10.3.1.7",
    "modify_qp to ERR: all sends and all receives complete with WR_FLUSH_ERR in order, sent or not") {
    connect({.max_rd_atomic = 1});
    post_receive(100, 64);
    post_receive(101, 64);
    post({write(1, 8), read(2, 8, 64), read(3, 8, 128), send(4, 8)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    modify(QpState::kErr);
    completes({flushed(1), flushed(2), flushed(3), flushed(4)});
    receives({flushed(100), flushed(101)});
    state(QpState::kErr);
    silence(1'000'000'000'000);
}

CONFORM_CASE(QpStates, ErrFlushesUnsignaled, "10.3.1.7", "a flushed request completes, signaled or not") {
    connect();
    post({unsignaled(write(1, 8)), write(2, 8), unsignaled(send(3, 8))});
    sends({write_only(1000, 8), write_only(1001, 8), send_only(1002, 8)});
    modify(QpState::kErr);
    completes({flushed(1), flushed(2), flushed(3)});
}

CONFORM_CASE(QpStates, ErrFlushesWhatComesLater, "10.3.1.7",
             "what is posted in ERR is flushed at once, on both queues") {
    connect();
    modify(QpState::kErr);
    post({write(1, 8), send(2, 8)});
    post_receive(100, 8);
    completes({flushed(1), flushed(2)});
    receives(flushed(100));
    sends_nothing();
}

CONFORM_CASE(QpStates, ErrHearsNothing, "10.3.1.7",
             "packets that come in ERR change nothing: no completion twice, no data") {
    connect();
    post({write(1, 8), read(2, 8, 64)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    modify(QpState::kErr);
    completes({flushed(1), flushed(2)});
    peer({ack(1000, 1), response_only(1001, 2, 8, 64), ack(1001, 2), send_only(2000, 8),
          write_only(2000, 8, 128)});
    sends_nothing();
    holds_own_data(0, 256);
}

CONFORM_CASE(QpStates, ErrFromEachState, "10.3.1.7", "INIT, RTR, RTS and SQD go to ERR, and flush") {
    for (int stage = 0; stage < 4; ++stage) {
        given("stage", stage);
        create();
        if (stage >= 1) {
            rtr();
        }
        if (stage >= 2) {
            rts();
        }
        if (stage == 3) {
            drain(false);
        }
        post_receive(100, 8);
        modify(QpState::kErr);
        receives(flushed(100));
        state(QpState::kErr);
    }
}

CONFORM_CASE(QpStates, ResetForgets, "10.3.1.1",
             "RESET: nothing is flushed, nothing goes out, late answers mean nothing") {
    connect({.timeout = kTimeout});
    post_receive(100, 64);
    post({write(1, 8), read(2, 8, 64)});
    sends({write_only(1000, 8), read_request(1001, 8, 64)});
    modify(QpState::kReset);
    completes_nothing();
    peer({ack(1000, 1), response_only(1001, 2, 8, 64)});
    silence(10 * kMost);
    holds_own_data(0, 128);
}

CONFORM_CASE(
    QpStates, ReuseAfterReset, "10.3.1.1",
    "RESET, INIT, RTR, RTS: PSNs, credits, retries and expectations begin anew, nothing of before is left") {
    connect({.timeout = kTimeout, .retry_cnt = 1});
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(ack(1000, 1).credits(0));
    completes(ok(1));
    sends_within(kLeast, kMost, write_only(1001, 8));
    modify(QpState::kReset);
    init();
    rtr();
    rts();
    sends_nothing();
    post({send(3, 8), send(4, 8), send(5, 8)});
    sends({send_only(1000, 8), send_only(1001, 8), send_only(1002, 8)});
    resends_within(kLeast, kMost, {send_only(1000, 8), send_only(1001, 8), send_only(1002, 8)});
    peer(ack(1002, 3));
    completes({ok(3), ok(4), ok(5)});
}

CONFORM_CASE(QpStates, ReuseInsideARead, "10.3.1.1",
             "RESET inside a READ: the READ of the next connection fills its own buffer, not the old one") {
    connect({.mtu = 256});
    post(read(1, 512));
    sends(read_request(1000, 512));
    peer(response_first(1000, 1, 256));
    modify(QpState::kReset);
    init();
    rtr();
    rts();
    post(read(2, 512, 4096));
    sends(read_request(1000, 512, 4096));
    answers_read(1000, 1, 512, 4096);
    completes(ok(2));
    holds_peer_data(4096, 512, 4096);
    holds_own_data(256, 256);
}

CONFORM_CASE(QpStates, ReuseAfterErr, "10.3.1.1", "ERR, RESET, INIT, RTR, RTS: the QP works again") {
    connect();
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(nak(1000, 0, wire::kNakRemoteAccessError));
    completes(failed(1, WcStatus::kRemAccessErr));
    modify(QpState::kReset);
    init();
    rtr();
    rts();
    post(read(2, 8, 64));
    sends(read_request(1000, 8, 64));
    peer(response_only(1000, 1, 8, 64));
    completes(ok(2));
}

CONFORM_CASE(QpStates, SqdWaitsForResponses, "10.3.1.5",
             "SQD is drained when READs and atomics have their data") {
    connect({.mtu = 256});
    post({read(1, 512, 4096), fetch_add(2, 1, 64)});
    sends({read_request(1000, 512, 4096), fetch_add_request(1002, 1, 64)});
    drain(true);
    answers_read(1000, 1, 512, 4096);
    completes(ok(1));
    raises({});
    peer(atomic_ack(1002, 2, 3));
    completes(ok(2));
    raises({AsyncEventType::kSqDrained});
}

CONFORM_CASE(QpStates, SqdRepeats, "10.3.1.5", "SQD continues repeating what got lost") {
    connect({.timeout = kTimeout});
    post(write(1, 8));
    sends(write_only(1000, 8));
    drain(true);
    sends_within(kLeast, kMost, write_only(1000, 8));
    peer(sequence_nak(1000, 0));
    sends(write_only(1000, 8));
    peer(ack(1000, 1));
    completes(ok(1));
    raises({AsyncEventType::kSqDrained});
}

CONFORM_CASE(QpStates, SqdOfAnIdleQueue, "10.3.1.5",
             "nothing outstanding: drained at once, each time, and only when asked for") {
    connect();
    drain(true);
    raises({AsyncEventType::kSqDrained});
    modify(QpState::kRts);
    drain(true);
    raises({AsyncEventType::kSqDrained});
    modify(QpState::kRts);
    drain(false);
    raises({});
}

CONFORM_CASE(QpStates, SqdFails, "10.3.1.5",
             "a request that fails during SQD takes the QP to ERR without the event") {
    connect();
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    drain(true);
    peer(nak(1000, 0, wire::kNakInvalidRequest));
    completes({failed(1, WcStatus::kRemInvReqErr), flushed(2)});
    raises({});
    state(QpState::kErr);
}

CONFORM_CASE(QpStates, SqdAttributesApply, "11.2.5.2",
             "timeout and retry count changed in SQD hold from RTS on") {
    connect({.timeout = kTimeout});
    drain(false);
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt;
    attr.state = QpState::kSqd;
    attr.timeout = 5;
    attr.retry_cnt = 1;
    require(modify(attr) == 0, "modify_qp was refused");
    modify(QpState::kRts);
    post(write(1, 8));
    sends(write_only(1000, 8));
    sends_within(least_timeout(5), most_timeout(5), write_only(1000, 8));
    wait(most_timeout(5));
    completes(failed(1, WcStatus::kRetryExcErr));
    state(QpState::kErr);
}

CONFORM_CASE(QpStates, SqeIsNotForRc, "10.3.1.6",
             "no RC QP enters SQE: modify_qp refuses it in every state, a failed request leads to ERR") {
    const auto sqe_is_refused = [this] {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState;
        attr.state = QpState::kSqe;
        require(modify(attr) != 0, "modify_qp was not refused");
    };
    create();
    sqe_is_refused();
    rtr();
    sqe_is_refused();
    rts();
    sqe_is_refused();
    drain(false);
    sqe_is_refused();
    modify(QpState::kRts);
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(nak(1000, 0, wire::kNakInvalidRequest));
    completes(failed(1, WcStatus::kRemInvReqErr));
    state(QpState::kErr);
    sqe_is_refused();
}

CONFORM_CASE(QpStates, EachFlushIsOnce, "10.3.1.7",
             "an error, then modify_qp to ERR twice: every request completes once") {
    connect();
    post_receive(100, 8);
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(nak(1000, 0, wire::kNakInvalidRequest));
    state(QpState::kErr);  // a modify_qp that overtakes the NAK would flush both
    modify(QpState::kErr);
    modify(QpState::kErr);
    completes({failed(1, WcStatus::kRemInvReqErr), flushed(2)});
    receives(flushed(100));
}

}  // namespace
}  // namespace urnic::conform
