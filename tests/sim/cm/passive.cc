// The passive side: REQ, REP sent, RTU, and whatever comes instead.
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

constexpr TimeNs kRepWait = TimeNs{4096} << 18U;  // what the REQ says

CM_SCRIPT(CmPassive, Handshake, "12.9",
          "REQ, REP, RTU: the listener's owner hears of the REQ, then of the RTU") {
    const ListenerId listener = listen();
    msg::Req request = req();
    request.private_data.fill(0x77);
    hears(request);
    const SeenEvent asked = event(EventType::kRequest);
    EXPECT_EQ(asked.listener, listener);
    EXPECT_EQ(asked.listener_owner, 7U);
    EXPECT_EQ(asked.owner, 0U);
    EXPECT_EQ(std::get<msg::Req>(*asked.message), request);
    EXPECT_EQ(asked.private_data, std::vector<std::uint8_t>(92, 0x77));
    EXPECT_FALSE(asked.ip.has_value());
    EXPECT_EQ(asked.route.remote_gid, kPeerGid);
    EXPECT_TRUE(manager().set_owner(asked.handle, 12));
    accept(asked.handle);
    const auto sent = says<msg::Rep>();
    EXPECT_EQ(sent.local_comm_id, asked.handle);
    EXPECT_EQ(sent.remote_comm_id, kPeerId);
    EXPECT_EQ(last_tid(), kTid);
    hears(rtu(asked.handle));
    const SeenEvent up = event(EventType::kEstablished);
    EXPECT_EQ(up.handle, asked.handle);
    EXPECT_EQ(up.owner, 12U);
    EXPECT_EQ(up.private_data.size(), 224U);
    EXPECT_EQ(state(asked.handle), State::kEstablished);
    after(3600 * kSecond);
}

CM_SCRIPT(CmPassive, RepFields, "12.6.8", "the REP says what the owner answered") {
    const Handle handle = requested();
    AcceptParams params = accept_params();
    const std::vector<std::uint8_t> data(196, 0x21);
    params.private_data = data;
    params.srq = true;
    params.rnr_retry_count = 4;
    EXPECT_EQ(manager().accept(handle, params, now(), out()), Status::kOk);
    msg::Rep expected;
    expected.local_comm_id = handle;
    expected.remote_comm_id = kPeerId;
    expected.local_qpn = kOurQpn;
    expected.starting_psn = 1000;
    expected.responder_resources = 5;
    expected.initiator_depth = 6;
    expected.target_ack_delay = 15;
    expected.rnr_retry_count = 4;
    expected.srq = true;
    expected.local_ca_guid = kOurGuid;
    expected.private_data.fill(0x21);
    EXPECT_EQ(says<msg::Rep>(), expected);
}

CM_SCRIPT(CmPassive, WhatAQpNeeds, "12.6.5, 12.7",
          "after a REQ and accept(): PSNs, depths, retries, times of the REQ") {
    const Handle handle = requested();
    ConnectionInfo info = *manager().info(handle);
    EXPECT_EQ(info.responder_resources, 2);
    EXPECT_EQ(info.initiator_depth, 1);
    accept(handle);
    says<msg::Rep>();
    info = *manager().info(handle);
    EXPECT_FALSE(info.is_active);
    EXPECT_EQ(info.remote_qpn, kPeerQpn);
    EXPECT_EQ(info.local_qpn, kOurQpn);
    EXPECT_EQ(info.send_psn, 2000U);
    EXPECT_EQ(info.receive_psn, 1000U);
    EXPECT_EQ(info.responder_resources, 5);
    EXPECT_EQ(info.initiator_depth, 6);
    EXPECT_EQ(info.retry_count, 7);
    EXPECT_EQ(info.rnr_retry_count, 6);
    EXPECT_EQ(info.ack_timeout, 15);
    EXPECT_EQ(info.path_mtu, 3);
    EXPECT_EQ(info.service_id, kPlainService);
}

CM_SCRIPT(CmPassive, XrcRep, "A14", "an XRC target's QP is in the EECN field, and it has SRQs") {
    listen();
    msg::Req request = req();
    request.transport_service_type = 3;
    request.extended_transport_type = 1;
    hears(request);
    const Handle handle = event(EventType::kRequest).handle;
    EXPECT_EQ(manager().info(handle)->transport, Transport::kXrc);
    accept(handle);
    const auto sent = says<msg::Rep>();
    EXPECT_EQ(sent.local_eecn, kOurQpn);
    EXPECT_EQ(sent.local_qpn, 0U);
    EXPECT_TRUE(sent.srq);
    EXPECT_EQ(sent.initiator_depth, 0);
}

