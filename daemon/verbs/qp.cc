// Queue pairs of a client.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/check.h"
#include "daemon/neighbour/address_vector.h"
#include "daemon/verbs/batch.h"
#include "daemon/verbs/client_state.h"
#include "daemon/verbs/make_qp.h"
#include "daemon/verbs/mcast.h"
#include "daemon/verbs/operations.h"
#include "daemon/verbs/qp.h"
#include "daemon/verbs/xrc.h"
#include "os/rollback.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kKnownAttributes =
    kQpAttrState | kQpAttrCurState | kQpAttrEnSqdAsyncNotify | kQpAttrAccessFlags | kQpAttrPkeyIndex |
    kQpAttrPort | kQpAttrQkey | kQpAttrAv | kQpAttrPathMtu | kQpAttrTimeout | kQpAttrRetryCnt |
    kQpAttrRnrRetry | kQpAttrRqPsn | kQpAttrMaxQpRdAtomic | kQpAttrAltPath | kQpAttrMinRnrTimer |
    kQpAttrSqPsn | kQpAttrMaxDestRdAtomic | kQpAttrPathMigState | kQpAttrCap | kQpAttrDestQpn |
    kQpAttrRateLimit;

/// Only the privileged set such a Q_Key.
constexpr std::uint32_t kControlledQkey = 1U << 31U;

/// Of QPs that end with their client, so many have their turn at the worker before others have.
constexpr std::uint32_t kUnsentQpsPerCall = 16;

/// Sizes of a QP's rings and where they lie in its memory.
struct QpLayout {
    std::uint32_t sq_entries, sq_stride, rq_entries, rq_stride;
    std::uint32_t max_send_sge, max_recv_sge, max_inline;
    std::uint64_t rq_offset, bytes;
};

std::uint32_t ring_entries(std::uint32_t wanted) { return wanted == 0 ? 0 : std::bit_ceil(wanted); }

bool is_offered(QpType type) {
    return type == QpType::kRc || type == QpType::kUc || type == QpType::kUd || type == QpType::kXrcSend;
}

int check_kind_and_size(const abi::CreateQpRequest& request, const abi::DeviceCaps& caps) {
    if (!is_offered(static_cast<QpType>(request.type)) ||
        (request.create_flags & ~kQpBlockSelfMcastLb) != 0) {
        return EOPNOTSUPP;
    }
    const bool fits = request.max_send_wr <= caps.max_qp_wr && request.max_recv_wr <= caps.max_qp_wr &&
                      request.max_send_sge <= caps.max_sge && request.max_recv_sge <= caps.max_sge &&
                      request.max_inline <= caps.max_inline;
    return fits ? 0 : EINVAL;
}

/// What fits into the slots is given: a slot has room for more SGEs when it must hold inline data, and back.
QpLayout lay_out(const abi::CreateQpRequest& request) {
    QpLayout layout{};
    layout.sq_entries = ring_entries(request.max_send_wr);
    const bool receives = request.srq == 0 && static_cast<QpType>(request.type) != QpType::kXrcSend;
    layout.rq_entries = receives ? ring_entries(request.max_recv_wr) : 0;
    layout.sq_stride = abi::send_stride(std::max(request.max_send_sge, 1U), request.max_inline);
    layout.rq_stride = abi::recv_stride(std::max(request.max_recv_sge, 1U));
    const auto send_room = static_cast<std::uint32_t>(layout.sq_stride - sizeof(abi::SendWqe));
    const auto recv_room = static_cast<std::uint32_t>(layout.rq_stride - sizeof(abi::RecvWqe));
    layout.max_send_sge = std::min<std::uint32_t>(send_room / sizeof(abi::Sge), abi::kMaxSge);
    layout.max_recv_sge = std::min<std::uint32_t>(recv_room / sizeof(abi::Sge), abi::kMaxSge);
    layout.max_inline = std::min(send_room, abi::kMaxInlineBytes);
    layout.rq_offset = std::uint64_t{layout.sq_entries} * layout.sq_stride;
    layout.bytes = layout.rq_offset + std::uint64_t{layout.rq_entries} * layout.rq_stride;
    // Never empty: the provider maps it whatever its size.
    layout.bytes = abi::round_up(std::max<std::uint64_t>(layout.bytes, 1), 4096);
    return layout;
}

