// A subnet with hosts that take what comes, at once or when they are told to.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "netsim/infiniband/ib_network.h"
#include "netsim/infiniband/subnet_plan.h"

namespace urnic::netsim {

struct LabPacket : IbNetworkPacket {
    std::uint32_t number = 0;
    NodeIndex from = kNoNode;
};

struct SubnetArrival {
    TimeNs at = 0;
    NodeIndex host = kNoNode;
    std::uint32_t number = 0;
    NodeIndex from = kNoNode;
    std::uint8_t vl = 0;
};

inline constexpr LinkSpec kGigabit{.rate = 1'000'000'000, .delay_ns = 1'000};

class SubnetLab final : public IbNetworkOutbox {
  public:
    static IbNetworkOptions options(std::uint32_t buffer_blocks = 256) {
        IbNetworkOptions made;
        made.port.vl_buffer_blocks = buffer_blocks;
        return made;
    }

    explicit SubnetLab(const Topology& topology, const IbNetworkOptions& of_network = options(),
                       std::uint8_t lmc = 0)
        : network(topology, of_network, *this), hosts(topology.hosts()) {
        std::vector<Lid> lids;
        for (std::uint32_t i = 0; i < hosts.size(); ++i) {
            lids.push_back(static_cast<Lid>((i + 1) << lmc));
        }
        plan = make_subnet_plan(topology, lids, lmc);
        route();
        activate_ports(network, 0);
    }

    void route() { set_linear_routes(network, plan, find_linear_routes(network, plan)); }
    /// From host `from` to the LID.
    LabPacket& send(std::uint32_t from, Lid dlid, std::uint8_t sl = 0, std::uint32_t bytes = 4'096 + 26) {
        LabPacket& packet = packets.emplace_back();
        packet.bytes = bytes;
        packet.dlid = dlid;
        packet.sl = sl;
        packet.has_pkey = true;
        packet.pkey = 0xffff;
        packet.number = static_cast<std::uint32_t>(packets.size());
        packet.from = hosts[from];
        network.send(now, hosts[from], packet);
        return packet;
    }
    [[nodiscard]] Lid lid(std::uint32_t host) const { return plan.lids[hosts[host]]; }

    void run_until(TimeNs end) {
        while (network.deadline() <= end) {
            now = std::max(now, network.deadline());
            network.on_timer(now);
        }
        now = end;
    }
    void run() {
        while (network.deadline() != kNever) {
            run_until(network.deadline());
        }
    }
    /// Lets a host take what it has in its receive buffer.
    void take(std::uint32_t host) {
        std::vector<LabPacket*> kept = std::move(buffered[hosts[host]]);
        buffered[hosts[host]].clear();
        for (LabPacket* packet : kept) {
            network.consume(now, hosts[host], *packet);
        }
    }
    [[nodiscard]] std::size_t arrived_at(std::uint32_t host) const {
        return static_cast<std::size_t>(
            std::count_if(arrivals.begin(), arrivals.end(),
                          [&](const SubnetArrival& each) { return each.host == hosts[host]; }));
    }
    /// Of all ports.
    [[nodiscard]] std::uint64_t sum(std::uint64_t IbPortCounters::*counter) const {
        std::uint64_t all = 0;
        for (NodeIndex node = 0; node < network.topology().nodes.size(); ++node) {
            for (std::size_t i = 1; i <= network.routes().ports(node).size(); ++i) {
                all += network.port(node, static_cast<IbPortNumber>(i)).counters().*counter;
            }
        }
        return all;
    }
    /// The port of a switch that leads to a node.
    [[nodiscard]] IbPortNumber port_to(NodeIndex node, NodeIndex there) const {
        IbPortNumber number = 1;
        for (const TopologyPort& port : network.routes().ports(node)) {
            if (port.neighbour == there) {
                return number;
            }
            ++number;
        }
        return 0;
    }

    void deliver(TimeNs at, NodeIndex host, IbNetworkPacket& packet) override {
        auto& lab_packet = static_cast<LabPacket&>(packet);
        arrivals.push_back({at, host, lab_packet.number, lab_packet.from, packet.vl});
        if (slow.count(host) != 0) {
            buffered[host].push_back(&lab_packet);
        } else {
            network.consume(at, host, packet);
        }
    }
    void drop(TimeNs /*at*/, NodeIndex at, IbNetworkPacket& /*packet*/) override { dropped.push_back(at); }
    void wrong_pkey(TimeNs /*at*/, NodeIndex at, IbPortNumber port, const IbNetworkPacket& packet) override {
        wrong_pkeys.push_back({at, port, packet.pkey});
    }
    void to_management(TimeNs /*at*/, NodeIndex at, IbPortNumber ingress, IbNetworkPacket& packet) override {
        managed.push_back({at, ingress, &packet});
    }
    IbNetworkPacket* copy(const IbNetworkPacket& packet) override {
        return copies_left-- == 0 ? nullptr : &packets.emplace_back(static_cast<const LabPacket&>(packet));
    }
    void room(TimeNs /*at*/, NodeIndex host) override { ++rooms[host]; }

    struct Managed {
        NodeIndex at;
        IbPortNumber ingress;
        IbNetworkPacket* packet;
    };
    struct WrongPkey {
        NodeIndex at;
        IbPortNumber port;
        std::uint16_t pkey;
        bool operator==(const WrongPkey&) const = default;
    };
    IbNetwork network;
    std::vector<NodeIndex> hosts;
    SubnetPlan plan;
    TimeNs now = 0;
    std::deque<LabPacket> packets;
    std::vector<SubnetArrival> arrivals;
    std::vector<NodeIndex> dropped;
    std::vector<WrongPkey> wrong_pkeys;
    std::vector<Managed> managed;
    std::map<NodeIndex, int> rooms;  // calls of room()
    std::map<NodeIndex, int> slow;   // hosts that take what comes by take() alone
    std::map<NodeIndex, std::vector<LabPacket*>> buffered;
    std::uint32_t copies_left = 1'000'000;
};

}  // namespace urnic::netsim
