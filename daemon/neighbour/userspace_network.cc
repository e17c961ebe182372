#include "daemon/neighbour/userspace_network.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/address_text.h"
#include "os/log.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

namespace {

/// Who claims our address is named so often.
constexpr TimeNs kConflictLogNs = 10 * kSecondNs;
/// Frames of ours that wait for a worker.
constexpr std::size_t kMaxToSend = 1024;

}  // namespace

UserspaceNetwork::UserspaceNetwork(dataplane::Device& device, const RnicConfig& rnic,
                                   const NeighbourResolver& configured)
    : device_(device), routes_{{std::uint16_t{0}, rnic.routes}}, path_resolver_(device, *this, configured) {
    for (const LinkConfig& link : rnic.vlans) {
        routes_[link.vlan] = link.routes;
    }
    to_send_.reserve(kMaxToSend);
    device.neighbour_inbox = &inbox_;
}

void UserspaceNetwork::listen(const std::string& interface, const std::string& netns) {
    arp_socket_.emplace(NetNamespace(netns), interface, FrameSocket::Kind::kNeighbours);
}

void UserspaceNetwork::start(ControlState& control) {
    control_ = &control;
    if (arp_socket_) {
        control.event_loop.add(arp_socket_->fd(), [this] { on_arp_socket(); });
    }
    control.event_loop.add(inbox_.fd(), [this] { on_frames(); });
    control.event_loop.add(timer_.fd(), [this] { on_time(); });
    std::vector<net::Hop> own;
    for (std::size_t i = 0; i < device_.gids.size(); ++i) {
        if (device_.gids[i] != wire::Gid{}) {
            own.push_back({device_.gids[i], device_.gid_vlans[i]});
        }
    }
    cache_.set_own(device_.mac, own, clock_now(), *this);
    finish();
}

std::optional<net::Hop> UserspaceNetwork::route(const wire::Gid& source, std::uint16_t vlan,
                                                const wire::Gid& destination) {
    if (std::find(device_.gids.begin(), device_.gids.end(), source) == device_.gids.end()) {
        return std::nullopt;
    }
    if (net::is_link_local(destination)) {
        return net::Hop{destination, vlan};
    }
    const auto routes = routes_.find(vlan);
    const RouteConfig* const route =
        routes == routes_.end() ? nullptr : find_route(routes->second, destination);
    if (route == nullptr) {
        return std::nullopt;
    }
    return net::Hop{route->via.value_or(destination), vlan};
}

bool UserspaceNetwork::want(const net::Hop& hop, const wire::Gid& source) {
    const bool wanted = cache_.want(hop, source, clock_now(), *this);
    finish();
    return wanted;
}

void UserspaceNetwork::on_frames() {
    inbox_.acknowledge();
    const TimeNs now = clock_now();
    dataplane::FrameInbox::Frame frame;
    for (std::uint32_t taken = 0; taken < dataplane::FrameInbox::kFrames && inbox_.pop(frame); ++taken) {
        take(frame, now);
    }
    inbox_.wake_for_rest();
    finish();
}

void UserspaceNetwork::on_arp_socket() {
    const TimeNs now = clock_now();
    dataplane::FrameInbox::Frame frame;
    for (std::uint32_t taken = 0; taken < dataplane::FrameInbox::kFrames && arp_socket_->receive(frame);
         ++taken) {
        take(frame, now);
    }
    finish();
}

void UserspaceNetwork::take(const dataplane::FrameInbox::Frame& frame, TimeNs now) {
    net::NeighbourMessage message;
    if (net::parse_neighbour(frame.span(), message) == net::NeighbourParse::kGood) {
        cache_.receive(message, now, *this);
    }
}

void UserspaceNetwork::on_time() {
    timer_.acknowledge();
    cache_.advance(clock_now(), *this);
    finish();
}

void UserspaceNetwork::finish() {
    if (control_ == nullptr) {
        return;
    }
    if (!to_send_.empty()) {
        dataplane::Worker& worker = *control_->workers.front();
        worker.call([&] {
            for (const dataplane::FrameInbox::Frame& frame : to_send_) {
                (void)worker.transmit_frame(device_.index, frame.span());  // else lost, as on the wire
            }
        });
        to_send_.clear();
    }
    timer_.set_at(cache_.next_event());
}

void UserspaceNetwork::send(const net::NeighbourMessage& message) {
    if (to_send_.size() == kMaxToSend) {
        return;
    }
    dataplane::FrameInbox::Frame frame;
    frame.bytes.fill(std::byte{0});
    // Ethernet's least, without its checksum.
    frame.length =
        static_cast<std::uint16_t>(std::max<std::size_t>(net::build_neighbour(message, frame.bytes), 60));
    to_send_.push_back(frame);
}

void UserspaceNetwork::changed(const net::Hop& hop, const std::optional<wire::Mac>& /*mac*/) {
    path_resolver_.neighbour_changed(hop);
}

void UserspaceNetwork::conflict(const net::Hop& own, const wire::Mac& other) {
    const TimeNs now = clock_now();
    if (conflict_logged_ == 0 || now - conflict_logged_ >= kConflictLogNs) {
        conflict_logged_ = now;
        log_warning("{}: {} claims the address {} of this RNIC: give one of them another address",
                    device_.name, mac_text(other), address_text(own.address));
    }
}

}  // namespace urnic::daemon
