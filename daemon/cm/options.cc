// Options of ids, and their multicast groups.
#include <cerrno>
#include <cstring>
#include <iterator>

#include "daemon/cm/attributes.h"
#include "daemon/cm/client.h"

namespace urnic::daemon {

namespace {

constexpr std::uint8_t kMostAckTimeout = 31;
constexpr std::uint16_t kRoceMulticastLid = 0xc000;

/// The value has exactly that length.
template <typename T>
bool read_value(std::span<const std::uint8_t> bytes, T& value) {
    if (bytes.size() != sizeof value) {
        return false;
    }
    std::memcpy(&value, bytes.data(), sizeof value);
    return true;
}

int set_flag(CmId& id, std::uint32_t name, bool value) {
    const bool is_early = id.state == CmId::State::kIdle || id.state == CmId::State::kBound;
    if (name == RDMA_OPTION_ID_AFONLY) {
        if (!is_early) {
            return EINVAL;
        }
        id.local.one_family = value;
        id.has_one_family = true;
        return 0;
    }
    if (id.state != CmId::State::kIdle && (!value || id.state == CmId::State::kListening)) {
        return EINVAL;
    }
    id.local.shares = value;
    return 0;
}

int set_id_option(CmId& id, std::uint32_t name, std::span<const std::uint8_t> bytes) {
    std::uint8_t byte = 0;
    int number = 0;
    switch (name) {
        case RDMA_OPTION_ID_TOS:
            if (!read_value(bytes, byte)) {
                return EINVAL;
            }
            id.tos = byte;
            return 0;
        case RDMA_OPTION_ID_REUSEADDR:
        case RDMA_OPTION_ID_AFONLY:
            return read_value(bytes, number) ? set_flag(id, name, number != 0) : EINVAL;
        case RDMA_OPTION_ID_ACK_TIMEOUT:
            if (!read_value(bytes, byte) || byte > kMostAckTimeout || id.is_datagram()) {
                return EINVAL;
            }
            id.ack_timeout = byte;
            id.has_ack_timeout = true;
            return 0;
        default:
            return ENOSYS;
    }
}

}  // namespace

int CmClient::set_option(const rdma_ucm_set_option& command, Call& call) {
    CmId* id = nullptr;
    const auto value = call.in.subspan(sizeof command);
    if (value.size() != command.optlen) {
        return EINVAL;
    }
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (command.level == RDMA_OPTION_ID) {
        return set_id_option(*id, command.optname, value);
    }
    // InfiniBand paths; RoCE has none that a program could give.
    return command.level == RDMA_OPTION_IB && command.optname == RDMA_OPTION_IB_PATH ? EINVAL : ENOSYS;
}

int CmClient::join_ip_mcast(const rdma_ucm_join_ip_mcast& command, Call& call) {
    CmId* id = nullptr;
    Endpoint group;
    if (call.out.size() < sizeof(rdma_ucm_create_id_resp)) {
        return ENOSPC;
    }
    if (!read_endpoint(command.addr, false, group) || !group.is_multicast()) {
        return EINVAL;
    }
    if (const int error = find(call, command.id, id); error != 0) {
        return error;
    }
    if (id->device == nullptr || !id->is_datagram() ||
        (id->state != CmId::State::kBound && id->state != CmId::State::kAddrResolved)) {
        return EINVAL;
    }
    if (groups_.size() >= service_.control().limits.max_mcast_attachments) {
        return ENOMEM;
    }
    auto made = std::make_unique<CmGroup>();
    made->uid = command.uid;
    made->id = id;
    CmEvent event;
    event.id = id;
    CmGroup& joined = *made;
    event.group = &joined;
    const std::uint32_t handle = groups_.add(std::move(made));
    joined.handle = handle;
    if (id->device->device->is_infiniband()) {
        return join_by_administration(joined, group, call);
    }
    event.body.uid = command.uid;
    event.body.id = handle;
    event.body.event = kMulticastJoin;
    rdma_ucm_ud_param& ud = event.body.param.ud;
    ud.qp_num = kMulticastQp;
    ud.qkey = id->qkey != 0 ? id->qkey : kUdpQkey;
    ud.ah_attr = address_attributes(*id);
    std::copy(group.gid.begin(), group.gid.end(), std::begin(ud.ah_attr.grh.dgid));
    ud.ah_attr.dlid = kRoceMulticastLid;
    try {
        id->channel->push(event);
    } catch (...) {
        groups_.remove(handle);
        throw;
    }
    ++id->num_groups;
    return call.answer(rdma_ucm_create_id_resp{handle});
}

/// Of InfiniBand: the event comes with subnet administration's answer.
int CmClient::join_by_administration(CmGroup& group, const Endpoint& address, Call& call) {
    const std::uint32_t handle = group.handle;
    try {
        ask_for_group(group, address);
    } catch (...) {
        groups_.remove(handle);
        throw;
    }
    ++group.id->num_groups;
    return call.answer(rdma_ucm_create_id_resp{handle});
}

int CmClient::leave_mcast(const rdma_ucm_destroy_id& command, Call& call) {
    CmGroup* group = groups_.find(command.id);
    if (call.out.size() < sizeof(rdma_ucm_destroy_id_resp)) {
        return ENOSPC;
    }
    if (group == nullptr) {
        return ENOENT;
    }
    if (group->id->channel != &call.channel) {
        return EINVAL;
    }
    CmEventsOfId& events = group->id->events;
    for (auto at = events.begin(); at != events.end();) {
        const auto event = at++;
        if ((*event)->group == group) {
            (void)call.channel.take(events, event);
        }
    }
    leave_group(*group);
    const rdma_ucm_destroy_id_resp answer{group->events_reported};
    --group->id->num_groups;
    groups_.remove(command.id);
    return call.answer(answer);
}

}  // namespace urnic::daemon
