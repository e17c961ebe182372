// Multicast groups of one device as one worker sees them: which QPs of the worker are members, and which
// other workers have some.
#pragma once

#include <array>
#include <cstdint>

#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

struct QpSlot;
struct GroupOnWorker;

/// A QP's membership in one group. Made by the control thread; linked by the QP's worker.
struct GroupMember {
    QpSlot* slot = nullptr;
    GroupOnWorker* group = nullptr;  // on the QP's worker
    GroupMember* next = nullptr;
    GroupMember* previous = nullptr;
};

/// One group on one worker.
struct GroupOnWorker {
    wire::Gid gid{};
    std::uint32_t workers = 0;       // bit mask: who has members
    GroupMember* members = nullptr;  // this worker's
    GroupOnWorker* next = nullptr;   // in the bucket
};

/// The worker's own, in Worker::call() and while it receives. Allocates nothing: the control thread brings
/// groups and members, and takes them back when they are no longer linked.
class MulticastTable {
  public:
    [[nodiscard]] const GroupOnWorker* find(const wire::Gid& gid) const {
        const GroupOnWorker* group = buckets_[bucket_of(gid)];
        while (group != nullptr && !wire::same_gid(group->gid, gid)) {
            group = group->next;
        }
        return group;
    }
    void add(GroupOnWorker& group) {
        GroupOnWorker*& first = buckets_[bucket_of(group.gid)];
        group.next = first;
        first = &group;
    }
    /// It was added, and no member is linked any more.
    void remove(GroupOnWorker& group) {
        GroupOnWorker** at = &buckets_[bucket_of(group.gid)];
        while (*at != &group) {
            at = &(*at)->next;
        }
        *at = group.next;
    }

    static void link(GroupMember& member) {
        member.next = member.group->members;
        if (member.next != nullptr) {
            member.next->previous = &member;
        }
        member.group->members = &member;
    }
    static void unlink(GroupMember& member) {
        if (member.previous == nullptr) {
            member.group->members = member.next;
        } else {
            member.previous->next = member.next;
        }
        if (member.next != nullptr) {
            member.next->previous = member.previous;
        }
    }

  private:
    static constexpr std::uint32_t kBuckets = 1024;

    [[nodiscard]] static std::uint32_t bucket_of(const wire::Gid& gid) {
        std::uint32_t hash = 0;
        for (const std::uint8_t byte : gid) {
            hash = (hash ^ byte) * 0x01000193U;
        }
        return (hash ^ (hash >> 16U)) % kBuckets;
    }

    std::array<GroupOnWorker*, kBuckets> buckets_{};
};

}  // namespace urnic::dataplane
