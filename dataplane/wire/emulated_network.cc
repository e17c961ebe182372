#include "dataplane/wire/emulated_network.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <utility>

#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/in_process_switch.h"
#include "dataplane/wire/network_port.h"
#include "dataplane/wire/worker_rings.h"
#include "netsim/topology/routes.h"
#include "netsim/topology/topology.h"
#include "os/setup_error.h"
#include "rnic/wire/dissect/eth/pause_frame.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/peek.h"

namespace urnic::dataplane {

namespace {

/// Bytes that wait in an RNIC's port before it takes no more from its QPs.
constexpr std::uint64_t kPortBytes = 16384;
/// Pause frames under way at once; RNICs leave half of them to the switches.
constexpr std::uint32_t kPauseFrames = 1024;
/// Source of a pause frame from a switch to an RNIC: a made-up MAC, as emulated switches have none.
constexpr wire::Mac kSwitchMac{0x02, 0x00, 0x00, 0xff, 0xff, 0xfe};

std::uint8_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
    return at < bytes.size() ? static_cast<std::uint8_t>(bytes[at]) : std::uint8_t{0};
}

/// Of the five-tuple, as switches choose among equal ways by it.
std::uint64_t flow_hash_of(std::span<const std::byte> frame, const wire::Peek& seen) {
    netsim::FlowKey key;
    const std::size_t address_bytes = seen.is_ipv4 ? 4 : 16;
    const std::size_t source = seen.l3_offset + (seen.is_ipv4 ? wire::kIpv4Source : wire::kIpv6Source);
    for (std::size_t i = 0; i < address_bytes; ++i) {
        key.source[16 - address_bytes + i] = byte_at(frame, source + i);
        key.destination[16 - address_bytes + i] = byte_at(frame, source + address_bytes + i);
    }
    key.protocol =
        byte_at(frame, seen.l3_offset + (seen.is_ipv4 ? wire::kIpv4Protocol : wire::kIpv6NextHeader));
    const std::size_t ports = seen.l3_offset + (seen.is_ipv4 ? wire::kIpv4Bytes : wire::kIpv6Bytes);
    const auto port_at = [&](std::size_t at) {
        return static_cast<std::uint16_t>(byte_at(frame, at) << 8U | byte_at(frame, at + 1));
    };
    key.source_port = port_at(ports + wire::kUdpSourcePort);
    key.destination_port = port_at(ports + wire::kUdpDestinationPort);
    return netsim::flow_hash(key);
}

}  // namespace

struct EmulatedNetwork::Impl final : netsim::NetworkOutbox {
    struct Item : netsim::NetworkPacket {
        rte_mbuf* frame = nullptr;
        std::uint32_t port = 0;  // that it is for
    };
    class RnicPort final : public NetworkPort<Impl> {
      public:
        using NetworkPort::NetworkPort;
        void set_mac(const wire::Mac& mac) override { switch_port().set_mac(mac); }

      private:
        std::uint16_t rx_own(rte_mbuf** frames, std::uint16_t count) override {
            return network().receive_pause(index(), frames, count);
        }
    };

    Impl(const Options& options, InProcessSwitch& wire_of_all, std::uint32_t num_ports,
         WorkerHandoff& handoff_of_all);
    ~Impl() override;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void deliver(TimeNs now, netsim::NodeIndex host, netsim::NetworkPacket& packet) override;
    void drop(TimeNs now, netsim::NodeIndex at, netsim::NetworkPacket& packet) override;
    void room(TimeNs /*now*/, netsim::NodeIndex /*host*/) override {}
    void paused(TimeNs now, netsim::NodeIndex host, std::uint8_t priority, std::uint16_t quanta) override;

