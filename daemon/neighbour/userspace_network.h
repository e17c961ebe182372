// An RNIC with addresses of its own, which the kernel knows nothing of: answers and asks by ARP and neighbour
// discovery itself, and finds next hops by prefixes, routes and gateways from the configuration.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/neighbour/frame_socket.h"
#include "daemon/neighbour/path_resolver.h"
#include "daemon/state/control_state.h"
#include "dataplane/handoff/frame_inbox.h"
#include "os/timer_fd.h"

namespace urnic::daemon {

class UserspaceNetwork final : public Network, private net::NeighbourOutbox {
  public:
    /// Before the workers start. Throws std::system_error.
    UserspaceNetwork(dataplane::Device& device, const RnicConfig& rnic, const NeighbourResolver& configured);
    /// Workers do not see ARP and ND on this interface; before start(). Throws SetupError.
    void listen(const std::string& interface, const std::string& netns);
    /// When they run and the control server does not yet.
    void start(ControlState& control);

    [[nodiscard]] PathResolver& path_resolver() { return path_resolver_; }
    [[nodiscard]] const net::NeighbourCache& cache() const { return cache_; }

    [[nodiscard]] std::optional<net::Hop> route(const wire::Gid& source, std::uint16_t vlan,
                                                const wire::Gid& destination) override;
    [[nodiscard]] bool want(const net::Hop& hop, const wire::Gid& source) override;
    void drop(const net::Hop& hop) override { cache_.drop(hop); }
    [[nodiscard]] std::optional<wire::Mac> find(const net::Hop& hop) const override {
        return cache_.find(hop);
    }

  private:
    void send(const net::NeighbourMessage& message) override;
    void changed(const net::Hop& hop, const std::optional<wire::Mac>& mac) override;
    void conflict(const net::Hop& own, const wire::Mac& other) override;

    void on_frames();
    void on_arp_socket();
    void take(const dataplane::FrameInbox::Frame& frame, TimeNs now);
    void on_time();
    /// Gives workers what was sent, and sets the clock for what is next.
    void finish();

    dataplane::Device& device_;
    std::map<std::uint16_t, std::vector<RouteConfig>> routes_;  // by VLAN
    ControlState* control_ = nullptr;
    dataplane::FrameInbox inbox_;
    std::optional<FrameSocket> arp_socket_;
    TimerFd timer_;
    net::NeighbourCache cache_;
    PathResolver path_resolver_;
    TimeNs conflict_logged_ = 0;
    std::vector<dataplane::FrameInbox::Frame> to_send_;
};

}  // namespace urnic::daemon