/// What the request and the rings say of a QP's configuration.
QpConfig config_of(const abi::CreateQpRequest& request, const QpLayout& layout, std::byte* memory) {
    QpConfig config;
    config.sq_sig_all = request.sq_sig_all != 0;
    config.sq =
        SendQueue(memory, layout.sq_entries, layout.sq_stride, layout.max_send_sge, layout.max_inline);
    config.rq =
        RecvQueue(memory + layout.rq_offset, layout.rq_entries, layout.rq_stride, layout.max_recv_sge);
    return config;
}

/// The device's part of it.
void use_device(dataplane::Device& device, std::uint32_t worker, QpConfig& config) {
    config.keys = &device.keys;
    config.handles = &device.handles;
    config.pkeys = &device.pkeys;
    config.is_infiniband = device.is_infiniband();
    config.nak_failed_invalidation = device.nak_failed_invalidation;
    config.sends_mig_req = device.sends_mig_req;
    config.acks_each_request = device.acks_each_request;
    config.timer_tick_ns = device.timer_tick_ns;
    config.port_mtu_bytes = device.mtu_bytes;
    config.counters = &device.counters[worker];
    config.histograms = device.message_histograms.empty() ? nullptr : &device.message_histograms[worker];
}

/// The rings' part of the answer.
abi::CreateQpReply describe(const QpLayout& layout) {
    abi::CreateQpReply body{};
    body.sq_entries = layout.sq_entries;
    body.sq_stride = layout.sq_stride;
    body.rq_entries = layout.rq_entries;
    body.rq_stride = layout.rq_stride;
    body.max_send_sge = layout.max_send_sge;
    body.max_recv_sge = layout.max_recv_sge;
    body.max_inline = layout.max_inline;
    body.rq_offset = layout.rq_offset;
    body.memory_bytes = layout.bytes;
    return body;
}

/// Attributes that have one valid value here, or few; the transition table is the QP's own.
bool is_valid_attribute_set(const abi::QpAttr& attr, const dataplane::Device& device) {
    return (attr.mask & ~kKnownAttributes) == 0 && ((attr.mask & kQpAttrPort) == 0 || attr.port_num == 1) &&
           ((attr.mask & kQpAttrPkeyIndex) == 0 || device.pkeys.has(attr.pkey_index)) &&
           ((attr.mask & kQpAttrPathMtu) == 0 ||
            (attr.path_mtu >= 1 && attr.path_mtu <= 5 && mtu_bytes(attr.path_mtu) <= device.mtu_bytes));
}

/// The objects that a QP is made from.
struct QpParts {
    PdObject* pd = nullptr;
    CqObject* send_cq = nullptr;
    CqObject* recv_cq = nullptr;
    SrqObject* srq = nullptr;
};

/// 0; ENOENT or EINVAL for handles that are not there or do not belong together.
int find_parts(const ClientState& client, const abi::CreateQpRequest& request, QpParts& parts) {
    parts.pd = client.pds.find(request.pd);
    parts.send_cq = client.cqs.find(request.send_cq);
    parts.recv_cq = client.cqs.find(request.recv_cq);
    parts.srq = client.srqs.find(request.srq);
    const bool is_initiator = static_cast<QpType>(request.type) == QpType::kXrcSend;
    if (is_initiator) {
        parts.recv_cq = nullptr;  // nothing would complete there
    }
    if (parts.pd == nullptr || parts.send_cq == nullptr || (parts.recv_cq == nullptr && !is_initiator) ||
        (request.srq != 0 && parts.srq == nullptr)) {
        return ENOENT;
    }
    const ContextObject* context = parts.pd->context;
    const bool one_context = parts.send_cq->context == context &&
                             (parts.recv_cq == nullptr || parts.recv_cq->context == context) &&
                             (parts.srq == nullptr || parts.srq->pd->context == context);
    // Target QPs alone take receives of XRC SRQs, by the number in the packet.
    const bool srq_fits = parts.srq == nullptr || (parts.srq->xrcd == nullptr && !is_initiator);
    return one_context && srq_fits ? 0 : EINVAL;
}

