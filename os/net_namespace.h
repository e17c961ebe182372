// Network namespaces: one daemon may have RNICs in several.
#pragma once

#include <string>
#include <utility>

#include "os/unique_fd.h"

namespace urnic {

/// A network namespace; it stays reachable while this exists, even when its name is taken away.
class NetNamespace {
  public:
    /// `name`: one that `ip netns` lists, a path such as /proc/PID/ns/net, or empty for the daemon's own.
    /// Throws SetupError.
    explicit NetNamespace(const std::string& name);

    /// Calls `function` on this thread inside the namespace, and comes back. Sockets made there stay there.
    /// Throws SetupError when the daemon may not enter.
    template <typename Function>
    decltype(auto) run(Function&& function) const {
        const Inside inside(*this);
        return std::forward<Function>(function)();
    }

  private:
    class Inside {
      public:
        explicit Inside(const NetNamespace& where);
        ~Inside();
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;

      private:
        UniqueFd home_;
    };

    std::string name_;
    UniqueFd fd_;  // empty: the daemon's own
};

}  // namespace urnic
