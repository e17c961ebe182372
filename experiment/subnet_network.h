// The InfiniBand network of an experiment: packets with an LRH through switches with credits and virtual
// lanes, as in an emulated subnet of the daemon that nobody manages (dataplane/wire/emulated_subnet.h).
#pragma once

#include <array>
#include <vector>

#include "experiment/config.h"
#include "experiment/virtual_network.h"
#include "netsim/infiniband/ib_network.h"
#include "netsim/infiniband/subnet_plan.h"

namespace urnic::experiment {

class SubnetNetwork final : public VirtualNetwork, public netsim::IbNetworkOutbox {
  public:
    SubnetNetwork(const ExperimentConfig& config, VirtualNetworkListener& listener);

    [[nodiscard]] VirtualPath path(netsim::NodeIndex from, netsim::NodeIndex to,
                                   std::uint16_t udp_source_port, std::uint8_t sl) const override;
    [[nodiscard]] bool has_room(netsim::NodeIndex host, std::uint8_t lane) const override {
        return network_.port(host, 1).waiting_bytes(lane) == 0;
    }
    [[nodiscard]] VirtualPacket& take() override { return packets_.take(); }
    void give_back(VirtualPacket& packet) override { packets_.give_back(static_cast<LinkPacket&>(packet)); }
    void send(TimeNs now, const wire::Path& path, std::uint64_t hash, VirtualPacket& packet) override;
    void describe(const VirtualPacket& packet, netsim::NodeIndex host, wire::PacketView& view) const override;
    [[nodiscard]] TimeNs deadline() const override { return network_.deadline(); }
    void on_timer(TimeNs now) override { network_.on_timer(now); }
    [[nodiscard]] netsim::NodeIndex next_node() const override { return network_.next_node(); }
    [[nodiscard]] netsim::PortIndex egress(netsim::NodeIndex node, netsim::NodeIndex to,
                                           const VirtualPath& path) const override;
    [[nodiscard]] trace::PortView look(netsim::NodeIndex node, netsim::PortIndex port,
                                       TimeNs now) const override;
    /// Of hosts, too: their ports wait for credit as those of switches do.
    [[nodiscard]] const std::vector<VirtualPort>& ports() const override { return ports_; }
    [[nodiscard]] PortReading read(std::size_t port, TimeNs now) const override;
    [[nodiscard]] std::uint64_t pauses_received(netsim::NodeIndex /*host*/) const override { return 0; }
    [[nodiscard]] std::uint64_t events() const override { return network_.events(); }

    // IbNetworkOutbox
    void deliver(TimeNs now, netsim::NodeIndex host, netsim::IbNetworkPacket& packet) override;
    void drop(TimeNs now, netsim::NodeIndex at, netsim::IbNetworkPacket& packet) override;
    void to_management(TimeNs now, netsim::NodeIndex at, netsim::IbPortNumber ingress,
                       netsim::IbNetworkPacket& packet) override;
    netsim::IbNetworkPacket* copy(const netsim::IbNetworkPacket& packet) override;
    void room(TimeNs now, netsim::NodeIndex host) override { listener_.room(now, host); }

  private:
    struct LinkPacket : netsim::IbNetworkPacket, VirtualPacket {
        netsim::Lid slid = 0;
    };
    struct Place {
        netsim::NodeIndex node;
        netsim::IbPortNumber port;
    };

    VirtualNetworkListener& listener_;
    netsim::IbNetwork network_;
    std::vector<netsim::Lid> lids_;  // by node
    std::array<std::uint8_t, netsim::kSls> sl_to_vl_{};
    PacketPool<LinkPacket> packets_;
    std::vector<VirtualPort> ports_;
    std::vector<Place> places_;  // of them
};

}  // namespace urnic::experiment
