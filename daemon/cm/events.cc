// What happens to ids, and how their applications hear of it.
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>

#include "daemon/cm/attributes.h"
#include "daemon/cm/client.h"
#include "daemon/cm/infiniband.h"
#include "os/secure_random.h"
#include "rnic/cm/checks.h"

namespace urnic::daemon {

namespace {

template <std::size_t N>
void copy_private_data(std::span<const std::uint8_t> data, __u8 (&to)[N], __u8& length) {
    length = static_cast<__u8>(std::min(data.size(), std::min<std::size_t>(N, 255)));
    std::copy_n(data.begin(), length, std::begin(to));
}

/// The peer's wishes are named from its side, the event's from ours.
void describe_request(const wire::cm::Req& req, rdma_ucm_conn_param& param) {
    param.qp_num = req.local_qpn;
    param.srq = req.srq ? 1 : 0;
    param.responder_resources = req.initiator_depth;
    param.initiator_depth = req.responder_resources;
    param.flow_control = req.end_to_end_flow_control ? 1 : 0;
    param.retry_count = req.retry_count;
    param.rnr_retry_count = req.rnr_retry_count;
}

void describe_reply(const wire::cm::Rep& rep, rdma_ucm_conn_param& param) {
    param.qp_num = rep.local_qpn;
    param.srq = rep.srq ? 1 : 0;
    param.responder_resources = rep.initiator_depth;
    param.initiator_depth = rep.responder_resources;
    param.flow_control = rep.end_to_end_flow_control ? 1 : 0;
    param.rnr_retry_count = rep.rnr_retry_count;
}

/// The event's type and status; nullopt: the application does not hear of it.
struct Meaning {
    std::uint32_t type = 0;
    std::uint32_t status = 0;
};

Meaning meaning_of(const cm::Event& event) {
    switch (event.type) {
        case cm::EventType::kReply:
            return {kConnectResponse};
        case cm::EventType::kEstablished:
            return {kEstablished};
        case cm::EventType::kRejected:
            return {kRejected, event.reason};
        case cm::EventType::kUnreachable:
        case cm::EventType::kSidrUnreachable:
            return {kUnreachable, event_status(ETIMEDOUT)};
        case cm::EventType::kDisconnectTimeout:
            return {kDisconnected, event_status(ETIMEDOUT)};
        case cm::EventType::kTimewaitExit:
            return {kTimewaitExit};
        case cm::EventType::kSidrReply: {
            const auto* rep = event.as<wire::cm::SidrRep>();
            const bool is_good = rep != nullptr && rep->status == cm::kSidrValid;
            return {is_good ? kEstablished : kUnreachable, rep == nullptr ? 0U : rep->status};
        }
        case cm::EventType::kDisconnectRequest:
        case cm::EventType::kDisconnected:
        case cm::EventType::kRequest:
        case cm::EventType::kSidrRequest:
            break;
    }
    return {kDisconnected};
}

/// Of a request's id, which has its GIDs.
void set_request_addresses(CmId& id, const CmId& listener, const cm::Event& event) {
    id.local_ip = id.local_gid;
    id.remote_ip = id.remote_gid;
    if (event.ip == nullptr) {  // of AF_IB
        id.local.at = listener.local.at;
        id.local.at.gid = id.local_gid;
        id.local.at.ib.pkey = event.route.pkey;
        id.local.at.ib.flow_info = event.route.flow_label;
        id.remote.family = AF_IB;
        id.remote.gid = id.remote_gid;
        id.remote.ib.pkey = event.route.pkey;
        id.remote.ib.flow_info = event.route.flow_label;
        return;
    }
    if (id.device->device->is_infiniband()) {
        id.local_ip = cm::full_address(*event.ip, event.ip->dst_address);
        id.remote_ip = cm::full_address(*event.ip, event.ip->src_address);
    }
    id.local.at = endpoint_of(id.local_ip, listener.local.at.port);
    id.remote = endpoint_of(id.remote_ip, event.ip->src_port);
}

/// Returns whether librdmacm asks for the id's route or its QP's attributes after such an event.
bool precedes_questions(std::uint32_t type) {
    return type == kAddrResolved || type == kRouteResolved || type == kConnectRequest ||
           type == kConnectResponse;
}

}  // namespace

void CmClient::raise(CmId& id, std::uint32_t type, int status) {
    CmEvent event;
    event.id = &id;
    event.body.uid = id.uid;
    event.body.id = id.handle;
    event.body.event = type;
    event.body.status = event_status(status);
    id.channel->push(event);
}

void CmClient::on_event(CmId& id, const cm::Event& event) {
    // As in Linux: an application that has not accepted yet hears of the end when it tries to.
    if (id.uid == 0) {
        return;
    }
    const Meaning meaning = meaning_of(event);
    if (meaning.type == kDisconnected) {
        if (id.state != CmId::State::kConnecting) {
            return;
        }
        id.state = CmId::State::kDisconnected;
    }
    CmEvent told;
    told.id = &id;
    told.body.uid = id.uid;
    told.body.id = id.handle;
    told.body.event = meaning.type;
    told.body.status = meaning.status;
    if (event.type == cm::EventType::kSidrReply) {
        const auto* rep = event.as<wire::cm::SidrRep>();
        rdma_ucm_ud_param& ud = told.body.param.ud;
        if (rep != nullptr && rep->status == cm::kSidrValid) {
            ud.qp_num = rep->qpn;
            ud.qkey = rep->qkey;
            ud.ah_attr = address_attributes(id);
        }
        copy_private_data(event.private_data, ud.private_data, ud.private_data_len);
    } else if (event.type == cm::EventType::kReply || event.type == cm::EventType::kRejected) {
        rdma_ucm_conn_param& conn = told.body.param.conn;
        if (const auto* rep = event.as<wire::cm::Rep>(); rep != nullptr) {
            describe_reply(*rep, conn);
        }
        copy_private_data(event.private_data, conn.private_data, conn.private_data_len);
    }
    try {
        id.channel->push(told);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): lost, as in Linux
    }
}

