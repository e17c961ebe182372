// Of SubnetAdministrator: the manager's own packets, by QP0, and what it tells subscribers.
#include <algorithm>

#include "rnic/subnet/sm_info_agent.h"
#include "rnic/subnet/subnet_administrator.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

/// Notice:Type and ProducerType of traps whose source is the subnet manager (IBA 14.2.5.1).
constexpr std::uint8_t kSubnetManagementType = 3;
constexpr std::uint32_t kClassManager = 4;
constexpr std::size_t kTrapData = 64;  // the Notice of a Trap

bool is_managers_own(const mad::Notice& notice) {
    return notice.is_generic && notice.trap_number >= mad::kGidInServiceTrap &&
           notice.trap_number <= mad::kGroupDeletedTrap;
}

/// Who shares a partition with a port may hear of it (IBA 13.4.11, o13-17).
bool may_hear_of(const Endpoint& port, const Endpoint& subscriber) {
    return shared_pkey(subscriber.pkeys(), port.pkeys(), std::nullopt).has_value();
}

}  // namespace

bool SubnetAdministrator::handle_smp(const MadPacket& packet, TimeNs now) {
    MadBytes bytes = packet.mad;
    const MadRef mad(bytes);
    if (!mad.is_subnet_management()) {
        return false;
    }
    if (mad.is_response()) {
        return handover_.take(packet, sm_info(), now, send_);
    }
    return mad.method() == wire::kMadTrap ? take_trap(packet, now) : answer_manager(packet);
}

/// Nobody's priority is less: who starts a subnet manager wants it to manage.
mad::SmInfo SubnetAdministrator::sm_info() const {
    mad::SmInfo info;
    info.guid = Endpoint(home_).guid();
    // opensm looks away from managers with another key.
    info.sm_key = kSmKey;
    info.act_count = act_count_;
    info.sm_state = handover_.has_given() ? kSmNotActive : kSmMaster;
    return info;
}

/// A port that is down reaches nobody, and a program that has become the manager has subscribers of its own.
bool SubnetAdministrator::is_in_charge() const {
    const Endpoint home(home_);
    return home.info().port_state == mad::kActive && home.has_lid(home.info().master_sm_lid) && !has_program_;
}

std::vector<std::uint16_t> SubnetAdministrator::other_managers() const {
    std::vector<std::uint16_t> lids;
    for (const Node* node : nodes_) {
        const mad::PortInfo& info = Endpoint(*node).info();
        if (node != &home_ && (info.capability_mask & kIsSm) != 0 && info.lid != 0 && is_in_charge()) {
            lids.push_back(info.lid);
        }
    }
    return lids;
}

bool SubnetAdministrator::answer_manager(MadPacket packet) {
    if (!answer_sm_info(MadRef(packet.mad), sm_info())) {
        return false;
    }
    ++act_count_;
    std::swap(packet.slid, packet.dlid);
    std::swap(packet.src_qp, packet.dest_qp);
    send_(packet);
    return true;
}

/// A trap of a node that is what it says: its sender need not repeat it (IBA 13.4.9), and subscribers hear
/// of it (IBA 13.4.11). Those that no node has to tell of are not told.
bool SubnetAdministrator::take_trap(const MadPacket& packet, TimeNs now) {
    MadPacket answer = packet;
    MadRef mad(answer.mad);
    if (mad.attribute_id() != mad::kNotice) {
        return false;
    }
    const auto notice = mad.read<mad::Notice>(mad::kNoticeTable, kTrapData);
    const std::vector<Endpoint> endpoints = endpoints_of(nodes_);
    const Endpoint* const issuer = find_lid(endpoints, packet.slid);
    // Traps have no directed route (IBA 14.2.2).
    if (mad.is_directed() || mad.base_version() != kBaseVersion ||
        mad.class_version() != kSubnetClassVersion || issuer == nullptr ||
        !issuer->has_lid(notice.issuer_lid) || is_managers_own(notice)) {
        ++counters_.drop_trap;
        return true;
    }
    ++counters_.traps;
    ++act_count_;
    mad.set_method(wire::kMadTrapRepress);
    mad.set_status(kStatusGood);
    std::swap(answer.slid, answer.dlid);
    std::swap(answer.src_qp, answer.dest_qp);
    send_(answer);
    report(
        notice, issuer->gid(), [&](const Endpoint& port) { return may_hear_of(*issuer, port); }, now);
    return true;
}

void SubnetAdministrator::on_port_down(const Node& node, TimeNs now) {
    const Endpoint gone(node);
    subscriptions_.forget(gone.guid());
    if (&node == &home_) {
        subscriptions_.give_up_reports();
    }
    groups_.forget(gone.guid());
    report(
        mad::kGidOutOfServiceTrap, gone.gid(), [&](const Endpoint& port) { return may_hear_of(gone, port); },
        now);
    report_groups(now);
}

void SubnetAdministrator::on_port_up(const Node& node, TimeNs now) {
    const Endpoint here(node);
    report(
        mad::kGidInServiceTrap, here.gid(), [&](const Endpoint& port) { return may_hear_of(here, port); },
        now);
}

void SubnetAdministrator::report_groups(TimeNs now) {
    for (const SaGroups::Change& change : groups_.take_changes()) {
        report(
            change.is_created ? mad::kGroupCreatedTrap : mad::kGroupDeletedTrap, change.group.mgid,
            [&](const Endpoint& port) { return port.pkeys().match(change.group.pkey).has_value(); }, now);
    }
}

void SubnetAdministrator::report(std::uint16_t trap_number, const wire::Gid& gid, const MayHear& may_hear,
                                 TimeNs now) {
    const Endpoint home(home_);
    mad::Notice notice;
    notice.is_generic = true;
    notice.type = kSubnetManagementType;
    notice.producer_type = kClassManager;
    notice.trap_number = trap_number;
    notice.issuer_lid = home.info().lid;
    const mad::NoticeGid details{gid};
    wire::write_fields(mad::kNoticeGidTable, &details,
                       reinterpret_cast<std::byte*>(notice.data_details.data()));
    report(notice, home.gid(), may_hear, now);
}

void SubnetAdministrator::report(const mad::Notice& notice, const wire::Gid& issuer, const MayHear& may_hear,
                                 TimeNs now) {
    if (!is_in_charge() || subscriptions_.size() == 0) {
        return;
    }
    const std::vector<Endpoint> endpoints = endpoints_of(nodes_);
    const auto may_port_hear = [&](std::uint64_t guid) {
        const auto port = std::find_if(endpoints.begin(), endpoints.end(),
                                       [&](const Endpoint& candidate) { return candidate.guid() == guid; });
        return port != endpoints.end() && may_hear(*port);
    };
    ++act_count_;
    subscriptions_.report(notice, issuer, may_port_hear, now, send_);
}

}  // namespace urnic::subnet
