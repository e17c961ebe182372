#include "tests/sim/cm/cm_script.h"

#include <algorithm>

#include "rnic/cm/messages.h"

namespace urnic::sim::cm {

SeenMad read_mad(const SendMad& mad) {
    SeenMad seen;
    seen.route = mad.route;
    wire::read_fields(wire::kMadTable, mad.bytes.data(), &seen.header);
    seen.message =
        msg::parse_message(seen.header.attribute_id,
                           msg::MessageBytes(mad.bytes.data() + wire::kMadHeaderBytes, msg::kMessageBytes))
            .value();
    return seen;
}

SeenEvent copy_of(const Event& event) {
    SeenEvent seen;
    seen.type = event.type;
    seen.handle = event.handle;
    seen.owner = event.owner;
    seen.listener = event.listener;
    seen.listener_owner = event.listener_owner;
    seen.reason = event.reason;
    seen.route = event.route;
    if (event.message != nullptr) {
        seen.message = *event.message;
    }
    if (event.ip != nullptr) {
        seen.ip = *event.ip;
    }
    seen.private_data.assign(event.private_data.begin(), event.private_data.end());
    return seen;
}

// --- The manager ------------------------------------------------------------------------------------------

Config CmScript::config() {
    Config config;
    config.ca_guid = kOurGuid;
    config.seed = {1, 2};
    return config;
}

void CmScript::begin(Config config) {
    nothing_left(Where::current());
    config.ca_guid = kOurGuid;
    manager_ = std::make_unique<Manager>(config);
}

// --- The owner --------------------------------------------------------------------------------------------

ListenerId CmScript::listen(std::uint64_t service, std::uint32_t backlog) {
    ListenParams params;
    params.service_id = service;
    params.backlog = backlog;
    params.owner = 7;
    params.allow_sidr = true;
    const Manager::Listening result = manager().listen(params);
    EXPECT_EQ(result.status, Status::kOk);
    return result.id;
}

ConnectParams CmScript::connect_params() {
    ConnectParams params;
    params.owner = 9;
    params.route.local_gid = kOurGid;
    params.route.remote_gid = kPeerGid;
    params.service_id = kPlainService;
    params.local_qpn = kOurQpn;
    params.starting_psn = 1000;
    params.responder_resources = 3;
    params.initiator_depth = 4;
    params.local_ack_timeout = 15;  // 134 ms
    params.response_timeout = 18;   // 1.07 s
    params.max_cm_retries = 3;
    return params;
}

AcceptParams CmScript::accept_params() {
    AcceptParams params;
    params.local_qpn = kOurQpn;
    params.starting_psn = 1000;
    params.responder_resources = 5;
    params.initiator_depth = 6;
    return params;
}

Handle CmScript::connect(const ConnectParams& params) {
    const Manager::Opened result = manager().connect(params, now_, seen_);
    EXPECT_EQ(result.status, Status::kOk);
    return result.handle;
}

void CmScript::accept(Handle handle, Where where) {
    if (manager().accept(handle, accept_params(), now_, seen_) != Status::kOk) {
        fail(where, "accept() failed");
    }
}
void CmScript::ready(Handle handle, Where where) {
    if (manager().send_rtu(handle, {}, now_, seen_) != Status::kOk) {
        fail(where, "send_rtu() failed");
    }
}
void CmScript::disconnect(Handle handle, Where where) {
    if (manager().disconnect(handle, {}, now_, seen_) != Status::kOk) {
        fail(where, "disconnect() failed");
    }
}

State CmScript::state(Handle handle) {
    const std::optional<ConnectionInfo> info = manager().info(handle);
    EXPECT_TRUE(info.has_value());
    return info ? info->state : State::kClosed;
}

// --- The peer ---------------------------------------------------------------------------------------------

msg::Req CmScript::req(std::uint32_t id, std::uint32_t qpn) {
    msg::Req req;
    req.local_comm_id = id;
    req.service_id = kPlainService;
    req.local_ca_guid = kPeerGuid;
    req.local_qpn = qpn;
    req.responder_resources = 1;
    req.initiator_depth = 2;
    req.remote_cm_response_timeout = 18;
    req.local_cm_response_timeout = 18;
    req.starting_psn = 2000;
    req.retry_count = 7;
    req.rnr_retry_count = 6;
    req.pkey = 0xffff;
    req.path_mtu = 3;
    req.max_cm_retries = 3;
    req.primary.local_lid = 0xffff;
    req.primary.remote_lid = 0xffff;
    req.primary.local_gid = kPeerGid;
    req.primary.remote_gid = kOurGid;
    req.primary.hop_limit = 64;
    req.primary.local_ack_timeout = 15;
    return req;
}

msg::Rep CmScript::rep(Handle handle) {
    msg::Rep rep;
    rep.local_comm_id = kPeerId;
    rep.remote_comm_id = handle;
    rep.local_qpn = kPeerQpn;
    rep.starting_psn = 2000;
    rep.responder_resources = 1;
    rep.initiator_depth = 2;
    rep.target_ack_delay = 10;
    rep.rnr_retry_count = 5;
    rep.local_ca_guid = kPeerGuid;
    return rep;
}

msg::Rtu CmScript::rtu(Handle handle) {
    msg::Rtu rtu;
    rtu.local_comm_id = kPeerId;
    rtu.remote_comm_id = handle;
    return rtu;
}

msg::Dreq CmScript::dreq(Handle handle) {
    msg::Dreq dreq;
    dreq.local_comm_id = kPeerId;
    dreq.remote_comm_id = handle;
    dreq.remote_qpn_eecn = kOurQpn;
    return dreq;
}

msg::Drep CmScript::drep(Handle handle) {
    msg::Drep drep;
    drep.local_comm_id = kPeerId;
    drep.remote_comm_id = handle;
    return drep;
}

msg::Rej CmScript::rej(Handle handle, std::uint8_t about, std::uint16_t reason) {
    msg::Rej rej;
    rej.local_comm_id = kPeerId;
    rej.remote_comm_id = handle;
    rej.message_rejected = about;
    rej.reason = reason;
    return rej;
}

msg::Mra CmScript::mra(Handle handle, std::uint8_t about, std::uint8_t service_timeout) {
    msg::Mra mra;
    mra.local_comm_id = kPeerId;
    mra.remote_comm_id = handle;
    mra.message_mraed = about;
    mra.service_timeout = service_timeout;
    return mra;
}

msg::SidrReq CmScript::sidr_req(std::uint32_t id) {
    msg::SidrReq req;
    req.request_id = id;
    req.pkey = 0xffff;
    req.service_id = kPlainService;
    return req;
}

msg::IpCmHeader CmScript::ip_of_peer() {
    msg::IpCmHeader ip;
    ip.ip_version = 4;
    ip.src_port = 40000;
    std::copy(kPeerGid.begin() + 12, kPeerGid.end(), ip.src_address.begin() + 12);
    std::copy(kOurGid.begin() + 12, kOurGid.end(), ip.dst_address.begin() + 12);
    return ip;
}

void CmScript::put_ip(std::span<std::uint8_t> private_data, const msg::IpCmHeader& ip) {
    wire::write_fields(msg::kIpCmHeaderTable, &ip, std::as_writable_bytes(private_data).data());
}

ReceivedMad CmScript::mad(const msg::Message& message, std::uint64_t tid) {
    ReceivedMad mad;
    mad.src_gid = kPeerGid;
    mad.dst_gid = kOurGid;
    mad.pkey = 0xffff;
    mad.src_qp = 1;
    mad.bytes = std::visit([tid](const auto& one) { return build_mad(one, tid); }, message);
    return mad;
}

void CmScript::hears(const msg::Message& message, std::uint64_t tid) { hears(mad(message, tid)); }

// --- What is seen -----------------------------------------------------------------------------------------

std::optional<SeenMad> CmScript::next_mad(Where where) {
    if (seen_.mads.empty()) {
        fail(where, "no message went out");
        return std::nullopt;
    }
    const SeenMad next = read_mad(seen_.mads.front());
    seen_.mads.pop_front();
    last_route_ = next.route;
    if (next.header.mgmt_class != wire::kMadClassCommunication || next.header.class_version != 2 ||
        next.header.method != wire::kMadSend || next.header.base_version != 1 || next.header.status != 0) {
        fail(where, "the header of the MAD is wrong");
    }
    if (next.route.local_gid != kOurGid || next.route.remote_gid != kPeerGid) {
        fail(where, "the message does not go to the peer");
    }
    return next;
}

void CmScript::says_nothing(Where where) {
    if (!seen_.mads.empty()) {
        fail(where, "a message went out: attribute " +
                        std::to_string(read_mad(seen_.mads.front()).header.attribute_id));
        seen_.mads.clear();
    }
}

SeenEvent CmScript::event(EventType type, Where where) {
    if (seen_.events.empty()) {
        fail(where, "there was no event");
        return {};
    }
    SeenEvent event = seen_.events.front();
    seen_.events.pop_front();
    if (event.type != type) {
        fail(where, "the event is of type " + std::to_string(static_cast<int>(event.type)));
    }
    return event;
}

void CmScript::no_event(Where where) {
    if (!seen_.events.empty()) {
        fail(where,
             "there was an event of type " + std::to_string(static_cast<int>(seen_.events.front().type)));
        seen_.events.clear();
    }
}

void CmScript::nothing_left(Where where) { nothing(where); }

void CmScript::after(TimeNs duration) {
    const TimeNs end = now_ + duration;
    while (manager().next_event() <= end) {
        now_ = std::max(now_, manager().next_event());
        manager().advance(now_, seen_);
    }
    now_ = end;
}

void CmScript::due_in(TimeNs duration, Where where) {
    nothing(where);
    if (manager().next_event() != now_ + duration) {
        fail(where, "something is due in " + std::to_string(manager().next_event() - now_) + " ns, not in " +
                        std::to_string(duration));
    }
    manager().advance(now_ + duration - 1, seen_);
    nothing(where);
    now_ += duration;
    manager().advance(now_, seen_);
}

void CmScript::leaves_nothing(Where where) {
    after(3600 * kSecond);
    nothing(where);
    if (manager().size() != 0 || manager().half_open() != 0 || manager().next_event() != kNever) {
        fail(where, std::to_string(manager().size()) + " records are left, " +
                        std::to_string(manager().half_open()) + " half open");
    }
}

// --- Shortcuts --------------------------------------------------------------------------------------------

Handle CmScript::requested() {
    if (manager().listeners() == 0) {
        listen();
    }
    hears(req());
    return event(EventType::kRequest).handle;
}

Handle CmScript::established_passive() {
    const Handle handle = requested();
    accept(handle);
    says<msg::Rep>();
    hears(rtu(handle));
    event(EventType::kEstablished);
    return handle;
}

Handle CmScript::established_active() {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
    ready(handle);
    says<msg::Rtu>();
    return handle;
}

}  // namespace urnic::sim::cm