    void run();
    std::uint16_t transmit(std::uint32_t port, rte_mbuf** frames, std::uint16_t count);
    /// Returns false if it has to wait.
    [[nodiscard]] bool send(std::uint32_t port, rte_mbuf* frame);
    /// Sends a MAC control frame of an RNIC to its switch. Returns false if it has to wait.
    [[nodiscard]] bool send_pause(std::uint32_t port, rte_mbuf* frame);
    /// Builds a pause frame for the RNIC if its switch has paused or resumed it. Returns the number of
    /// frames.
    std::uint16_t receive_pause(std::uint32_t port, rte_mbuf** frames, std::uint16_t count);
    [[nodiscard]] bool flush_arrived();
    [[nodiscard]] std::uint64_t hash_of(std::span<const std::byte> frame, const wire::Peek& seen) const {
        return has_equal_ways && seen.is_ip ? flow_hash_of(frame, seen) : 0;
    }
    /// As view() numbers the port of a switch.
    [[nodiscard]] std::uint32_t number_of(netsim::NodeIndex node, netsim::PortIndex port) const;
    [[nodiscard]] TimeNs next_event(std::uint32_t port) const {
        return has_arrivals[port] != 0 ? 0 : network->deadline();
    }

    // The port of a switch.
    struct Trunk {
        netsim::NodeIndex node = netsim::kNoNode;
        netsim::PortIndex port = 0;
    };

    InProcessSwitch& wire;
    rte_mempool* pool;
    std::uint8_t lossless;
    bool has_equal_ways;
    TimeNs now = 0;   // that it is
    TimeNs time = 0;  // that the network has come to
    std::unique_ptr<netsim::Network> network;
    std::vector<netsim::NodeIndex> hosts;     // by port
    std::vector<std::uint32_t> port_of_node;  // of the hosts
    std::vector<Trunk> trunks;
    std::vector<std::string> trunk_names;
    std::vector<wire::Pfc> pauses;  // by port: the RNIC has not received it yet
    std::vector<std::unique_ptr<RnicPort>> ports;
    std::vector<NetworkPortView>
        sent;  // what each RNIC has given to the network; what was dropped before a switch
    WorkerRings rings;
    std::vector<Item> items;
    std::vector<Item*> free_items;
    rte_mbuf* arrived = nullptr;  // while the RNIC's ring has no room for it
    std::uint32_t arrived_at = 0;
    // By port: something was delivered since worker 0 last found the port empty. The other ports' rx_burst()
    // runs the network, too, and a worker is not woken for frames that it sends to itself.
    std::vector<std::uint8_t> has_arrivals;
};

EmulatedNetwork::Impl::Impl(const Options& options, InProcessSwitch& wire_of_all, std::uint32_t num_ports,
                            WorkerHandoff& handoff_of_all)
    : wire(wire_of_all),
      pool(options.pool),
      lossless(options.switches.pfc.lossless),
      has_equal_ways(options.topology.links.size() >= options.topology.nodes.size()),  // a tree has none
      hosts(options.topology.hosts()),
      port_of_node(options.topology.nodes.size()),
      pauses(num_ports),
      rings(num_ports, handoff_of_all),
      items(options.frames) {
    const netsim::Topology& topology = options.topology;
    if (const std::string problem = netsim::problem_of(topology); !problem.empty()) {
        throw SetupError("cannot emulate a wire: " + problem);
    }
    if (hosts.size() != num_ports) {
        throw SetupError("cannot emulate a wire: its topology has another number of hosts than it has RNICs");
    }
    netsim::NetworkOptions network_options;
    network_options.switches = options.switches;
    network_options.weights = options.weights;
    network_options.seed = options.seed;
    network_options.pause_frames = kPauseFrames;
    network = std::make_unique<netsim::Network>(topology, network_options, *this);
    for (std::uint32_t i = 0; i < num_ports; ++i) {
        port_of_node[hosts[i]] = i;
        ports.push_back(std::make_unique<RnicPort>(*this, i));
    }
    for (netsim::NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        const auto of_node = network->routes().ports(node);
        for (std::size_t port = 0; port < of_node.size(); ++port) {
            const netsim::TopologyNode& there = topology.nodes[of_node[port].neighbour];
            if (!topology.nodes[node].is_host && !there.is_host) {
                trunks.push_back({node, static_cast<netsim::PortIndex>(port)});
                trunk_names.push_back(topology.nodes[node].name + ">" + there.name);
            }
        }
    }
    sent.resize(num_ports);
    free_items.reserve(items.size());
    for (Item& item : items) {
        free_items.push_back(&item);
    }
    has_arrivals.resize(num_ports);
}

EmulatedNetwork::Impl::~Impl() {
    for (const Item& item : items) {
        rte_pktmbuf_free(item.frame);
    }
    rte_pktmbuf_free(arrived);
}

