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
    return command.level == RDMA_OPTION_IB && command.optname == RDMA_OPTION_IB_PATH ? set_paths(*id, value)
                                                                                     : ENOSYS;
}

int CmClient::join_ip_mcast(const rdma_ucm_join_ip_mcast& command, Call& call) {
    Endpoint group;
    if (call.out.size() < sizeof(rdma_ucm_create_id_resp)) {
        return ENOSPC;
    }
    return read_endpoint(command.addr, false, group)
               ? join_group(command.id, command.uid, group, subnet::kFullMember, call)
               : EINVAL;
}

int CmClient::join_mcast(const rdma_ucm_join_mcast& command, Call& call) {
    Endpoint group;
    if (call.out.size() < sizeof(rdma_ucm_create_id_resp)) {
        return ENOSPC;
    }
    if (command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED ||
        !read_address(command.addr, command.addr_size, group)) {
        return EINVAL;
    }
    const bool sends_alone = command.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
    return join_group(command.id, command.uid, group,
                      sends_alone ? subnet::kSendOnlyFullMember : subnet::kFullMember, call);
}

int CmClient::join_group(std::uint32_t id_handle, std::uint64_t uid, const Endpoint& group,
                         subnet::JoinState kind, Call& call) {
    CmId* id = nullptr;
    if (!group.is_multicast()) {
        return EINVAL;
    }
    if (const int error = find(call, id_handle, id); error != 0) {
        return error;
    }
    if (id->device == nullptr || !id->is_datagram() ||
        (group.is_ib() && !id->device->device->is_infiniband()) ||
        (id->state != CmId::State::kBound && id->state != CmId::State::kAddrResolved)) {
        return EINVAL;
    }
    if (groups_.size() >= service_.control().limits.max_mcast_attachments ||
        !user_.has_room(Resource::kCmGroups)) {
        return ENOMEM;
    }
    auto made = std::make_unique<CmGroup>();
    CmGroup& joined = *made;
    joined.uid = uid;
    joined.id = id;
    joined.user = &user_;
    joined.join_state = kind;
    joined.handle = groups_.add(std::move(made));
    int error = 0;
    try {
        id->groups.insert(joined.handle);
        error = join(joined, group);
    } catch (...) {
        id->groups.erase(joined.handle);
        groups_.remove(joined.handle);
        throw;
    }
    if (error != 0) {
        id->groups.erase(joined.handle);
        groups_.remove(joined.handle);
        return error;
    }
    return call.answer(rdma_ucm_create_id_resp{joined.handle});
}

/// Over RoCE there is nobody to ask, and who sends alone attaches no QP: then nothing is reported to
/// switches.
int CmClient::join(CmGroup& group, const Endpoint& address) {
    const CmId& id = *group.id;
    if (id.device->device->is_infiniband()) {
        return join_by_administration(group, address);
    }
    CmEvent event;
    event.id = group.id;
    event.group = &group;
    event.body.uid = group.uid;
    event.body.id = group.handle;
    event.body.event = kMulticastJoin;
    rdma_ucm_ud_param& ud = event.body.param.ud;
    ud.qp_num = kMulticastQp;
    ud.qkey = id.qkey != 0 ? id.qkey : kUdpQkey;
    ud.ah_attr = address_attributes(id);
    std::copy(address.gid.begin(), address.gid.end(), std::begin(ud.ah_attr.grh.dgid));
    ud.ah_attr.dlid = kRoceMulticastLid;
    id.channel->push(event);
    return 0;
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
    group->id->groups.erase(command.id);
    groups_.remove(command.id);
    return call.answer(answer);
}

}  // namespace urnic::daemon
