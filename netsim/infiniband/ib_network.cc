#include "netsim/infiniband/ib_network.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace urnic::netsim {

namespace {
// With its delimiters (IBA 7.9.3).
constexpr std::uint32_t kFlowControlBytes = 8;
// Of one VL on one link; what is granted beyond waits for one to arrive.
constexpr std::uint32_t kGrantsOnLink = 4;
}  // namespace

IbNetwork::IbNetwork(const Topology& topology, const IbNetworkOptions& options, IbNetworkOutbox& outbox)
    : topology_(topology), routes_(topology), outbox_(outbox) {
    const auto nodes = static_cast<NodeIndex>(topology.nodes.size());
    switches_.resize(nodes);
    hosts_.resize(nodes);
    for (NodeIndex node = 0; node < nodes; ++node) {
        add_node(node, options);
        set_lanes(node, options);
    }
    timers_.resize(2 * static_cast<std::uint32_t>(directions_.size()));
    credit_packets_.resize(directions_.size() * kDataVls * kGrantsOnLink);
    free_credit_packets_.reserve(credit_packets_.size());
    for (IbNetworkPacket& packet : credit_packets_) {
        free_credit_packets_.push_back(&packet);
    }
    for (std::uint32_t index = 0; index < directions_.size(); ++index) {
        directions_[index].up = true;
        train(index, true);
    }
}

void IbNetwork::add_node(NodeIndex node, const IbNetworkOptions& options) {
    first_.push_back(static_cast<std::uint32_t>(directions_.size()));
    IbSwitchOptions of_switch;
    of_switch.info = options.switches;
    IbPortNumber number = 1;
    for (const TopologyPort& port : routes_.ports(node)) {
        const LinkSpec& spec = topology_.links[port.link].spec;
        Direction direction;
        direction.from = node;
        direction.from_port = number++;
        direction.to = port.neighbour;
        direction.to_port = static_cast<IbPortNumber>(port.port_there + 1);
        direction.delay_ns = spec.delay_ns;
        directions_.push_back(direction);
        IbPort::Options of_port = options.port;
        of_port.rate = spec.rate;
        of_switch.ports.push_back(of_port);
    }
    URNIC_CHECK(of_switch.ports.size() <= kMaxIbPorts);
    if (!topology_.nodes[node].is_host) {
        switches_[node] = std::make_unique<SwitchNode>(*this, node, of_switch);
        return;
    }
    URNIC_CHECK(of_switch.ports.size() == 1);
    hosts_[node] = std::make_unique<HostNode>(of_switch.ports[0]);
    for (std::uint8_t sl = 0; sl < kSls; ++sl) {
        hosts_[node]->sl_to_vl[sl] = sl % hosts_[node]->port.info().operational_vls;
    }
}

void IbNetwork::set_lanes(NodeIndex node, const IbNetworkOptions& options) {
    const auto links = static_cast<IbPortNumber>(routes_.ports(node).size());
    for (IbPortNumber number = 1; number <= links; ++number) {
        VlArbiter& arbiter = port(node, number).arbiter();
        for (const auto& [priority, table] : {std::pair(VlArbiter::Priority::kHigh, options.vl_high),
                                              std::pair(VlArbiter::Priority::kLow, options.vl_low)}) {
            if (table) {
                arbiter.set_table(priority, *table);
            }
        }
        arbiter.set_high_limit(options.vl_high_limit);
    }
    if (!options.sl_to_vl) {
        return;
    }
    if (hosts_[node] != nullptr) {
        hosts_[node]->sl_to_vl = *options.sl_to_vl;
        return;
    }
    for (IbPortNumber in = 0; in <= links; ++in) {
        for (IbPortNumber out = 0; out <= links; ++out) {
            switches_[node]->logic.sl_to_vl(in, out) = *options.sl_to_vl;
        }
    }
}

void IbNetwork::send(TimeNs now, NodeIndex host, IbNetworkPacket& packet) {
    now_ = now;
    HostNode& from = *hosts_[host];
    if (packet.vl != kManagementVl) {
        packet.vl = from.sl_to_vl[packet.sl % kSls];
        if (packet.vl >= from.port.info().operational_vls) {
            ++from.port.counters().xmit_discards;
            outbox_.drop(now_, host, packet);
            return;
        }
    }
    packet.hops = 0;
    packet.came_at = now;
    if (!from.port.push(now, packet)) {
        outbox_.drop(now_, host, packet);
        return;
    }
    run_host(host);
}

