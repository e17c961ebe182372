// What the processes of one user have together: who makes many processes gets no more of the daemon than who
// has one. The control thread's own.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/config/user_limits.h"
#include "dataplane/worker/run_queue.h"
#include "os/event_socket.h"

namespace urnic::daemon {

/// Returns whether the user is root or the one that the daemon runs as: they may do anything to the daemon
/// anyway.
[[nodiscard]] bool is_root_or_daemon(uid_t uid);

class User {
  public:
    /// `limits` lives longer; they do not hold for the privileged.
    User(uid_t uid, bool is_privileged, const UserLimits& limits, std::size_t num_workers)
        : uid_(uid), limits_(is_privileged ? nullptr : &limits), shares_(num_workers) {}
    User(const User&) = delete;
    User& operator=(const User&) = delete;

    /// Returns whether there may be one more, and the descriptors that it takes. The log says once what the
    /// limit was.
    [[nodiscard]] bool has_room(Resource resource);
    /// How many there are; whoever adds or removes one keeps it. Descriptors are not counted here.
    [[nodiscard]] std::uint32_t& count(Resource resource) {
        return counts_[static_cast<std::size_t>(resource)];
    }
    /// Of the daemon, for what its processes have.
    [[nodiscard]] std::uint32_t descriptors() const;
    /// What the user may have of `most`, which a client may have.
    [[nodiscard]] std::uint32_t at_most(Resource resource, std::uint32_t most) const;
    [[nodiscard]] uid_t uid() const { return uid_; }
    /// Returns whether it is root or the daemon's own user: without limits, and allowed what concerns others.
    [[nodiscard]] bool is_privileged() const { return limits_ == nullptr; }

    /// What waking its processes may cost.
    [[nodiscard]] WakeBudget& wake_budget() { return wake_budget_; }
    /// Its turns on a worker. The worker's own while a process of the user is attached to it.
    [[nodiscard]] dataplane::UserShare& share(std::size_t worker) { return shares_.at(worker); }

  private:
    void tell(Resource resource);

    uid_t uid_;
    const UserLimits* limits_;
    std::array<std::uint32_t, kNumResources> counts_{};
    std::array<bool, kNumResources> told_{};
    WakeBudget wake_budget_;
    std::vector<dataplane::UserShare> shares_;  // by worker
};

}  // namespace urnic::daemon
