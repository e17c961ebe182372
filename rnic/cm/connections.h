// All connections of a manager, with what finds them, their limits and their timers.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "rnic/cm/connection.h"
#include "rnic/cm/random_ids.h"

namespace urnic::cm {

struct ConnectionLimits {
    std::uint32_t max_connections = 0;
    std::uint32_t max_half_open = 0;
    std::uint32_t max_remembered = 0;
};

class Connections {
  public:
    explicit Connections(const ConnectionLimits& limits) : limits_(limits) {}

    enum class Refused : std::uint8_t { kNot, kHalfOpen, kFull, kNoMemory };
    struct Made {
        Refused refused = Refused::kNot;
        Connection* connection = nullptr;
    };
    /// A new one with an ID that no other has, in kClosed. `source`: whose request it is; counts as half
    /// open.
    [[nodiscard]] Made make(RandomIds& ids, const wire::Gid* source);
    /// Takes it out of everything; it is destroyed.
    void erase(Connection& connection);

    [[nodiscard]] Connection* find(Handle id) const;
    [[nodiscard]] Connection* find(const RemoteId& remote) const { return find(by_remote_.find(remote)); }
    [[nodiscard]] Connection* find(const RemoteQp& qp) const { return find(by_qp_.find(qp)); }
    /// Both return whether no other connection has it.
    [[nodiscard]] bool set_remote(Connection& connection, const RemoteId& remote) {
        return by_remote_.put(connection.remote, remote, connection.id);
    }
    [[nodiscard]] bool set_qp(Connection& connection, const RemoteQp& qp) {
        return by_qp_.put(connection.qp, qp, connection.id);
    }
    void clear_remote(Connection& connection) { by_remote_.remove(connection.remote); }
    void clear_qp(Connection& connection) { by_qp_.remove(connection.qp); }

    /// kNever: no timer.
    void set_timer(Connection& connection, TimeNs due);
    [[nodiscard]] TimeNs next_due() const { return timers_.empty() ? kNever : timers_.first_key().first; }
    /// The next whose timer is due, which is cleared; nullptr: none.
    [[nodiscard]] Connection* take_due(TimeNs now);

    /// The handshake is over, one way or the other.
    void end_half_open(Connection& connection);
    /// May be given up, the one that came first before others, when room is needed.
    void remember(Connection& connection) { by_age_.put(connection.remembered, ++age_, connection.id); }
    void forget(Connection& connection) { by_age_.remove(connection.remembered); }
    [[nodiscard]] Connection* oldest_remembered() const {
        return by_age_.empty() ? nullptr : find(by_age_.first());
    }
    [[nodiscard]] std::size_t remembered() const { return by_age_.size(); }
    [[nodiscard]] bool has_too_many_remembered() const { return by_age_.size() > limits_.max_remembered; }
    [[nodiscard]] bool is_full() const { return all_.size() >= limits_.max_connections; }

    [[nodiscard]] std::size_t size() const { return all_.size(); }
    [[nodiscard]] std::size_t half_open() const { return half_open_; }

  private:
    [[nodiscard]] bool may_half_open(const wire::Gid& source) const;

    ConnectionLimits limits_;
    std::unordered_map<Handle, std::unique_ptr<Connection>> all_;
    TimerIndex timers_;
    RemoteIndex by_remote_;
    QpIndex by_qp_;
    AgeIndex by_age_;
    std::uint64_t age_ = 0;
    std::uint32_t half_open_ = 0;
    std::map<wire::Gid, std::uint32_t> sources_;  // how many of those half open
};

}  // namespace urnic::cm