void use_parts(const QpParts& parts, QpObject& qp, QpConfig& config) {
    qp.pd = parts.pd;
    qp.send_cq = parts.send_cq;
    qp.recv_cq = parts.recv_cq;
    qp.srq = parts.srq;
    config.pd = parts.pd->number;
    config.send_cq = parts.send_cq->cq.get();
    config.recv_cq = parts.recv_cq != nullptr ? parts.recv_cq->cq.get() : nullptr;
    config.srq = parts.srq != nullptr ? parts.srq->srq.get() : nullptr;
}

/// Counts the QP and hands it to its worker.
void publish_qp(ClientState& client, QpObject& qp, dataplane::QpTablePages& room) {
    ++qp.pd->users;
    ++qp.send_cq->users;
    if (qp.recv_cq != nullptr) {
        ++qp.recv_cq->users;
    }
    if (qp.srq != nullptr) {
        ++qp.srq->users;
    }
    ++qp.pd->context->device->num_qps;
    ++client.control.worker_qps[qp.worker];
    dataplane::Worker& worker = *client.control.workers[qp.worker];
    worker.call([&] { worker.add_qp(qp.slot, room); });
}

dataplane::QpSlot* find_qp(const ClientState& client, std::uint32_t handle, dataplane::Worker*& worker) {
    if (QpObject* qp = client.qps.find(handle); qp != nullptr) {
        worker = client.control.workers[qp->worker].get();
        return &qp->slot;
    }
    if (const XrcTargetObject* target = client.xrc_targets.find(handle); target != nullptr) {
        worker = client.control.workers[target->xrcd->domain->worker].get();
        return &target->target->slot;
    }
    return nullptr;
}

/// The fixed part of a connected QP's packets. Errors as resolve_address().
int resolve_path(const dataplane::QpSlot& qp, dataplane::Worker& worker, const abi::QpAttr& attr,
                 wire::Path& path) {
    wire::Gid destination{};
    std::copy(std::begin(attr.av.dgid), std::end(attr.av.dgid), destination.begin());
    if (attr.av.is_global != 0 && wire::is_multicast(destination)) {  // a connection has one peer
        return EINVAL;
    }
    wire::PathSpec spec;
    if (const int error = resolve_address(*qp.device, attr.av, spec); error != 0) {
        return error;
    }
    std::uint32_t dest_qp_num = attr.dest_qp_num;
    if ((attr.mask & kQpAttrDestQpn) == 0) {
        // Another address vector of the same connection: its packets stay on their way through the network.
        abi::QpAttr current{};
        worker.call([&] { qp.qp->query(current); });
        dest_qp_num = current.dest_qp_num;
    }
    spec.udp_src_port =
        wire::udp_source_port(qp.device->source_port_rule, attr.av.flow_label, qp.qp->qp_num(), dest_qp_num);
    if (dataplane::has_congestion_control(*qp.device) && qp.qp->config().congestion != nullptr) {
        spec.traffic_class = static_cast<std::uint8_t>((spec.traffic_class & ~wire::kEcnMask) | wire::kEct0);
    }
    path = wire::make_path(spec);
    return 0;
}

/// The QP's worker does not know it any more.
void forget_qp(ClientState& client, QpObject& qp) {
    RnicState& device = *qp.pd->context->device;
    device.qp_numbers.free(qp.slot.qp->qp_num());
    device.device->neighbours->release(qp.slot.neighbour);
    client.doorbell_slots[qp.worker].free(qp.slot.doorbell_slot);
    qp.slot.qp.reset();
    client.rings->release(qp.memory);
    --client.control.worker_qps[qp.worker];
    --device.num_qps;
    --qp.send_cq->users;
    if (qp.recv_cq != nullptr) {
        --qp.recv_cq->users;
    }
    if (qp.srq != nullptr) {
        --qp.srq->users;
    }
    --qp.pd->users;
}

/// Whether no limit is reached: the client's, its user's, the device's.
bool has_room_for_qp(const ClientState& client, const RnicState& device) {
    return client.qps.size() + client.xrc_targets.size() < client.control.limits.max_qps &&
           device.num_qps < device.device->caps.max_qp && client.user.has_room(Resource::kQps);
}

