// The active side: REQ sent, REP, RTU, and whatever comes instead.
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

// 4.096 us * 2^18 and, for the packet there and back, * 2^15.
constexpr TimeNs kReqWait = (TimeNs{4096} << 18U) + (TimeNs{4096} << 15U);

CM_SCRIPT(CmActive, Handshake, "12.9",
          "REQ, REP, RTU: the owner hears of the REP, and answers by an RTU of its IDs") {
    const Handle handle = connect();
    const auto sent = says<msg::Req>();
    EXPECT_EQ(sent.local_comm_id, handle);
    EXPECT_EQ(state(handle), State::kReqSent);
    const std::uint64_t tid = last_tid();
    EXPECT_NE(tid, 0U);
    hears(rep(handle), tid);
    const SeenEvent reply = event(EventType::kReply);
    EXPECT_EQ(reply.handle, handle);
    EXPECT_EQ(reply.owner, 9U);
    EXPECT_EQ(std::get<msg::Rep>(*reply.message).local_qpn, kPeerQpn);
    EXPECT_EQ(reply.private_data.size(), 196U);
    ready(handle);
    const auto answer = says<msg::Rtu>();
    EXPECT_EQ(answer.local_comm_id, handle);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
    EXPECT_EQ(last_tid(), tid);
    EXPECT_EQ(state(handle), State::kEstablished);
    after(3600 * kSecond);
}

CM_SCRIPT(CmActive, ReqFields, "12.6.5", "the REQ says what the owner asked for, with permissive LIDs") {
    ConnectParams params = connect_params();
    const std::vector<std::uint8_t> data(92, 0x5a);
    params.private_data = data;
    params.route.flow_label = 0xabcde;
    params.route.traffic_class = 0x68;
    params.route.hop_limit = 33;
    params.srq = true;
    const Handle handle = connect(params);
    msg::Req expected;
    expected.local_comm_id = handle;
    expected.service_id = kPlainService;
    expected.local_ca_guid = kOurGuid;
    expected.local_qpn = kOurQpn;
    expected.responder_resources = 3;
    expected.initiator_depth = 4;
    expected.remote_cm_response_timeout = 18;
    expected.local_cm_response_timeout = 18;
    expected.starting_psn = 1000;
    expected.retry_count = 7;
    expected.rnr_retry_count = 7;
    expected.pkey = 0xffff;
    expected.path_mtu = 3;
    expected.max_cm_retries = 3;
    expected.srq = true;
    expected.primary.local_lid = 0xffff;
    expected.primary.remote_lid = 0xffff;
    expected.primary.local_gid = kOurGid;
    expected.primary.remote_gid = kPeerGid;
    expected.primary.flow_label = 0xabcde;
    expected.primary.traffic_class = 0x68;
    expected.primary.hop_limit = 33;
    expected.primary.local_ack_timeout = 15;
    expected.private_data.fill(0x5a);
    EXPECT_EQ(says<msg::Req>(), expected);
    EXPECT_EQ(last_route().traffic_class, 0x68);
}

CM_SCRIPT(CmActive, TransportFields, "12.6.5, A14",
          "UC is service type 1, XRC extended type 1 without responder resources and retries") {
    ConnectParams params = connect_params();
    params.transport = Transport::kUc;
    (void)connect(params);
    EXPECT_EQ(says<msg::Req>().transport_service_type, 1);
    params.transport = Transport::kXrc;
    const Handle handle = connect(params);
    const auto sent = says<msg::Req>();
    EXPECT_EQ(sent.transport_service_type, 3);
    EXPECT_EQ(sent.extended_transport_type, 1);
    EXPECT_EQ(sent.responder_resources, 0);
    EXPECT_EQ(sent.initiator_depth, 4);
    EXPECT_EQ(sent.retry_count, 0);
    msg::Rep answer = rep(handle);
    answer.local_qpn = 0;
    answer.local_eecn = kPeerQpn;
    hears(answer, last_tid());
    event(EventType::kReply);
    EXPECT_EQ(manager().info(handle)->remote_qpn, kPeerQpn);
}

