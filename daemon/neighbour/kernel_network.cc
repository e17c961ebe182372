#include "daemon/neighbour/kernel_network.h"
#include "daemon/state/publish_addresses.h"

#include <algorithm>
#include <array>

#include "base/address_text.h"
#include "os/log.h"
#include "os/monotonic_clock.h"
#include "os/setup_error.h"

namespace urnic::daemon {

namespace {

/// Changes that come faster are looked at together.
constexpr TimeNs kLookNs = 50'000'000;
/// How often the kernel is asked for neighbours that it is not sure of.
constexpr TimeNs kAskNs = kSecondNs;

}  // namespace

KernelNetwork::KernelNetwork(dataplane::Device& device, const std::string& interface,
                             const std::string& netns, const NeighbourResolver& configured)
    : device_(device),
      interface_(interface),
      netlink_(NetNamespace(netns)),
      path_resolver_(device, *this, configured) {
    const auto view = netlink_.look(interface);
    if (!view) {
        throw SetupError(device.name + ": the kernel does not tell the addresses of " + interface);
    }
    view_ = *view;
    (void)dataplane::set_addresses(device, view_.index_of_vlan.empty() ? device.mac : view_.mac,
                                   view_.addresses);
}

void KernelNetwork::start(ControlState& control, RnicState& entry) {
    control_ = &control;
    entry_ = &entry;
    control.event_loop.add(netlink_.changes_fd(), [this] { on_change(); });
    control.event_loop.add(timer_.fd(), [this] { on_time(); });
    refresh_view();
}

int KernelNetwork::interface_of(std::uint16_t vlan) const {
    const auto found = view_.index_of_vlan.find(vlan);
    return found == view_.index_of_vlan.end() ? 0 : found->second;
}

std::optional<net::Hop> KernelNetwork::route(const wire::Gid& source, std::uint16_t vlan,
                                             const wire::Gid& destination) {
    const int interface = interface_of(vlan);
    if (interface == 0) {
        return std::nullopt;
    }
    if (net::is_link_local(destination)) {
        return net::Hop{destination, vlan};
    }
    const auto next = netlink_.next_hop(interface, source, destination);
    return next ? std::optional(net::Hop{*next, vlan}) : std::nullopt;
}

bool KernelNetwork::want(const net::Hop& hop, const wire::Gid& /*source*/) {
    const auto [place, is_new] = hops_.try_emplace(hop);
    if (is_new) {
        learn(hop, netlink_.neighbour(interface_of(hop.vlan), hop.address));
    }
    if (!place->second.mac || !place->second.is_fresh) {
        resolve(hop);
    }
    set_timer();
    return true;
}

std::optional<wire::Mac> KernelNetwork::find(const net::Hop& hop) const {
    const auto found = hops_.find(hop);
    return found == hops_.end() ? std::nullopt : found->second.mac;
}

void KernelNetwork::resolve(const net::Hop& hop) {
    const int interface = interface_of(hop.vlan);
    if (interface != 0 && !netlink_.resolve(interface, hop.address) && !may_not_resolve_) {
        may_not_resolve_ = true;
        log_warning(
            "{}: the kernel does not ask for neighbours on {} on our behalf (first: {}): give urnicd "
            "CAP_NET_ADMIN there",
            device_.name, interface_, address_text(hop.address));
    }
}

void KernelNetwork::learn(const net::Hop& hop, const std::optional<KernelNeighbour>& said) {
    const auto found = hops_.find(hop);
    if (found == hops_.end()) {
        return;
    }
    Known& known = found->second;
    const auto mac = said ? said->mac : std::nullopt;
    known.is_fresh = said && said->is_fresh;
    if (known.mac != mac) {
        known.mac = mac;
        path_resolver_.neighbour_changed(hop);
        if (!mac) {
            // The kernel has forgotten it, as it does with all when the interface gets another MAC: now, not
            // at the next look, for QPs continue to send.
            resolve(hop);
        }
    }
}

void KernelNetwork::on_change() {
    const RtnetlinkChanges changes = netlink_.changes();
    for (const KernelNeighbour& neighbour : changes.neighbours) {
        for (const auto& [vlan, interface] : view_.index_of_vlan) {
            if (interface == neighbour.interface) {
                learn({neighbour.address, vlan}, neighbour);
            }
        }
    }
    if (changes.neighbours_lost) {
        for (const auto& [hop, known] : hops_) {
            learn(hop, netlink_.neighbour(interface_of(hop.vlan), hop.address));
        }
    }
    if (changes.addresses || changes.routes) {
        must_look_ = true;
        if (clock_now() >= looked_ + kLookNs) {
            refresh_view();
        }
        set_timer();
    }
}

void KernelNetwork::refresh_view() {
    looked_ = clock_now();
    auto view = netlink_.look(interface_);
    if (!view) {
        return;  // must_look_ stays: tried again
    }
    must_look_ = false;
    const bool has_gone = view->index_of_vlan.empty();
    view_ = *std::move(view);
    const wire::Mac before = device_.mac;
    if (dataplane::set_addresses(device_, has_gone ? device_.mac : view_.mac, view_.addresses)) {
        log_info("{}: the addresses of {} have changed", device_.name, interface_);
        publish_addresses(*control_, *entry_);
    }
    path_resolver_.network_changed();
    if (device_.mac != before) {
        device_.port->set_mac(device_.mac);
        announce();
    }
}

/// Linux tells its neighbours of a new MAC only when it is asked to (arp_notify); QPs cannot wait until they
/// find out.
void KernelNetwork::announce() const {
    std::vector<std::array<std::byte, net::kMaxNeighbourBytes>> frames;
    for (std::size_t i = 0; i < device_.gids.size(); ++i) {
        if (device_.gids[i] != wire::Gid{}) {
            auto& frame = frames.emplace_back();
            (void)net::build_neighbour(
                net::announcement(device_.mac, {device_.gids[i], device_.gid_vlans[i]}), frame);
        }
    }
    dataplane::Worker& worker = *control_->workers.front();
    worker.call([&] {
        for (const auto& frame : frames) {
            (void)worker.transmit_frame(device_.index, frame);
        }
    });
}

void KernelNetwork::on_time() {
    timer_.acknowledge();
    if (must_look_) {
        refresh_view();
    }
    // The kernel forgets how sure it is of neighbours that it sends nothing to itself.
    for (const auto& [hop, known] : hops_) {
        if (!known.mac || !known.is_fresh) {
            resolve(hop);
        }
    }
    set_timer();
}

void KernelNetwork::set_timer() {
    const TimeNs after = must_look_ ? kLookNs : hops_.empty() ? 0 : kAskNs;
    // A timer that runs already goes off soon enough.
    if (after != 0 && !must_look_ && timer_.is_set()) {
        return;
    }
    timer_.set_after(after);
}

}  // namespace urnic::daemon
