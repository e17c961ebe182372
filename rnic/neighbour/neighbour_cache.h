// Ethernet addresses of the neighbours that somebody wants, and the answers to those who want ours: the state
// machine of RFC 826 and RFC 4861 7.2, 7.3 for both address families. Pure: time is an argument, frames and
// news go into an outbox.
//
// Only what is wanted has an entry, so nothing that others send makes the cache grow. Who says unasked that a
// neighbour has another Ethernet address is not believed: it makes us ask everybody, at most once in kLockNs,
// while the old one stays in use. Where none is known yet, what comes unasked is used until the question
// that is under way is answered. Answers to others are limited in rate.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"
#include "rnic/neighbour/neighbour_message.h"

namespace urnic::net {

/// An address on the wire of one VLAN (0: untagged).
struct Hop {
    wire::Gid address{};
    std::uint16_t vlan = 0;
    bool operator==(const Hop&) const = default;
    bool operator<(const Hop& other) const {
        return address != other.address ? address < other.address : vlan < other.vlan;
    }
};

enum class NeighbourState : std::uint8_t {
    kIncomplete,  // asked, nobody has answered yet
    kReachable,   // has answered lately
    kStale,       // somebody says so, or it is long ago: used, and asked soon
    kProbe,       // used, and being asked whether it is still there
    kFailed,      // nobody answers: asked again now and then
};

class NeighbourOutbox {
  public:
    virtual ~NeighbourOutbox() = default;
    virtual void send(const NeighbourMessage& message) = 0;
    /// A wanted neighbour's Ethernet address became known or another one; nullopt: it is not known any more.
    virtual void changed(const Hop& hop, const std::optional<wire::Mac>& mac) = 0;
    /// Somebody else claims an address of ours.
    virtual void conflict(const Hop& own, const wire::Mac& other) = 0;
};

/// What tells all neighbours where an address is: ARP's is a question for the address by its owner (RFC 5227
/// 2.3), ND's an answer that nobody asked for (RFC 4861 7.2.6).
[[nodiscard]] NeighbourMessage announcement(const wire::Mac& mac, const Hop& own);

struct NeighbourStats {
    std::uint64_t asks = 0;
    std::uint64_t answers = 0;
    std::uint64_t unanswered = 0;  // questions beyond the limit on answers
    std::uint64_t unasked = 0;     // tells of somebody whom nobody wants
    std::uint64_t refused = 0;    // claims that came too soon after a question, or from who pretends to be us
    std::uint64_t conflicts = 0;  // claims an address of ours
    std::uint64_t failures = 0;   // neighbours that did not answer
};

class NeighbourCache {
  public:
    static constexpr std::size_t kMaxEntries = 4096;
    static constexpr TimeNs kAskNs = 1'000'000'000;         // RetransTimer
    static constexpr std::uint32_t kAsks = 3;               // MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT
    static constexpr TimeNs kReachableNs = 30'000'000'000;  // ReachableTime
    static constexpr TimeNs kDelayNs = 5'000'000'000;       // DELAY_FIRST_PROBE_TIME
    static constexpr TimeNs kFailedNs = 4'000'000'000;      // until a neighbour that failed is asked again
    static constexpr TimeNs kLockNs = 1'000'000'000;
    static constexpr std::uint32_t kAnswersPerSecond = 1000;
    static constexpr std::uint32_t kAnswerBurst = 64;

    /// What is ours from now on. New addresses, and all if the Ethernet address is a new one, are announced
    /// (RFC 5227 2.3, RFC 4861 7.2.6), and again a second later.
    void set_own(const wire::Mac& mac, std::span<const Hop> addresses, TimeNs now, NeighbourOutbox& out);
    /// Announces all of them, as after a link came up.
    void announce(TimeNs now, NeighbourOutbox& out);

    /// Wants a neighbour's Ethernet address until drop(); `source` is the address of ours to ask from. Asks
    /// at once if it is not known. Returns whether there was room: at most kMaxEntries are wanted.
    [[nodiscard]] bool want(const Hop& hop, const wire::Gid& source, TimeNs now, NeighbourOutbox& out);
    void drop(const Hop& hop) { entries_.erase(hop); }

    void receive(const NeighbourMessage& message, TimeNs now, NeighbourOutbox& out);
    /// Does what is due.
    void advance(TimeNs now, NeighbourOutbox& out);
    /// When advance() is wanted next.
    [[nodiscard]] TimeNs next_event() const;

    [[nodiscard]] std::optional<wire::Mac> find(const Hop& hop) const;
    [[nodiscard]] std::optional<NeighbourState> state(const Hop& hop) const;
    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] const NeighbourStats& stats() const { return stats_; }

  private:
    struct Entry {
        NeighbourState state = NeighbourState::kIncomplete;
        wire::Mac mac{};  // zero: not known
        wire::Gid source{};
        bool is_doubted = false;  // while probed: somebody announced that it has another Ethernet address
        std::uint32_t asked = 0;  // times, in this state
        TimeNs asked_at = 0;
        TimeNs due = kNever;
    };
    using Entries = std::map<Hop, Entry>;

    [[nodiscard]] bool is_own(const Hop& hop) const;
    [[nodiscard]] const Hop* source_for(const Hop& hop, const wire::Gid& preferred) const;
    void ask(const Hop& hop, Entry& entry, TimeNs now, NeighbourOutbox& out);
    void begin(NeighbourState state, const Hop& hop, Entry& entry, TimeNs now, NeighbourOutbox& out);
    void expire(const Hop& hop, Entry& entry, TimeNs now, NeighbourOutbox& out);
    void answer(const NeighbourMessage& question, TimeNs now, NeighbourOutbox& out);
    [[nodiscard]] bool may_answer(TimeNs now);
    /// Somebody says that `mac` is the neighbour's.
    void learn(const NeighbourMessage& message, TimeNs now, NeighbourOutbox& out);
    void learn_about(const Hop& hop, Entry& entry, const NeighbourMessage& message, TimeNs now,
                     NeighbourOutbox& out);

    wire::Mac mac_{};
    std::vector<Hop> own_;
    TimeNs announce_at_ = kNever;
    Entries entries_;
    std::uint32_t answers_left_ = kAnswerBurst;
    TimeNs answers_since_ = 0;
    NeighbourStats stats_;
};

}  // namespace urnic::net
