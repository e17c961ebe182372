#include "ulp/ipoib/service.h"

#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "ulp/ipoib/codec/announcement.h"
#include "ulp/ipoib/tap/clock.h"
#include "ulp/ipoib/tap/memberships.h"
#include "ulp/ipoib/tap/setup_error.h"
#include "ulp/ipoib/verbs/gid_text.h"

namespace urnic::ipoib {

namespace {

/// Frames in one turn.
constexpr std::size_t kFrames = 16;
/// Completions in one turn: frames of 64 KB at MTU 2044, several of them.
constexpr std::size_t kCompletions = 256;
/// Memberships without a report (the first ones, IGMP turned off) are seen after this.
constexpr int kMembershipPeriodMs = 1000;
/// The same of connections: messages of 64 KB.
constexpr std::size_t kConnectedCompletions = 32;
/// So long the last datagrams have to leave.
constexpr int kFarewellMs = 100;

/// Locally administered, from the octets of the GID that differ between ports.
Mac mac_of(const Gid& gid, std::uint32_t qpn) {
    Mac mac{};
    put_u16(mac, 0, 0x0248);
    std::uint32_t hash = qpn;
    for (std::size_t at = 0; at < gid.size(); at += 4) {
        hash = (hash ^ u32_at(gid, at)) * 0x9E3779B1U;
        hash ^= hash >> 15U;
    }
    put_u32(mac, 2, hash);
    return mac;
}

}  // namespace

Service::Service(const ServiceConfig& config)
    : config_(config),
      port_(config.port),
      scope_{static_cast<std::uint16_t>(port_.pkey() | 0x8000U), config.scope},
      ud_config_(make_addressing()),
      endpoint_(port_, subnet_ == nullptr ? static_cast<Addressing&>(*roce_) : subnet_->addressing(),
                ud_config_) {
    link_config_.own = {.qpn = endpoint_.qpn(), .gid = port_.gid()};
    link_config_.own_mac = mac_of(port_.gid(), endpoint_.qpn());
    link_config_.scope = scope_;
    link_config_.mtu = ud_config_.mtu;
    if (config.is_connected) {
        make_connected_mode();
    }
    link_ = std::make_unique<Link>(link_config_, endpoint_, rc_.get());
    link_->advance(now_ms());
    if (!link_->join_broadcast()) {
        throw SetupError("cannot join the broadcast group " + text_of(broadcast_gid(link_config_.scope)) +
                         " on " + port_.device_name());
    }
    tap_ = std::make_unique<TapDevice>(config.interface, link_config_.own_mac,
                                       config.is_connected ? config.connected_mtu : ud_config_.mtu);
    coalescer_ = std::make_unique<Coalescer>(*tap_);
    endpoint_.on_frame(
        [this](ConstOctets header, ConstOctets payload) { coalescer_->take(header, payload); });
    addresses_ = std::make_unique<AddressMonitor>(
        tap_->name(),
        [this](std::uint32_t address) { link_->on_frame(gratuitous_arp(link_config_.own_mac, address)); },
        [this](const Ipv6Address& address) {
            link_->on_frame(unsolicited_advertisement(link_config_.own_mac, address));
        });
}

UdConfig Service::make_addressing() {
    UdConfig ud;
    ud.pkey_index = config_.port.pkey_index;
    ud.depth = config_.depth;
    if (!port_.is_infiniband()) {
        roce_ = std::make_unique<RoceAddressing>(port_, config_.traffic);
        ud.qkey = config_.qkey.value_or(ud.qkey);
        ud.mtu = config_.mtu.value_or(ud.mtu);
        return ud;
    }
    subnet_ = std::make_unique<Subnet>(port_, scope_);
    ud.qkey = subnet_->broadcast().qkey;
    ud.mtu = subnet_->mtu();
    if (config_.qkey.value_or(ud.qkey) != ud.qkey || config_.mtu.value_or(ud.mtu) != ud.mtu) {
        throw SetupError("the broadcast group of " + port_.text() + " has Q_Key " + std::to_string(ud.qkey) +
                         " and MTU " + std::to_string(ud.mtu) +
                         ": on InfiniBand a link takes them from there, leave out --qkey and --mtu");
    }
    return ud;
}

Service::~Service() {
    // Peers are told that connections end, as far as that goes at once.
    link_.reset();
    endpoint_.flush();
    if (rc_ != nullptr) {
        pollfd completion{endpoint_.completion_fd(), POLLIN, 0};
        endpoint_.arm();
        ::poll(&completion, 1, kFarewellMs);
    }
}

void Service::make_connected_mode() {
    if (ud_config_.mtu < kMadOctets) {
        throw SetupError("connected mode needs a link of MTU " + std::to_string(kMadOctets) +
                         " at least: its messages have that length");
    }
    if (config_.connected_mtu < ud_config_.mtu) {
        throw SetupError("the MTU of connections, " + std::to_string(config_.connected_mtu) +
                         ", is less than that of datagrams: see --connected-mtu and --mtu");
    }
    rc_ = std::make_unique<RcEndpoint>(endpoint_, ud_config_.pkey_index, config_.connected_depth);
    ConnectionConfig& connections = link_config_.connections;
    connections.receive_mtu = config_.connected_mtu + static_cast<std::uint32_t>(kEncapsulationOctets);
    // On InfiniBand every path of the link carries the broadcast group's packets; the port's own may be
    // longer than one of them does.
    connections.path_mtu =
        subnet_ == nullptr ? rc_->path_mtu() : std::min(rc_->path_mtu(), subnet_->broadcast().mtu);
    connections.max_connections = config_.max_connections;
    connections.idle_ms = std::uint64_t{config_.idle_seconds} * 1000;
    if (::getrandom(&connections.seed, sizeof connections.seed, 0) != sizeof connections.seed) {
        throw errno_error("random numbers", "");
    }
}

std::string Service::description() const {
    std::array<char, 16> qpn{};
    std::snprintf(qpn.data(), qpn.size(), "0x%06x", endpoint_.qpn());
    return tap_->name() + ": " + port_.text() + ", GID " + text_of(port_.gid()) + ", QPN " + qpn.data() +
           ", MTU " + std::to_string(ud_config_.mtu) + ", broadcast group " +
           text_of(broadcast_gid(link_config_.scope)) +
           (rc_ == nullptr ? "" : ", connected mode, MTU " + std::to_string(config_.connected_mtu));
}

void Service::watch_memberships(ConstOctets frame) {
    if (frame.size() > kEthernetHeaderOctets &&
        is_membership_report(u16_at(frame, 12), frame.subspan(kEthernetHeaderOctets))) {
        has_new_memberships_ = true;
    }
}

void Service::follow_memberships() {
    has_new_memberships_ = false;
    // What groups are made like is the broadcast group's record.
    if (!link_->is_up()) {
        return;
    }
    link_->set_memberships(parse_igmp(read_proc_file("/proc/self/net/igmp"), tap_->name()),
                           parse_igmp6(read_proc_file("/proc/self/net/igmp6"), tap_->name()));
}

bool Service::read_frames() {
    bool has_moved = false;
    link_->resume();
    // Without a slot frames stay with the kernel, as with a NIC whose ring is full.
    for (std::size_t i = 0; i < kFrames && can_read(); ++i) {
        Offload offload;
        const Octets frame = tap_->read(offload);
        if (frame.empty()) {
            break;
        }
        watch_memberships(frame);
        link_->on_frame(frame, offload);
        has_moved = true;
        // A frame in one piece is many datagrams: the device begins with them while the next one is cut.
        if (offload.segmentation != Segmentation::kNone) {
            endpoint_.flush();
        }
    }
    endpoint_.flush();
    return has_moved;
}

bool Service::move() {
    if (subnet_ != nullptr) {
        follow_subnet();
    }
    const bool has_read = read_frames();
    if (has_new_memberships_) {
        follow_memberships();
    }
    const std::size_t completions =
        endpoint_.poll(kCompletions, [this](ConstOctets grh, std::uint32_t source, ConstOctets payload) {
            link_->on_datagram(grh, source, payload);
        });
    const std::size_t connected = rc_ == nullptr ? 0 : rc_->poll(kConnectedCompletions, *this);
    // Merged frames lie in the receives' memory until here.
    coalescer_->flush();
    endpoint_.release_receives();
    if (rc_ != nullptr) {
        rc_->release_receives();
        const std::uint64_t now = now_ms();
        link_->advance(now);
        rc_->advance(now);
        endpoint_.flush();
    }
    return has_read || completions != 0 || connected != 0;
}

void Service::take_events() {
    endpoint_.take_events([this](const ibv_async_event& event) {
        has_new_subnet_ = has_new_subnet_ || (subnet_ != nullptr && is_subnet_change(event, port_));
        return rc_ != nullptr && rc_->take_event(event, *this);
    });
}

void Service::follow_subnet() {
    if (std::exchange(has_new_subnet_, false)) {
        port_.check_unchanged();
        subnet_->forget();
        link_->forget_subnet();
        next_join_ms_ = 0;
    }
    for (const Gid& gid : subnet_->take(std::exchange(has_answers_, false))) {
        link_->on_settled(gid);
        next_join_ms_ = is_multicast(gid) ? 0 : next_join_ms_;
    }
    // What was refused is tried again, however much there is to do meanwhile.
    if (now_ms() < next_join_ms_) {
        return;
    }
    next_join_ms_ = now_ms() + kMembershipPeriodMs;
    if (!link_->is_up() && link_->join_broadcast()) {
        subnet_->check_broadcast();
    }
    for (const Gid& group : subnet_->expire_senders()) {
        link_->forget_handle(group);
    }
    has_new_memberships_ = true;
}

int Service::patience_ms() const {
    if (rc_ == nullptr) {
        return kMembershipPeriodMs;
    }
    const std::uint64_t now = now_ms();
    const std::uint64_t next = std::max(link_->connections()->next_deadline(), now + 1);
    return static_cast<int>(std::min<std::uint64_t>(next - now, kMembershipPeriodMs));
}

void Service::run(int stop_fd, int report_fd) {
    std::array<pollfd, 8> events = {{{stop_fd, POLLIN, 0},
                                     {report_fd, POLLIN, 0},
                                     {tap_->fd(), POLLIN, 0},
                                     {endpoint_.completion_fd(), POLLIN, 0},
                                     {addresses_->fd(), POLLIN, 0},
                                     {endpoint_.event_fd(), POLLIN, 0},
                                     {rc_ == nullptr ? -1 : rc_->completion_fd(), POLLIN, 0},
                                     {subnet_ == nullptr ? -1 : subnet_->fd(), POLLIN, 0}}};
    follow_memberships();
    while ((events[0].revents & POLLIN) == 0) {
        const bool has_moved = move();
        if (!has_moved) {
            endpoint_.arm();
            if (rc_ != nullptr) {
                rc_->arm();
            }
        }
        // What came before the event was asked for is taken first.
        const bool may_sleep = !has_moved && !move();
        events[2].events = can_read() ? POLLIN : 0;
        const int ready = ::poll(events.data(), events.size(), may_sleep ? patience_ms() : 0);
        if ((events[4].revents & POLLIN) != 0) {
            addresses_->take();
        }
        if ((events[5].revents & POLLIN) != 0) {
            take_events();
        }
        has_answers_ = has_answers_ || (events[7].revents & POLLIN) != 0;
        if ((events[1].revents & POLLIN) != 0) {
            std::array<char, 256> taken{};
            if (::read(report_fd, taken.data(), taken.size()) > 0) {
                print_counters();
            }
        }
        if (ready == 0 && may_sleep) {
            follow_memberships();
        }
    }
}

void Service::print_counters() const {
    const LinkCounters& counters = link_->counters();
    using Row = std::pair<const char*, std::uint64_t>;
    std::vector<Row> rows = {
        {"tx_packets", counters.tx_packets},
        {"tx_octets", counters.tx_octets},
        {"tx_multicast", counters.tx_multicast},
        {"rx_packets", counters.rx_packets},
        {"rx_octets", counters.rx_octets},
        {"rx_multicast", counters.rx_multicast},
        {"tx_segmented", counters.tx_segmented},
        {"rx_merged", coalescer_->merged()},
        {"tx_unknown_neighbour", counters.tx_unknown_neighbour},
        {"tx_too_long", counters.tx_too_long},
        {"tx_no_slot", counters.tx_no_slot},
        {"tx_no_handle", counters.tx_no_handle},
        {"tx_other_type", counters.tx_other_type},
        {"tx_malformed", counters.tx_malformed},
        {"rx_too_short", counters.rx_too_short},
        {"rx_too_long", counters.rx_too_long},
        {"rx_own", counters.rx_own},
        {"rx_no_source", counters.rx_no_source},
        {"rx_other_type", counters.rx_other_type},
        {"rx_malformed", counters.rx_malformed},
        {"rx_tap_refused", tap_->refusals()},
        {"joins_failed", counters.joins_failed},
        {"failed_completions", endpoint_.failed_completions()},
        {"neighbours", link_->neighbours()},
        {"neighbour_evictions", link_->neighbour_evictions()},
        {"groups", link_->groups()},
    };
    if (const Connections* connections = link_->connections(); connections != nullptr) {
        const ConnectionCounters& of_connections = connections->counters();
        const std::initializer_list<Row> connected = {
            {"tx_connected", counters.tx_connected},
            {"rx_connected", counters.rx_connected},
            {"tx_too_big", counters.tx_too_big},
            {"tx_fragmented", counters.tx_fragmented},
            {"tx_no_connection", counters.tx_no_connection},
            {"tx_held", counters.tx_held},
            {"connections", connections->established()},
            {"connections_opened", of_connections.opened},
            {"connections_accepted", of_connections.accepted},
            {"connections_crossed", of_connections.collisions},
            {"connections_timed_out", of_connections.timed_out},
            {"connections_broken", of_connections.broken},
            {"connections_idle", of_connections.closed_idle},
            {"connections_ended_by_peer", of_connections.closed_by_peer},
            {"connections_evicted", of_connections.evicted},
            {"connections_without_room", of_connections.no_room},
            {"cm_rejects_sent", of_connections.rejects_sent},
            {"cm_rejects_taken", of_connections.rejects_taken},
            {"cm_malformed", of_connections.malformed},
            {"cm_forged", of_connections.forged},
            {"cm_unknown", of_connections.unknown},
            {"connected_failed_completions", rc_->failed_completions()},
        };
        rows.insert(rows.end(), connected);
    }
    if (subnet_ != nullptr) {
        const SubnetCounters& subnet = subnet_->counters();
        const std::initializer_list<Row> of_subnet = {{"sa_requests", subnet.requests},
                                                      {"sa_refused", subnet.refused},
                                                      {"sa_timeouts", subnet.timeouts},
                                                      {"sa_malformed", subnet.malformed}};
        rows.insert(rows.end(), of_subnet);
    }
    rows.emplace_back("mtu", link_config_.mtu);
    for (const auto& [name, value] : rows) {
        std::fprintf(stderr, "%s %llu\n", name, static_cast<unsigned long long>(value));
    }
}

}  // namespace urnic::ipoib
