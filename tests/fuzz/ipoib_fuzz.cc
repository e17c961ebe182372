// A link of IP over InfiniBand: frames of the TAP device and datagrams of anybody. Whatever it sends and
// delivers fits the MTU, its tables stay bounded, and handles and groups end once.
#include <map>
#include <set>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/input.h"
#include "ulp/ipoib/codec/announcement.h"
#include "ulp/ipoib/engine/link.h"
#include "ulp/ipoib/engine/subnet_client.h"

namespace urnic::fuzz {
namespace {

using namespace urnic::ipoib;  // NOLINT(google-build-using-namespace): the target is about nothing else
using Bytes = std::vector<std::byte>;

constexpr std::size_t kMostNeighbours = 5;
constexpr std::size_t kMostGroups = 3;
constexpr std::size_t kMostConnections = 3;

class Host : public Outbox, public RcPort {
  public:
    ~Host() override { URNIC_CHECK(handles.empty() && groups.empty() && qps.empty()); }
    [[nodiscard]] AddressHandle create_handle(const Gid& /*destination*/) override {
        handles.insert(++next_handle);
        URNIC_CHECK(handles.size() <= kMostNeighbours);
        return next_handle;
    }
    void destroy_handle(AddressHandle handle) override { URNIC_CHECK(handles.erase(handle) == 1); }
    [[nodiscard]] bool send(AddressHandle handle, std::uint32_t qpn, ConstOctets header,
                            ConstOctets payload) override {
        URNIC_CHECK(handles.contains(handle) && qpn > 1 && header.size() >= kEncapsulationOctets &&
                    u16_at(header, 2) == 0);
        URNIC_CHECK(!payload.empty() && header.size() - kEncapsulationOctets + payload.size() <= mtu);
        last.assign(header.begin() + kEncapsulationOctets, header.end());
        last.insert(last.end(), payload.begin(), payload.end());
        return has_slots || (payload.size() & 7U) != 7;
    }
    void deliver(ConstOctets header, ConstOctets payload) override {
        URNIC_CHECK(header.size() == kEthernetHeaderOctets && payload.size() <= largest);
        // Its source is a neighbour, never a group.
        URNIC_CHECK(!is_multicast(read_mac(header.subspan(6))));
        last_frame.assign(header.begin(), header.end());
        last_frame.insert(last_frame.end(), payload.begin(), payload.end());
    }
    [[nodiscard]] Progress join(const Gid& group) override {
        return groups.insert(group).second ? Progress::kDone : Progress::kFailed;
    }
    void leave(const Gid& group) override { URNIC_CHECK(groups.erase(group) == 1); }

    [[nodiscard]] std::uint32_t create_qp() override {
        qps.insert(++next_qp);
        URNIC_CHECK(qps.size() <= kMostConnections);
        return next_qp;
    }
    [[nodiscard]] bool connect_qp(std::uint32_t qpn, const RemoteQp& remote) override {
        URNIC_CHECK(qps.contains(qpn) && remote.qpn > 1 && remote.qpn < kMulticastQpn &&
                    remote.path_mtu >= 1 && remote.path_mtu <= 5);
        return (remote.psn & 15U) != 15;
    }
    void destroy_qp(std::uint32_t qpn) override { URNIC_CHECK(qps.erase(qpn) == 1); }
    [[nodiscard]] bool send(std::uint32_t qpn, ConstOctets header, ConstOctets payload) override {
        URNIC_CHECK(qps.contains(qpn) && header.size() >= kEncapsulationOctets);
        URNIC_CHECK(header.size() - kEncapsulationOctets + payload.size() <= kConnectedMtu);
        return has_slots || (payload.size() & 7U) != 7;
    }
    [[nodiscard]] std::size_t free_slots() const override { return 0; }

