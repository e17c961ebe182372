#include "daemon/cm/service.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "daemon/cm/client.h"
#include "daemon/cm/mad_listener.h"
#include "daemon/neighbour/address_vector.h"
#include "daemon/state/subnet_gsi.h"
#include "os/secure_random.h"
#include "rnic/device/gsi.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/headers.h"

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kPsnMask = 0xff'ffff;
/// A worker whose port takes nothing just now is asked again so often; after that the MAD is lost, and sent
/// again by its time-out.
constexpr int kSendTries = 8;
/// That Linux's rdma_cm waits for a membership.
constexpr TimeNs kMembershipNs = 3'000'000'000;

/// Of InfiniBand: addresses are different on all subnets, so those of other subnets do no harm.
cm::IpOwners ip_owners(const ControlState& control) {
    std::vector<cm::IpOwners::Entry> entries;
    for (const auto& rnic : control.devices) {
        for (const wire::Gid& ip : rnic->device->ipoib_addresses) {
            if (ip != wire::Gid{}) {
                entries.push_back({ip, rnic->device->gids[0]});
            }
        }
    }
    return cm::IpOwners(std::move(entries));
}

cm::Config config_of(const ControlState& control, const dataplane::Device& device) {
    cm::Config config;
    config.ca_guid =
        std::endian::native == std::endian::little ? __builtin_bswap64(device.node_guid) : device.node_guid;
    for (auto& word : config.seed) {
        word = std::uint64_t{secure_random()} << 32U | secure_random();
    }
    config.pkeys = device.pkeys;
    // ibv_mtu: 256 bytes are 1, and each step doubles.
    config.max_path_mtu = static_cast<std::uint8_t>(std::bit_width(device.mtu_bytes / 256));
    if (device.is_infiniband()) {
        config.ip_owners = ip_owners(control);
    }
    return config;
}

}  // namespace

CmService::CmService(ControlState& control) : ports(secure_random()), control_(control) {
    for (const auto& device : control.devices) {
        ports_of_.push_back(std::make_unique<Port>(*this, *device, config_of(control, *device->device)));
    }
    control.event_loop.add(timer_.fd(), [this] { on_time(); });
    listen_for_mads(control, [this](RnicState& device, const ReceivedMad& mad) {
        use(device,
            [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) { manager.receive(mad, now, out); });
    });
    control.cm = this;
    control.observers.push_back(this);
}

CmService::~CmService() {
    std::erase(control_.observers, static_cast<RnicObserver*>(this));
    control_.cm = nullptr;
}

CmService::Port::Port(CmService& of, RnicState& on, const cm::Config& config)
    : service(of),
      device(on),
      manager(config),
      memberships({[this](const subnet::SaRequest& request) { return ask(request, kMembershipNs, nullptr); },
                   [this](subnet::SaRequests::Id request) { administration.forget(request); },
                   [](CmGroup& group, const SubnetMemberships::Record* record, int error) {
                       group.id->client->on_group(group, record, error);
                   }}) {}

void CmService::finish(Port& port) {
    for (const Port::Fresh& fresh : port.fresh) {
        if (fresh.id == nullptr) {
            port.manager.discard(fresh.connection);
        } else {
            (void)port.manager.set_owner(fresh.connection, std::bit_cast<cm::Cookie>(fresh.id));
        }
    }
    port.fresh.clear();
    arm();
}

void CmService::arm() {
    TimeNs next = kNever;
    for (const auto& port : ports_of_) {
        next = std::min({next, port->manager.next_event(), port->administration.next_event()});
    }
    if (next == armed_for_) {
        return;
    }
    armed_for_ = next;
    timer_.set_at(next);
}

void CmService::on_time() {
    timer_.acknowledge();
    armed_for_ = kNever;
    for (const auto& port : ports_of_) {
        use(port->device,
            [](cm::Manager& manager, TimeNs now, cm::Outbox& out) { manager.advance(now, out); });
        const auto send = [&](const subnet::MadPacket& packet) { port->send_to_lid(packet); };
        while (const auto ended = port->administration.advance(clock_now(), send)) {
            end_request(*port, *ended, nullptr);
        }
    }
    arm();
}

void CmService::end_request(Port& port, const subnet::SaRequests::Ended& ended,
                            const subnet::SaRequests::Answer* answer) {
    if (port.memberships.take(ended.id, answer)) {
        return;
    }
    if (auto* const id = std::bit_cast<CmId*>(ended.owner); id != nullptr) {
        id->client->on_path(*id, answer);
    }
}

/// What a port was a member of, subnet administration has forgotten, or soon will have.
void CmService::on_subnet(const RnicState& rnic, std::optional<AsyncEventType> event) {
    using enum AsyncEventType;
    if (event == kLidChange || event == kClientReregister) {
        ports_of_.at(rnic.device->index)->memberships.reset();
    }
}

void CmService::on_link(RnicState& rnic, bool has_link) {
    if (!has_link) {
        ports_of_.at(rnic.device->index)->memberships.reset();
    }
}