CmId* CmClient::on_request(CmId& listener, RnicState& device, const cm::Event& event) {
    // Who does not speak the IP CM service has no place in an IP address's port space.
    if (is_ending_ || (event.ip == nullptr) != listener.local.at.is_ib() ||
        ids_.size() >= service_.control().limits.max_cm_ids || !user_.has_room(Resource::kCmIds)) {
        return nullptr;
    }
    const auto& gids = device.device->gids;
    const auto* gid = std::find(gids.begin(), gids.end(), event.route.local_gid);
    if (gid == gids.end()) {
        return nullptr;
    }
    CmId* made = nullptr;
    try {
        made = &add_id(*listener.channel);
        CmEvent told;
        told.id = &listener;
        told.child = made;
        told.body.uid = listener.uid;
        told.body.id = made->handle;
        told.body.event = kConnectRequest;
        if (const auto* req = event.as<wire::cm::Req>(); req != nullptr) {
            describe_request(*req, told.body.param.conn);
            copy_private_data(event.private_data, told.body.param.conn.private_data,
                              told.body.param.conn.private_data_len);
        } else {
            copy_private_data(event.private_data, told.body.param.ud.private_data,
                              told.body.param.ud.private_data_len);
        }
        listener.channel->push(told);
    } catch (const std::bad_alloc&) {
        if (made != nullptr) {
            --listener.channel->num_ids;
            ids_.remove(made->handle);
        }
        return nullptr;
    }
    made->is_hidden = made->is_passive = true;
    made->space = listener.space;
    made->qp_type = listener.qp_type;
    made->state = CmId::State::kConnecting;
    // The listener's own options are not its requests', as on Linux.
    if (const auto* req = event.as<wire::cm::Req>(); req != nullptr) {
        made->tos = req->primary.traffic_class;
    }
    made->device = &device;
    made->gid_index = static_cast<std::uint8_t>(std::distance(gids.begin(), gid));
    made->pkey_index = device.device->pkeys.index_of(event.route.pkey).value_or(0);
    made->local_gid = event.route.local_gid;
    made->remote_gid = event.route.remote_gid;
    set_request_addresses(*made, listener, event);
    made->has_route = true;
    made->connection = event.handle;
    made->starting_psn = secure_random() & 0xff'ffffU;
    if (device.device->is_infiniband()) {
        made->path = path_of_request(device, event);
        return made;
    }
    // From now on the neighbour is looked for; without it the answer may be lost once.
    NeighbourResolver::ResolvedPath path;
    if (device.device->neighbours->acquire(made->local_gid, device.device->gid_vlans.at(made->gid_index),
                                           made->remote_gid, path) == 0) {
        made->has_way = true;
        made->neighbour = path.neighbour;
    }
    return made;
}

int CmClient::get_event(const rdma_ucm_get_event& /*command*/, Call& call) {
    if (call.channel.empty()) {
        return EAGAIN;
    }
    const CmEvent& event = call.channel.front();
    // Programs of before ECE have no room for it.
    if (const int error = call.answer(event.body, offsetof(rdma_ucm_event_resp, reserved)); error != 0) {
        return error;
    }
    ++event.id->events_reported;
    if (event.group != nullptr) {
        ++event.group->events_reported;
    }
    if (CmId* child = event.child; child != nullptr) {
        child->is_hidden = false;
        service_.use(*child->device, [&](cm::Manager& manager, TimeNs /*now*/, cm::Outbox& /*out*/) {
            manager.dequeue(child->connection);
        });
    }
    if (precedes_questions(event.body.event)) {
        call.snapshot = snapshot_of(service_, event.child != nullptr ? *event.child : *event.id);
    }
    call.channel.pop();
    return 0;
}

}  // namespace urnic::daemon
