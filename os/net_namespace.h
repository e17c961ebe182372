// Network namespaces: one daemon may have RNICs in several.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/function_ref.h"

namespace urnic {

/// A network namespace; it stays reachable while this exists, even when its name is taken away, and when the
/// process has lost the right to enter it (CAP_SYS_ADMIN): a thread stays inside.
class NetNamespace {
  public:
    /// `name`: one that `ip netns` lists, a path such as /proc/PID/ns/net, or empty for the daemon's own.
    /// Throws SetupError when there is none, or when the daemon may not enter.
    explicit NetNamespace(const std::string& name);
    ~NetNamespace();
    NetNamespace(const NetNamespace&) = delete;
    NetNamespace& operator=(const NetNamespace&) = delete;

    /// Calls `function` inside the namespace, on the thread there, and waits for its end; what it throws is
    /// thrown here. Sockets made there stay there. One call at a time.
    template <typename Function>
    auto run(Function&& function) const {
        if (resident_ == nullptr) {
            return std::forward<Function>(function)();
        }
        std::packaged_task<std::invoke_result_t<Function>()> task(std::forward<Function>(function));
        auto result = task.get_future();
        run_inside(task);
        return result.get();
    }

  private:
    class Resident;
    void run_inside(FunctionRef function) const;

    std::unique_ptr<Resident> resident_;  // nullptr: the daemon's own
};

}  // namespace urnic
