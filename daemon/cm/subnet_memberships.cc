#include "daemon/cm/subnet_memberships.h"

#include <cerrno>
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

constexpr std::uint8_t without(std::uint8_t kinds, std::uint8_t others) {
    return static_cast<std::uint8_t>(kinds & ~others);
}

}  // namespace

/// The components of a Set are those that make the group where there is none yet (IBA 15.2.5.17.2).
void SubnetMemberships::ask(const wire::Gid& mgid, Group& group, State state, std::uint8_t join_state) {
    Record wanted = group.wanted;
    wanted.join_state = join_state;
    const subnet::SaRequest request =
        state == State::kJoining
            ? request_of(wire::kMadSet,
                         mc::kMgid | mc::kPortGid | mc::kPkey | mc::kJoinState | mc::kQkey | mc::kSl |
                             mc::kFlowLabel | mc::kTclass,
                         wanted)
            : request_of(wire::kMadDelete, mc::kMgid | mc::kPortGid | mc::kJoinState, wanted);
    const subnet::SaRequests::Id id = effects_.ask(request);
    try {
        requests_.emplace(id, mgid);
    } catch (...) {
        effects_.forget(id);
        throw;
    }
    group.state = state;
    group.is_stale = false;
    group.asked = join_state;
    if (state == State::kLeaving) {
        group.joined = without(group.joined, join_state);
    }
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

/// The group counts as the last user's until it has gone.
bool SubnetMemberships::remove(Group& group, CmGroup& user) {
    if (group.users.erase(&user) == 0) {
        return false;
    }
    const auto share = group.shares.find(user.user);
    if (--share->second.members == 0 && !group.users.empty()) {
        group.shares.erase(share);
    }
    return true;
}

/// Those who are members of one of these kinds, or about to be.
std::set<CmGroup*> SubnetMemberships::remove_all(Group& group, std::uint8_t join_state) {
    std::set<CmGroup*> removed;
    for (auto user = group.users.begin(); user != group.users.end();) {
        const auto at = user++;
        if (((*at)->join_state & join_state) != 0) {
            CmGroup& one = **removed.insert(*at).first;
            (void)remove(group, one);
        }
    }
    return removed;
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
        if ((user.join_state & group.joined) != 0) {
            effects_.tell(user, &group.record, 0);
        } else if (group.state == State::kSettled) {
            try {
                ask(found->first, group, State::kJoining, user.join_state);
            } catch (...) {
                (void)remove(group, user);
                throw;
            }
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
        ask(made->first, made->second, State::kJoining, user.join_state);
    } catch (...) {
        groups_.erase(made);
        throw;
    }
    return 0;
}

void SubnetMemberships::leave(CmGroup& user, const wire::Gid& mgid) {
    const auto found = groups_.find(mgid);
    if (found != groups_.end() && remove(found->second, user) && found->second.state == State::kSettled) {
        settle(found);
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
    } else {
        settle(group);
    }
    return true;
}

/// When nothing is under way: what users need is asked for, then what none needs any more is left, and a
/// group of nobody ends.
void SubnetMemberships::settle(Groups::iterator at) {
    Group& group = at->second;
    std::uint8_t needed = 0;
    for (const CmGroup* const user : group.users) {
        needed |= user->join_state;
    }
    const std::uint8_t missing = without(needed, group.joined);
    const std::uint8_t unneeded = without(group.joined, needed);
    try {
        if (missing != 0) {
            ask(at->first, group, State::kJoining, missing);
            return;
        }
        if (unneeded != 0) {
            ask(at->first, group, State::kLeaving, unneeded);
            return;
        }
    } catch (const std::bad_alloc&) {
        if (missing != 0) {
            refuse(at, missing, ETIMEDOUT);
            return;
        }
        group.joined = needed;  // the port stays a member
    }
    group.state = State::kSettled;
    group.is_stale = false;
    if (group.users.empty()) {
        groups_.erase(at);
    }
}

void SubnetMemberships::end_joining(Groups::iterator at, const subnet::SaRequests::Answer* answer) {
    Group& group = at->second;
    const Record record =
        answer == nullptr ? Record{} : answer->record<Record>(wire::mad::kMcMemberRecordTable);
    const bool is_member = answer != nullptr && answer->status == 0 && wire::is_multicast_lid(record.mlid) &&
                           record.mgid == at->first && record.port_gid == group.wanted.port_gid;
    if (!is_member) {
        refuse(at, group.asked, answer == nullptr ? ETIMEDOUT : EINVAL);
        return;
    }
    group.record = record;
    group.joined |= group.asked;
    for (CmGroup* const user : group.users) {
        if ((user->join_state & group.asked) != 0) {
            effects_.tell(*user, &group.record, 0);
        }
    }
    settle(at);
}

/// The port does not become a member of these kinds; of others it stays one.
void SubnetMemberships::refuse(Groups::iterator at, std::uint8_t join_state, int error) {
    const std::set<CmGroup*> refused = remove_all(at->second, join_state);
    settle(at);
    for (CmGroup* const user : refused) {
        effects_.tell(*user, nullptr, error);
    }
}

void SubnetMemberships::reset() {
    for (auto at = groups_.begin(); at != groups_.end();) {
        Group& group = at->second;
        const std::set<CmGroup*> members = remove_all(group, std::exchange(group.joined, std::uint8_t{0}));
        if (group.state == State::kSettled) {
            at = groups_.erase(at);
        } else {
            group.is_stale = true;
            ++at;
        }
        for (CmGroup* const user : members) {
            effects_.tell(*user, nullptr, ENETRESET);
        }
    }
}

}  // namespace urnic::daemon
