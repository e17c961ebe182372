#include "rnic/subnet/subnet.h"

#include <algorithm>

#include "base/check.h"
#include "rnic/subnet/directed_route.h"
#include "rnic/subnet/ping_agent.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

std::uint8_t first_port(const NodeOptions& options) { return options.type == mad::kSwitch ? 0 : 1; }

bool is_directed(MadPacket& packet) {
    return packet.dest_qp == wire::kQp0 && MadRef(packet.mad).is_directed();
}

/// QP0's packets pass as soon as there is a link, others while the port is active (IBA 7.2.7).
bool can_pass(const PortRecord& port, bool is_qp0) {
    return port.info.port_physical_state == mad::kLinkUp && (is_qp0 || port.info.port_state == mad::kActive);
}

// Notice:Type
constexpr std::uint8_t kUrgentNotice = 1;
constexpr std::uint8_t kSecurityNotice = 2;
constexpr std::uint8_t kInformationalNotice = 4;

using DataDetails = decltype(mad::Notice::data_details);

template <class Details>
DataDetails octets_of(const wire::HeaderTable& table, const Details& details) {
    DataDetails octets{};
    wire::write_fields(table, &details, reinterpret_cast<std::byte*>(octets.data()));
    return octets;
}

/// Of a switch's port also where, and which fields the packet has: no GRH, no GIDs; no DETH, no source QP.
DataDetails details_of(const KeyViolation& violation, std::uint16_t lid) {
    const mad::NoticeKeys& packet = violation.details;
    if (violation.trap_number != mad::kSwitchBadPkeyTrap) {
        return octets_of(mad::kNoticeKeysTable, packet);
    }
    mad::NoticeSwitchPkey details;
    details.lid_addr1_valid = details.lid_addr2_valid = details.pkey_valid = 1;
    details.sl_valid = details.qp2_valid = 1;
    details.qp1_valid = packet.qp1 != 0 ? 1 : 0;
    details.gid_addr1_valid = packet.gid_addr1 != wire::Gid{} ? 1 : 0;
    details.gid_addr2_valid = packet.gid_addr2 != wire::Gid{} ? 1 : 0;
    details.lid_addr1 = packet.lid_addr1;
    details.lid_addr2 = packet.lid_addr2;
    details.pkey = static_cast<std::uint16_t>(packet.key);
    details.sl = packet.sl;
    details.qp1 = packet.qp1;
    details.qp2 = packet.qp2;
    details.gid_addr1 = packet.gid_addr1;
    details.gid_addr2 = packet.gid_addr2;
    details.switch_lid_addr = lid;
    details.port_no = violation.switch_port;
    return octets_of(mad::kNoticeSwitchPkeyTable, details);
}

TimeNs subnet_timeout(Node& node) { return TimeNs{4096} << node.base_port().info.subnet_timeout; }

}  // namespace

Subnet::Place::Place(const NodeOptions& options)
    : node(options),
      agent(node),
      performance(first_port(options), options.num_ports),
      name(options.description),
      cables(options.num_ports + 1U) {}

/// The counters of one node for its performance agent.
class Subnet::Source final : public PortCounterSource {
  public:
    Source(SubnetHost& host, NodeId node) : host_(host), node_(node) {}
    void read(std::uint8_t port, PortCounterValues& values) override {
        host_.read_counters(node_, port, values);
    }

  private:
    SubnetHost& host_;
    NodeId node_;
};

NodeId Subnet::add(const NodeOptions& options) {
    places_.push_back(std::make_unique<Place>(options));
    return static_cast<NodeId>(places_.size() - 1);
}

void Subnet::connect(NodeId a, std::uint8_t port_a, NodeId b, std::uint8_t port_b) {
    URNIC_CHECK(port_a != 0 && port_b != 0);
    Cable& at_a = places_.at(a)->cables.at(port_a);
    Cable& at_b = places_.at(b)->cables.at(port_b);
    URNIC_CHECK(at_a.node == kNobody && at_b.node == kNobody);
    at_a = {b, port_b, true};
    at_b = {a, port_a, true};
    (void)set_connected(node(a), port_a, true);
    (void)set_connected(node(b), port_b, true);
    // Made, not changed: nobody has seen it otherwise.
    node(a).switch_info.port_state_change = node(b).switch_info.port_state_change = false;
}

