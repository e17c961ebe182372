// QP states: what runs in each, draining, flushing, starting over (IBA 10.3.1).
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

class QpStates : public RcScript {
  protected:
    void drain(bool notify) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrEnSqdAsyncNotify;
        attr.state = QpState::kSqd;
        attr.en_sqd_async_notify = notify ? 1 : 0;
        ASSERT_EQ(modify(attr), 0);
    }
    [[nodiscard]] bool draining() {
        abi::QpAttr attr{};
        host().qp().query(attr);
        return attr.sq_draining != 0;
    }
};

RC_SCRIPT_IN(QpStates, NothingBeforeRts, "10.3.1.3", "what is posted in INIT and RTR goes out in RTS") {
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

RC_SCRIPT_IN(QpStates, NoResponsesBeforeRts, "10.3.1.3",
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

RC_SCRIPT_IN(
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

RC_SCRIPT_IN(QpStates, ErrFlushesUnsignaled, "10.3.1.7", "a flushed request completes, signaled or not") {
    connect();
    post({unsignaled(write(1, 8)), write(2, 8), unsignaled(send(3, 8))});
    sends({write_only(1000, 8), write_only(1001, 8), send_only(1002, 8)});
    modify(QpState::kErr);
    completes({flushed(1), flushed(2), flushed(3)});
}

RC_SCRIPT_IN(QpStates, ErrFlushesWhatComesLater, "10.3.1.7",
             "what is posted in ERR is flushed at once, on both queues") {
    connect();
    modify(QpState::kErr);
    post({write(1, 8), send(2, 8)});
    post_receive(100, 8);
    completes({flushed(1), flushed(2)});
    receives(flushed(100));
    sends_nothing();
}

RC_SCRIPT_IN(QpStates, ErrHearsNothing, "10.3.1.7",
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

RC_SCRIPT_IN(QpStates, ErrFromEachState, "10.3.1.7", "INIT, RTR, RTS and SQD go to ERR, and flush") {
    for (int stage = 0; stage < 4; ++stage) {
        SCOPED_TRACE(stage);
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

RC_SCRIPT_IN(QpStates, ResetForgets, "10.3.1.1",
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

RC_SCRIPT_IN(
    QpStates, ReuseAfterReset, "10.3.1.1",
    "RESET, INIT, RTR, RTS: PSNs, credits, retries and expectations begin anew, nothing of before is left") {
    connect({.timeout = kTimeout, .retry_cnt = 1});
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(ack(1000, 1).credits(0));
    completes(ok(1));
    sends_within(kLeast, kMost, write_only(1001, 8));
    modify(QpState::kReset);
    host().to_init();
    rtr();
    rts();
    sends_nothing();
    post({send(3, 8), send(4, 8), send(5, 8)});
    sends({send_only(1000, 8), send_only(1001, 8), send_only(1002, 8)});
    resends_within(kLeast, kMost, {send_only(1000, 8), send_only(1001, 8), send_only(1002, 8)});
    peer(ack(1002, 3));
    completes({ok(3), ok(4), ok(5)});
}

RC_SCRIPT_IN(QpStates, ReuseInsideARead, "10.3.1.1",
             "RESET inside a READ: the READ of the next connection fills its own buffer, not the old one") {
    connect({.mtu = 256});
    post(read(1, 512));
    sends(read_request(1000, 512));
    peer(response_first(1000, 1, 256));
    modify(QpState::kReset);
    host().to_init();
    rtr();
    rts();
    post(read(2, 512, 4096));
    sends(read_request(1000, 512, 4096));
    answers_read(1000, 1, 512, 4096);
    completes(ok(2));
    holds_peer_data(4096, 512, 4096);
    holds_own_data(256, 256);
}

RC_SCRIPT_IN(QpStates, ReuseAfterErr, "10.3.1.1", "ERR, RESET, INIT, RTR, RTS: the QP works again") {
    connect();
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(nak(1000, 0, wire::kNakRemoteAccessError));
    completes(failed(1, WcStatus::kRemAccessErr));
    modify(QpState::kReset);
    host().to_init();
    rtr();
    rts();
    post(read(2, 8, 64));
    sends(read_request(1000, 8, 64));
    peer(response_only(1000, 1, 8, 64));
    completes(ok(2));
}

RC_SCRIPT_IN(
    QpStates, SqdFinishesWhatBegan, "10.3.1.5",
    "SQD: a message that has begun is finished, none begins, and the event comes with the last ACK") {
    connect({.mtu = 256});
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(ack(1000, 1).credits(0));
    completes(ok(1));
    post({send(2, 600), write(3, 8)});
    sends(send_first(1001, 256));
    drain(true);
    EXPECT_TRUE(draining());
    raises({});
    peer(ack(1001, 1).credits(4));
    sends({send_middle(1002, 256, 256), send_last(1003, 88, 512)});
    raises({});
    peer(ack(1003, 2));
    completes(ok(2));
    raises({AsyncEventType::kSqDrained});
    EXPECT_FALSE(draining());
    silence(1'000'000'000);
    modify(QpState::kRts);
    sends(write_only(1004, 8));
    peer(ack(1004, 3));
    completes(ok(3));
}

RC_SCRIPT_IN(QpStates, SqdWaitsForResponses, "10.3.1.5",
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

RC_SCRIPT_IN(QpStates, SqdRepeats, "10.3.1.5", "SQD goes on repeating what got lost") {
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

RC_SCRIPT_IN(QpStates, SqdOfAnIdleQueue, "10.3.1.5",
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

RC_SCRIPT_IN(QpStates, SqdFails, "10.3.1.5",
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

RC_SCRIPT_IN(QpStates, SqdAttributesApply, "11.2.5.2",
             "timeout and retry count changed in SQD hold from RTS on") {
    connect({.timeout = kTimeout});
    drain(false);
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrTimeout | kQpAttrRetryCnt;
    attr.state = QpState::kSqd;
    attr.timeout = 5;
    attr.retry_cnt = 1;
    ASSERT_EQ(modify(attr), 0);
    modify(QpState::kRts);
    post(write(1, 8));
    sends(write_only(1000, 8));
    sends_within(least_timeout(5), most_timeout(5), write_only(1000, 8));
    wait(most_timeout(5));
    completes(failed(1, WcStatus::kRetryExcErr));
    state(QpState::kErr);
}

RC_SCRIPT_IN(QpStates, SqeIsNotForRc, "10.3.1.6",
             "no RC QP enters SQE: modify_qp refuses it in every state, a failed request leads to ERR") {
    const auto sqe_is_refused = [this] {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState;
        attr.state = QpState::kSqe;
        EXPECT_NE(modify(attr), 0);
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

RC_SCRIPT_IN(QpStates, EachFlushIsOnce, "10.3.1.7",
             "an error, then modify_qp to ERR twice: every request completes once") {
    connect();
    post_receive(100, 8);
    post({write(1, 8), write(2, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(nak(1000, 0, wire::kNakInvalidRequest));
    modify(QpState::kErr);
    modify(QpState::kErr);
    completes({failed(1, WcStatus::kRemInvReqErr), flushed(2)});
    receives(flushed(100));
}

RC_SCRIPT_IN(QpStates, ErrFlushesLongQueuesInTurns, "10.3.1.7",
             "queues of 2000 requests are flushed in several turns of the worker") {
    constexpr std::uint32_t kEntries = 2048;
    constexpr std::uint32_t kPosted = 2000;
    connect({}, {.send_entries = kEntries, .recv_entries = kEntries});
    modify(QpState::kErr);
    for (std::uint32_t i = 0; i < kPosted; ++i) {
        host().post_send(write(i, 8));
        host().post_recv(i, {});
    }
    EXPECT_TRUE(host().qp().progress(now(), 64, host()));
    const std::size_t sends = host().poll_send().size();
    const std::size_t receives = host().poll_recv().size();
    EXPECT_LT(sends, kPosted);
    EXPECT_LT(receives, kPosted);
    host().progress();
    EXPECT_EQ(sends + host().poll_send().size(), kPosted);
    EXPECT_EQ(receives + host().poll_recv().size(), kPosted);
}

RC_SCRIPT_IN(QpStates, QueryTellsEveryAttribute, "11.2.5.3",
             "query_qp tells what modify_qp has set, the next PSNs, and nothing of it after RESET") {
    connect({.mtu = 2048,
             .psn_a = 5,
             .psn_b = 60,
             .timeout = 9,
             .retry_cnt = 3,
             .rnr_retry = 2,
             .min_rnr_timer = 11,
             .max_rd_atomic = 4,
             .max_dest_rd_atomic = 8});
    post(write(1, 8));
    sends(write_only(5, 8));
    peer({ack(5, 1), write_only(60, 8).ackreq(false)});
    completes(ok(1));
    abi::QpAttr attr{};
    host().qp().query(attr);
    EXPECT_EQ(attr.state, QpState::kRts);
    EXPECT_EQ(attr.cur_state, QpState::kRts);
    EXPECT_EQ(attr.path_mtu, 4);
    EXPECT_EQ(attr.sq_psn, 6U);
    EXPECT_EQ(attr.rq_psn, 61U);
    EXPECT_EQ(attr.timeout, 9);
    EXPECT_EQ(attr.retry_cnt, 3);
    EXPECT_EQ(attr.rnr_retry, 2);
    EXPECT_EQ(attr.min_rnr_timer, 11);
    EXPECT_EQ(attr.max_rd_atomic, 4);
    EXPECT_EQ(attr.max_dest_rd_atomic, 8);
    EXPECT_EQ(attr.dest_qp_num, kPeerQp);
    EXPECT_EQ(attr.access_flags, kAllAccess);
    EXPECT_EQ(attr.port_num, 1);
    EXPECT_EQ(attr.av.is_global, 1);
    EXPECT_EQ(attr.sq_draining, 0);
    modify(QpState::kReset);
    host().qp().query(attr);
    EXPECT_EQ(attr.state, QpState::kReset);
    EXPECT_EQ(attr.dest_qp_num, 0U);
}

RC_SCRIPT_IN(QpStates, RefusedModifyChangesNothing, "11.2.5.2",
             "a modify_qp with one attribute that may not change changes none") {
    connect();
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrMinRnrTimer | kQpAttrDestQpn;
    attr.state = QpState::kRts;
    attr.min_rnr_timer = 3;
    EXPECT_EQ(modify(attr), EINVAL);
    host().qp().query(attr);
    EXPECT_EQ(attr.min_rnr_timer, options().min_rnr_timer);
    EXPECT_EQ(attr.dest_qp_num, kPeerQp);
}

}  // namespace
}  // namespace urnic::sim