void IbNetwork::consume(TimeNs now, NodeIndex host, const IbNetworkPacket& packet) {
    now_ = now;
    hosts_[host]->port.release(packet.vl, packet.bytes);
    if (packet.vl < kDataVls) {
        grant(out_of(host, 1), packet.vl);
    }
}

void IbNetwork::send_from_switch(TimeNs now, NodeIndex node, IbPortNumber egress, IbNetworkPacket& packet) {
    now_ = now;
    switches_[node]->logic.send(now, egress, packet);
}

void IbNetwork::enable(TimeNs now, NodeIndex node, IbPortNumber port, bool enabled) {
    now_ = now;
    const std::uint32_t index = out_of(node, port);
    Direction& there = directions_[index];
    const std::uint32_t back_index = out_of(there.to, there.to_port);
    Direction& back = directions_[back_index];
    there.enabled = enabled;
    const bool up = there.enabled && back.enabled;
    if (up == there.up) {
        return;
    }
    there.up = back.up = up;
    train(index, up);
    train(back_index, up);
    outbox_.state_changed(now_, node, port);
    outbox_.state_changed(now_, there.to, there.to_port);
}

// The port at the sender's end. The first grants reach a port that is down when its end comes up second: they
// are under way for no time that it could miss, since both ends come up at once.
void IbNetwork::train(std::uint32_t index, bool up) {
    Direction& direction = directions_[index];
    empty(direction);
    if (switches_[direction.from] != nullptr) {
        switches_[direction.from]->logic.set_link(now_, direction.from_port, up);
    } else {
        IbPort& port = hosts_[direction.from]->port;
        while (IbPacket* const packet = port.take_any()) {
            ++port.counters().xmit_discards;
            outbox_.drop(now_, direction.from, static_cast<IbNetworkPacket&>(*packet));
        }
        port.train(up);
    }
    IbPort& sender = port(direction.from, direction.from_port);
    for (std::uint8_t vl = 0; up && vl < sender.info().vl_cap; ++vl) {
        put_credits_on_link(index, sender.initial_grant(vl));
    }
    set_port_timer(direction.from, direction.from_port);
}

void IbNetwork::empty(Direction& direction) {
    while (direction.head != nullptr) {
        IbNetworkPacket& packet = *direction.head;
        direction.head = static_cast<IbNetworkPacket*>(packet.next);
        packet.next = nullptr;
        if (packet.is_credits) {
            free_credit_packets_.push_back(&packet);
        } else {
            outbox_.drop(now_, direction.from, packet);
        }
    }
    direction.grants = {};
    timers_.set(arrival_timer(out_of(direction.from, direction.from_port)), kNever);
}

bool IbNetwork::set_state(TimeNs now, NodeIndex node, IbPortNumber number, IbPortState state) {
    const bool is_set = port(node, number).set_state(state);
    changed(now, node, number);
    return is_set;
}

void IbNetwork::changed(TimeNs now, NodeIndex node, IbPortNumber port) {
    now_ = now;
    if (switches_[node] != nullptr) {
        switches_[node]->logic.changed(now, port);
    } else {
        run_host(node);
    }
}

void IbNetwork::run_host(NodeIndex host) {
    IbPort& port = hosts_[host]->port;
    bool has_left = false;
    while (IbPacket* const packet = port.pop_expired(now_, kNever)) {
        has_left = true;
        outbox_.drop(now_, host, static_cast<IbNetworkPacket&>(*packet));
    }
    if (IbPacket* const packet = port.pop(now_)) {
        has_left = true;
        put_on_link(out_of(host, 1), static_cast<IbNetworkPacket&>(*packet), port.busy_until());
    }
    set_port_timer(host, 1);
    if (has_left) {
        outbox_.room(now_, host);
    }
}

void IbNetwork::set_port_timer(NodeIndex node, IbPortNumber port) {
    const TimeNs at = switches_[node] != nullptr ? switches_[node]->logic.deadline(port)
                                                 : hosts_[node]->port.deadline(kNever);
    timers_.set(port_timer(out_of(node, port)), at);
}

void IbNetwork::put_on_link(std::uint32_t index, IbNetworkPacket& packet, TimeNs done) {
    Direction& direction = directions_[index];
    packet.arrives_at = done + direction.delay_ns;
    packet.next = nullptr;
    if (direction.head == nullptr) {
        direction.head = &packet;
        timers_.set(arrival_timer(index), packet.arrives_at);
    } else {
        direction.tail->next = &packet;
    }
    direction.tail = &packet;
}

