// QP states: what runs in each, draining, flushing, starting over (IBA 10.3.1).
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

RC_SCRIPT(QpStates, SqdFinishesWhatBegan, "10.3.1.5",
          "SQD: a message that has begun is finished, none begins, and the event comes with the last ACK") {
    connect({.mtu = 256});
    post(write(1, 8));
    sends(write_only(1000, 8));
    peer(ack(1000, 1).credits(0));
    completes(ok(1));
    post({send(2, 600), write(3, 8)});
    sends(send_first(1001, 256));
    drain(true);
    EXPECT_TRUE(is_draining());
    raises({});
    peer(ack(1001, 1).credits(4));
    sends({send_middle(1002, 256, 256), send_last(1003, 88, 512)});
    raises({});
    peer(ack(1003, 2));
    completes(ok(2));
    raises({AsyncEventType::kSqDrained});
    EXPECT_FALSE(is_draining());
    silence(1'000'000'000);
    modify(QpState::kRts);
    sends(write_only(1004, 8));
    peer(ack(1004, 3));
    completes(ok(3));
}

RC_SCRIPT(QpStates, ErrFlushesLongQueuesInTurns, "10.3.1.7",
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

RC_SCRIPT(QpStates, QueryTellsEveryAttribute, "11.2.5.3",
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

RC_SCRIPT(QpStates, RefusedModifyChangesNothing, "11.2.5.2",
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
