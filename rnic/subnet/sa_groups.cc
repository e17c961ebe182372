#include "rnic/subnet/sa_groups.h"

#include <algorithm>

#include "rnic/subnet/sa_choice.h"
#include "rnic/subnet/sa_components.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;
namespace mc = member_component;

constexpr std::uint8_t kLinkLocalScope = 2;
/// Behind flags and scope of MGIDs that subnet administration makes itself (IBA 15.2.5.17).
constexpr std::uint16_t kOwnSignature = 0xa01b;

std::uint8_t scope_of(const wire::Gid& mgid) { return mgid[1] & 0x0fU; }

/// A multicast GID of IBA 4.1.1: flags 0 or T, a scope that is not reserved, and not one of ours.
bool may_be_made(const wire::Gid& mgid) {
    const unsigned signature = unsigned{mgid[2]} << 8U | mgid[3];
    return mgid[0] == 0xff && (mgid[1] & 0xe0U) == 0 && scope_of(mgid) != 0 && scope_of(mgid) != 0x0f &&
           signature != kOwnSignature;
}

bool is_same_partition(std::uint16_t a, std::uint16_t b) { return ((a ^ b) & ~wire::kFullMember) == 0; }

/// Returns whether all that the request says of a group is true of it.
bool is_like(const mad::McMemberRecord& group, const mad::McMemberRecord& wanted, std::uint64_t mask) {
    const auto same = [&](std::uint64_t component, auto member) {
        return !has_components(mask, component) || wanted.*member == group.*member;
    };
    using R = mad::McMemberRecord;
    return same(mc::kQkey, &R::qkey) && same(mc::kMlid, &R::mlid) && same(mc::kTclass, &R::tclass) &&
           same(mc::kSl, &R::sl) && same(mc::kFlowLabel, &R::flow_label) &&
           same(mc::kHopLimit, &R::hop_limit) && same(mc::kScope, &R::scope) &&
           (!has_components(mask, mc::kPkey) || is_same_partition(wanted.pkey, group.pkey)) &&
           mtu_fits(
               bound_of(has_components(mask, mc::kMtu | mc::kMtuSelector), wanted.mtu_selector, wanted.mtu),
               group.mtu) &&
           rate_fits(bound_of(has_components(mask, mc::kRate | mc::kRateSelector), wanted.rate_selector,
                              wanted.rate),
                     group.rate) &&
           life_time_fits(bound_of(has_components(mask, mc::kLife | mc::kLifeSelector),
                                   wanted.packet_life_time_selector, wanted.packet_life_time),
                          group.packet_life_time);
}

/// Returns whether the port can be a member: its partition, and packets as long and as fast as there will be.
bool can_be_member(const Endpoint& port, const mad::McMemberRecord& group) {
    return port.pkeys().match(group.pkey) && port.mtu() >= group.mtu &&
           is_rate_at_least(port.rate(), group.rate);
}

/// FF1s:A01B:P_Key: and the MLID, which no other group has.
wire::Gid own_mgid(std::uint8_t scope, std::uint16_t pkey, std::uint16_t mlid) {
    wire::Gid gid{};
    auto* const octets = reinterpret_cast<std::byte*>(gid.data());
    gid[0] = 0xff;
    gid[1] = static_cast<std::uint8_t>(0x10U | scope);
    store_be16(octets + 2, kOwnSignature);
    store_be16(octets + 4, pkey);
    store_be16(octets + 14, mlid);
    return gid;
}

/// What an answer says of a member.
mad::McMemberRecord record_of(const mad::McMemberRecord& group, const wire::Gid& port_gid,
                              std::uint8_t join_state) {
    mad::McMemberRecord record = group;
    record.port_gid = port_gid;
    record.join_state = join_state;
    return record;
}

/// Sets what every group has alike.
void set_exactly(mad::McMemberRecord& group) {
    group.mtu_selector = group.rate_selector = group.packet_life_time_selector =
        static_cast<std::uint8_t>(Selector::kExactly);
    group.proxy_join = false;
}

}  // namespace