CM_SCRIPT(CmPassive, NoAlternatePath, "12.6.8",
          "a REQ with an alternate path: failover is not supported, says the REP") {
    listen();
    msg::Req request = req();
    request.alternate = request.primary;
    hears(request);
    accept(event(EventType::kRequest).handle);
    EXPECT_EQ(says<msg::Rep>().failover_accepted, 1);
}

CM_SCRIPT(
    CmPassive, RepIsRepeated, "12.9",
    "without RTU the REP goes again as often as the REQ allows, then REJ by time-out, and the owner hears") {
    const Handle handle = requested();
    accept(handle);
    const auto first = says<msg::Rep>();
    for (int i = 0; i < 3; ++i) {
        due_in(kRepWait);
        EXPECT_EQ(says<msg::Rep>(), first);
    }
    due_in(kRepWait);
    const auto last = says<msg::Rej>();
    EXPECT_EQ(last.reason, kRejTimeout);
    EXPECT_EQ(last.remote_comm_id, kPeerId);
    event(EventType::kUnreachable);
    EXPECT_EQ(manager().half_open(), 0U);
    destroy(handle);
    leaves_nothing();
}

CM_SCRIPT(CmPassive, TimesOfPeersAreBounded, "12.9",
          "a response timeout of 2.4 hours counts as 17 s, one of 4 us as 1 ms") {
    for (const auto& [said, meant] : {std::pair<std::uint8_t, unsigned>{31, 22}, {0, 8}}) {
        begin(config());
        listen();
        msg::Req request = req();
        request.local_cm_response_timeout = said;
        hears(request);
        accept(event(EventType::kRequest).handle);
        says<msg::Rep>();
        due_in(TimeNs{4096} << meant);
        says<msg::Rep>();
    }
}

CM_SCRIPT(CmPassive, MraOfRep, "12.6.6", "an MRA of the REP adds its service time; the RTU then counts") {
    const Handle handle = requested();
    accept(handle);
    says<msg::Rep>();
    for (const std::uint8_t other : {0, 2, 3}) {  // of a REQ, of a LAP, of nothing
        hears(mra(handle, other, 20));
        EXPECT_EQ(state(handle), State::kRepSent);
    }
    hears(mra(handle, 1, 20));
    EXPECT_EQ(state(handle), State::kMraRepReceived);
    due_in(kRepWait + (TimeNs{4096} << 20U));
    says<msg::Rep>();
    hears(rtu(handle));
    event(EventType::kEstablished);
}

CM_SCRIPT(CmPassive, ReqAgainWhileOwnerThinks, "12.6.6",
          "a REQ that comes again gets an MRA, and makes no second event") {
    const Handle handle = requested();
    for (int i = 0; i < 3; ++i) {
        hears(req());
        const auto answer = says<msg::Mra>();
        EXPECT_EQ(answer.message_mraed, 0);
        EXPECT_EQ(answer.service_timeout, 24);
        EXPECT_EQ(answer.local_comm_id, handle);
        EXPECT_EQ(answer.remote_comm_id, kPeerId);
    }
    EXPECT_EQ(manager().size(), 1U);
}

CM_SCRIPT(CmPassive, ReqAgainAfterRep, "12.9", "a REQ that comes again gets the REP again") {
    const Handle handle = requested();
    accept(handle);
    const auto first = says<msg::Rep>();
    hears(req());
    EXPECT_EQ(says<msg::Rep>(), first);
    hears(rtu(handle));
    event(EventType::kEstablished);
}

CM_SCRIPT(CmPassive, ReqAgainWhenUp, "12.9",
          "a REQ that comes late, when the connection is up, means nothing") {
    const Handle handle = established_passive();
    hears(req());
    nothing();
    EXPECT_EQ(state(handle), State::kEstablished);
}

CM_SCRIPT(CmPassive, ReqAgainAfterReject, "12.9",
          "a REQ that comes again after a REJ gets the REJ again; then it is forgotten") {
    const Handle handle = requested();
    const std::vector<std::uint8_t> data(148, 0x99);
    EXPECT_EQ(
        manager().reject(handle, {.reason = kRejNoResources, .info = {}, .private_data = data}, now(), out()),
        Status::kOk);
    const auto first = says<msg::Rej>();
    EXPECT_EQ(first.reason, kRejNoResources);
    EXPECT_EQ(first.message_rejected, 0);
    EXPECT_EQ(first.local_comm_id, handle);
    EXPECT_EQ(first.remote_comm_id, kPeerId);
    EXPECT_EQ(first.private_data[147], 0x99);
    hears(req());
    EXPECT_EQ(says<msg::Rej>(), first);
    destroy(handle);
    hears(req());
    EXPECT_EQ(says<msg::Rej>(), first);
    leaves_nothing();
    hears(req());
    event(EventType::kRequest);
}

