#include "dataplane/wire/emulated_subnet.h"

#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include <algorithm>
#include <utility>

#include "dataplane/handoff/key_violation_inbox.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/in_process_switch.h"
#include "dataplane/wire/network_port.h"
#include "dataplane/wire/worker_rings.h"
#include "os/setup_error.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

/// Bytes that wait on one VL of an RNIC's port before it takes no more from its QPs.
constexpr std::uint64_t kLaneBytes = 16384;
/// Of the frames in the network, those that RNICs leave to the copies of multicast packets.
constexpr std::size_t kCopiesShare = 4;

std::span<std::byte> bytes_of(rte_mbuf* frame) {
    return {rte_pktmbuf_mtod(frame, std::byte*), std::size_t{frame->data_len}};
}

}  // namespace

struct EmulatedSubnet::Impl final : netsim::IbNetworkOutbox {
    struct Item : netsim::IbNetworkPacket {
        rte_mbuf* frame = nullptr;
    };
    // What has come to an RNIC whose ring had no room: in its receive buffer, as its links feel it.
    struct Arrived {
        Item* head = nullptr;
        Item* tail = nullptr;
    };
    class RnicPort final : public NetworkPort<Impl> {
      public:
        using NetworkPort::NetworkPort;
        void set_multicast_lids(std::span<const std::uint16_t> lids) override {
            switch_port().set_multicast_lids(lids);
        }
        void set_link(std::uint32_t queue, bool up) override {
            // A manager makes a port active when its link has long been up: EmulatedSubnet::set_state().
            if (queue == 0 && !network().has_external_sm) {
                network().set_link(network().hosts[index()], 1, up);
            }
        }
    };

    Impl(const Options& options, InProcessSwitch& wire_of_all, WorkerHandoff& handoff);
    ~Impl() override;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void deliver(TimeNs at, netsim::NodeIndex host, netsim::IbNetworkPacket& packet) override;
    void drop(TimeNs at, netsim::NodeIndex node, netsim::IbNetworkPacket& packet) override;
    void wrong_pkey(TimeNs at, netsim::NodeIndex node, netsim::IbPortNumber port,
                    const netsim::IbNetworkPacket& packet) override;
    void to_management(TimeNs at, netsim::NodeIndex node, netsim::IbPortNumber ingress,
                       netsim::IbNetworkPacket& packet) override;
    netsim::IbNetworkPacket* copy(const netsim::IbNetworkPacket& packet) override;

    void run();
    std::uint16_t transmit(std::uint32_t port, rte_mbuf** frames, std::uint16_t count);
    /// Returns false if it has to wait.
    [[nodiscard]] bool send(std::uint32_t port, rte_mbuf* frame);
    [[nodiscard]] bool send_to_self(std::uint32_t port, rte_mbuf* frame);
    void put(std::uint32_t port, rte_mbuf* frame);
    /// Gives a packet to its RNIC. Returns false if its ring has no room.
    [[nodiscard]] bool hand_over(std::uint32_t port, Item& item);
    /// The frame as it left the last link: its VL may be another than its sender's. Returns false if there is
    /// no memory for a frame of its own.
    [[nodiscard]] bool set_vl(Item& item) const;
    void flush(std::uint32_t port);
    void free(Item& item);
    void set_link(netsim::NodeIndex node, netsim::IbPortNumber number, bool up);
    [[nodiscard]] TimeNs next_event(std::uint32_t port) const {
        return has_arrivals[port] != 0 || num_waiting != 0 ? 0 : network->deadline();
    }

    // The port of a switch.
    struct Trunk {
        netsim::NodeIndex node = netsim::kNoNode;
        netsim::IbPortNumber port = 0;
    };
    [[nodiscard]] Trunk switch_port(std::uint32_t port) const;

    InProcessSwitch& wire;
    rte_mempool* pool;
    bool has_external_sm;
    TimeNs now = 0;   // that it is
    TimeNs time = 0;  // that the network has come to
    std::unique_ptr<netsim::IbNetwork> network;
    netsim::SubnetPlan plan;
    std::vector<netsim::NodeIndex> hosts;  // by port
    std::vector<netsim::NodeIndex> switches;
    std::vector<std::unique_ptr<KeyViolationInbox>> pkey_violations;  // by node; of switches that are ruled
    std::vector<std::uint32_t> port_of_node;                          // of the hosts
    std::vector<Trunk> trunks;
    std::vector<std::string> trunk_names;
    std::vector<std::unique_ptr<RnicPort>> ports;
    WorkerRings rings;
    std::vector<Item> items;
    std::vector<Item*> free_items;
    std::vector<Arrived> arrived;            // by port
    std::uint32_t num_waiting = 0;           // of its packets
    std::vector<std::uint8_t> has_arrivals;  // see EmulatedNetwork
};