void EmulatedNetwork::Impl::deliver(TimeNs /*now*/, netsim::NodeIndex /*host*/,
                                    netsim::NetworkPacket& packet) {
    Item& item = static_cast<Item&>(packet);
    if (item.marked) {
        wire::set_ce({rte_pktmbuf_mtod(item.frame, std::byte*), std::size_t{item.frame->data_len}});
    }
    arrived = std::exchange(item.frame, nullptr);  // there is none: see run()
    arrived_at = item.port;
    free_items.push_back(&item);
}

void EmulatedNetwork::Impl::drop(TimeNs /*now*/, netsim::NodeIndex /*at*/, netsim::NetworkPacket& packet) {
    Item& item = static_cast<Item&>(packet);
    rte_mbuf* frame = std::exchange(item.frame, nullptr);
    free_frames({&frame, 1});
    free_items.push_back(&item);
}

// The host's port has obeyed already: this is for the RNIC's QPs, of which others continue.
void EmulatedNetwork::Impl::paused(TimeNs /*now*/, netsim::NodeIndex host, std::uint8_t priority,
                                   std::uint16_t quanta) {
    if (pool != nullptr) {
        const std::uint32_t port = port_of_node[host];
        pauses[port].class_enable = static_cast<std::uint8_t>(pauses[port].class_enable | 1U << priority);
        pauses[port].pause_quanta[priority] = quanta;
        has_arrivals[port] = 1;
    }
}

std::uint16_t EmulatedNetwork::Impl::receive_pause(std::uint32_t port, rte_mbuf** frames,
                                                   std::uint16_t count) {
    if (pauses[port].class_enable == 0 || count == 0 || !alloc_frames(pool, {frames, 1})) [[likely]] {
        return 0;
    }
    wire::build_pause_frame(kSwitchMac, pauses[port],
                            std::span<std::byte, wire::kPauseFrameBytes>(
                                rte_pktmbuf_mtod(*frames, std::byte*), wire::kPauseFrameBytes));
    (*frames)->data_len = wire::kPauseFrameBytes;
    (*frames)->pkt_len = wire::kPauseFrameBytes;
    pauses[port] = {};
    return 1;
}

bool EmulatedNetwork::Impl::send_pause(std::uint32_t port, rte_mbuf* frame) {
    wire::Pfc pause;
    const bool is_pause = wire::parse_pause_frame(frame_bytes(frame), pause);
    if (is_pause && network->spare_pauses() < kPauseFrames / 2) {
        return false;
    }
    for (std::uint8_t priority = 0; is_pause && priority < wire::kPriorities; ++priority) {
        if ((pause.class_enable >> priority & 1U) != 0) {
            network->send_pause(time, hosts[port], priority, pause.pause_quanta[priority]);
        }
    }
    sent[port].counters.dropped += is_pause ? 0 : 1;
    free_frames({&frame, 1});
    return true;
}

// The wire delivers by MAC: which of its ports sends is all the same.
bool EmulatedNetwork::Impl::flush_arrived() {
    if (arrived == nullptr) {
        return true;
    }
    if (wire.port(0).tx_burst(0, &arrived, 1) == 0) {
        return false;
    }
    arrived = nullptr;
    has_arrivals[arrived_at] = 1;
    return true;
}

std::uint32_t EmulatedNetwork::Impl::number_of(netsim::NodeIndex node, netsim::PortIndex port) const {
    const auto is_it = [&](const Trunk& trunk) { return trunk.node == node && trunk.port == port; };
    const auto trunk = std::find_if(trunks.begin(), trunks.end(), is_it);
    return trunk == trunks.end() ? port_of_node[network->routes().ports(node)[port].neighbour]
                                 : static_cast<std::uint32_t>(hosts.size() + (trunk - trunks.begin()));
}

// Everything happens at its own time, however late in a round this is called: only what comes out does so
// later. An RNIC that does not take what is for it stops the network's time, as a lossless wire does.
void EmulatedNetwork::Impl::run() {
    while (flush_arrived() && network->deadline() <= now) {
        time = std::max(time, network->deadline());
        network->on_timer(time);
    }
    if (arrived == nullptr) {
        time = std::max(time, now);
    }
    rings.dequeue([this](std::uint32_t port, rte_mbuf* frame) { return send(port, frame); });
}