CM_SCRIPT(
    CmActive, WhatAQpNeeds, "12.6.8, 12.7",
    "after a REP: PSNs, depths the other way round, RNR retries of the peer, an ACK timeout with its delay") {
    const Handle handle = connect();
    says<msg::Req>();
    msg::Rep answer = rep(handle);
    answer.target_ack_delay = 16;
    answer.srq = true;
    hears(answer, last_tid());
    event(EventType::kReply);
    const ConnectionInfo info = *manager().info(handle);
    EXPECT_TRUE(info.is_active);
    EXPECT_EQ(info.remote_qpn, kPeerQpn);
    EXPECT_EQ(info.local_qpn, kOurQpn);
    EXPECT_EQ(info.send_psn, 2000U);
    EXPECT_EQ(info.receive_psn, 1000U);
    EXPECT_EQ(info.responder_resources, 2);
    EXPECT_EQ(info.initiator_depth, 1);
    EXPECT_EQ(info.retry_count, 7);
    EXPECT_EQ(info.rnr_retry_count, 5);
    EXPECT_EQ(info.ack_timeout, 17);
    EXPECT_EQ(info.path_mtu, 3);
    EXPECT_EQ(info.remote_comm_id, kPeerId);
    EXPECT_EQ(info.remote_ca_guid, kPeerGuid);
    EXPECT_TRUE(info.srq);
}

CM_SCRIPT(CmActive, AckTimeout, "12.6.8, 12.7",
          "the ACK timeout has room for the packet there and back and the delay that the REP names") {
    for (const auto& [delay, timeout] :
         {std::pair{0, 15}, {13, 15}, {14, 16}, {15, 16}, {16, 17}, {31, 31}}) {
        begin(config());
        const Handle handle = connect();
        says<msg::Req>();
        msg::Rep answer = rep(handle);
        answer.target_ack_delay = static_cast<std::uint8_t>(delay);
        hears(answer, last_tid());
        event(EventType::kReply);
        EXPECT_EQ(manager().info(handle)->ack_timeout, timeout) << delay;
    }
}

CM_SCRIPT(CmActive, NobodyAnswers, "12.9",
          "the REQ goes again max_cm_retries times, the same to the bit; then REJ by time-out, and the owner "
          "hears") {
    const Handle handle = connect();
    const auto first = says<msg::Req>();
    const std::uint64_t tid = last_tid();
    for (int i = 0; i < 3; ++i) {
        due_in(kReqWait);
        EXPECT_EQ(says<msg::Req>(), first);
        EXPECT_EQ(last_tid(), tid);
    }
    due_in(kReqWait);
    const auto last = says<msg::Rej>();
    EXPECT_EQ(last.reason, kRejTimeout);
    EXPECT_EQ(last.message_rejected, 2);
    EXPECT_EQ(last.local_comm_id, handle);
    EXPECT_EQ(last.remote_comm_id, 0U);
    EXPECT_EQ(last.reject_info_length, 8);
    EXPECT_EQ(last.additional_info[7], 1);
    EXPECT_EQ(last.additional_info[0], 2);
    EXPECT_EQ(event(EventType::kUnreachable).handle, handle);
    EXPECT_EQ(state(handle), State::kClosed);
    destroy(handle);
    leaves_nothing();
}

CM_SCRIPT(CmActive, MraMakesUsWait, "12.6.6",
          "an MRA of the REQ adds its service time to this and all later waits; a second one does nothing") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(mra(handle, 0, 20));
    EXPECT_EQ(state(handle), State::kMraReqReceived);
    after(kSecond);
    hears(mra(handle, 0, 24));
    due_in(kReqWait + (TimeNs{4096} << 20U) - kSecond);
    says<msg::Req>();
    due_in(kReqWait + (TimeNs{4096} << 20U));
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
}

CM_SCRIPT(CmActive, MraIsBounded, "12.6.6", "a service time of 2.4 hours is cut to 68.7 s") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(mra(handle, 0, 31));
    due_in(kReqWait + (TimeNs{4096} << 24U));
    says<msg::Req>();
}

