// What the processes of one user have together: who makes many processes gets no more of the daemon than who
// has one. The control thread's own.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "daemon/config/user_limits.h"

namespace urnic::daemon {

/// Returns whether the user is root or the one that the daemon runs as, who need no quota: they may do
/// anything to the daemon anyway.
[[nodiscard]] bool is_root_or_daemon(uid_t uid);

class User {
  public:
    /// `limits` lives longer; nullptr: there are none.
    User(uid_t uid, const UserLimits* limits) : uid_(uid), limits_(limits) {}
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
    /// Returns whether it has limits.
    [[nodiscard]] bool is_limited() const { return limits_ != nullptr; }

  private:
    void tell(Resource resource);

    uid_t uid_;
    const UserLimits* limits_;
    std::array<std::uint32_t, kNumResources> counts_{};
    std::array<bool, kNumResources> told_{};
};

}  // namespace urnic::daemon
