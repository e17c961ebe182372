// SubnetMemberships of a port of InfiniBand in multicast groups, for the ids of rdma_cm: a port is a member
// once of each kind (CmGroup::join_state), however many ids are, and of each group one request is under way
// at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "daemon/state/user.h"
#include "rnic/subnet/sa_requests.h"
#include "rnic/wire/mad/administration_attributes.h"
#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

struct CmGroup;

class SubnetMemberships {
  public:
    using Record = wire::mad::McMemberRecord;
    /// Groups that a port is a member of, or about to be.
    static constexpr std::size_t kMaxGroups = 1024;

    struct Effects {
        /// Asks subnet administration; take() or take_nothing() have the end. Throws std::bad_alloc.
        std::function<subnet::SaRequests::Id(const subnet::SaRequest&)> ask;
        /// Nobody waits for the end of a request.
        std::function<void(subnet::SaRequests::Id)> forget;
        /// A user is a member; nullptr: it is not, or no longer, for `error`. Calls nothing here.
        std::function<void(CmGroup&, const Record*, int error)> tell;
    };
    explicit SubnetMemberships(Effects effects) : effects_(std::move(effects)) {}

    /// 0; tell() follows, perhaps at once. ENOMEM: too many groups of the port, or of the user; EINVAL: the
    /// group is another partition's.
    /// Throws std::bad_alloc.
    [[nodiscard]] int join(CmGroup& user, const Record& wanted);
    /// Nothing more is told. Nothing happens when it is no user.
    void leave(CmGroup& user, const wire::Gid& mgid);

    /// The end of a request, `answer` or nullptr; returns whether it was one of these.
    bool take(subnet::SaRequests::Id id, const subnet::SaRequests::Answer* answer);
    /// Subnet administration knows of no membership any more: the port was down, or has another LID or
    /// manager. Members are told ENETRESET, as on Linux.
    void reset();

    [[nodiscard]] std::size_t size() const { return groups_.size(); }

  private:
    /// What is under way for the kinds of `asked`; kSettled: nothing, and `joined` is what the users need.
    enum class State : std::uint8_t { kJoining, kSettled, kLeaving };
    /// A user's part of a group, which counts as his while this lives.
    struct Share {
        explicit Share(User& of_user) : user(of_user) { ++user.count(Resource::kSubnetGroups); }
        Share(const Share&) = delete;
        Share& operator=(const Share&) = delete;
        ~Share() { --user.count(Resource::kSubnetGroups); }

        User& user;
        std::uint32_t members = 0;
    };
    struct Group {
        State state = State::kJoining;
        bool is_stale = false;    // what is under way was asked before reset()
        std::uint8_t asked = 0;   // bits of JoinState, as below
        std::uint8_t joined = 0;  // what the port is and stays; who has asked for these was told
        Record wanted;
        Record record;
        std::set<CmGroup*> users;
        std::map<User*, Share> shares;  // of their users, and of who left last until the group has gone
    };
    using Groups = std::map<wire::Gid, Group>;

    void ask(const wire::Gid& mgid, Group& group, State state, std::uint8_t join_state);
    static void add(Group& group, CmGroup& user);
    static bool remove(Group& group, CmGroup& user);
    [[nodiscard]] static std::set<CmGroup*> remove_all(Group& group, std::uint8_t join_state);
    void settle(Groups::iterator group);
    void end_joining(Groups::iterator group, const subnet::SaRequests::Answer* answer);
    void refuse(Groups::iterator group, std::uint8_t join_state, int error);

    Effects effects_;
    Groups groups_;
    std::unordered_map<subnet::SaRequests::Id, wire::Gid> requests_;
};

}  // namespace urnic::daemon
