/// What a link asks the subnet administrator for (RFC 4391, sections 5, 10): memberships of groups, paths.
/// Pure: requests go to the SaPort, time is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "ulp/ipoib/codec/subnet_records.h"
#include "ulp/ipoib/engine/outbox.h"

namespace urnic::ipoib {

/// Requests to the subnet administrator of a port. Each ends by SubnetClient::on_answer() or on_timeout().
class SaPort {
  public:
    virtual ~SaPort() = default;
    SaPort() = default;
    SaPort(const SaPort&) = delete;
    SaPort& operator=(const SaPort&) = delete;
    /// Returns false when it cannot be sent; nothing follows then.
    [[nodiscard]] virtual bool request(const SaMad& mad) = 0;
};

struct SubnetCounters {
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;    ///< answers with a status
    std::uint64_t timeouts = 0;   ///< and requests that could not be sent
    std::uint64_t malformed = 0;  ///< no answer to what was asked, or one that no datagram can follow
};

class SubnetClient {
  public:
    /// Requests without an answer at one time.
    static constexpr std::size_t kMostRequests = 64;
    static constexpr std::size_t kMostGroups = 2048;
    static constexpr std::size_t kMostPaths = 4096;
    /// So long a membership as SendOnlyNonMember counts: a group that has ended meanwhile, and was made
    /// again, has another LID.
    static constexpr std::uint64_t kSenderMs = 60'000;
    /// A request whose end nobody tells of is over then.
    static constexpr std::uint64_t kRequestMs = 5'000;
    /// last_failure() when there was no answer, or none yet.
    static constexpr std::uint16_t kNoAnswer = 0xFFFF;

    /// `broadcast`: the broadcast group, which says what all others are like.
    SubnetClient(const SubnetMember& member, const Gid& broadcast, SaPort& port)
        : member_(member), broadcast_(broadcast), port_(port) {}

    /// Asks once until there is an answer, and again some time after a failure, when it is called then. The
    /// broadcast group is not made, nor is one for SendOnlyNonMember.
    [[nodiscard]] Progress join(const Gid& group, JoinState state);
    void leave(const Gid& group);
    void leave_all();
    /// Leaves the groups that were joined for sending alone a while ago. Returns them: who sends there asks
    /// again.
    [[nodiscard]] std::vector<Gid> expire_senders();
    [[nodiscard]] Progress find_path(const Gid& destination);
    /// Of what has been joined, nullptr: it was not. What was found.
    [[nodiscard]] const GroupRecord* group(const Gid& group) const;
    [[nodiscard]] const PathRecord* path(const Gid& destination) const;
    /// Status of the last join that was refused.
    [[nodiscard]] std::uint16_t last_failure() const { return last_failure_; }

    void on_answer(ConstOctets mad);
    void on_timeout(std::uint32_t id);
    void advance(std::uint64_t now_ms);
    /// The subnet has changed (another subnet manager, another LID): nothing that was known is so.
    void forget();
    /// Groups and destinations that were pending, and are no longer.
    [[nodiscard]] std::vector<Gid> take_settled();
    [[nodiscard]] bool has_requests() const { return !requests_.empty() || !leaves_.empty(); }
    [[nodiscard]] const SubnetCounters& counters() const { return counters_; }

  private:
    /// Of one question that is asked until it has an answer.
    struct Question {
        std::uint32_t request = 0;  ///< under way; 0: none
        std::uint32_t failures = 0;
        std::uint64_t retry_ms = 0;
    };
    struct Group {
        Question question;
        std::uint8_t joined = 0;   ///< bits of JoinState
        std::uint8_t unknown = 0;  ///< asked for without an answer: perhaps joined
        std::uint64_t since_ms = 0;
        GroupRecord record;
    };
    struct Path {
        Question question;
        bool is_known = false;
        std::uint64_t used = 0;
        PathRecord record;
    };
    enum class Kind : std::uint8_t { kJoin, kLeave, kPath };
    struct Request {
        Kind kind = Kind::kJoin;
        Gid gid{};
        JoinState state = JoinState::kFullMember;
        std::uint64_t end_ms = 0;
    };
    struct Leave {
        Gid group{};
        std::uint8_t states = 0;
    };
    using MakeMad = std::function<SaMad(std::uint32_t)>;
    /// The state of a question that has no answer yet; asks it if that is due.
    Progress ask(Question& question, const Request& request, const MakeMad& make);
    /// Returns the request's ID; 0: it cannot be sent.
    std::uint32_t send(Request request, const MakeMad& make);
    void send_leave(const Gid& group, std::uint8_t states);
    /// As many as there is room for.
    void send_leaves();
    [[nodiscard]] bool is_leaving(const Gid& group) const;
    void fail(const Request& request, std::uint32_t id);
    void end(const Request& request);
    void fail(Question& question);
    void settle_join(const Request& request, std::uint32_t id, const GroupRecord& record);
    void settle_path(const Request& request, std::uint32_t id, const PathRecord& record);
    [[nodiscard]] bool is_usable(const Gid& gid, const GroupRecord& record) const;
    [[nodiscard]] bool make_room_for_group();
    void make_room_for_path();

    SubnetMember member_;
    Gid broadcast_;
    SaPort& port_;
    std::uint64_t now_ms_ = 0;
    std::uint64_t uses_ = 0;
    std::uint32_t next_id_ = 1;
    std::uint16_t last_failure_ = kNoAnswer;
    std::map<Gid, Group> groups_;
    std::map<Gid, Path> paths_;
    std::map<std::uint32_t, Request> requests_;
    std::deque<Leave> leaves_;  ///< not sent yet
    std::vector<Gid> settled_;
    SubnetCounters counters_;
};

}  // namespace urnic::ipoib
