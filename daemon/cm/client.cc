#include "daemon/cm/client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace urnic::daemon {

namespace {

using Call = CmClient::Call;

struct Command {
    std::uint32_t least;  // bytes that it must have; what is missing of the structure then counts as zeros
    int (*serve)(CmClient&, Call&);
};

template <typename T, int (CmClient::*Handler)(const T&, Call&)>
int serve(CmClient& client, Call& call) {
    T command{};
    std::memcpy(&command, call.in.data(), std::min(call.in.size(), sizeof command));
    return (client.*Handler)(command, call);
}
template <typename T, int (CmClient::*Handler)(const T&, Call&)>
constexpr Command command(std::size_t least = sizeof(T)) {
    return {static_cast<std::uint32_t>(least), serve<T, Handler>};
}
constexpr Command kNotServed{0, nullptr};

/// Ids that end in one step. Each may tell its peer, and looks at its client's groups.
constexpr std::size_t kEndsPerStep = 16;

/// By RDMA_USER_CM_CMD_... CONNECT and ACCEPT had no ECE at first. librdmacm asks at its beginning whether an
/// AF_IB address can be bound. Where it can, BIND, RESOLVE_ADDR, QUERY and JOIN_MCAST come for all families;
/// else BIND_IP, RESOLVE_IP, QUERY_ROUTE and JOIN_IP_MCAST.
constexpr Command kCommands[] = {
    command<rdma_ucm_create_id, &CmClient::create_id>(),
    command<rdma_ucm_destroy_id, &CmClient::destroy_id>(),
    command<rdma_ucm_bind_ip, &CmClient::bind_ip>(),
    command<rdma_ucm_resolve_ip, &CmClient::resolve_ip>(),
    command<rdma_ucm_resolve_route, &CmClient::resolve_route>(),
    command<rdma_ucm_query, &CmClient::query_route>(),
    command<rdma_ucm_connect, &CmClient::connect>(offsetof(rdma_ucm_connect, ece)),
    command<rdma_ucm_listen, &CmClient::listen>(),
    command<rdma_ucm_accept, &CmClient::accept>(offsetof(rdma_ucm_accept, ece)),
    command<rdma_ucm_reject, &CmClient::reject>(),
    command<rdma_ucm_disconnect, &CmClient::disconnect>(),
    command<rdma_ucm_init_qp_attr, &CmClient::init_qp_attr>(),
    command<rdma_ucm_get_event, &CmClient::get_event>(),
    kNotServed,  // GET_OPTION: the kernel has none either
    command<rdma_ucm_set_option, &CmClient::set_option>(),
    command<rdma_ucm_notify, &CmClient::notify>(),
    command<rdma_ucm_join_ip_mcast, &CmClient::join_ip_mcast>(),
    command<rdma_ucm_destroy_id, &CmClient::leave_mcast>(),
    command<rdma_ucm_migrate_id, &CmClient::migrate_id>(),
    command<rdma_ucm_query, &CmClient::query>(),
    command<rdma_ucm_bind, &CmClient::bind>(),
    command<rdma_ucm_resolve_addr, &CmClient::resolve_addr>(),
    command<rdma_ucm_join_mcast, &CmClient::join_mcast>(),
};

/// 0: no such port space, or no QP type for it.
CmQpType qp_type_of(const rdma_ucm_create_id& command) {
    switch (command.ps) {
        case RDMA_PS_TCP:
            return CmQpType::kRc;
        case RDMA_PS_UDP:
        case RDMA_PS_IPOIB:
            return CmQpType::kUd;
        case RDMA_PS_IB:
            switch (static_cast<CmQpType>(command.qp_type)) {
                case CmQpType::kRc:
                case CmQpType::kUc:
                case CmQpType::kUd:
                case CmQpType::kXrcSend:
                case CmQpType::kXrcRecv:
                    return static_cast<CmQpType>(command.qp_type);
            }
    }
    return CmQpType{};
}

abi::CmChannelFill fill_of(const CmChannel& channel) {
    return {channel.announced(), static_cast<std::uint32_t>(channel.size())};
}

}  // namespace