// What the port at the end `direction.from` has room for.
void IbNetwork::grant(std::uint32_t index, std::uint8_t vl) {
    Direction& direction = directions_[index];
    if (direction.grants[vl] >= kGrantsOnLink) {
        return;
    }
    if (const auto credits = port(direction.from, direction.from_port).grant(vl)) {
        put_credits_on_link(index, *credits);
        set_port_timer(direction.from, direction.from_port);
    }
}

// It goes behind the packet that is being sent and before all that wait.
void IbNetwork::put_credits_on_link(std::uint32_t index, const FlowControlPacket& credits) {
    Direction& direction = directions_[index];
    IbNetworkPacket& packet = *free_credit_packets_.back();
    free_credit_packets_.pop_back();
    packet.is_credits = true;
    packet.credits = credits;
    ++direction.grants[credits.vl];
    IbPort& sender = port(direction.from, direction.from_port);
    sender.occupy(now_, kFlowControlBytes);
    put_on_link(index, packet, sender.busy_until());
}

void IbNetwork::on_timer(TimeNs now) {
    if (timers_.first_time() > now) {
        return;
    }
    now_ = now;
    ++events_;
    const std::uint32_t timer = timers_.first();
    if (timer % 2 != 0) {
        arrive(timer / 2);
        return;
    }
    const Direction& direction = directions_[timer / 2];
    if (switches_[direction.from] != nullptr) {
        switches_[direction.from]->logic.on_timer(now_, direction.from_port);
    } else {
        run_host(direction.from);
    }
}

void IbNetwork::arrive(std::uint32_t index) {
    Direction& direction = directions_[index];
    IbNetworkPacket& packet = *direction.head;
    direction.head = static_cast<IbNetworkPacket*>(packet.next);
    packet.next = nullptr;
    timers_.set(arrival_timer(index), direction.head == nullptr ? kNever : direction.head->arrives_at);
    if (packet.is_credits) {
        take_credits(index, packet);
    } else {
        arrive_at_port(direction, packet);
    }
}

void IbNetwork::arrive_at_port(const Direction& direction, IbNetworkPacket& packet) {
    const NodeIndex node = direction.to;
    const IbPortState before = port(node, direction.to_port).state();
    if (switches_[node] != nullptr) {
        switches_[node]->logic.receive(now_, direction.to_port, packet);
    } else if (hosts_[node]->port.receive(packet)) {
        outbox_.deliver(now_, node, packet);
    } else {
        outbox_.drop(now_, node, packet);
    }
    if (port(node, direction.to_port).state() != before) {
        changed(now_, node, direction.to_port);
        outbox_.state_changed(now_, node, direction.to_port);
    }
}

void IbNetwork::take_credits(std::uint32_t index, IbNetworkPacket& packet) {
    Direction& direction = directions_[index];
    const FlowControlPacket credits = packet.credits;
    free_credit_packets_.push_back(&packet);
    --direction.grants[credits.vl];
    if (switches_[direction.to] != nullptr) {
        switches_[direction.to]->logic.receive_credits(now_, direction.to_port, credits);
    } else {
        hosts_[direction.to]->port.take(now_, credits);
        run_host(direction.to);
    }
    grant(index, credits.vl);
}

void IbNetwork::SwitchNode::transmit(IbPortNumber port, IbPacket& packet, TimeNs done) {
    network.put_on_link(network.out_of(index, port), static_cast<IbNetworkPacket&>(packet), done);
}

void IbNetwork::SwitchNode::drop(IbPacket& packet) {
    network.outbox_.drop(network.now_, index, static_cast<IbNetworkPacket&>(packet));
}

void IbNetwork::SwitchNode::wrong_pkey(IbPortNumber port, const IbPacket& packet) {
    network.outbox_.wrong_pkey(network.now_, index, port, static_cast<const IbNetworkPacket&>(packet));
}

void IbNetwork::SwitchNode::to_management(IbPortNumber ingress, IbPacket& packet) {
    network.outbox_.to_management(network.now_, index, ingress, static_cast<IbNetworkPacket&>(packet));
}

IbPacket* IbNetwork::SwitchNode::copy(const IbPacket& packet) {
    return network.outbox_.copy(static_cast<const IbNetworkPacket&>(packet));
}

void IbNetwork::SwitchNode::room(IbPortNumber port, std::uint8_t vl) {
    network.grant(network.out_of(index, port), vl);
}

void IbNetwork::SwitchNode::wake(IbPortNumber port) { network.set_port_timer(index, port); }

}  // namespace urnic::netsim
