// An RNIC that borrows the addresses of a kernel interface: MAC, IPv4, IPv6 and VLAN sub-interfaces are the
// kernel's and are followed while the daemon runs; so are routes and neighbours. The kernel answers ARP and
// neighbour discovery, and asks when we want to know.
#pragma once

#include <map>
#include <string>

#include "base/time.h"
#include "daemon/neighbour/path_resolver.h"
#include "daemon/neighbour/rtnetlink.h"
#include "daemon/state/control_state.h"
#include "os/timer_fd.h"

namespace urnic::daemon {

class KernelNetwork final : public Network {
  public:
    /// Before the workers start: fills the device's addresses. Throws SetupError.
    KernelNetwork(dataplane::Device& device, const std::string& interface, const std::string& netns,
                  const NeighbourResolver& configured);
    /// When they run and the control server does not yet.
    void start(ControlState& control, RnicState& entry);

    [[nodiscard]] PathResolver& path_resolver() { return path_resolver_; }

    [[nodiscard]] std::optional<net::Hop> route(const wire::Gid& source, std::uint16_t vlan,
                                                const wire::Gid& destination) override;
    [[nodiscard]] bool want(const net::Hop& hop, const wire::Gid& source) override;
    void drop(const net::Hop& hop) override { hops_.erase(hop); }
    [[nodiscard]] std::optional<wire::Mac> find(const net::Hop& hop) const override;

  private:
    struct Known {
        std::optional<wire::Mac> mac;
        bool is_fresh = false;
    };

    void on_change();
    void on_time();
    void refresh_view();
    void resolve(const net::Hop& hop);
    void learn(const net::Hop& hop, const std::optional<KernelNeighbour>& said);
    void announce() const;
    void set_timer();
    [[nodiscard]] int interface_of(std::uint16_t vlan) const;

    dataplane::Device& device_;
    std::string interface_;
    Rtnetlink netlink_;
    InterfaceView view_;
    ControlState* control_ = nullptr;
    RnicState* entry_ = nullptr;
    TimerFd timer_;
    std::map<net::Hop, Known> hops_;
    PathResolver path_resolver_;
    TimeNs looked_ = 0;
    bool must_look_ = false;
    bool may_not_resolve_ = false;
};

}  // namespace urnic::daemon
