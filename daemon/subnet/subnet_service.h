// Management of the subnets of InfiniBand: their nodes, agents and programs (docs/adr/0033). The control
// thread's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/state/control_state.h"
#include "daemon/state/subnet_gsi.h"
#include "daemon/subnet/infiniband_fabric.h"
#include "daemon/subnet/mad_capture.h"
#include "daemon/subnet/umad_server.h"
#include "dataplane/handoff/key_violation_inbox.h"
#include "os/event_loop.h"
#include "os/timer_fd.h"
#include "rnic/subnet/subnet.h"
#include "rnic/subnet/subnet_administrator.h"

namespace urnic::daemon {

class SubnetService final : private subnet::SubnetHost, private RnicObserver, private SubnetGsi {
  public:
    /// After the sysroot was written at `tree`. Throws std::system_error: sockets cannot be made there.
    SubnetService(ControlState& control, std::vector<InfinibandFabric> fabrics, const std::string& tree);
    SubnetService(const SubnetService&) = delete;
    SubnetService& operator=(const SubnetService&) = delete;
    ~SubnetService() override;

  private:
    /// Where packets with a wrong key are told of for a node.
    struct KeyReports {
        dataplane::KeyViolationInbox* inbox = nullptr;  // nullptr: nobody tells
        EventLoop::Id events = 0;
        TimeNs next_trap = 0;  // when the next one is of use
    };
    /// An RNIC's node, and the number of its umad.
    struct Port {
        subnet::NodeId node = 0;
        RnicState* rnic = nullptr;
        std::uint32_t fabric = 0;
        std::uint32_t number = 0;  // on the fabric
        subnet::NodeId switch_node = 0;
        std::uint8_t switch_port = 0;
        bool has_program = false;  // that is a subnet manager: its issm is open
        KeyReports keys;
        std::uint64_t seen_bad_pkeys = 0;  // that PortInfo has counted
        std::uint64_t seen_bad_qkeys = 0;
    };
    struct Switch {
        subnet::NodeId node = 0;
        std::uint32_t fabric = 0;
        std::uint32_t at = 0;  // in InfinibandFabric::switches
        KeyReports keys;
    };

    void add_fabric(std::uint32_t index);
    void add_port(std::uint32_t index, std::uint32_t number, const std::vector<subnet::NodeId>& switches);
    void add_idle_hosts(std::uint32_t index, const std::vector<subnet::NodeId>& switches);
    void listen_for_key_violations();
    void listen_for_key_violations(subnet::NodeId node, KeyReports& keys);
    void ignore_key_violations();
    void want_key_violations(TimeNs now);
    [[nodiscard]] TimeNs next_key_event() const;
    template <typename Visit>
    void for_each_key_reports(const Visit& visit) const;
    void add_administrator(std::uint32_t index);
    void lock(std::uint32_t index);
    void take_plan(std::uint32_t index);
    void follow_trunks(std::uint32_t index);
    void set_trunk(std::uint32_t index, std::uint32_t port, bool up);
    [[nodiscard]] std::uint16_t home_lid(std::uint32_t index) const;
    [[nodiscard]] subnet::SubnetAdministrator* administrator_at(const Port& port);
    void set_program(Port& port, bool has_program);
    void say_is_sm(const Port& port);
    [[nodiscard]] Port* port_of_node(subnet::NodeId node);
    [[nodiscard]] Port* port_of_rnic(const RnicState& rnic);
    [[nodiscard]] const Port* port_of_rnic(const RnicState& rnic) const;
    void run();
    void arm(bool has_more);
    void tell(const Port& port, std::optional<AsyncEventType> event);
    void sync(Port& port, bool is_reregister);
    void take_trunks(std::uint32_t fabric);
    void write_linear(const Switch& at, std::uint16_t first, std::size_t count);
    void write_multicast(const Switch& at, std::uint16_t block);
    void on_switch_change(const Switch& at, const subnet::Change& change);
    void on_rnic_change(Port& port, const subnet::Change& change);
    void read_lanes(subnet::NodeId node, WirePort port, const InfinibandFabric& fabric);
    [[nodiscard]] const Switch* switch_of_node(subnet::NodeId node) const;

    void on_change(subnet::NodeId node, const subnet::Change& change) override;
    void on_port_state(subnet::NodeId node, std::uint8_t port) override;
    bool deliver(subnet::NodeId node, const subnet::MadPacket& packet) override;
    void read_counters(subnet::NodeId node, std::uint8_t port, subnet::PortCounterValues& values) override;
    void refresh_port_info(subnet::NodeId node) override;

    void on_port_state(const RnicState& /*rnic*/, bool /*is_up*/) override {}
    void on_gids(const RnicState& /*rnic*/) override {}
    void on_link(RnicState& rnic, bool has_link) override;

    [[nodiscard]] bool share_subnet(const RnicState& a, const RnicState& b) const override;
    [[nodiscard]] RnicState* find_lid(const RnicState& on, std::uint16_t lid) const override;
    void send(const RnicState& from, const subnet::MadPacket& packet) override;

    ControlState& control_;
    std::vector<InfinibandFabric> fabrics_;
    std::vector<Switch> switches_;
    std::vector<Port> ports_;  // by umad
    subnet::Subnet subnet_{*this};
    MadCapture capture_{control_.captures, subnet_};
    /// Of fabrics that no program manages; by fabric, nullptr of the others. It is at the first RNIC's port.
    std::vector<std::unique_ptr<subnet::SubnetAdministrator>> administrators_;
    std::optional<UmadServer> umads_;
    TimerFd timer_;
    EventLoop::Id timer_events_ = 0;
    TimeNs armed_for_ = kNever;
    bool is_running_ = false;
};

}  // namespace urnic::daemon