EmulatedSubnet::Impl::Impl(const Options& options, InProcessSwitch& wire_of_all, WorkerHandoff& handoff)
    : wire(wire_of_all),
      pool(options.pool),
      has_external_sm(options.has_external_sm),
      hosts(options.topology.hosts()),
      pkey_violations(options.topology.nodes.size()),
      port_of_node(options.topology.nodes.size()),
      rings(static_cast<std::uint32_t>(options.lids.size()), handoff),
      items(options.frames),
      arrived(options.lids.size()),
      has_arrivals(options.lids.size()) {
    const netsim::Topology& topology = options.topology;
    if (const std::string problem = netsim::problem_of(topology); !problem.empty()) {
        throw SetupError("cannot emulate a subnet: " + problem);
    }
    if (hosts.size() != options.lids.size()) {
        throw SetupError("cannot emulate a subnet: its topology has another number of hosts than RNICs");
    }
    network = std::make_unique<netsim::IbNetwork>(topology, options.network, *this);
    if (has_external_sm) {
        plan.lids.resize(topology.nodes.size());
        plan.lmcs.resize(topology.nodes.size());
    } else {
        plan = netsim::make_subnet_plan(topology, options.lids, options.lmc);
        netsim::set_linear_routes(*network, plan, netsim::find_linear_routes(*network, plan));
        netsim::activate_ports(*network, 0);
    }
    for (std::uint32_t i = 0; i < hosts.size(); ++i) {
        port_of_node[hosts[i]] = i;
        ports.push_back(std::make_unique<RnicPort>(*this, i));
    }
    for (netsim::NodeIndex node = 0; node < topology.nodes.size(); ++node) {
        if (!topology.nodes[node].is_host) {
            switches.push_back(node);
            pkey_violations[node] = has_external_sm ? std::make_unique<KeyViolationInbox>() : nullptr;
        }
        netsim::IbPortNumber number = 1;
        for (const netsim::TopologyPort& port : network->routes().ports(node)) {
            const netsim::TopologyNode& there = topology.nodes[port.neighbour];
            if (!topology.nodes[node].is_host && !there.is_host) {
                trunks.push_back({node, number});
                trunk_names.push_back(topology.nodes[node].name + ">" + there.name);
            }
            ++number;
        }
    }
    free_items.reserve(items.size());
    for (Item& item : items) {
        free_items.push_back(&item);
    }
}

EmulatedSubnet::Impl::~Impl() {
    for (const Item& item : items) {
        rte_pktmbuf_free(item.frame);
    }
}

void EmulatedSubnet::Impl::free(Item& item) {
    rte_mbuf* frame = std::exchange(item.frame, nullptr);
    if (frame != nullptr) {
        free_frames({&frame, 1});
    }
    free_items.push_back(&item);
}

void EmulatedSubnet::Impl::drop(TimeNs /*at*/, netsim::NodeIndex /*node*/, netsim::IbNetworkPacket& packet) {
    free(static_cast<Item&>(packet));
}

void EmulatedSubnet::Impl::wrong_pkey(TimeNs /*at*/, netsim::NodeIndex node, netsim::IbPortNumber port,
                                      const netsim::IbNetworkPacket& packet) {
    KeyViolationInbox* const inbox = pkey_violations[node].get();
    wire::PacketView view;
    if (inbox == nullptr || !inbox->is_wanted() ||
        wire::parse_ib_frame(frame_bytes(static_cast<const Item&>(packet).frame), view) !=
            wire::ParseError::kNone) {
        return;
    }
    subnet::KeyViolation violation = subnet::key_violation_of(wire::mad::kSwitchBadPkeyTrap, view);
    violation.switch_port = port;
    inbox->push(violation);
}

// Management packets have ways of their own (docs/adr/0033).
void EmulatedSubnet::Impl::to_management(TimeNs /*at*/, netsim::NodeIndex /*node*/,
                                         netsim::IbPortNumber /*ingress*/, netsim::IbNetworkPacket& packet) {
    free(static_cast<Item&>(packet));
}

