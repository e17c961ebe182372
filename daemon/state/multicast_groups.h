// The multicast groups of one device as the control thread keeps them; each worker has its own view of them
// (multicast_table.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "abi/queues.h"
#include "dataplane/device/multicast_table.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {
struct Device;
struct QpSlot;
}  // namespace urnic::dataplane

namespace urnic::daemon {

class User;
struct ControlState;
struct MulticastGroup;

/// One QP's membership in one group.
struct Membership {
    dataplane::GroupMember member;
    MulticastGroup* group = nullptr;
};
/// A QP's groups.
using Memberships = std::map<wire::Gid, Membership>;

struct MulticastGroup {
    wire::Gid gid{};
    std::uint16_t lid = 0;  // of InfiniBand
    std::vector<dataplane::GroupOnWorker> on_worker;
    std::array<std::uint32_t, abi::kMaxWorkers> members{};  // on each worker
    std::uint32_t num_members = 0;
    std::map<User*, std::uint32_t> members_of;  // each user
    bool published = false;                     // the workers know it
    bool dirty = false;                         // what they know is out of date
    MulticastGroup* next_dirty = nullptr;
};

/// A QP that is to become a member, or to be none any more.
struct GroupMemberQp {
    dataplane::QpSlot& qp;
    std::uint32_t worker;
    Memberships& memberships;
    User& user;
};

class MulticastGroups {
  public:
    /// Reported by query_device, and refused beyond.
    static constexpr std::uint32_t kMaxGroups = 4096;
    static constexpr std::uint32_t kMaxMembers = 256;  // of one group: what one packet may cost
    static constexpr std::uint32_t kMaxMemberships = 65536;

    /// Makes the QP, which is no member yet, a member. 0 or ENOMEM: one of the limits above, or the
    /// user's number of groups. EINVAL: the group has another `lid`. Throws
    /// std::bad_alloc; leaves nothing behind then.
    [[nodiscard]] int attach(const ControlState& control, dataplane::Device& device, const GroupMemberQp& qp,
                             const wire::Gid& gid, std::uint16_t lid = 0);

    // A QP leaves in three steps, each of which may be taken for many QPs at once; none needs memory.
    /// On the QP's worker, inside Worker::call(): `member` gets no packet any more.
    static void unlink(dataplane::GroupMember& member) { dataplane::MulticastTable::unlink(member); }
    /// Control thread: forgets the membership, which is unlinked.
    void forget(const GroupMemberQp& qp, Memberships::iterator membership);
    /// Tells the workers and the port what has changed.
    void publish(const ControlState& control, dataplane::Device& device);

    /// Who is told of all groups at each change; nobody by default.
    using OnChange = std::function<void(std::span<const wire::Gid>)>;
    void set_on_change(OnChange on_change) { on_change_ = std::move(on_change); }
    /// The same by LIDs, of InfiniBand.
    using OnLids = std::function<void(std::span<const std::uint16_t>)>;
    void set_on_lids(OnLids on_lids) { on_lids_ = std::move(on_lids); }

    [[nodiscard]] std::uint32_t num_groups() const { return static_cast<std::uint32_t>(groups_.size()); }
    [[nodiscard]] std::uint32_t num_memberships() const { return num_memberships_; }

  private:
    MulticastGroup& find_or_make(const wire::Gid& gid, std::uint32_t num_workers);
    void count(MulticastGroup& group, std::uint32_t worker, std::int32_t change);
    static void forget_user(MulticastGroup& group, User& user);
    void mark_dirty(MulticastGroup& group);

    std::map<wire::Gid, std::unique_ptr<MulticastGroup>> groups_;
    std::uint32_t num_memberships_ = 0;
    MulticastGroup* dirty_ = nullptr;
    void publish_lids(dataplane::Device& device);

    OnChange on_change_;
    OnLids on_lids_;
    std::vector<std::uint16_t> lids_;  // as macs_
    std::vector<wire::Gid> gids_;      // as macs_
    std::vector<wire::Mac> macs_;      // room for one of each group: leaving needs no memory
};

}  // namespace urnic::daemon