CM_SCRIPT(CmPassive, SameQpAfterReject, "12.9",
          "after a REJ the peer may use the QP for another REQ at once") {
    const Handle handle = requested();
    EXPECT_EQ(manager().reject(handle, {}, now(), out()), Status::kOk);
    says<msg::Rej>();
    hears(req(kPeerId + 1), kTid + 1);
    event(EventType::kRequest);
}

CM_SCRIPT(CmPassive, RtuAgain, "12.9", "an RTU that comes again means nothing") {
    const Handle handle = established_passive();
    hears(rtu(handle));
    nothing();
}

CM_SCRIPT(CmPassive, RtuOfUnknownId, "12.6.7.2",
          "an RTU to an ID that nobody has is rejected by reason 7: its sender takes it for established") {
    hears(rtu(0x1234));
    const auto answer = says<msg::Rej>();
    EXPECT_EQ(answer.reason, kRejInvalidCommInstance);
    EXPECT_EQ(answer.message_rejected, 2);
    EXPECT_EQ(answer.local_comm_id, 0x1234U);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
}

CM_SCRIPT(CmPassive, DataBeforeRtu, "12.9", "data before the RTU establishes; the RTU then means nothing") {
    const Handle handle = requested();
    accept(handle);
    says<msg::Rep>();
    EXPECT_EQ(manager().established(handle, now(), out()), Status::kOk);
    EXPECT_FALSE(event(EventType::kEstablished).message.has_value());
    EXPECT_EQ(manager().established(handle, now(), out()), Status::kOk);
    hears(rtu(handle));
    nothing();
    EXPECT_EQ(manager().next_event(), kNever);
}

CM_SCRIPT(CmPassive, NoService, "12.6.7.2", "a service ID that nobody listens for: reason 8") {
    hears(req());
    const auto answer = says<msg::Rej>();
    EXPECT_EQ(answer.reason, kRejInvalidServiceId);
    EXPECT_EQ(answer.local_comm_id, 0U);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
    EXPECT_EQ(answer.message_rejected, 0);
    EXPECT_EQ(last_tid(), kTid);
    EXPECT_EQ(manager().size(), 0U);
}

CM_SCRIPT(CmPassive, PeerGivesUp, "12.6.7.2",
          "REJ by time-out, which knows no ID of ours, finds its connection by the peer's ID and CA") {
    for (const bool accepted : {false, true}) {
        begin(config());
        listen();
        const Handle handle = requested();
        if (accepted) {
            accept(handle);
            says<msg::Rep>();
        }
        msg::Rej wrong = rej(0, 2, kRejTimeout);
        wrong.reject_info_length = 8;
        hears(wrong);  // of a CA with GUID 0
        no_event();
        msg::Rej right = wrong;
        for (std::size_t i = 0; i < 8; ++i) {
            right.additional_info[i] = static_cast<std::uint8_t>(kPeerGuid >> (8 * (7 - i)));
        }
        hears(right);
        EXPECT_EQ(event(EventType::kRejected).reason, kRejTimeout);
        EXPECT_EQ(state(handle), State::kClosed);
        hears(req());  // late
        nothing();
        destroy(handle);
        leaves_nothing();
    }
}

CM_SCRIPT(CmPassive, StaleReq, "12.9",
          "a REQ of a QP that is connected to us: reason 10, and the old connection gets a DREQ; then it may "
          "come again") {
    const Handle old = established_passive();
    hears(req(kPeerId + 1), kTid + 1);
    const auto rejected = says<msg::Rej>();
    EXPECT_EQ(rejected.reason, kRejStaleConnection);
    EXPECT_EQ(rejected.remote_comm_id, kPeerId + 1);
    EXPECT_EQ(rejected.message_rejected, 0);
    const auto ended = says<msg::Dreq>();
    EXPECT_EQ(ended.local_comm_id, old);
    EXPECT_EQ(ended.remote_qpn_eecn, kPeerQpn);
    hears(drep(old));
    event(EventType::kDisconnected);
    hears(req(kPeerId + 1), kTid + 1);
    EXPECT_EQ(says<msg::Rej>().reason, kRejStaleConnection);  // timewait
    after(kSecond);
    event(EventType::kTimewaitExit);
    hears(req(kPeerId + 1), kTid + 1);
    event(EventType::kRequest);
}

CM_SCRIPT(CmPassive, StaleRequests, "12.9",
          "a REQ of a QP whose earlier REQ, or REP, is still open ends that one") {
    for (const bool accepted : {false, true}) {
        begin(config());
        listen();
        const Handle old = requested();
        if (accepted) {
            accept(old);
            says<msg::Rep>();
        }
        hears(req(kPeerId + 1), kTid + 1);
        EXPECT_EQ(says<msg::Rej>().reason, kRejStaleConnection);
        const SeenEvent ended = event(EventType::kRejected);
        EXPECT_EQ(ended.handle, old);
        EXPECT_EQ(ended.reason, kRejStaleConnection);
        EXPECT_FALSE(ended.message.has_value());
        hears(req(kPeerId + 1), kTid + 1);
        event(EventType::kRequest);
    }
}