CM_SCRIPT(CmActive, RepAgainAfterRtu, "12.9",
          "a REP that comes again gets the same RTU again, private data and all") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
    const std::vector<std::uint8_t> data(224, 0x33);
    EXPECT_EQ(manager().send_rtu(handle, data, now(), out()), Status::kOk);
    const auto first = says<msg::Rtu>();
    EXPECT_EQ(first.private_data[223], 0x33);
    hears(rep(handle));
    EXPECT_EQ(says<msg::Rtu>(), first);
    hears(rep(handle));
    EXPECT_EQ(says<msg::Rtu>(), first);
}

CM_SCRIPT(CmActive, RepAgainBeforeRtu, "12.6.6",
          "a REP that comes again while the owner thinks gets an MRA") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
    hears(rep(handle));
    const auto answer = says<msg::Mra>();
    EXPECT_EQ(answer.message_mraed, 1);
    EXPECT_EQ(answer.service_timeout, 24);
    EXPECT_EQ(answer.local_comm_id, handle);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
    ready(handle);
    says<msg::Rtu>();
}

CM_SCRIPT(CmActive, OwnerRejectsRep, "12.6.7",
          "reject() of a REP: REJ about the REP, timewait; a REP that comes again gets the REJ again") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
    const std::vector<std::uint8_t> data(148, 0x44);
    EXPECT_EQ(
        manager().reject(handle, {.reason = kRejConsumer, .info = {}, .private_data = data}, now(), out()),
        Status::kOk);
    const auto first = says<msg::Rej>();
    EXPECT_EQ(first.reason, kRejConsumer);
    EXPECT_EQ(first.message_rejected, 1);
    EXPECT_EQ(first.private_data[147], 0x44);
    EXPECT_EQ(state(handle), State::kTimewait);
    hears(rep(handle));
    EXPECT_EQ(says<msg::Rej>(), first);
    after(kSecond);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmActive, RepOfUnknownId, "12.6.7.2",
          "a REP to an ID that nobody has is rejected by reason 6, with its IDs") {
    hears(rep(0x1234));
    const auto answer = says<msg::Rej>();
    EXPECT_EQ(answer.reason, kRejInvalidCommId);
    EXPECT_EQ(answer.message_rejected, 1);
    EXPECT_EQ(answer.local_comm_id, 0x1234U);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
}

CM_SCRIPT(CmActive, RepOfEndedConnection, "12.6.7.2",
          "a REP to a connection that has ended, whose handle its owner still has, is rejected by reason 6") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rej(handle, 0, kRejConsumer));
    event(EventType::kRejected);
    hears(rep(handle));
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidCommId);
    hears(rtu(handle));
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidCommInstance);
    nothing();
}

CM_SCRIPT(CmActive, SpecialQpInRep, "12.6.7.2",
          "a REP with QP 0 or 1 is rejected by reason 5, and the owner hears") {
    for (const std::uint32_t qpn : {0U, 1U}) {
        const Handle handle = connect();
        says<msg::Req>();
        msg::Rep answer = rep(handle);
        answer.local_qpn = qpn;
        hears(answer, last_tid());
        EXPECT_EQ(says<msg::Rej>().reason, kRejUnsupported);
        EXPECT_EQ(event(EventType::kRejected).reason, kRejUnsupported);
        destroy(handle);
    }
    leaves_nothing();
}

CM_SCRIPT(CmActive, DuplicateIdInRep, "12.6.7.2",
          "a REP with the peer's ID of another connection: reason 30") {
    const Handle first = established_active();
    const Handle second = connect();
    says<msg::Req>();
    msg::Rep answer = rep(second);
    answer.local_qpn = 99;
    hears(answer, last_tid());
    const auto rejected = says<msg::Rej>();
    EXPECT_EQ(rejected.reason, kRejDuplicateCommId);
    EXPECT_EQ(rejected.remote_comm_id, kPeerId);
    EXPECT_EQ(event(EventType::kRejected).handle, second);
    EXPECT_EQ(state(first), State::kEstablished);
}