int create_qp(ClientState& client, const abi::CreateQpRequest& request, Reply& reply) {
    if (static_cast<QpType>(request.type) == QpType::kXrcRecv) {
        return create_xrc_target(client, request, reply);
    }
    QpParts parts;
    if (const int error = find_parts(client, request, parts); error != 0) {
        return error;
    }
    RnicState& device = *parts.pd->context->device;
    if (const int error = check_kind_and_size(request, device.device->caps); error != 0) {
        return error;
    }
    if (!has_room_for_qp(client, device)) {
        return ENOMEM;
    }
    const QpLayout layout = lay_out(request);
    const std::uint32_t w = parts.srq != nullptr ? parts.srq->worker : client.control.least_loaded_worker();
    const auto doorbell_slot = client.doorbell_slots[w].allocate();
    if (!doorbell_slot) {
        return ENOMEM;
    }
    Rollback free_slot([&] { client.doorbell_slots[w].free(*doorbell_slot); });
    const auto qp_num = device.qp_numbers.allocate(w);
    if (!qp_num) {
        return ENOMEM;
    }
    Rollback free_number([&] { device.qp_numbers.free(*qp_num); });
    RingPiece memory;
    if (const int error = allocate_rings(client, layout.bytes, memory); error != 0) {
        return error;
    }
    Rollback free_rings([&] { client.rings->release(memory); });

    QpConfig config = config_of(request, layout, client.rings->at(memory));
    config.qp_num = *qp_num;
    use_device(*device.device, w, config);
    config.reorder_buffers =
        device.device->use_go_back_n ? nullptr : &client.control.workers[w]->reorder_buffers();
    auto made = std::make_unique<QpObject>();
    QpObject& qp = *made;
    qp.type = static_cast<QpType>(request.type);
    if (qp.type != QpType::kUd) {
        dataplane::use_congestion(*device.device, w, config);
    }
    use_parts(parts, qp, config);
    qp.memory = memory;
    qp.worker = w;
    qp.slot.qp = make_qp(qp.type, config);
    URNIC_CHECK(qp.slot.qp != nullptr);
    qp.slot.device = device.device;
    qp.slot.async = parts.pd->context->events();
    qp.slot.user_handle = request.user_handle;
    qp.slot.block_self_multicast_loopback = (request.create_flags & kQpBlockSelfMcastLb) != 0;
    qp.slot.client = client.on_worker[w].get();
    qp.slot.doorbell_slot = *doorbell_slot;
    dataplane::QpTablePages room;
    abi::CreateQpReply body = describe(layout);
    body.handle = client.qps.add(std::move(made));
    // Nothing fails from here on.
    free_slot.keep();
    free_number.keep();
    free_rings.keep();
    publish_qp(client, qp, room);

    body.qp_num = *qp_num;
    body.worker = w;
    body.doorbell_slot = *doorbell_slot;
    body.memory_offset = memory.offset;
    reply.set(body);
    reply.fds = {client.rings->fd()};
    return 0;
}

int modify_qp(ClientState& client, const abi::ModifyQpRequest& request, Reply& /*reply*/) {
    return change_qp(client, request);
}

int query_qp(ClientState& client, const abi::HandleRequest& request, Reply& reply) {
    dataplane::Worker* worker = nullptr;
    const dataplane::QpSlot* qp = find_qp(client, request.handle, worker);
    if (qp == nullptr) {
        return ENOENT;
    }
    abi::QueryQpReply body{};
    worker->call([&] { qp->qp->query(body.attr); });
    reply.set(body);
    return 0;
}

int destroy_qp(ClientState& client, const abi::HandleRequest& request, Reply& reply) {
    if (XrcTargetObject* target = client.xrc_targets.find(request.handle); target != nullptr) {
        detach_target(client, *target);
        abi::DestroyReply body{};
        body.async_events = target->listener.async_events.load();
        reply.set(body);
        client.xrc_targets.remove(request.handle);
        return 0;
    }
    QpObject* qp = client.qps.find(request.handle);
    if (qp == nullptr) {
        return ENOENT;
    }
    if (!qp->memberships.empty()) {
        return EBUSY;
    }
    dataplane::Worker& worker = *client.control.workers[qp->worker];
    worker.call([&] {
        worker.send_posted(qp->slot);
        worker.remove_qp(qp->slot);
    });
    abi::DestroyReply body{};
    body.async_events = qp->slot.async_events.load();
    reply.set(body);
    forget_qp(client, *qp);
    client.qps.remove(request.handle);
    return 0;
}

