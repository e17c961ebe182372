/// One link in one thread: TAP device, UD QP, memberships and addresses of the kernel.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "ulp/ipoib/engine/coalescer.h"
#include "ulp/ipoib/engine/link.h"
#include "ulp/ipoib/tap/address_monitor.h"
#include "ulp/ipoib/tap/tap_device.h"
#include "ulp/ipoib/verbs/rc_endpoint.h"
#include "ulp/ipoib/verbs/rdma_port.h"
#include "ulp/ipoib/verbs/subnet.h"
#include "ulp/ipoib/verbs/ud_endpoint.h"

namespace urnic::ipoib {

struct ServiceConfig {
    PortSelection port;
    /// Of the UD QP and of its datagrams on RoCE; none: 0x80001B0B, and 2044. On InfiniBand the broadcast
    /// group says what they are.
    std::optional<std::uint32_t> qkey;
    std::optional<std::uint32_t> mtu;
    RoceTraffic traffic;
    std::uint32_t depth = 512;  ///< receives, and send slots
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
    /// What the QP is to be, by the options or by the subnet.
    [[nodiscard]] UdConfig make_addressing();
    void make_connected_mode();
    void take_events();
    /// InfiniBand: answers of the subnet administrator, and what has to be joined again.
    void follow_subnet();
    /// Milliseconds until there is something to do at the latest.
    [[nodiscard]] int patience_ms() const;
    void on_connected(std::uint32_t qpn, ConstOctets payload) override { link_->on_connected(qpn, payload); }
    void on_acknowledged(std::uint32_t qpn) override { link_->on_acknowledged(qpn); }
    void on_broken(std::uint32_t qpn) override { link_->on_broken(qpn); }
    void watch_memberships(ConstOctets frame);

    ServiceConfig config_;
    RdmaPort port_;
    LinkScope scope_;
    std::unique_ptr<Subnet> subnet_;
    std::unique_ptr<RoceAddressing> roce_;
    UdConfig ud_config_;
    UdEndpoint endpoint_;
    std::unique_ptr<RcEndpoint> rc_;
    LinkConfig link_config_;
    std::unique_ptr<TapDevice> tap_;
    std::unique_ptr<Coalescer> coalescer_;
    std::unique_ptr<Link> link_;
    std::unique_ptr<AddressMonitor> addresses_;
    bool has_new_memberships_ = true;
    bool has_new_subnet_ = false;
    bool has_answers_ = true;  ///< of the subnet administrator
    std::uint64_t next_join_ms_ = 0;
};

}  // namespace urnic::ipoib