netsim::IbNetworkPacket* EmulatedSubnet::Impl::copy(const netsim::IbNetworkPacket& packet) {
    if (free_items.empty()) {
        return nullptr;
    }
    Item& made = *free_items.back();
    free_items.pop_back();
    made = static_cast<const Item&>(packet);
    rte_mbuf_refcnt_update(made.frame, 1);
    return &made;
}

bool EmulatedSubnet::Impl::set_vl(Item& item) const {
    const auto vl = static_cast<std::byte>(item.vl << 4U);
    const std::byte first = *rte_pktmbuf_mtod(item.frame, const std::byte*);
    if ((first & std::byte{0xf0}) == vl) [[likely]] {
        return true;
    }
    if (rte_mbuf_refcnt_read(item.frame) != 1) {
        rte_mbuf* own = nullptr;
        if (pool == nullptr || !alloc_frames(pool, {&own, 1})) {
            return false;
        }
        rte_memcpy(rte_pktmbuf_mtod(own, void*), rte_pktmbuf_mtod(item.frame, const void*),
                   item.frame->data_len);
        own->data_len = item.frame->data_len;
        own->pkt_len = item.frame->pkt_len;
        rte_mbuf* shared = std::exchange(item.frame, own);
        free_frames({&shared, 1});
    }
    wire::set_vl(bytes_of(item.frame), item.vl);
    return true;
}

bool EmulatedSubnet::Impl::hand_over(std::uint32_t port, Item& item) {
    if (!set_vl(item)) {
        ++network->port(hosts[port], 1).counters().rcv_errors;
    } else if (wire.deliver(port, item.frame)) {
        item.frame = nullptr;
        has_arrivals[port] = 1;
    } else {
        return false;
    }
    network->consume(time, hosts[port], item);
    free(item);
    return true;
}

void EmulatedSubnet::Impl::deliver(TimeNs /*at*/, netsim::NodeIndex host, netsim::IbNetworkPacket& packet) {
    Item& item = static_cast<Item&>(packet);
    const std::uint32_t port = port_of_node[host];
    Arrived& queue = arrived[port];
    if (queue.head == nullptr && hand_over(port, item)) {
        return;
    }
    item.next = nullptr;
    if (queue.head == nullptr) {
        queue.head = &item;
    } else {
        queue.tail->next = &item;
    }
    queue.tail = &item;
    ++num_waiting;
}

void EmulatedSubnet::Impl::flush(std::uint32_t port) {
    Arrived& queue = arrived[port];
    while (queue.head != nullptr) {
        auto* const next = static_cast<Item*>(queue.head->next);
        if (!hand_over(port, *queue.head)) {
            return;
        }
        queue.head = next;
        --num_waiting;
    }
}

// Everything happens at its own time, as in EmulatedNetwork.
void EmulatedSubnet::Impl::run() {
    for (std::uint32_t port = 0; num_waiting != 0 && port < arrived.size(); ++port) {
        flush(port);
    }
    while (network->deadline() <= now) {
        time = std::max(time, network->deadline());
        network->on_timer(time);
    }
    time = std::max(time, now);
    rings.dequeue([this](std::uint32_t port, rte_mbuf* frame) { return send(port, frame); });
}

void EmulatedSubnet::Impl::put(std::uint32_t port, rte_mbuf* frame) {
    const std::span<const std::byte> bytes = frame_bytes(frame);
    const wire::LinkPeek seen = wire::peek_link(bytes);
    Item& item = *free_items.back();
    free_items.pop_back();
    static_cast<netsim::IbNetworkPacket&>(item) = {};
    item.bytes = frame->pkt_len;
    item.dlid = seen.dlid;
    item.sl = seen.sl;
    item.vl = seen.vl;
    item.has_pkey = seen.has_pkey;
    item.pkey = seen.pkey;
    item.frame = frame;
    network->send(time, hosts[port], item);
}

// A port receives what its own LIDs are sent, and the groups that it is a member of, but no switch sends a
// packet back (IBA 18.2.4.2): the channel adapter does that.
bool EmulatedSubnet::Impl::send_to_self(std::uint32_t port, rte_mbuf* frame) {
    return wire.deliver(port, frame);
}