void SaGroups::add_broadcast(const Endpoint& port, std::uint16_t pkey) {
    mad::McMemberRecord group;
    group.mgid = {0xff, 0x12, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    store_be16(reinterpret_cast<std::byte*>(group.mgid.data()) + 4, pkey);
    if (groups_.contains(group.mgid) || groups_.size() >= kMaxGroups) {
        return;
    }
    group.qkey = 0x0b1b;
    group.mlid = free_mlid();
    group.pkey = pkey;
    group.mtu = std::min<std::uint8_t>(port.mtu(), 4);
    group.rate = 3;
    group.packet_life_time = kPathLifeTime;
    group.scope = kLinkLocalScope;
    set_exactly(group);
    groups_[group.mgid] = {group, {}, true};
}

const mad::McMemberRecord* SaGroups::find(const wire::Gid& mgid) const {
    const auto group = groups_.find(mgid);
    return group == groups_.end() ? nullptr : &group->second.attributes;
}

std::uint16_t SaGroups::free_mlid() const {
    std::vector<bool> is_taken(kMaxGroups + 1);
    for (const auto& [mgid, group] : groups_) {
        is_taken[group.attributes.mlid - kFirstMlid] = true;
    }
    const auto free = std::find(is_taken.begin(), is_taken.end(), false);
    return static_cast<std::uint16_t>(kFirstMlid + (free - is_taken.begin()));
}

std::uint16_t SaGroups::create(const Endpoint& port, std::uint64_t mask, mad::McMemberRecord& record,
                               Groups::iterator& made) {
    // IBA table 216: what a group must be told.
    if (!has_components(mask, mc::kQkey | mc::kPkey | mc::kSl | mc::kFlowLabel | mc::kTclass)) {
        return kSaInsufficientComponents;
    }
    const bool is_own = !has_components(mask, mc::kMgid) || record.mgid == wire::Gid{};
    if (!is_own && !may_be_made(record.mgid)) {
        return kSaInvalidGid;
    }
    const std::uint8_t scope = !is_own                            ? scope_of(record.mgid)
                               : has_components(mask, mc::kScope) ? record.scope
                                                                  : kLinkLocalScope;
    const auto mtu = choose_mtu(
        bound_of(has_components(mask, mc::kMtu | mc::kMtuSelector), record.mtu_selector, record.mtu),
        port.mtu());
    const auto rate = choose_rate(
        bound_of(has_components(mask, mc::kRate | mc::kRateSelector), record.rate_selector, record.rate),
        port.rate());
    const auto life = choose_life_time(bound_of(has_components(mask, mc::kLife | mc::kLifeSelector),
                                                record.packet_life_time_selector, record.packet_life_time),
                                       kPathLifeTime);
    const bool is_full = (record.join_state & kFullMemberships) != 0;
    const bool has_right_scope =
        scope != 0 && scope != 0x0f && (!has_components(mask, mc::kScope) || record.scope == scope);
    // MLIDs are given, not taken.
    if (!is_full || !mtu || !rate || !life || !has_right_scope || has_components(mask, mc::kMlid) ||
        !port.pkeys().match(record.pkey)) {
        return kSaRequestInvalid;
    }
    if (groups_.size() >= kMaxGroups) {
        return kSaNoResources;
    }
    mad::McMemberRecord group = record;
    group.mlid = free_mlid();
    group.mgid = is_own ? own_mgid(scope, record.pkey, group.mlid) : record.mgid;
    group.port_gid = {};
    group.join_state = 0;
    group.mtu = *mtu;
    group.rate = *rate;
    group.packet_life_time = *life;
    group.hop_limit = has_components(mask, mc::kHopLimit) ? record.hop_limit : std::uint8_t{0};
    group.scope = scope;
    set_exactly(group);
    made = groups_.emplace(group.mgid, Group{group, {}, false}).first;
    changes_.push_back({group, true});
    return kStatusGood;
}

std::uint16_t SaGroups::join(const Endpoint& port, std::uint64_t mask, mad::McMemberRecord& record) {
    if (!has_components(mask, mc::kPortGid | mc::kJoinState)) {
        return kSaInsufficientComponents;
    }
    if (record.join_state == 0) {
        return kSaRequestInvalid;
    }
    auto group = has_components(mask, mc::kMgid) ? groups_.find(record.mgid) : groups_.end();
    if (group == groups_.end()) {
        if (const std::uint16_t status = create(port, mask, record, group); status != kStatusGood) {
            return status;
        }
    } else if (!is_like(group->second.attributes, record, mask) ||
               !can_be_member(port, group->second.attributes)) {
        return kSaRequestInvalid;
    }
    Member& member = group->second.members[port.guid()];
    member.gid = port.gid();
    member.join_state |= record.join_state;
    record = record_of(group->second.attributes, member.gid, member.join_state);
    return kStatusGood;
}

std::uint16_t SaGroups::leave(const Endpoint& port, std::uint64_t mask, mad::McMemberRecord& record) {
    if (!has_components(mask, mc::kMgid | mc::kPortGid | mc::kJoinState)) {
        return kSaInsufficientComponents;
    }
    const auto group = groups_.find(record.mgid);
    if (group == groups_.end() || !is_like(group->second.attributes, record, mask)) {
        return kSaRequestInvalid;
    }
    const auto member = group->second.members.find(port.guid());
    // Who leaves has been there, in each of the states that are named.
    if (member == group->second.members.end() || record.join_state == 0 ||
        (record.join_state & ~member->second.join_state) != 0) {
        return kSaRequestInvalid;
    }
    const std::uint8_t left = record.join_state;
    record = record_of(group->second.attributes, member->second.gid, left);
    member->second.join_state &= static_cast<std::uint8_t>(~left);
    if (member->second.join_state == 0) {
        group->second.members.erase(member);
    }
    remove_if_empty(group);
    return kStatusGood;
}

/// A group lives while it has a full member (IBA 10.5.2.1).
void SaGroups::remove_if_empty(Groups::iterator group) {
    const auto& members = group->second.members;
    const bool has_full = std::any_of(members.begin(), members.end(), [](const auto& entry) {
        return (entry.second.join_state & kFullMemberships) != 0;
    });
    if (!has_full && !group->second.is_permanent) {
        changes_.push_back({group->second.attributes, false});
        groups_.erase(group);
    }
}

void SaGroups::forget(std::uint64_t port_guid) {
    for (auto group = groups_.begin(); group != groups_.end();) {
        const auto here = group++;
        if (here->second.members.erase(port_guid) != 0) {
            remove_if_empty(here);
        }
    }
}

std::vector<mad::McMemberRecord> SaGroups::records(bool has_members) const {
    std::vector<mad::McMemberRecord> records;
    for (const auto& [mgid, group] : groups_) {
        if (!has_members) {
            records.push_back(group.attributes);
            continue;
        }
        for (const auto& [guid, member] : group.members) {
            records.push_back(record_of(group.attributes, member.gid, member.join_state));
        }
    }
    return records;
}

}  // namespace urnic::subnet
