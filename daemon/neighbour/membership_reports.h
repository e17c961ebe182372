// The multicast groups of an RNIC on a real port, told to routers and switches by IGMP and MLD.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/neighbour/frame_socket.h"
#include "daemon/state/control_state.h"
#include "dataplane/handoff/frame_inbox.h"
#include "os/timer_fd.h"
#include "rnic/neighbour/membership_reporter.h"

namespace urnic::daemon {

class MembershipReports final : private net::ReportOutbox {
  public:
    /// Before the workers start; `seed`: of random delays. An RNIC with addresses of its own reports the
    /// groups by which its neighbours ask for them, too; for a borrowed one the kernel does. Throws
    /// std::system_error.
    MembershipReports(dataplane::Device& device, bool has_own_addresses, std::uint64_t seed);
    /// Queries come by a socket on that interface; before start(). Throws SetupError.
    void listen(const std::string& interface, const std::string& netns);
    /// Queries come by the workers; before they start.
    void listen_to_port() { device_.query_inbox = &inbox_; }
    /// When the workers run and the control server does not yet.
    void start(ControlState& control);
    /// The groups that have members.
    void set_groups(std::span<const wire::Gid> groups);

  private:
    void send_report(std::span<const std::byte> frame) override;
    void on_inbox();
    void on_socket();
    void take(const dataplane::FrameInbox::Frame& frame);
    /// Those and the RNIC's own.
    [[nodiscard]] std::vector<wire::Gid> with_own(std::span<const wire::Gid> groups) const;
    /// Addresses may have changed.
    void refresh_sources();
    /// Gives a worker what was sent, and sets the clock for what is next.
    void finish();

    dataplane::Device& device_;
    bool has_own_addresses_;
    ControlState* control_ = nullptr;
    dataplane::FrameInbox inbox_;
    std::optional<FrameSocket> socket_;
    TimerFd timer_;
    net::MembershipReporter reporter_;
    std::vector<dataplane::FrameInbox::Frame> to_send_;
};

}  // namespace urnic::daemon