bool EmulatedNetwork::Impl::send(std::uint32_t port, rte_mbuf* frame) {
    const std::span<const std::byte> bytes = frame_bytes(frame);
    if (wire::is_mac_control(bytes)) [[unlikely]] {
        return send_pause(port, frame);
    }
    const std::optional<std::uint32_t> to = bytes.size() < 6 ? std::nullopt : wire.port_of(bytes);
    if (!to || *to == port) {
        // Multicast, unknown MACs, and its own: past the network.
        return wire.port(port).tx_burst(0, &frame, 1) == 1;
    }
    const wire::Peek seen = wire::peek(bytes);
    const std::uint8_t priority = seen.priority();
    if (network->waiting_bytes(hosts[port], priority) >= kPortBytes) {
        return false;
    }
    if (free_items.empty()) {
        if ((lossless >> priority & 1U) != 0) {
            return false;
        }
        ++sent[*to].counters.dropped;
        free_frames({&frame, 1});
        return true;
    }
    Item& item = *free_items.back();
    free_items.pop_back();
    static_cast<netsim::NetworkPacket&>(item) = {};
    item.bytes = frame->pkt_len;
    item.priority = priority;
    item.ecn_capable = seen.is_ip && (seen.traffic_class & wire::kEcnMask) != 0;
    item.to = hosts[*to];
    item.hash = hash_of(bytes, seen);
    item.frame = frame;
    item.port = *to;
    ++sent[port].sent_packets;
    sent[port].sent_bytes += frame->pkt_len;
    network->send(time, hosts[port], item);
    return true;
}

std::uint16_t EmulatedNetwork::Impl::transmit(std::uint32_t port, rte_mbuf** frames, std::uint16_t count) {
    run();
    std::uint16_t taken = 0;
    while (taken < count && send(port, frames[taken])) {
        ++taken;
    }
    return taken;
}

EmulatedNetwork::EmulatedNetwork(const Options& options, InProcessSwitch& wire, std::uint32_t num_ports,
                                 WorkerHandoff& handoff)
    : impl_(std::make_unique<Impl>(options, wire, num_ports, handoff)) {}
EmulatedNetwork::~EmulatedNetwork() = default;

TimedPort& EmulatedNetwork::port(std::uint32_t index) { return *impl_->ports.at(index); }

const std::vector<std::string>& EmulatedNetwork::trunks() const { return impl_->trunk_names; }

NetworkPortView EmulatedNetwork::view(std::uint32_t port) const {
    const std::size_t num_rnics = impl_->hosts.size();
    NetworkPortView view;
    Impl::Trunk at;
    if (port < num_rnics) {
        view = impl_->sent[port];
        const netsim::TopologyPort& uplink = impl_->network->routes().ports(impl_->hosts[port])[0];
        at = {uplink.neighbour, uplink.port_there};
    } else {
        at = impl_->trunks.at(port - num_rnics);
    }
    const std::uint64_t dropped_before = view.counters.dropped;
    const netsim::Switch& there = *impl_->network->switch_at(at.node);
    view.counters = there.counters(at.port);
    view.counters.dropped += dropped_before;
    for (std::uint8_t priority = 0; priority < netsim::kPriorities; ++priority) {
        view.queue_bytes += there.queue_bytes(at.port, priority);
    }
    return view;
}

std::vector<std::uint32_t> EmulatedNetwork::way(std::uint32_t port,
                                                std::span<const std::byte> headers) const {
    const Impl& impl = *impl_;
    const std::optional<std::uint32_t> to =
        headers.size() < wire::kEthernetBytes ? std::nullopt : impl.wire.port_of(headers);
    if (!to || *to == port) {
        return {};
    }
    const std::uint64_t hash = impl.hash_of(headers, wire::peek(headers));
    std::vector<std::uint32_t> ports;
    netsim::NodeIndex node = impl.network->routes().ports(impl.hosts.at(port))[0].neighbour;
    // Shortest ways pass no switch twice.
    while (node != impl.hosts[*to]) {
        const std::optional<netsim::PortIndex> out = impl.network->egress(node, impl.hosts[*to], hash);
        if (!out) {
            return {};
        }
        ports.push_back(impl.number_of(node, *out));
        node = impl.network->routes().ports(node)[*out].neighbour;
    }
    return ports;
}

}  // namespace urnic::dataplane
