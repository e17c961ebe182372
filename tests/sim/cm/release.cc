// The end of a connection: DREQ, DREP, timewait, and REJ of what was up (IBA 12.6.10, 12.6.11, 12.9).
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

constexpr TimeNs kWait = (TimeNs{4096} << 18U) + (TimeNs{4096} << 15U);
constexpr TimeNs kTimewait = TimeNs{4096}
                             << 16U;  // the ACK timeout 15 of the connection, and the peer's delay
constexpr TimeNs kPassiveTimewait = TimeNs{4096} << 15U;

CM_SCRIPT(CmRelease, WeBegin, "12.6.10",
          "DREQ names the peer's QP; DREP: the owner hears, and again when timewait ends") {
    const Handle handle = established_active();
    const std::vector<std::uint8_t> data(220, 0x61);
    EXPECT_EQ(manager().disconnect(handle, data, now(), out()), Status::kOk);
    const auto sent = says<msg::Dreq>();
    EXPECT_EQ(sent.local_comm_id, handle);
    EXPECT_EQ(sent.remote_comm_id, kPeerId);
    EXPECT_EQ(sent.remote_qpn_eecn, kPeerQpn);
    EXPECT_EQ(sent.private_data[219], 0x61);
    hears(drep(handle), last_tid());
    EXPECT_EQ(event(EventType::kDisconnected).owner, 9U);
    EXPECT_EQ(state(handle), State::kTimewait);
    hears(drep(handle));
    nothing();
    due_in(TimeNs{4096} << 15U);
    EXPECT_EQ(event(EventType::kTimewaitExit).handle, handle);
    EXPECT_EQ(state(handle), State::kClosed);
    destroy(handle);
    leaves_nothing();
}

CM_SCRIPT(CmRelease, PeerBegins, "12.6.11",
          "DREQ: the owner hears, its disconnect() is the DREP with the DREQ's transaction") {
    const Handle handle = established_passive();
    msg::Dreq request = dreq(handle);
    request.private_data.fill(0x62);
    hears(request, 0xabc);
    EXPECT_EQ(event(EventType::kDisconnectRequest).private_data, std::vector<std::uint8_t>(220, 0x62));
    hears(request, 0xabc);
    nothing();
    const std::vector<std::uint8_t> data(224, 0x63);
    EXPECT_EQ(manager().disconnect(handle, data, now(), out()), Status::kOk);
    const auto first = says<msg::Drep>();
    EXPECT_EQ(first.local_comm_id, handle);
    EXPECT_EQ(first.remote_comm_id, kPeerId);
    EXPECT_EQ(first.private_data[223], 0x63);
    EXPECT_EQ(last_tid(), 0xabcU);
    EXPECT_EQ(manager().disconnect(handle, {}, now(), out()), Status::kWrongState);
    due_in(kPassiveTimewait);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmRelease, DreqInTimewait, "12.9",
          "a DREQ that comes again in timewait gets the DREP again, whoever began") {
    const Handle handle = established_passive();
    hears(dreq(handle));
    event(EventType::kDisconnectRequest);
    disconnect(handle);
    const auto first = says<msg::Drep>();
    hears(dreq(handle));
    EXPECT_EQ(says<msg::Drep>(), first);
    destroy(handle);
    hears(dreq(handle));
    EXPECT_EQ(says<msg::Drep>(), first);
    leaves_nothing();

    begin(config());
    const Handle ours = established_active();
    disconnect(ours);
    says<msg::Dreq>();
    hears(drep(ours));
    event(EventType::kDisconnected);
    hears(dreq(ours), 0xdef);
    EXPECT_EQ(says<msg::Drep>().local_comm_id, ours);
    EXPECT_EQ(last_tid(), 0xdefU);
}

CM_SCRIPT(CmRelease, ReqInTimewait, "12.9",
          "the REQ of a connection in timewait that comes again: reason 10, and no request") {
    const Handle handle = established_passive();
    hears(dreq(handle));
    event(EventType::kDisconnectRequest);
    disconnect(handle);
    says<msg::Drep>();
    hears(req());
    EXPECT_EQ(says<msg::Rej>().reason, kRejStaleConnection);
    nothing();
    EXPECT_EQ(state(handle), State::kTimewait);
}

CM_SCRIPT(CmRelease, BothAtOnce, "12.9", "DREQs that cross: each side answers, the owner hears once") {
    const Handle handle = established_active();
    disconnect(handle);
    says<msg::Dreq>();
    hears(dreq(handle), 0x55);
    EXPECT_EQ(says<msg::Drep>().remote_comm_id, kPeerId);
    EXPECT_EQ(last_tid(), 0x55U);
    EXPECT_TRUE(std::holds_alternative<msg::Dreq>(*event(EventType::kDisconnected).message));
    EXPECT_EQ(state(handle), State::kTimewait);
    hears(drep(handle));
    nothing();
    due_in(kTimewait / 2);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmRelease, NobodyAnswers, "12.9",
          "a DREQ goes again max_cm_retries times; the connection ends all the same") {
    const Handle handle = established_active();
    disconnect(handle);
    const auto first = says<msg::Dreq>();
    for (int i = 0; i < 3; ++i) {
        due_in(kWait);
        EXPECT_EQ(says<msg::Dreq>(), first);
    }
    due_in(kWait);
    event(EventType::kDisconnectTimeout);
    EXPECT_EQ(state(handle), State::kTimewait);
    due_in(TimeNs{4096} << 15U);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmRelease, UnknownConnection, "12.9",
          "a DREQ for a connection that nobody knows gets a DREP of its IDs") {
    msg::Dreq request = dreq(0x777);
    hears(request, 0x99);
    const auto answer = says<msg::Drep>();
    EXPECT_EQ(answer.local_comm_id, 0x777U);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
    EXPECT_EQ(last_tid(), 0x99U);
}

