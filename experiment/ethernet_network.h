// The Ethernet network of an experiment: RoCEv2 through shared-buffer switches with ECN marks and pauses.
#pragma once

#include <vector>

#include "experiment/config.h"
#include "experiment/virtual_network.h"
#include "netsim/network/network.h"

namespace urnic::experiment {

class EthernetNetwork final : public VirtualNetwork, public netsim::NetworkOutbox {
  public:
    EthernetNetwork(const ExperimentConfig& config, VirtualNetworkListener& listener);

    [[nodiscard]] VirtualPath path(netsim::NodeIndex from, netsim::NodeIndex to,
                                   std::uint16_t udp_source_port, std::uint8_t sl) const override;
    [[nodiscard]] bool has_room(netsim::NodeIndex host, std::uint8_t lane) const override {
        return network_.waiting_bytes(host, lane) == 0;
    }
    [[nodiscard]] VirtualPacket& take() override { return packets_.take(); }
    void give_back(VirtualPacket& packet) override { packets_.give_back(static_cast<Frame&>(packet)); }
    void send(TimeNs now, const wire::Path& path, std::uint64_t hash, VirtualPacket& packet) override;
    void describe(const VirtualPacket& packet, netsim::NodeIndex host, wire::PacketView& view) const override;
    [[nodiscard]] TimeNs deadline() const override { return network_.deadline(); }
    void on_timer(TimeNs now) override { network_.on_timer(now); }
    [[nodiscard]] netsim::NodeIndex next_node() const override { return network_.next_node(); }
    [[nodiscard]] netsim::PortIndex egress(netsim::NodeIndex node, netsim::NodeIndex to,
                                           const VirtualPath& path) const override {
        return network_.egress(node, to, path.hash).value_or(0);
    }
    [[nodiscard]] trace::PortView look(netsim::NodeIndex node, netsim::PortIndex port,
                                       TimeNs now) const override;
    [[nodiscard]] const std::vector<VirtualPort>& ports() const override { return ports_; }
    [[nodiscard]] PortReading read(std::size_t port, TimeNs now) const override;
    [[nodiscard]] std::uint64_t pauses_received(netsim::NodeIndex host) const override {
        return network_.pauses_received(host);
    }
    [[nodiscard]] std::uint64_t events() const override { return network_.events(); }

    // NetworkOutbox
    void deliver(TimeNs now, netsim::NodeIndex host, netsim::NetworkPacket& packet) override;
    void drop(TimeNs now, netsim::NodeIndex at, netsim::NetworkPacket& packet) override;
    void room(TimeNs now, netsim::NodeIndex host) override { listener_.room(now, host); }

  private:
    struct Frame : netsim::NetworkPacket, VirtualPacket {
        std::uint8_t traffic_class = 0;
    };
    struct Place {
        netsim::NodeIndex node;
        netsim::PortIndex port;
    };

    VirtualNetworkListener& listener_;
    std::uint8_t priority_;  // of all data
    netsim::Network network_;
    PacketPool<Frame> packets_;
    std::vector<VirtualPort> ports_;
    std::vector<Place> places_;  // of them
};

}  // namespace urnic::experiment
