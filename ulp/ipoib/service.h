/// One link in one thread: TAP device, UD QP, memberships and addresses of the kernel.
#pragma once

#include <memory>
#include <string>

#include "ulp/ipoib/engine/coalescer.h"
#include "ulp/ipoib/engine/link.h"
#include "ulp/ipoib/tap/address_monitor.h"
#include "ulp/ipoib/tap/tap_device.h"
#include "ulp/ipoib/verbs/rc_endpoint.h"
#include "ulp/ipoib/verbs/ud_endpoint.h"

namespace urnic::ipoib {

struct ServiceConfig {
    UdConfig ud;
    std::string interface = "ib%d";
    std::uint8_t scope = 2;
    bool is_connected = false;  ///< connected mode (RFC 4755)
    std::uint32_t connected_mtu = kConnectedMtu;
    std::uint32_t connected_depth = 128;  ///< receives, and send slots, of 64 KiB
    std::uint32_t max_connections = 128;
    std::uint32_t idle_seconds = 300;
};

class Service : private RcEndpoint::Listener {
  public:
    /// Makes the link and joins its broadcast group. Throws SetupError.
    explicit Service(const ServiceConfig& config);
    ~Service() override;
    /// Until `stop_fd` is readable; `report_fd` readable: print_counters().
    void run(int stop_fd, int report_fd);
    /// One line: interface, device, GID, QPN, MTU, broadcast group.
    [[nodiscard]] std::string description() const;
    void print_counters() const;

  private:
    /// Moves what is there, both ways, without waiting; returns whether there was something.
    bool move();
    void follow_memberships();
    /// Frames of the kernel to the link.
    bool read_frames();
    [[nodiscard]] bool can_read() const {
        return !link_->has_waiting_segments() && endpoint_.free_slots() != 0 &&
               (rc_ == nullptr || rc_->free_slots() != 0);
    }
    void make_connected_mode();
    void take_events();
    /// Milliseconds until there is something to do at the latest.
    [[nodiscard]] int patience_ms() const;
    void on_connected(std::uint32_t qpn, ConstOctets payload) override { link_->on_connected(qpn, payload); }
    void on_acknowledged(std::uint32_t qpn) override { link_->on_acknowledged(qpn); }
    void on_broken(std::uint32_t qpn) override { link_->on_broken(qpn); }
    void watch_memberships(ConstOctets frame);

    ServiceConfig config_;
    UdEndpoint endpoint_;
    std::unique_ptr<RcEndpoint> rc_;
    LinkConfig link_config_;
    std::unique_ptr<TapDevice> tap_;
    std::unique_ptr<Coalescer> coalescer_;
    std::unique_ptr<Link> link_;
    std::unique_ptr<AddressMonitor> addresses_;
    bool has_new_memberships_ = true;
};

}  // namespace urnic::ipoib