CM_SCRIPT(CmRelease, OtherQp, "12.6.10",
          "a DREQ that names another QP than ours does nothing and gets nothing") {
    const Handle handle = established_passive();
    msg::Dreq request = dreq(handle);
    request.remote_qpn_eecn = kOurQpn + 1;
    hears(request);
    nothing();
    EXPECT_EQ(state(handle), State::kEstablished);
}

CM_SCRIPT(CmRelease, DreqBeforeRtu, "12.9",
          "a DREQ that overtakes the RTU ends the connection; the RTU means nothing") {
    const Handle handle = requested();
    accept(handle);
    says<msg::Rep>();
    hears(dreq(handle));
    event(EventType::kDisconnectRequest);
    hears(rtu(handle));
    nothing();
    disconnect(handle);
    says<msg::Drep>();
    EXPECT_EQ(manager().half_open(), 0U);
}

CM_SCRIPT(CmRelease, Destroyed, "12.9",
          "destroy() when up sends a DREQ, which goes again; the owner hears nothing more") {
    const Handle handle = established_active();
    destroy(handle);
    EXPECT_EQ(says<msg::Dreq>().local_comm_id, handle);
    EXPECT_FALSE(manager().info(handle).has_value());
    EXPECT_EQ(manager().disconnect(handle, {}, now(), out()), Status::kUnknownHandle);
    due_in(kWait);
    says<msg::Dreq>();
    hears(drep(handle));
    leaves_nothing();
}

CM_SCRIPT(CmRelease, DestroyedAtDreq, "12.9", "destroy() after a DREQ sends the DREP") {
    const Handle handle = established_passive();
    hears(dreq(handle));
    event(EventType::kDisconnectRequest);
    destroy(handle);
    says<msg::Drep>();
    leaves_nothing();
}

CM_SCRIPT(CmRelease, DestroyedWaiting, "12.9",
          "destroy() while a DREQ waits, or in timewait, keeps the ID until its end") {
    const Handle handle = established_active();
    disconnect(handle);
    says<msg::Dreq>();
    destroy(handle);
    hears(drep(handle));
    nothing();
    destroy(handle);
    EXPECT_EQ(manager().size(), 1U);
    due_in(TimeNs{4096} << 15U);
    nothing();
    EXPECT_EQ(manager().size(), 0U);
}

CM_SCRIPT(CmRelease, RejWhenUp, "12.6.7",
          "a REJ that crosses our RTU ends the connection: the owner hears of the REJ, once") {
    const Handle handle = established_active();
    hears(rej(handle, 1, kRejConsumer));
    EXPECT_EQ(event(EventType::kRejected).reason, kRejConsumer);
    EXPECT_EQ(state(handle), State::kTimewait);
    hears(rej(handle, 1, kRejConsumer));
    hears(rep(handle));
    nothing();
    after(kSecond);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmRelease, RejOfDreq, "12.6.7", "a REJ while our DREQ waits counts as its answer") {
    const Handle handle = established_active();
    disconnect(handle);
    says<msg::Dreq>();
    hears(rej(handle, 2, kRejInvalidCommInstance));
    event(EventType::kDisconnected);
    after(kSecond);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmRelease, LapIsRefused, "12.8.1, 12.8.2",
          "LAP: APR 2 (not supported), 1 for no connection, 6 for another QP; never an event") {
    const Handle handle = established_passive();
    msg::Lap lap;
    lap.local_comm_id = kPeerId;
    lap.remote_comm_id = handle;
    lap.remote_qpn_eecn = kOurQpn;
    hears(lap, 0x44);
    auto answer = says<msg::Apr>();
    EXPECT_EQ(answer.ap_status, 2);
    EXPECT_EQ(answer.local_comm_id, handle);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
    EXPECT_EQ(last_tid(), 0x44U);
    lap.remote_qpn_eecn = kOurQpn + 1;
    hears(lap);
    EXPECT_EQ(says<msg::Apr>().ap_status, 6);
    lap.remote_comm_id = handle + 1;
    hears(lap);
    EXPECT_EQ(says<msg::Apr>().ap_status, 1);
    msg::Apr unasked;
    unasked.local_comm_id = kPeerId;
    unasked.remote_comm_id = handle;
    hears(unasked);
    nothing();
    EXPECT_EQ(state(handle), State::kEstablished);
}

}  // namespace
}  // namespace urnic::sim::cm