constexpr Operation kQpOperations[] = {
    operation<create_qp>(abi::Op::kCreateQp),
    operation<modify_qp>(abi::Op::kModifyQp),
    operation<query_qp>(abi::Op::kQueryQp),
    operation<destroy_qp>(abi::Op::kDestroyQp),
};

}  // namespace

int change_qp(ClientState& client, const abi::ModifyQpRequest& request) {
    dataplane::Worker* worker = nullptr;
    dataplane::QpSlot* qp = find_qp(client, request.qp, worker);
    if (qp == nullptr) {
        return ENOENT;
    }
    if (!is_valid_attribute_set(request.attr, *qp->device)) {
        return EINVAL;
    }
    // A controlled Q_Key (IBA 10.2.5) shows that its sender is privileged, as QP1 and the subnet manager are.
    // Linux 6.4 and later ask for CAP_NET_RAW here. What /proc says of a process's capabilities would be
    // worth nothing: everybody has all of them in a user namespace of his own.
    if ((request.attr.mask & kQpAttrQkey) != 0 && (request.attr.qkey & kControlledQkey) != 0 &&
        !client.user.is_privileged()) {
        client.user.refuse("a controlled Q_Key on QP {} of {}", qp->qp->qp_num(), qp->device->name);
        return EPERM;
    }
    wire::Path path;
    if ((request.attr.mask & kQpAttrAv) != 0) {
        if (const int error = resolve_path(*qp, *worker, request.attr, path); error != 0) {
            return error;
        }
    }
    int result = 0;
    worker->call([&] { result = worker->modify_qp(*qp, request.attr, path); });
    if ((request.attr.mask & kQpAttrAv) != 0) {
        if (result == 0) {
            std::swap(qp->neighbour, path.neighbour);
        }
        qp->device->neighbours->release(path.neighbour);  // the path that is not, or not any more, in use
    }
    return result;
}

/// What the QPs of a context have posted goes out before they end: a NIC has sent it when its program is
/// gone.
bool send_posted(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.qps,
        [&](const QpObject& qp) {
            return !qp.has_sent_last && (context == nullptr || qp.pd->context == context);
        },
        kObjectsPerStep, kAnyRingBytes);
    for (std::uint32_t w = 0; w < client.control.num_workers(); ++w) {
        dataplane::Worker& worker = *client.control.workers[w];
        // In several calls: between them the worker looks at its timers and at other clients' calls.
        for (auto at = batch.begin(); at != batch.end();) {
            worker.call([&] {
                for (std::uint32_t left = kUnsentQpsPerCall; left != 0 && at != batch.end(); ++at) {
                    QpObject& qp = *(*at)->second;
                    if (qp.worker == w && qp.slot.qp->has_unsent()) {
                        worker.send_posted(qp.slot);
                        --left;
                    }
                }
            });
        }
    }
    for (const auto at : batch) {
        at->second->has_sent_last = true;
    }
    return !batch.empty();
}

bool remove_qps(ClientState& client, const ContextObject* context) {
    const auto batch = next_batch(
        client.qps, [&](const QpObject& qp) { return context == nullptr || qp.pd->context == context; },
        kObjectsPerStep, ring_bytes_per_step(client.is_ending));
    if (batch.empty()) {
        return false;
    }
    for (std::uint32_t w = 0; w < client.control.num_workers(); ++w) {
        dataplane::Worker& worker = *client.control.workers[w];
        const auto leaves = [&](const auto at) { return at->second->worker == w; };
        if (std::none_of(batch.begin(), batch.end(), leaves)) {
            continue;
        }
        // One call for all of them.
        worker.call([&] {
            for (const auto at : batch) {
                if (leaves(at)) {
                    for (auto& [gid, membership] : at->second->memberships) {
                        MulticastGroups::unlink(membership.member);
                    }
                    worker.remove_qp(at->second->slot);
                }
            }
        });
    }
    remove_batch(client.qps, batch, [&](QpObject& qp) {
        forget_memberships(client, qp);
        forget_qp(client, qp);
    });
    for (const auto& device : client.control.devices) {
        device->groups.publish(client.control, *device->device);
    }
    return true;
}

Operations qp_operations() { return kQpOperations; }

}  // namespace urnic::daemon