void Subnet::set_enabled(NodeId id, std::uint8_t port, bool is_enabled, TimeNs now) {
    Cable& cable = places_.at(id)->cables.at(port);
    if (cable.node != kNobody && cable.is_enabled != is_enabled) {
        cable.is_enabled = is_enabled;
        refresh_link(id, port, false, now);
    }
}

void Subnet::set_is_sm(NodeId id, bool is_sm, TimeNs now) {
    mad::PortInfo& info = node(id).base_port().info;
    const std::uint32_t mask = is_sm ? info.capability_mask | kIsSm : info.capability_mask & ~kIsSm;
    if (mask == info.capability_mask) {
        return;
    }
    info.capability_mask = mask;
    mad::NoticeCapability details;
    details.lid_addr = info.lid;
    details.capability_mask = mask;
    send_trap(id, kInformationalNotice, mad::kCapabilityTrap, octets_of(mad::kNoticeCapabilityTable, details),
              now);
}

TimeNs Subnet::report(NodeId id, const KeyViolation& violation, TimeNs now) {
    const TimeNs too_soon_until = places_.at(id)->next_trap;
    send_trap(id, kSecurityNotice, violation.trap_number, details_of(violation, node(id).lid()), now);
    return now < too_soon_until ? too_soon_until : now + subnet_timeout(node(id));
}

void Subnet::enqueue(const UnderWay& packet) {
    if (under_way_.size() >= kMaxUnderWay) {
        ++counters_.drop_full;
        return;
    }
    under_way_.push_back(packet);
}

void Subnet::send(NodeId from, MadPacket packet) {
    if (is_directed(packet)) {
        // IBA 14.2.2: no LID leads it. Routes that are in part by LID get nowhere (directed_route.h).
        packet.slid = packet.dlid = kPermissiveLid;
    } else if (!node(from).has_lid(packet.slid)) {
        packet.slid = node(from).lid();
    }
    UnderWay own;
    own.to = from;
    encode(packet, own.bytes);
    enqueue(own);
}

bool Subnet::advance(TimeNs now, std::size_t count) {
    send_late_traps(now);
    for (; count != 0 && !under_way_.empty(); --count) {
        const UnderWay packet = under_way_.front();
        under_way_.pop_front();
        arrive(packet, now);
    }
    return !under_way_.empty();
}

TimeNs Subnet::next_event() const {
    TimeNs next = kNever;
    for (const auto& place : places_) {
        next = place->has_late_trap ? std::min(next, place->next_trap) : next;
    }
    return next;
}

void Subnet::arrive(const UnderWay& from, TimeNs now) {
    ++counters_.packets;
    const bool is_seen = tap_ != nullptr && from.port != kOwnPort;
    if (is_seen) {
        tap_->on_arrival(from.to);
    }
    route(from, now);
    if (is_seen) {
        tap_->on_handled(from.to, from.bytes);
    }
}

void Subnet::route(const UnderWay& from, TimeNs now) {
    std::optional<MadPacket> packet = decode(from.bytes);
    if (!packet) {
        ++counters_.drop_malformed;
        return;
    }
    if (is_directed(*packet)) {
        route_directed(from, *packet, now);
    } else {
        route_by_lid(from, *packet, now);
    }
}

void Subnet::route_directed(const UnderWay& from, MadPacket& packet, TimeNs now) {
    const Node& here = node(from.to);
    const RouteStep step = step_directed(MadRef(packet.mad), here.is_switch(), here.num_ports(), from.port);
    switch (step.kind) {
        case RouteStep::Kind::kDiscard:
            ++counters_.drop_route;
            return;
        case RouteStep::Kind::kDeliver:
            deliver(from, packet, now);
            return;
        case RouteStep::Kind::kForward:
            transmit(from, step.port, packet);
            return;
    }
}