std::size_t CmClient::num_listeners() const {
    return static_cast<std::size_t>(std::count_if(ids_.begin(), ids_.end(), [](const auto& entry) {
        return entry.second->state == CmId::State::kListening;
    }));
}

CmClient::~CmClient() {
    while (end_some()) {
    }
    for (auto& [handle, channel] : channels_) {
        service_.control().disposer.take(std::move(channel));
    }
}

bool CmClient::end_some() {
    is_ending_ = true;
    return !end_ids_of(nullptr);
}

/// Ends some ids of a channel, of all for nullptr. Returns whether none is left.
bool CmClient::end_ids_of(const CmChannel* channel) {
    std::size_t left = kEndsPerStep;
    for (auto at = ids_.begin(); at != ids_.end();) {
        // Requests that nobody has seen end with their listeners.
        if (at->second->is_hidden || (channel != nullptr && at->second->channel != channel)) {
            ++at;
            continue;
        }
        if (!end(*at->second, left)) {
            return false;
        }
        at = ids_.remove(at);
    }
    return true;
}

int CmClient::open_channel(std::uint32_t& handle, UniqueFd& theirs) {
    if (channels_.size() >= service_.control().limits.max_cm_channels ||
        !user_.has_room(Resource::kCmChannels)) {
        return EMFILE;
    }
    auto channel = std::make_unique<CmChannel>();
    if (const int error = channel->open(&user_.wake_budget(), theirs); error != 0) {
        return error;
    }
    handle = channels_.add(std::move(channel));
    return 0;
}

int CmClient::close_channel(std::uint32_t handle) {
    const CmChannel* channel = channels_.find(handle);
    if (channel == nullptr) {
        return ENOENT;
    }
    if (channel->num_ids != 0 && !end_ids_of(channel)) {
        return kUnfinished;
    }
    // Closing its socket wakes all its watchers.
    service_.control().disposer.take(channels_.take(handle));
    return 0;
}

int CmClient::command(const abi::CmCommandRequest& request, abi::CmCommandReply& reply) {
    CmChannel* channel = channels_.find(request.channel);
    if (channel == nullptr || request.command >= std::size(kCommands) ||
        request.in_bytes > sizeof request.body) {
        return EINVAL;
    }
    const Command& row = kCommands[request.command];
    if (row.serve == nullptr) {
        return ENOSYS;
    }
    if (request.in_bytes < row.least) {
        return EINVAL;
    }
    Call call{*channel,
              {request.body, request.in_bytes},
              {reply.body, std::min<std::size_t>(request.out_bytes, sizeof reply.body)}};
    const int error = row.serve(*this, call);
    reply.out_bytes = call.out_bytes;
    reply.snapshot = call.snapshot;
    reply.own = fill_of(*channel);
    reply.other = call.other != nullptr ? fill_of(*call.other) : abi::CmChannelFill{};
    return error;
}

void CmClient::announce_owed() {
    for (const auto& [handle, channel] : channels_) {
        channel->announce_owed();
    }
}

int CmClient::find(const Call& call, std::uint32_t handle, CmId*& id) const {
    id = ids_.find(handle);
    if (id == nullptr || id->is_hidden) {
        return ENOENT;
    }
    return id->channel == &call.channel ? 0 : EINVAL;
}

CmId& CmClient::add_id(CmChannel& channel) {
    auto made = std::make_unique<CmId>();
    CmId& id = *made;
    id.client = this;
    id.channel = &channel;
    id.handle = ids_.add(std::move(made));
    ++channel.num_ids;
    return id;
}

