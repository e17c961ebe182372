// Multicast groups of a subnet and their members (IBA 15.2.5.17): who joins, leaves, and what a group is.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "rnic/subnet/endpoint.h"
#include "rnic/wire/mad/administration_attributes.h"

namespace urnic::subnet {

/// MCMemberRecord:JoinState.
enum JoinState : std::uint8_t {
    kFullMember = 1,
    kNonMember = 2,
    kSendOnlyNonMember = 4,
    kSendOnlyFullMember = 8,
};
/// Those that make a group and keep it (IBA 10.5.2.1).
inline constexpr std::uint8_t kFullMemberships = kFullMember | kSendOnlyFullMember;

class SaGroups {
  public:
    /// As many as forwarding tables have room for; MLIDs from 0xc000 on.
    static constexpr std::size_t kMaxGroups = kMulticastFdbCap;
    static constexpr std::uint16_t kFirstMlid = 0xc000;

    /// The broadcast group of IPoIB in a partition (RFC 4391 4), unless it is there: it must be before
    /// anybody joins, and stays. Q_Key, MTU and rate as opensm's, no more than `port` has.
    void add_broadcast(const Endpoint& port, std::uint16_t pkey);

    /// Set: `port` joins, or makes the group. `mask`: the components that the request names, known ones.
    /// Returns the status; `record`, which is the request's, becomes the answer's.
    [[nodiscard]] std::uint16_t join(const Endpoint& port, std::uint64_t mask,
                                     wire::mad::McMemberRecord& record);
    /// Delete.
    [[nodiscard]] std::uint16_t leave(const Endpoint& port, std::uint64_t mask,
                                      wire::mad::McMemberRecord& record);
    /// The port is down: it is a member of nothing.
    void forget(std::uint64_t port_guid);

    /// A group that was made or has ended.
    struct Change {
        wire::mad::McMemberRecord group;
        bool is_created = false;
    };
    /// Since the last call, in their order.
    [[nodiscard]] std::vector<Change> take_changes() { return std::exchange(changes_, {}); }

    /// The group, without member; nullptr: there is none.
    [[nodiscard]] const wire::mad::McMemberRecord* find(const wire::Gid& mgid) const;
    [[nodiscard]] std::size_t size() const { return groups_.size(); }
    /// A record for each group, or for each member of each (`has_members`).
    [[nodiscard]] std::vector<wire::mad::McMemberRecord> records(bool has_members) const;

  private:
    struct Member {
        wire::Gid gid{};
        std::uint8_t join_state = 0;
    };
    struct Group {
        wire::mad::McMemberRecord attributes;
        std::map<std::uint64_t, Member> members;  // by port GUID
        bool is_permanent = false;
    };
    using Groups = std::map<wire::Gid, Group>;

    [[nodiscard]] std::uint16_t create(const Endpoint& port, std::uint64_t mask,
                                       wire::mad::McMemberRecord& record, Groups::iterator& made);
    [[nodiscard]] std::uint16_t free_mlid() const;
    void remove_if_empty(Groups::iterator group);

    Groups groups_;
    std::vector<Change> changes_;
};

}  // namespace urnic::subnet