CM_SCRIPT(
    CmPassive, IdUsedAgain, "12.9",
    "a REQ with the ID of a live connection, but another QP or transaction: the peer has started over") {
    for (const auto& [qpn, tid] : {std::pair{kPeerQpn + 1, kTid}, {kPeerQpn, kTid + 1}}) {
        begin(config());
        const Handle old = established_passive();
        hears(req(kPeerId, qpn), tid);
        EXPECT_EQ(says<msg::Rej>().reason, kRejStaleConnection);
        EXPECT_EQ(says<msg::Dreq>().local_comm_id, old);
    }
}

CM_SCRIPT(CmPassive, OtherCaSameQp, "12.9", "the same QP number of another CA or address is another QP") {
    const Handle old = established_passive();
    msg::Req other = req(kPeerId + 1);
    other.local_ca_guid = kPeerGuid + 1;
    hears(other, kTid + 1);
    event(EventType::kRequest);
    ReceivedMad stranger = mad(req(kPeerId), kTid);
    stranger.src_gid[15] = 99;
    msg::Req claims = req(kPeerId);
    claims.primary.local_gid = stranger.src_gid;
    stranger.bytes = mad(claims).bytes;
    hears(stranger);
    EXPECT_EQ(event(EventType::kRequest).route.remote_gid, stranger.src_gid);
    EXPECT_EQ(state(old), State::kEstablished);
}

CM_SCRIPT(CmPassive, DestroyedInEachState, "12.9",
          "destroy() of a request, and of one whose REP went: REJ by reason 28") {
    for (const bool accepted : {false, true}) {
        begin(config());
        listen();
        const Handle handle = requested();
        if (accepted) {
            accept(handle);
            says<msg::Rep>();
        }
        destroy(handle);
        const auto first = says<msg::Rej>();
        EXPECT_EQ(first.reason, kRejConsumer);
        EXPECT_EQ(first.message_rejected, accepted ? 2 : 0);
        EXPECT_EQ(manager().half_open(), 0U);
        hears(req());
        EXPECT_EQ(says<msg::Rej>(), first);
        hears(rtu(handle));  // the peer has not heard of the end
        EXPECT_EQ(says<msg::Rej>(), first);
        leaves_nothing();
    }
}

CM_SCRIPT(CmPassive, Forgotten, "12.9", "discard(): no word to the peer, who asks again and is heard") {
    const Handle handle = requested();
    manager().discard(handle);
    nothing();
    EXPECT_EQ(manager().size(), 0U);
    hears(req());
    event(EventType::kRequest);
}

CM_SCRIPT(CmPassive, Listeners, "12.9",
          "a listener with the address goes before one without; families; who has it already") {
    ListenParams params;
    params.service_id = kPlainService;
    params.families = Families::kIpv6;
    params.owner = 1;
    EXPECT_EQ(manager().listen(params).status, Status::kOk);
    hears(req());
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidServiceId);
    EXPECT_EQ(manager().listen(params).status, Status::kInUse);
    params.families = Families::kAny;
    EXPECT_EQ(manager().listen(params).status, Status::kInUse);
    params.families = Families::kIpv4;
    params.owner = 2;
    const Manager::Listening wildcard = manager().listen(params);
    EXPECT_EQ(wildcard.status, Status::kOk);
    params.local_gid = kOurGid;
    params.owner = 3;
    const Manager::Listening own = manager().listen(params);
    EXPECT_EQ(own.status, Status::kOk);
    EXPECT_EQ(manager().listen(params).status, Status::kInUse);
    hears(req());
    EXPECT_EQ(event(EventType::kRequest).listener_owner, 3U);
    manager().unlisten(own.id);
    manager().unlisten(own.id);
    hears(req(kPeerId + 1, kPeerQpn + 1));
    EXPECT_EQ(event(EventType::kRequest).listener_owner, 2U);
    manager().unlisten(wildcard.id);
    hears(req(kPeerId + 2, kPeerQpn + 2));
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidServiceId);
    EXPECT_EQ(manager().listeners(), 1U);
}

CM_SCRIPT(CmPassive, BothAtOnce, "12.9",
          "a REQ that meets ours to the same service: as Linux, nobody listens, reason 8") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(req());
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidServiceId);
    hears(rej(handle, 0, kRejInvalidServiceId));
    EXPECT_EQ(event(EventType::kRejected).reason, kRejInvalidServiceId);
    destroy(handle);
    leaves_nothing();
}

}  // namespace
}  // namespace urnic::sim::cm