void Subnet::route_by_lid(const UnderWay& from, const MadPacket& packet, TimeNs now) {
    const Node& here = node(from.to);
    if (here.has_lid(packet.dlid) || packet.dlid == kPermissiveLid) {
        deliver(from, packet, now);
        return;
    }
    const bool is_own = from.port == kOwnPort;
    const std::uint8_t out = here.is_switch() ? here.forward(packet.dlid) : std::uint8_t{1};
    if (out == 0 || out == kNoPort || (!here.is_switch() && !is_own)) {
        ++counters_.drop_route;
        return;
    }
    transmit(from, out, packet);
}

void Subnet::transmit(const UnderWay& from, std::uint8_t port, const MadPacket& packet) {
    const Place& here = *places_[from.to];
    const Cable& cable = here.cables.at(port);
    const bool is_qp0 = packet.dest_qp == wire::kQp0;
    if (cable.node == kNobody || !can_pass(here.node.ports[port], is_qp0) ||
        !can_pass(node(cable.node).ports[cable.port], is_qp0)) {
        ++counters_.drop_link;
        return;
    }
    if (from.hops >= kMaxHops) {
        ++counters_.drop_lifetime;
        return;
    }
    UnderWay next;
    next.to = cable.node;
    next.port = cable.port;
    next.hops = static_cast<std::uint8_t>(from.hops + 1);
    encode(packet, next.bytes);
    if (tap_ != nullptr) {
        tap_->on_sent(from.to, next.bytes);
    }
    enqueue(next);
}

void Subnet::deliver(const UnderWay& from, MadPacket packet, TimeNs now) {
    const bool is_seen_here = tap_ != nullptr && from.port == kOwnPort;
    if (is_seen_here) {
        tap_->on_sent(from.to, from.bytes);
        tap_->on_arrival(from.to);
    }
    if (packet.dest_qp == wire::kQp0) {
        deliver_smp(from.to, from.port, packet, now);
    } else {
        deliver_gmp(from.to, packet);
    }
    if (is_seen_here) {
        tap_->on_handled(from.to, from.bytes);
    }
}

void Subnet::deliver_smp(NodeId to, std::uint8_t ingress, MadPacket& packet, TimeNs now) {
    Change change;
    Handled handled = Handled::kDiscard;
    if (MadRef(packet.mad).is_subnet_management()) {
        if (MadRef(packet.mad).attribute_id() == mad::kPortInfo && !MadRef(packet.mad).is_response()) {
            host_.refresh_port_info(to);
        }
        handled = places_[to]->agent.handle(MadRef(packet.mad), ingress, now, change);
    }
    if (handled == Handled::kForSm) {
        if (!host_.deliver(to, packet)) {
            ++counters_.drop_not_taken;
        }
        return;
    }
    if (change.is_m_key_violation) {
        ++counters_.drop_m_key;
        send_m_key_trap(to, packet, now);
    }
    apply(to, change, now);
    if (handled == Handled::kReply) {
        reply(to, packet);
    }
}

void Subnet::deliver_gmp(NodeId to, MadPacket& packet) {
    MadRef mad(packet.mad);
    Source source(host_, to);
    if (mad.mgmt_class() == wire::kMadClassPerformance && !mad.is_response()) {
        if (places_[to]->performance.handle(mad, source)) {
            reply(to, packet);
        }
    } else if (!host_.deliver(to, packet)) {
        if (mad.mgmt_class() == kOpenIbPingClass && answer_ping(mad, places_[to]->name)) {
            reply(to, packet);
        } else {
            ++counters_.drop_not_taken;
        }
    }
}

/// Back to where a request came from.
void Subnet::reply(NodeId from, MadPacket packet) {
    std::swap(packet.slid, packet.dlid);
    std::swap(packet.src_qp, packet.dest_qp);
    send(from, packet);
}

void Subnet::apply(NodeId to, const Change& change, TimeNs now) {
    if (change.kind == Change::Kind::kNone) {
        return;
    }
    host_.on_change(to, change);
    if (change.kind == Change::Kind::kPort && places_[to]->cables.at(change.port).node != kNobody) {
        refresh_link(to, change.port, change.is_reset, now);
    }
}

