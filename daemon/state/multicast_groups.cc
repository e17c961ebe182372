#include "daemon/state/multicast_groups.h"

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "daemon/state/control_state.h"
#include "os/rollback.h"
#include "rnic/wire/multicast.h"

namespace urnic::daemon {

MulticastGroup& MulticastGroups::find_or_make(const wire::Gid& gid, std::uint32_t num_workers) {
    if (const auto found = groups_.find(gid); found != groups_.end()) {
        return *found->second;
    }
    auto made = std::make_unique<MulticastGroup>();
    made->gid = gid;
    made->on_worker.resize(num_workers);
    for (dataplane::GroupOnWorker& group : made->on_worker) {
        group.gid = gid;
    }
    if (macs_.capacity() <= groups_.size()) {
        macs_.reserve(2 * groups_.size() + 16);
        gids_.reserve(2 * groups_.size() + 16);
        lids_.reserve(2 * groups_.size() + 16);
    }
    return *groups_.emplace(gid, std::move(made)).first->second;
}

void MulticastGroups::mark_dirty(MulticastGroup& group) {
    if (!group.dirty) {
        group.dirty = true;
        group.next_dirty = dirty_;
        dirty_ = &group;
    }
}

void MulticastGroups::count(MulticastGroup& group, std::uint32_t worker, std::int32_t change) {
    const bool had_members = group.members[worker] != 0;
    group.members[worker] += static_cast<std::uint32_t>(change);
    group.num_members += static_cast<std::uint32_t>(change);
    num_memberships_ += static_cast<std::uint32_t>(change);
    if (had_members != (group.members[worker] != 0)) {
        mark_dirty(group);
    }
}

int MulticastGroups::attach(const ControlState& control, dataplane::Device& device, const GroupMemberQp& qp,
                            const wire::Gid& gid, std::uint16_t lid) {
    const auto found = groups_.find(gid);
    if (found != groups_.end() && found->second->lid != lid) {
        return EINVAL;
    }
    if (num_memberships_ == kMaxMemberships || (found == groups_.end() && groups_.size() == kMaxGroups) ||
        (found != groups_.end() && found->second->num_members == kMaxMembers)) {
        return ENOMEM;
    }
    MulticastGroup& group = find_or_make(gid, control.num_workers());
    group.lid = lid;
    Rollback drop_new([&] {
        if (group.num_members == 0) {
            groups_.erase(gid);
        }
    });
    const bool is_first_of_user = group.members_of.count(&qp.user) == 0;
    if (is_first_of_user && !qp.user.has_room(Resource::kMcastGroups)) {
        return ENOMEM;
    }
    if (++group.members_of[&qp.user] == 1) {
        ++qp.user.count(Resource::kMcastGroups);
    }
    Rollback forget_member([&] { forget_user(group, qp.user); });
    dataplane::GroupMember& member =
        qp.memberships.emplace(gid, Membership{{&qp.qp, &group.on_worker[qp.worker]}, &group})
            .first->second.member;
    forget_member.keep();
    drop_new.keep();
    ++qp.user.count(Resource::kMcastAttachments);
    count(group, qp.worker, 1);
    control.workers[qp.worker]->call([&] { dataplane::MulticastTable::link(member); });
    publish(control, device);
    return 0;
}

void MulticastGroups::forget_user(MulticastGroup& group, User& user) {
    const auto members = group.members_of.find(&user);
    if (--members->second == 0) {
        group.members_of.erase(members);
        --user.count(Resource::kMcastGroups);
    }
}

void MulticastGroups::forget(const GroupMemberQp& qp, Memberships::iterator membership) {
    count(*membership->second.group, qp.worker, -1);
    --qp.user.count(Resource::kMcastAttachments);
    forget_user(*membership->second.group, qp.user);
    qp.memberships.erase(membership);
}

void MulticastGroups::publish_lids(dataplane::Device& device) {
    lids_.clear();
    URNIC_CHECK(lids_.capacity() >= groups_.size());
    std::transform(groups_.begin(), groups_.end(), std::back_inserter(lids_),
                   [](const auto& entry) { return entry.second->lid; });
    device.port->set_multicast_lids(lids_);
    if (on_lids_) {
        on_lids_(lids_);
    }
}

void MulticastGroups::publish(const ControlState& control, dataplane::Device& device) {
    if (dirty_ == nullptr) {
        return;
    }
    for (std::uint32_t w = 0; w < control.num_workers(); ++w) {
        dataplane::Worker& worker = *control.workers[w];
        worker.call([&] {
            for (MulticastGroup* group = dirty_; group != nullptr; group = group->next_dirty) {
                dataplane::GroupOnWorker& seen = group->on_worker[w];
                seen.workers = 0;
                for (std::uint32_t i = 0; i < control.num_workers(); ++i) {
                    seen.workers |= group->members[i] != 0 ? 1U << i : 0U;
                }
                if (!group->published) {
                    worker.multicast(device.index).add(seen);
                } else if (group->num_members == 0) {
                    worker.multicast(device.index).remove(seen);
                }
            }
        });
    }
    while (dirty_ != nullptr) {
        MulticastGroup& group = *dirty_;
        dirty_ = group.next_dirty;
        group.dirty = false;
        group.published = true;
        if (group.num_members == 0) {
            groups_.erase(wire::Gid(group.gid));
        }
    }
    if (device.is_infiniband()) {
        publish_lids(device);
        return;
    }
    macs_.clear();
    URNIC_CHECK(macs_.capacity() >= groups_.size());
    std::transform(groups_.begin(), groups_.end(), std::back_inserter(macs_),
                   [](const auto& entry) { return wire::multicast_mac(entry.first); });
    device.port->set_multicast(macs_);
    if (on_change_) {
        gids_.clear();
        std::transform(groups_.begin(), groups_.end(), std::back_inserter(gids_),
                       [](const auto& entry) { return entry.first; });
        on_change_(gids_);
    }
}

}  // namespace urnic::daemon