int CmClient::create_id(const rdma_ucm_create_id& command, Call& call) {
    const CmQpType qp_type = qp_type_of(command);
    if (call.out.size() < sizeof(rdma_ucm_create_id_resp)) {
        return ENOSPC;
    }
    if (qp_type == CmQpType{}) {
        return EINVAL;
    }
    if (ids_.size() >= service_.control().limits.max_cm_ids || !user_.has_room(Resource::kCmIds)) {
        return ENOMEM;
    }
    CmId& id = add_id(call.channel);
    id.uid = command.uid;
    id.space = command.ps;
    id.qp_type = qp_type;
    id.local.space = command.ps;
    return call.answer(rdma_ucm_create_id_resp{id.handle});
}

int CmClient::destroy_id(const rdma_ucm_destroy_id& command, Call& call) {
    CmId* id = nullptr;
    if (call.out.size() < sizeof(rdma_ucm_destroy_id_resp)) {
        return ENOSPC;
    }
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    std::size_t left = kEndsPerStep;
    if (!end(*id, left)) {
        return kUnfinished;
    }
    const rdma_ucm_destroy_id_resp answer{id->events_reported};
    ids_.remove(command.id);
    return call.answer(answer);
}

/// Events that nobody has seen; requests among them end, too. Returns whether none is left.
bool CmClient::take_back_events(CmId& id, std::size_t& left) {
    while (!id.events.empty()) {
        if (CmId* const child = id.events.front()->child; child != nullptr) {
            if (!end(*child, left)) {
                return false;
            }
            ids_.remove(child->handle);
        }
        (void)id.channel->take(id.events, id.events.begin());
    }
    return true;
}

/// From now on no event comes for it.
void CmClient::stop(CmId& id) {
    for (const CmId::Listener& listener : id.listeners) {
        service_.use(*listener.device, [&](cm::Manager& manager, TimeNs /*now*/, cm::Outbox& /*out*/) {
            manager.unlisten(listener.id);
        });
    }
    id.listeners.clear();
    if (id.request != 0) {
        service_.forget_request(*id.device, id.request);
        id.request = 0;
    }
    if (id.connection != 0) {
        service_.use(*id.device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
            manager.destroy(id.connection, now, out);
        });
        id.connection = 0;
    }
}

/// Ends what there is of it elsewhere; its place in the table remains. Returns false when `left`, which
/// counts down, was used up before: then this is to be called again.
bool CmClient::end(CmId& id, std::size_t& left) {
    stop(id);
    if (!take_back_events(id, left) || left == 0) {
        return false;
    }
    --left;
    while (!id.groups.empty()) {
        if (left == 0) {
            return false;
        }
        --left;
        const std::uint32_t group = *id.groups.begin();
        leave_group(*groups_.find(group));
        groups_.remove(group);
        id.groups.erase(id.groups.begin());
    }
    if (id.has_way) {
        id.device->device->neighbours->release(id.neighbour);
        id.has_way = false;
    }
    service_.ports.release(id.local);
    --id.channel->num_ids;
    return true;
}

int CmClient::migrate_id(const rdma_ucm_migrate_id& command, Call& call) {
    CmChannel* from = channels_.find(command.fd);
    CmId* id = ids_.find(command.id);
    if (id != nullptr && id->is_hidden) {
        id = nullptr;
    }
    if (call.out.size() < sizeof(rdma_ucm_migrate_resp)) {
        return ENOSPC;
    }
    if (from == nullptr || (id != nullptr && id->channel != from)) {
        return EINVAL;
    }
    if (id == nullptr) {
        return ENOENT;
    }
    call.other = from;
    if (from != &call.channel) {
        const auto move = [&](CmId& moved) {
            --from->num_ids;
            ++call.channel.num_ids;
            moved.channel = &call.channel;
        };
        call.channel.take_over(*from, id->events);
        for (const CmEvents::iterator event : id->events) {
            if (event->child != nullptr) {
                move(*event->child);
            }
        }
        move(*id);
    }
    return call.answer(rdma_ucm_migrate_resp{id->events_reported});
}

}  // namespace urnic::daemon