    std::uint32_t next_qp = 0x100;
    std::set<std::uint32_t> qps;
    std::size_t mtu = 0;
    std::size_t largest = 0;  // packet that may come
    bool has_slots = false;   // else now and then there is none
    AddressHandle next_handle = 0;
    std::set<AddressHandle> handles;
    std::set<Gid> groups;
    Bytes last;        // a datagram's payload
    Bytes last_frame;  // given to the TAP device
};

/// Raw, or what was seen last with octets changed.
Bytes octets_from(Input& input, const Bytes& seen) {
    if (seen.empty() || input.flag()) {
        const std::span<const std::byte> raw = input.bytes(input.below(512));
        return {raw.begin(), raw.end()};
    }
    Bytes bytes = seen;
    for (std::uint32_t changes = input.below(5); changes != 0; --changes) {
        bytes[input.below(static_cast<std::uint32_t>(bytes.size()))] = static_cast<std::byte>(input.byte());
    }
    bytes.resize(bytes.size() + input.below(32));
    return bytes;
}

void step(Link& link, Host& host, Input& input, const LinkConfig& config, std::uint64_t& now) {
    switch (input.below(host.largest == host.mtu ? 4 : 6)) {
        case 0: {
            // An answer goes back to who was heard last.
            Bytes frame = octets_from(input, host.last_frame);
            if (frame.size() >= 12 && input.flag()) {
                std::swap_ranges(frame.begin(), frame.begin() + 6, frame.begin() + 6);
                std::copy(config.own_mac.begin(), config.own_mac.end(), frame.begin() + 6);
            }
            if (input.flag()) {
                link.on_frame(frame);
                break;
            }
            Bytes words(kOffloadOctets);
            const std::span<const std::byte> raw = input.bytes(input.below(kOffloadOctets + 1));
            std::copy(raw.begin(), raw.end(), words.begin());
            link.on_frame(frame, read_offload(words));
            host.has_slots = true;
            link.resume();
            host.has_slots = false;
            URNIC_CHECK(!link.has_waiting_segments());
            break;
        }
        case 1: {
            Bytes payload(kEncapsulationOctets);
            const std::array<std::uint16_t, 5> types = {kTypeArp, kTypeIpv4, kTypeIpv6,
                                                        input.number<std::uint16_t>(), kTypeCm};
            put_u16(payload, 0, types[input.below(5)]);
            const Bytes packet = octets_from(input, host.last);
            payload.insert(payload.end(), packet.begin(), packet.end());
            Bytes grh(kGrhOctets);
            const std::span<const std::byte> raw = input.bytes(input.below(41));
            std::copy(raw.begin(), raw.end(), grh.begin());
            if (input.flag()) {
                put_u8(grh, 0, 0x60);
                std::copy(config.own.gid.begin(), config.own.gid.end(), grh.begin() + 24);
            }
            link.on_datagram(grh, input.below(1U << 24U), payload);
            break;
        }
        case 2: {
            std::vector<std::uint32_t> ipv4;
            std::vector<Ipv6Address> ipv6;
            for (std::uint32_t i = input.below(6); i != 0; --i) {
                ipv4.push_back(0xE0000000U + input.byte());
                ipv6.push_back({std::byte{0xFF}, static_cast<std::byte>(input.byte()),
                                static_cast<std::byte>(input.byte())});
            }
            link.set_memberships(ipv4, ipv6);
            break;
        }
        case 4:
            if (!host.qps.empty()) {
                link.on_connected(input.flag() ? *host.qps.rbegin() : *host.qps.begin(),
                                  octets_from(input, host.last));
            }
            break;
        case 5:
            now += input.number<std::uint16_t>();
            link.advance(now);
            if (!host.qps.empty() && input.flag()) {
                link.on_broken(*host.qps.begin());
            }
            break;
        default:
            link.on_frame(
                input.flag() ? gratuitous_arp(config.own_mac, input.number<std::uint32_t>())
                             : unsolicited_advertisement(config.own_mac, {std::byte{0xFE}, std::byte{0x80}}));
            break;
    }
    URNIC_CHECK(link.neighbours() <= kMostNeighbours && link.groups() <= kMostGroups);
}

/// A subnet administrator whose answers are the requests, damaged.
class Administrator : public SaPort {
  public:
    [[nodiscard]] bool request(const SaMad& mad) override {
        last.assign(mad.begin(), mad.end());
        ++requests;
        return !is_silent;
    }
    Bytes last;
    std::size_t requests = 0;
    bool is_silent = false;
};

Gid gid_from(Input& input) {
    Gid gid{};
    gid[0] = input.flag() ? std::byte{0xFF} : std::byte{0xFE};
    gid[15] = static_cast<std::byte>(input.below(6));
    return gid;
}

void step_subnet(SubnetClient& client, Administrator& administrator, Input& input, std::uint64_t& now) {
    switch (input.below(7)) {
        case 0:
        case 1: {
            // Set becomes GetResp, Delete DeleteResp.
            Bytes answer = octets_from(input, administrator.last);
            if (answer.size() > 3 && input.flag()) {
                answer[3] |= std::byte{0x80};
                answer[3] = answer[3] == std::byte{0x82} ? std::byte{0x81} : answer[3];
            }
            client.on_answer(answer);
            break;
        }
        case 2: {
            const Gid group = gid_from(input);
            const JoinState state = input.flag() ? JoinState::kFullMember : JoinState::kSendOnlyNonMember;
            const bool is_done = client.join(group, state) == Progress::kDone;
            URNIC_CHECK(!is_done || client.group(group)->mlid >= 0xC000);
            break;
        }
        case 3: {
            const Gid destination = gid_from(input);
            const bool is_done = client.find_path(destination) == Progress::kDone;
            URNIC_CHECK(!is_done ||
                        (client.path(destination)->dlid >= 1 && client.path(destination)->dlid <= 0xBFFF));
            break;
        }
        case 4:
            client.leave(gid_from(input));
            break;
        case 5:
            client.on_timeout(input.below(8));
            administrator.is_silent = input.flag();
            break;
        default:
            now += input.number<std::uint16_t>();
            client.advance(now);
            static_cast<void>(client.expire_senders());
            if (input.below(8) == 0) {
                client.forget();
            } else if (input.below(8) == 0) {
                client.leave_all();
            }
            break;
    }
    URNIC_CHECK(client.take_settled().size() <= SubnetClient::kMostRequests + 1);
}

void run_subnet(Input& input) {
    Administrator administrator;
    SubnetClient client({}, gid_from(input), administrator);
    std::uint64_t now = 0;
    for (int steps = 0; !input.empty() && steps < 1000; ++steps) {
        step_subnet(client, administrator, input, now);
    }
    URNIC_CHECK(client.counters().requests <= administrator.requests);
}

}  // namespace
}  // namespace urnic::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace urnic::fuzz;  // NOLINT(google-build-using-namespace)
    Input input(data, size);
    if (input.below(4) == 0) {
        run_subnet(input);
        return 0;
    }
    LinkConfig config;
    config.own = {.qpn = 0x11, .gid = {std::byte{0xFE}, std::byte{0x80}}};
    config.own.gid[15] = std::byte{1};
    config.own_mac = {std::byte{2}, std::byte{0x48}};
    config.mtu = input.flag() ? kDefaultMtu : 252;
    config.max_neighbours = kMostNeighbours;
    config.max_groups = kMostGroups;
    config.connections.max_connections = kMostConnections;
    Host host;
    host.mtu = config.mtu;
    const bool is_connected = config.mtu >= kMadOctets && input.flag();
    host.largest = is_connected ? kConnectedMtu : config.mtu;
    Link link(config, host, is_connected ? &host : nullptr);
    std::uint64_t now = 0;
    URNIC_CHECK(link.join_broadcast());
    for (int steps = 0; !input.empty() && steps < 1000; ++steps) {
        step(link, host, input, config, now);
    }
    return 0;
}
