#include "netsim/network/network.h"

#include <algorithm>

#include "base/check.h"

namespace urnic::netsim {

namespace {
// A frame of the smallest size with preamble and gap.
constexpr std::uint32_t kPauseFrameBits = (64 + 20) * 8;
}  // namespace

Network::Network(const Topology& topology, const NetworkOptions& options, NetworkOutbox& outbox)
    : routes_(topology), options_(options), outbox_(outbox) {
    const auto nodes = static_cast<NodeIndex>(topology.nodes.size());
    switches_.resize(nodes);
    hosts_.resize(nodes);
    for (NodeIndex node = 0; node < nodes; ++node) {
        first_.push_back(static_cast<std::uint32_t>(directions_.size()));
        SwitchOptions of_switch = options.switches;
        of_switch.ports.clear();
        of_switch.seed = options.seed * kMaxNodes + node;
        PortIndex number = 0;
        for (const TopologyPort& port : routes_.ports(node)) {
            Direction direction;
            direction.from = node;
            direction.from_port = number++;
            direction.to = port.neighbour;
            direction.to_port = port.port_there;
            direction.spec = topology.links[port.link].spec;
            directions_.push_back(direction);
            EgressPort::Options of_port;
            of_port.rate = direction.spec.rate;
            of_port.weights = options.weights;
            of_switch.ports.push_back(of_port);
        }
        if (topology.nodes[node].is_host) {
            URNIC_CHECK(of_switch.ports.size() == 1);
            hosts_[node] = std::make_unique<HostNode>(of_switch.ports[0]);
        } else {
            switches_[node] = std::make_unique<SwitchNode>(*this, node, of_switch);
        }
    }
    timers_.resize(2 * static_cast<std::uint32_t>(directions_.size()));
    free_pauses_.reserve(options.pause_frames);
    for (std::uint32_t i = 0; i < options.pause_frames; ++i) {
        free_pauses_.push_back(&pauses_.emplace_back());
    }
}

void Network::send(TimeNs now, NodeIndex host, NetworkPacket& packet) {
    now_ = now;
    hosts_[host]->port.push(packet);
    run_host_port(host);
}

void Network::send_pause(TimeNs now, NodeIndex host, std::uint8_t priority, std::uint16_t quanta) {
    now_ = now;
    put_pause_on_link(out_of(host, 0), priority, quanta);
}

void Network::run_host_port(NodeIndex host) {
    EgressPort& port = hosts_[host]->port;
    if (!port.busy(now_)) {
        if (SwitchedPacket* const packet = port.pop(now_); packet != nullptr) {
            const TimeNs done = port.send(now_, packet->bytes);
            put_on_link(out_of(host, 0), static_cast<NetworkPacket&>(*packet), done);
            set_port_timer(host, 0);
            outbox_.room(now_, host);
            return;
        }
    }
    set_port_timer(host, 0);
}

void Network::set_port_timer(NodeIndex node, PortIndex port) {
    timers_.set(port_timer(out_of(node, port)), switches_[node] != nullptr
                                                    ? switches_[node]->logic.deadline(port)
                                                    : hosts_[node]->port.deadline());
}

void Network::put_on_link(std::uint32_t index, NetworkPacket& packet, TimeNs done) {
    Direction& direction = directions_[index];
    direction.sent_until = std::max(direction.sent_until, done);
    packet.arrives_at = direction.sent_until + direction.spec.delay_ns;
    packet.next = nullptr;
    if (direction.head == nullptr) {
        direction.head = &packet;
        timers_.set(arrival_timer(index), packet.arrives_at);
    } else {
        direction.tail->next = &packet;
    }
    direction.tail = &packet;
}

// It goes behind the frame that is being sent and before all that wait (IEEE 802.1Qbb).
void Network::put_pause_on_link(std::uint32_t index, std::uint8_t priority, std::uint16_t quanta) {
    if (free_pauses_.empty()) {
        if (options_.pause_frames != 0) {
            return;
        }
        free_pauses_.push_back(&pauses_.emplace_back());
        free_pauses_.reserve(pauses_.size());
    }
    NetworkPacket& packet = *free_pauses_.back();
    free_pauses_.pop_back();
    packet.is_pause = true;
    packet.priority = priority;
    packet.pause_quanta = quanta;
    const Direction& direction = directions_[index];
    constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
    put_on_link(index, packet,
                std::max(now_, direction.sent_until) + kPauseFrameBits * kNsPerSecond / direction.spec.rate);
}

void Network::on_timer(TimeNs now) {
    if (timers_.first_time() > now) {
        return;
    }
    now_ = now;
    ++events_;
    const std::uint32_t timer = timers_.first();
    if (timer % 2 == 0) {
        run_port(timer / 2);
    } else {
        arrive(timer / 2);
    }
}

void Network::run_port(std::uint32_t index) {
    const Direction& direction = directions_[index];
    if (switches_[direction.from] == nullptr) {
        run_host_port(direction.from);
        return;
    }
    switches_[direction.from]->logic.on_timer(now_, direction.from_port);
    set_port_timer(direction.from, direction.from_port);
}

void Network::arrive(std::uint32_t index) {
    Direction& direction = directions_[index];
    NetworkPacket& packet = *direction.head;
    direction.head = static_cast<NetworkPacket*>(packet.next);
    packet.next = nullptr;
    timers_.set(arrival_timer(index), direction.head == nullptr ? kNever : direction.head->arrives_at);
    if (packet.is_pause) {
        take_pause(direction.to, direction.to_port, packet);
    } else if (switches_[direction.to] != nullptr) {
        arrive_at_switch(direction.to, direction.to_port, packet);
    } else {
        outbox_.deliver(now_, direction.to, packet);
    }
}

std::optional<PortIndex> Network::egress(NodeIndex node, NodeIndex to, std::uint64_t hash) const {
    const std::span<const PortIndex> ways =
        to < hosts_.size() ? routes_.next(node, to) : std::span<const PortIndex>{};
    if (ways.empty()) {
        return std::nullopt;
    }
    const std::uint32_t choice = ways.size() == 1 ? 0
                                                  : ecmp_choice(hash, node, options_.ecmp_seed,
                                                                static_cast<std::uint32_t>(ways.size()));
    return ways[choice];
}

void Network::arrive_at_switch(NodeIndex node, PortIndex port, NetworkPacket& packet) {
    const std::optional<PortIndex> out = egress(node, packet.to, packet.hash);
    if (!out) {
        outbox_.drop(now_, node, packet);
        return;
    }
    switches_[node]->logic.receive(now_, port, *out, packet);
    set_port_timer(node, *out);
}

void Network::take_pause(NodeIndex node, PortIndex port, NetworkPacket& packet) {
    free_pauses_.push_back(&packet);
    if (switches_[node] != nullptr) {
        switches_[node]->logic.receive_pause(now_, port, packet.priority, packet.pause_quanta);
        set_port_timer(node, port);
        return;
    }
    HostNode& host = *hosts_[node];
    host.pauses += packet.pause_quanta != 0 ? 1 : 0;
    host.port.pause(now_, packet.priority, packet.pause_quanta);
    outbox_.paused(now_, node, packet.priority, packet.pause_quanta);
    run_host_port(node);
}

void Network::SwitchNode::transmit(PortIndex port, SwitchedPacket& packet, TimeNs done) {
    fabric.put_on_link(fabric.out_of(index, port), static_cast<NetworkPacket&>(packet), done);
}

void Network::SwitchNode::drop(SwitchedPacket& packet) {
    fabric.outbox_.drop(fabric.now_, index, static_cast<NetworkPacket&>(packet));
}

void Network::SwitchNode::pause(PortIndex port, std::uint8_t priority, std::uint16_t quanta) {
    fabric.put_pause_on_link(fabric.out_of(index, port), priority, quanta);
    fabric.set_port_timer(index, port);
}

}  // namespace urnic::netsim
