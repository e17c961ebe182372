#include "daemon/neighbour/membership_reports.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "os/log.h"
#include "os/monotonic_clock.h"
#include "os/setup_error.h"
#include "rnic/neighbour/neighbour_message.h"

namespace urnic::daemon {

namespace {

/// Frames that wait for a worker: all groups of an RNIC, five in each, on some VLANs.
constexpr std::size_t kMostReports = 4096;

}  // namespace

MembershipReports::MembershipReports(dataplane::Device& device, bool has_own_addresses, std::uint64_t seed)
    : device_(device), has_own_addresses_(has_own_addresses), reporter_(seed) {}

void MembershipReports::listen(const std::string& interface, const std::string& netns) {
    socket_.emplace(NetNamespace(netns), interface, FrameSocket::Kind::kQueries);
}

void MembershipReports::start(ControlState& control) {
    control_ = &control;
    if (socket_) {
        control.event_loop.add(socket_->fd(), [this] { on_socket(); });
    }
    control.event_loop.add(inbox_.fd(), [this] { on_inbox(); });
    control.event_loop.add(timer_.fd(), [this] {
        timer_.acknowledge();
        finish();
    });
    set_groups({});
}

std::vector<wire::Gid> MembershipReports::with_own(std::span<const wire::Gid> groups) const {
    std::vector<wire::Gid> all(groups.begin(), groups.end());
    for (const wire::Gid& gid : device_.gids) {
        if (has_own_addresses_ && gid != wire::Gid{} && !wire::is_ipv4_mapped(gid)) {
            all.push_back(net::solicited_node(gid));
        }
    }
    return all;
}

void MembershipReports::set_groups(std::span<const wire::Gid> groups) {
    try {
        const std::vector<wire::Gid> all = with_own(groups);
        if (socket_) {
            socket_->hear(!all.empty());
        }
        refresh_sources();
        reporter_.set_groups(all, clock_now(), *this);
        finish();
    } catch (const std::bad_alloc&) {
        log_warning(
            "{}: no memory to report multicast groups: switches learn of this change with the next one",
            device_.name);
    } catch (const SetupError& error) {
        log_warning("{}: {}: switches that ask for multicast groups get no answer", device_.name,
                    error.what());
    }
}

void MembershipReports::refresh_sources() {
    std::vector<net::MembershipSource> sources;
    for (std::size_t i = 0; i < device_.gids.size(); ++i) {
        const wire::Gid& gid = device_.gids[i];
        if (gid == wire::Gid{}) {
            continue;
        }
        const std::uint16_t vlan = device_.gid_vlans[i];
        auto source = std::find_if(sources.begin(), sources.end(),
                                   [&](const net::MembershipSource& other) { return other.vlan == vlan; });
        if (source == sources.end()) {
            source = sources.insert(sources.end(), {.mac = device_.mac, .vlan = vlan});
        }
        wire::Gid* const place = wire::is_ipv4_mapped(gid) ? &source->ipv4
                                 : net::is_link_local(gid) ? &source->ipv6
                                                           : nullptr;
        if (place != nullptr && *place == wire::Gid{}) {
            *place = gid;
        }
    }
    reporter_.set_sources(std::move(sources));
}

void MembershipReports::on_inbox() {
    inbox_.acknowledge();
    dataplane::FrameInbox::Frame frame;
    for (std::uint32_t taken = 0; taken < dataplane::FrameInbox::kFrames && inbox_.pop(frame); ++taken) {
        take(frame);
    }
    inbox_.wake_for_rest();
    finish();
}

void MembershipReports::on_socket() {
    dataplane::FrameInbox::Frame frame;
    for (std::uint32_t taken = 0; taken < dataplane::FrameInbox::kFrames && socket_->receive(frame);
         ++taken) {
        take(frame);
    }
    finish();
}

void MembershipReports::take(const dataplane::FrameInbox::Frame& frame) {
    if (const auto query = net::parse_membership_query(frame.span())) {
        reporter_.receive(*query, clock_now());
    }
}

void MembershipReports::send_report(std::span<const std::byte> frame) {
    if (to_send_.size() == kMostReports) {
        return;
    }
    dataplane::FrameInbox::Frame& copy = to_send_.emplace_back();
    copy.length = static_cast<std::uint16_t>(frame.size());
    std::copy(frame.begin(), frame.end(), copy.bytes.begin());
}

void MembershipReports::finish() {
    if (control_ == nullptr) {
        return;
    }
    refresh_sources();
    reporter_.advance(clock_now(), *this);
    if (!to_send_.empty()) {
        dataplane::Worker& worker = *control_->workers.front();
        worker.call([&] {
            for (const dataplane::FrameInbox::Frame& frame : to_send_) {
                (void)worker.transmit_frame(device_.index, frame.span());  // else lost, as on the wire
            }
        });
        to_send_.clear();
    }
    timer_.set_at(reporter_.next_event());
}

}  // namespace urnic::daemon