CM_SCRIPT(CmActive, StaleQpInRep, "12.9",
          "a REP with a QP that is connected to us: reason 10, and the old connection gets a DREQ") {
    const Handle first = established_active();
    const Handle second = connect();
    says<msg::Req>();
    msg::Rep answer = rep(second);
    answer.local_comm_id = kPeerId + 1;
    hears(answer, last_tid());
    const auto rejected = says<msg::Rej>();
    EXPECT_EQ(rejected.reason, kRejStaleConnection);
    EXPECT_EQ(rejected.message_rejected, 1);
    EXPECT_EQ(says<msg::Dreq>().local_comm_id, first);
    EXPECT_EQ(event(EventType::kRejected).reason, kRejStaleConnection);
    EXPECT_EQ(state(first), State::kDreqSent);
    EXPECT_EQ(state(second), State::kClosed);
}

CM_SCRIPT(CmActive, DestroyedBeforeRep, "12.9",
          "destroy() of a REQ: REJ by time-out; a REP that comes all the same is rejected by reason 6") {
    const Handle handle = connect();
    says<msg::Req>();
    destroy(handle);
    EXPECT_EQ(says<msg::Rej>().reason, kRejTimeout);
    hears(rep(handle));
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidCommId);
    leaves_nothing();
}

CM_SCRIPT(CmActive, DestroyedAfterRep, "12.9",
          "destroy() of a REP: REJ by reason 28, and timewait without events") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
    destroy(handle);
    EXPECT_EQ(says<msg::Rej>().reason, kRejConsumer);
    EXPECT_EQ(manager().size(), 1U);
    leaves_nothing();
}

CM_SCRIPT(CmActive, OnlyInItsState, "12.9", "calls in other states than theirs are refused and do nothing") {
    const Handle handle = connect();
    says<msg::Req>();
    EXPECT_EQ(manager().send_rtu(handle, {}, now(), out()), Status::kWrongState);
    EXPECT_EQ(manager().accept(handle, accept_params(), now(), out()), Status::kWrongState);
    EXPECT_EQ(manager().reject(handle, {}, now(), out()), Status::kWrongState);
    EXPECT_EQ(manager().disconnect(handle, {}, now(), out()), Status::kWrongState);
    EXPECT_EQ(manager().established(handle, now(), out()), Status::kWrongState);
    EXPECT_EQ(manager().send_sidr_rep(handle, {}, now(), out()), Status::kUnknownHandle);
    for (const Handle other : {handle + 1, Handle{0}}) {
        EXPECT_EQ(manager().send_rtu(other, {}, now(), out()), Status::kUnknownHandle);
        EXPECT_EQ(manager().disconnect(other, {}, now(), out()), Status::kUnknownHandle);
        EXPECT_FALSE(manager().set_owner(other, 3));
        EXPECT_FALSE(manager().info(other).has_value());
        manager().dequeue(other);
        manager().discard(other);
        destroy(other);
    }
}

CM_SCRIPT(CmActive, BadArguments, "12.6.5",
          "parameters that have no room in a REQ are refused, and nothing is kept") {
    const auto refused = [this](auto change) {
        ConnectParams params = connect_params();
        change(params);
        EXPECT_EQ(manager().connect(params, now(), out()).status, Status::kBadArgument);
    };
    const std::vector<std::uint8_t> data(93);
    refused([](ConnectParams& p) { p.local_qpn = 1; });
    refused([](ConnectParams& p) { p.local_qpn = 0x100'0000; });
    refused([](ConnectParams& p) { p.starting_psn = 0x100'0000; });
    refused([](ConnectParams& p) { p.path_mtu = 0; });
    refused([](ConnectParams& p) { p.path_mtu = 6; });
    refused([](ConnectParams& p) { p.retry_count = 8; });
    refused([](ConnectParams& p) { p.max_cm_retries = 16; });
    refused([](ConnectParams& p) { p.response_timeout = 32; });
    refused([](ConnectParams& p) { p.route.flow_label = 0x10'0000; });
    refused([](ConnectParams& p) { p.route.remote_gid = {}; });
    refused([&data](ConnectParams& p) { p.private_data = data; });
    refused([&data](ConnectParams& p) {
        p.private_data = std::span(data).first(57);
        p.ip = ip_of_peer();
    });
    EXPECT_EQ(manager().size(), 0U);
}

}  // namespace
}  // namespace urnic::sim::cm