bool EmulatedSubnet::Impl::send(std::uint32_t port, rte_mbuf* frame) {
    const std::span<const std::byte> bytes = frame_bytes(frame);
    if (bytes.size() < wire::kLrhBytes + wire::kVcrcBytes) {
        ++network->port(hosts[port], 1).counters().xmit_discards;
        free_frames({&frame, 1});
        return true;
    }
    const wire::LinkPeek seen = wire::peek_link(bytes);
    const netsim::NodeIndex host = hosts[port];
    const std::uint8_t lmc = plan.lmcs[host];
    if (seen.dlid >> lmc == plan.lids[host] >> lmc && !wire::is_multicast_lid(seen.dlid)) {
        return send_to_self(port, frame);
    }
    const std::uint8_t vl = seen.vl == netsim::kManagementVl ? seen.vl : network->sl_to_vl(host)[seen.sl];
    if (free_items.size() <= items.size() / kCopiesShare ||
        (vl < netsim::kVls && network->port(host, 1).waiting_bytes(vl) >= kLaneBytes)) {
        return false;
    }
    if (wire::is_multicast_lid(seen.dlid) && wire.is_member(port, seen.dlid)) {
        rte_mbuf_refcnt_update(frame, 1);
        if (!wire.deliver(port, frame)) {
            rte_mbuf_refcnt_update(frame, -1);
            return false;
        }
    }
    put(port, frame);
    return true;
}

std::uint16_t EmulatedSubnet::Impl::transmit(std::uint32_t port, rte_mbuf** frames, std::uint16_t count) {
    run();
    std::uint16_t taken = 0;
    while (taken < count && send(port, frames[taken])) {
        ++taken;
    }
    return taken;
}

void EmulatedSubnet::Impl::set_link(netsim::NodeIndex node, netsim::IbPortNumber number, bool up) {
    time = std::max(time, now);
    network->enable(time, node, number, up);
    netsim::activate_ports(*network, time);
}

EmulatedSubnet::Impl::Trunk EmulatedSubnet::Impl::switch_port(std::uint32_t port) const {
    if (port >= hosts.size()) {
        return trunks.at(port - hosts.size());
    }
    const netsim::TopologyPort& uplink = network->routes().ports(hosts[port])[0];
    return {uplink.neighbour, static_cast<netsim::IbPortNumber>(uplink.port_there + 1)};
}

EmulatedSubnet::EmulatedSubnet(const Options& options, InProcessSwitch& wire, WorkerHandoff& handoff)
    : impl_(std::make_unique<Impl>(options, wire, handoff)) {}
EmulatedSubnet::~EmulatedSubnet() = default;

TimedPort& EmulatedSubnet::port(std::uint32_t index) { return *impl_->ports.at(index); }

const std::vector<std::string>& EmulatedSubnet::trunks() const { return impl_->trunk_names; }

NetworkPortView EmulatedSubnet::view(std::uint32_t port) const {
    NetworkPortView view;
    const Impl::Trunk at = impl_->switch_port(port);
    const netsim::IbNetwork& network = *impl_->network;
    const netsim::IbPort& there = network.port(at.node, at.port);
    if (port < impl_->hosts.size()) {
        view.sent_packets = network.port(impl_->hosts[port], 1).counters().xmit_packets;
        view.sent_bytes = network.port(impl_->hosts[port], 1).counters().xmit_data * 4;
    }
    const netsim::IbPortCounters& counters = there.counters();
    view.counters.tx_packets = counters.xmit_packets;
    view.counters.tx_bytes = counters.xmit_data * 4;
    view.counters.dropped = counters.xmit_discards + counters.xmit_constraint_errors;
    view.counters.most_bytes = there.most_waiting_bytes();
    view.queue_bytes = there.waiting_bytes();
    view.infiniband = counters;
    view.infiniband.xmit_wait_ns = there.xmit_wait_ns(std::max(impl_->time, impl_->now));
    view.state = there.state();
    return view;
}

void EmulatedSubnet::set_link(std::uint32_t port, bool up) {
    const Impl::Trunk at = impl_->switch_port(port);
    impl_->set_link(at.node, at.port, up);
}

const netsim::IbNetwork& EmulatedSubnet::network() const { return *impl_->network; }
const netsim::SubnetPlan& EmulatedSubnet::plan() const { return impl_->plan; }
netsim::NodeIndex EmulatedSubnet::node_of(std::uint32_t rnic) const { return impl_->hosts.at(rnic); }