/// Both ends of a cable have a link, or neither.
void Subnet::refresh_link(NodeId id, std::uint8_t port, bool is_reset, TimeNs now) {
    const Cable& here = places_.at(id)->cables.at(port);
    const Cable& there = places_.at(here.node)->cables.at(here.port);
    const auto may_link = [](const mad::PortInfo& info) {
        return info.port_physical_state != mad::kDisabled && info.port_physical_state != mad::kSleep;
    };
    const bool has_link = here.is_enabled && there.is_enabled && may_link(node(id).ports[port].info) &&
                          may_link(node(here.node).ports[here.port].info);
    if (is_reset) {
        // The other end sees the link go before it comes again.
        set_connected_and_tell(here.node, here.port, false, now);
    }
    set_connected_and_tell(id, port, has_link, now);
    set_connected_and_tell(here.node, here.port, has_link, now);
    if (is_reset) {
        host_.on_port_state(id, port);
    }
}

void Subnet::set_connected_and_tell(NodeId id, std::uint8_t port, bool is_connected, TimeNs now) {
    if (!set_connected(node(id), port, is_connected)) {
        return;
    }
    host_.on_port_state(id, port);
    if (node(id).is_switch()) {
        send_link_trap(id, now);
    }
}

/// A link that changes again within a subnet timeout is told of when that is over: the subnet manager may
/// have looked at it in between and cleared SwitchInfo:PortStateChange since.
void Subnet::send_link_trap(NodeId from, TimeNs now) {
    Place& here = *places_[from];
    here.has_late_trap = now < here.next_trap;
    send_trap(from, kUrgentNotice, mad::kLinkTrap,
              octets_of(mad::kNoticeLinkTable, mad::NoticeLink{here.node.lid()}), now);
}

/// Who asked for what, with which key, and by which way it came (IBA 14.2.5.1).
void Subnet::send_m_key_trap(NodeId from, MadPacket violation, TimeNs now) {
    const MadRef mad(violation.mad);
    mad::NoticeMKey details;
    details.lid_addr = violation.slid;
    details.method = mad.method();
    details.attribute_id = mad.attribute_id();
    details.attribute_modifier = mad.attribute_modifier();
    details.m_key = mad.m_key();
    if (mad.is_directed()) {
        const std::size_t hops = std::min<std::size_t>(mad.hop_count(), details.dr_return_path.size());
        details.dr_slid = mad.dr_slid();
        details.dr_notice = 1;
        details.dr_path_truncated = mad.hop_count() > hops ? 1 : 0;
        details.dr_hop_count = static_cast<std::uint8_t>(hops);
        for (std::size_t hop = 0; hop < hops; ++hop) {
            details.dr_return_path.at(hop) = mad.return_path(hop + 1);
        }
    }
    send_trap(from, kSecurityNotice, mad::kBadMKeyTrap, octets_of(mad::kNoticeMKeyTable, details), now);
}

void Subnet::send_late_traps(TimeNs now) {
    for (NodeId id = 0; id < places_.size(); ++id) {
        if (places_[id]->has_late_trap && places_[id]->next_trap <= now) {
            send_link_trap(id, now);
        }
    }
}

/// To the master subnet manager (IBA 14.3.11): one a subnet timeout.
void Subnet::send_trap(NodeId from, std::uint8_t type, std::uint16_t number,
                       const decltype(mad::Notice::data_details)& details, TimeNs now) {
    Place& here = *places_[from];
    const mad::PortInfo& info = here.node.base_port().info;
    if (info.lid == 0 || info.master_sm_lid == 0 || now < here.next_trap) {
        return;
    }
    here.next_trap = now + subnet_timeout(here.node);
    MadPacket packet;
    packet.dlid = info.master_sm_lid;
    packet.sl = info.master_sm_sl;
    wire::MadHeader header;
    header.mgmt_class = wire::kMadClassSubnetLidRouted;
    header.class_version = kSubnetClassVersion;
    header.method = wire::kMadTrap;
    header.attribute_id = 0x0002;
    mad::Notice notice;
    notice.is_generic = true;
    notice.type = type;
    notice.producer_type = here.node.node_info.node_type;
    notice.trap_number = number;
    notice.issuer_lid = info.lid;
    notice.data_details = details;
    MadRef mad(packet.mad);
    mad.write(wire::kMadTable, 0, header);
    mad.write(mad::kNoticeTable, 64, notice);
    store_be64(mad.at(24), info.m_key);
    send(from, packet);
}

}  // namespace urnic::subnet
