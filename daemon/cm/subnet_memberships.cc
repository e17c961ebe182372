#include "daemon/cm/subnet_memberships.h"

#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include "daemon/cm/id.h"
#include "rnic/subnet/sa_components.h"
#include "rnic/wire/layout.h"

namespace urnic::daemon {

namespace {

namespace mc = subnet::member_component;

subnet::SaRequest request_of(std::uint8_t method, std::uint64_t components,
                             const SubnetMemberships::Record& record) {
    return subnet::sa_request(method, wire::mad::kMcMemberRecord, components, wire::mad::kMcMemberRecordTable,
                              record);
}

}  // namespace

/// The components of a Set are those that make the group where there is none yet (IBA 15.2.5.17.2).
void SubnetMemberships::ask(const wire::Gid& mgid, Group& group, State state) {
    const subnet::SaRequest request =
        state == State::kJoining
            ? request_of(wire::kMadSet,
                         mc::kMgid | mc::kPortGid | mc::kPkey | mc::kJoinState | mc::kQkey | mc::kSl |
                             mc::kFlowLabel | mc::kTclass,
                         group.wanted)
            : request_of(wire::kMadDelete, mc::kMgid | mc::kPortGid | mc::kJoinState, group.wanted);
    const subnet::SaRequests::Id id = effects_.ask(request);
    try {
        requests_.emplace(id, mgid);
    } catch (...) {
        effects_.forget(id);
        throw;
    }
    group.state = state;
    group.is_stale = false;
}

/// Throws std::bad_alloc, and then it is no user.
void SubnetMemberships::add(Group& group, CmGroup& user) {
    Share& share = group.shares.try_emplace(user.user, *user.user).first->second;
    if (group.users.empty()) {
        std::erase_if(group.shares, [&](const auto& entry) { return &entry.second != &share; });
    }
    group.users.insert(&user);
    ++share.members;
}

int SubnetMemberships::join(CmGroup& user, const Record& wanted) {
    const auto found = groups_.find(wanted.mgid);
    const bool is_first_of_user = found == groups_.end() || !found->second.shares.contains(user.user);
    if (is_first_of_user && !user.user->has_room(Resource::kSubnetGroups)) {
        return ENOMEM;
    }
    if (found != groups_.end()) {
        Group& group = found->second;
        if (group.users.empty()) {
            group.wanted = wanted;
        } else if (group.wanted.pkey != wanted.pkey) {
            return EINVAL;
        }
        add(group, user);
        if (group.state == State::kMember) {
            effects_.tell(user, &group.record, 0);
        }
        return 0;
    }
    if (groups_.size() >= kMaxGroups) {
        return ENOMEM;
    }
    const auto made = groups_.try_emplace(wanted.mgid).first;
    try {
        made->second.wanted = wanted;
        add(made->second, user);
        ask(made->first, made->second, State::kJoining);
    } catch (...) {
        groups_.erase(made);
        throw;
    }
    return 0;
}

void SubnetMemberships::leave(CmGroup& user, const wire::Gid& mgid) {
    const auto found = groups_.find(mgid);
    if (found == groups_.end() || found->second.users.erase(&user) == 0) {
        return;
    }
    Group& group = found->second;
    const auto share = group.shares.find(user.user);
    if (--share->second.members == 0 && !group.users.empty()) {
        group.shares.erase(share);
    }
    if (!group.users.empty() || group.state != State::kMember) {
        return;
    }
    try {
        ask(found->first, group, State::kLeaving);
    } catch (const std::bad_alloc&) {
        groups_.erase(found);  // the port stays a member
    }
}

bool SubnetMemberships::take(subnet::SaRequests::Id id, const subnet::SaRequests::Answer* answer) {
    const auto request = requests_.find(id);
    if (request == requests_.end()) {
        return false;
    }
    const auto group = groups_.find(request->second);
    requests_.erase(request);
    if (group == groups_.end()) {
        return true;
    }
    if (group->second.state == State::kJoining && !group->second.is_stale) {
        end_joining(group, answer);
    } else if (group->second.users.empty()) {
        groups_.erase(group);
    } else {  // somebody came meanwhile, or the answer is of a membership that is forgotten
        try {
            ask(group->first, group->second, State::kJoining);
        } catch (const std::bad_alloc&) {
            end_joining(group, nullptr);
        }
    }
    return true;
}

void SubnetMemberships::end_joining(Groups::iterator at, const subnet::SaRequests::Answer* answer) {
    Group& group = at->second;
    const Record record =
        answer == nullptr ? Record{} : answer->record<Record>(wire::mad::kMcMemberRecordTable);
    const bool is_member = answer != nullptr && answer->status == 0 && wire::is_multicast_lid(record.mlid) &&
                           record.mgid == at->first && record.port_gid == group.wanted.port_gid;
    if (is_member && !group.users.empty()) {
        group.state = State::kMember;
        group.record = record;
        for (CmGroup* const user : group.users) {
            effects_.tell(*user, &group.record, 0);
        }
        return;
    }
    if (is_member) {  // all have gone meanwhile
        try {
            ask(at->first, group, State::kLeaving);
            return;
        } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the port stays a member
        }
    }
    const std::set<CmGroup*> users = std::move(group.users);
    groups_.erase(at);
    for (CmGroup* const user : users) {
        effects_.tell(*user, nullptr, answer == nullptr ? ETIMEDOUT : EINVAL);
    }
}

void SubnetMemberships::reset() {
    for (auto group = groups_.begin(); group != groups_.end();) {
        if (group->second.state != State::kMember) {
            group->second.is_stale = true;
            ++group;
            continue;
        }
        const std::set<CmGroup*> users = std::move(group->second.users);
        group = groups_.erase(group);
        for (CmGroup* const user : users) {
            effects_.tell(*user, nullptr, ENETRESET);
        }
    }
}

}  // namespace urnic::daemon