bool CmService::receive(RnicState& device, const subnet::MadPacket& packet) {
    Port& port = *ports_of_.at(device.device->index);
    if (const auto answer = port.administration.take(packet)) {
        end_request(port, *answer, &*answer);
        arm();
        return true;
    }
    subnet::MadBytes bytes = packet.mad;
    if (packet.dest_qp != kGsiQp || subnet::MadRef(bytes).mgmt_class() != wire::kMadClassCommunication) {
        return false;
    }
    const RnicState* const sender = control_.gsi->find_lid(device, packet.slid);
    const auto pkey = device.device->pkeys.match(packet.pkey);
    if (sender == nullptr || !pkey) {
        return true;  // dropped: from nobody, or by another partition
    }
    const ReceivedMad mad{.src_gid = sender->device->gids[0],
                          .dst_gid = device.device->gids[0],
                          .src_mac = {},
                          .pkey = *pkey,
                          .src_qp = packet.src_qp,
                          .slid = packet.slid,
                          .sl = packet.sl,
                          .bytes = packet.mad};
    try {
        use(device, [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
            manager.set_pkeys(device.device->pkeys);
            manager.receive(mad, now, out);
        });
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): lost, as any datagram may be
    }
    return true;
}

subnet::SaRequests::Id CmService::ask_administration(const RnicState& device,
                                                     const subnet::SaRequest& request, TimeNs time_ns,
                                                     CmId* id) {
    return ports_of_.at(device.device->index)->ask(request, time_ns, id);
}

subnet::SaRequests::Id CmService::Port::ask(const subnet::SaRequest& request, TimeNs time_ns, CmId* id) {
    const dataplane::SubnetPortInfo& info = device.device->subnet;
    const PkeyTable& pkeys = device.device->pkeys;
    const subnet::SaAddress to{info.sm_lid, info.sm_sl,
                               pkeys.match(wire::kDefaultPkey).value_or(pkeys.entries[0])};
    const subnet::SaRequests::Id asked =
        administration.ask(request, to, time_ns, std::bit_cast<subnet::SaRequests::Owner>(id), clock_now(),
                           [this](const subnet::MadPacket& packet) { send_to_lid(packet); });
    service.arm();
    return asked;
}

void CmService::forget_request(const RnicState& device, subnet::SaRequests::Id request) {
    ports_of_.at(device.device->index)->administration.forget(request);
    arm();
}

void CmService::Port::send_to_lid(const subnet::MadPacket& packet) const {
    if (SubnetGsi* const gsi = service.control_.gsi; gsi != nullptr) {
        gsi->send(device, packet);
    }
}

void CmService::Port::send(const cm::SendMad& mad) {
    const dataplane::Device& sender = *device.device;
    if (sender.is_infiniband()) {
        subnet::MadPacket packet;
        packet.slid = mad.route.local_lid;
        packet.dlid = mad.route.remote_lid;
        packet.sl = mad.route.sl;
        packet.pkey = mad.route.pkey;
        packet.src_qp = packet.dest_qp = kGsiQp;
        packet.qkey = kGsiQkey;
        packet.mad = mad.bytes;
        send_to_lid(packet);
        return;
    }
    const auto* gid = std::find(sender.gids.begin(), sender.gids.end(), mad.route.local_gid);
    if (gid == sender.gids.end()) {
        return;  // the address was removed
    }
    abi::AddressVector av{};
    std::copy(mad.route.remote_gid.begin(), mad.route.remote_gid.end(), std::begin(av.dgid));
    av.flow_label = mad.route.flow_label;
    av.sgid_index = static_cast<std::uint8_t>(std::distance(sender.gids.begin(), gid));
    av.hop_limit = mad.route.hop_limit;
    av.traffic_class = mad.route.traffic_class;
    av.sl = mad.route.sl;
    av.is_global = 1;
    av.port_num = 1;
    wire::PathSpec spec;
    if (resolve_address(sender, av, spec) != 0) {
        return;
    }
    spec.udp_src_port = wire::udp_source_port(mad.route.flow_label, kGsiQp, kGsiQp);
    const wire::Path path = wire::make_path(spec);
    wire::PacketHeader header;
    header.mig_req = sender.sends_mig_req;
    header.opcode = std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly};
    header.pkey = mad.route.pkey;
    header.dest_qp = kGsiQp;
    header.psn = Psn(psn++ & kPsnMask);
    header.deth = {kGsiQkey, kGsiQp};
    const ControlState& control = service.control_;
    dataplane::Worker& worker = *control.workers[kGsiQp % control.num_workers()];
    bool sent = false;
    for (int tries = 0; tries < kSendTries && !sent; ++tries) {
        worker.call([&] { sent = worker.transmit(sender.index, path, header, mad.bytes); });
    }
    sender.neighbours->release(spec.neighbour);
}

void CmService::Port::event(const cm::Event& event) {
    const bool is_request =
        event.type == cm::EventType::kRequest || event.type == cm::EventType::kSidrRequest;
    const cm::Cookie owner = is_request ? event.listener_owner : event.owner;
    auto* id = std::bit_cast<CmId*>(owner);
    if (!is_request) {
        if (id != nullptr) {
            id->client->on_event(*id, event);
        }
        return;
    }
    URNIC_CHECK(fresh.size() < fresh.capacity());
    fresh.push_back({event.handle, id == nullptr ? nullptr : id->client->on_request(*id, device, event)});
}

}  // namespace urnic::daemon
