// What the kernel says of one of its network interfaces, now and when something changes.
#pragma once

#include <cstdint>
#include <string>

#include "base/address.h"
#include "os/unique_fd.h"

namespace urnic {

struct InterfaceFacts {
    int index = 0;  // 0: there is no such interface
    Mac mac{};
    std::uint32_t mtu_bytes = 0;
    bool is_up = false;  // as `ip link set` wants it
    bool link = false;   // and it has a carrier
};

/// Looks at the interface of that name in the network namespace in which this was made.
class NetInterface {
  public:
    /// Throws SetupError when the kernel gives no socket.
    explicit NetInterface(const std::string& name);

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] InterfaceFacts look() const;
    /// "veth", as `ethtool -i` has it; empty: the driver does not say.
    [[nodiscard]] std::string look_up_driver() const;
    /// Readable when some interface of the namespace has changed, until forget_changes(). Changes that come
    /// faster than one looks run into each other.
    [[nodiscard]] int changes_fd() const { return changes_.get(); }
    void forget_changes() const;

  private:
    std::string name_;
    UniqueFd query_;
    UniqueFd changes_;
};

/// The largest path MTU (256 to 4096) whose packets fit into an interface's MTU; 0: not even the smallest.
[[nodiscard]] std::uint32_t path_mtu_within(std::uint32_t interface_mtu_bytes);
/// The MTU that an interface needs for a path MTU.
[[nodiscard]] std::uint32_t interface_mtu_for(std::uint32_t path_mtu_bytes);

}  // namespace urnic