void EmulatedSubnet::set_linear_routes(const netsim::LinearRoutes& routes) {
    netsim::set_linear_routes(*impl_->network, impl_->plan, routes);
}

void EmulatedSubnet::set_multicast_routes(netsim::Lid mlid, const netsim::MulticastRoutes& routes) {
    netsim::set_multicast_routes(*impl_->network, mlid, routes);
}

bool EmulatedSubnet::has_external_sm() const { return impl_->has_external_sm; }
const std::vector<netsim::NodeIndex>& EmulatedSubnet::switches() const { return impl_->switches; }

void EmulatedSubnet::set_linear(netsim::NodeIndex at, netsim::Lid first,
                                std::span<const std::uint8_t> ports) {
    netsim::IbSwitch& there = *impl_->network->switch_at(at);
    for (std::size_t i = 0; i < ports.size(); ++i) {
        // Of ports that the switch does not have, nothing comes.
        const bool has_port = ports[i] <= there.num_ports();
        there.linear().set(static_cast<netsim::Lid>(first + i), has_port ? ports[i] : netsim::kNoIbPort);
    }
}

void EmulatedSubnet::set_multicast(netsim::NodeIndex at, netsim::Lid first,
                                   std::span<const netsim::MulticastForwardingTable::Ports> ports) {
    for (std::size_t i = 0; i < ports.size(); ++i) {
        impl_->network->switch_at(at)->multicast().set(static_cast<netsim::Lid>(first + i), ports[i]);
    }
}

void EmulatedSubnet::set_state(netsim::NodeIndex node, netsim::IbPortNumber port, netsim::IbPortState state) {
    using enum netsim::IbPortState;
    netsim::IbNetwork& network = *impl_->network;
    impl_->time = std::max(impl_->time, impl_->now);
    const bool begins_anew = state == kInit && network.port(node, port).state() > kInit;
    if (state == kDown || begins_anew) {
        network.enable(impl_->time, node, port, false);
    }
    if (state == kDown) {
        return;
    }
    network.enable(impl_->time, node, port, true);
    for (const netsim::IbPortState step : {kArmed, kActive}) {
        if (step <= state) {
            (void)network.set_state(impl_->time, node, port, step);
        }
    }
}

void EmulatedSubnet::set_lid(std::uint32_t rnic, netsim::Lid lid, std::uint8_t lmc) {
    const netsim::NodeIndex node = impl_->hosts.at(rnic);
    impl_->plan.lids[node] = lid;
    impl_->plan.lmcs[node] = lmc;
}

void EmulatedSubnet::set_port(netsim::NodeIndex node, netsim::IbPortNumber port,
                              const PortSettings& settings) {
    netsim::IbPort& there = impl_->network->port(node, port);
    netsim::IbPortInfo info = there.info();
    info.operational_vls = settings.operational_vls;
    info.enforces_pkey_in = settings.enforces_pkey_in;
    info.enforces_pkey_out = settings.enforces_pkey_out;
    there.set_info(info);
}

void EmulatedSubnet::exchange_pkeys(netsim::NodeIndex at, netsim::IbPortNumber port,
                                    std::vector<std::uint16_t>& pkeys) {
    impl_->network->port(at, port).pkeys().swap(pkeys);
}

void EmulatedSubnet::set_sl_to_vl(netsim::NodeIndex node, netsim::IbPortNumber in, netsim::IbPortNumber out,
                                  const SlToVl& vls) {
    netsim::IbSwitch* const at = impl_->network->switch_at(node);
    (at != nullptr ? at->sl_to_vl(in, out) : impl_->network->sl_to_vl(node)) = vls;
}

void EmulatedSubnet::set_vl_arbitration(netsim::NodeIndex node, netsim::IbPortNumber port,
                                        const VlArbitration& wanted) {
    using enum netsim::VlArbiter::Priority;
    netsim::VlArbiter& arbiter = impl_->network->port(node, port).arbiter();
    arbiter.set_table(kHigh, wanted.high);
    arbiter.set_table(kLow, wanted.low);
    arbiter.set_high_limit(wanted.high_limit);
    // What no table had may wait there.
    impl_->time = std::max(impl_->time, impl_->now);
    impl_->network->changed(impl_->time, node, port);
}

KeyViolationInbox& EmulatedSubnet::pkey_violations(netsim::NodeIndex at) {
    return *impl_->pkey_violations.at(at);
}

}  // namespace urnic::dataplane
