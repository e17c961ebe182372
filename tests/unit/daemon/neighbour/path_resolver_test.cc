// Addresses of an RNIC that come and go, and the paths to its neighbours.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <tuple>

#include "daemon/neighbour/address_vector.h"
#include "daemon/neighbour/path_resolver.h"
#include "daemon/neighbour/static_neighbours.h"
#include "dataplane/device/gid_table.h"
#include "rnic/wire/frame.h"

namespace urnic::daemon {
namespace {

wire::Gid ip(const std::string& text) {
    const auto route = parse_route("default via " + text);
    EXPECT_TRUE(route.has_value()) << text;
    return *route->via;
}

constexpr wire::Mac kOwn = {2, 0, 0, 0, 0, 1};
constexpr wire::Mac kPeer = {2, 0, 0, 0, 0, 9};

/// Destinations in 10.0.0.0/24 are neighbours, those in 10.1.0.0/16 are behind 10.0.0.254.
struct FakeNetwork final : Network {
    std::optional<net::Hop> route(const wire::Gid& source, std::uint16_t vlan, const wire::Gid& to) override {
        const RouteConfig* found = gone.count(source) != 0 ? nullptr : find_route(routes, to);
        return found == nullptr ? std::nullopt : std::optional(net::Hop{found->via.value_or(to), vlan});
    }
    bool want(const net::Hop& hop, const wire::Gid& /*source*/) override {
        wanted.insert(hop);
        return wanted.size() <= 3;
    }
    void drop(const net::Hop& hop) override { wanted.erase(hop); }
    std::optional<wire::Mac> find(const net::Hop& hop) const override {
        const auto found = macs.find(hop);
        return found == macs.end() ? std::nullopt : std::optional(found->second);
    }
    std::vector<RouteConfig> routes{link_route("10.0.0.1/24", ip("10.0.0.1")),
                                    *parse_route("10.1.0.0/16 via 10.0.0.254")};
    std::set<net::Hop> wanted;
    std::map<net::Hop, wire::Mac> macs;
    std::set<wire::Gid> gone;
};

class PathResolverTest : public testing::Test {
  protected:
    PathResolverTest() { EXPECT_TRUE(dataplane::set_addresses(*device_, kOwn, {{own_, 0, "eth0"}})); }

    int acquire(const std::string& to, NeighbourResolver::ResolvedPath& path) {
        return path_resolver_.acquire(own_, 0, ip(to), path);
    }
    std::optional<wire::Mac> mac(const NeighbourResolver::ResolvedPath& path) const {
        wire::Mac found{};
        return device_->neighbour_macs.find(path.neighbour, found) ? std::optional(found) : std::nullopt;
    }
    void learn(const std::string& address, const std::optional<wire::Mac>& mac) {
        const net::Hop hop{ip(address), 0};
        mac ? (void)(network_.macs[hop] = *mac) : (void)network_.macs.erase(hop);
        path_resolver_.neighbour_changed(hop);
    }

    const wire::Gid own_ = ip("10.0.0.1");
    std::unique_ptr<dataplane::Device> device_ = std::make_unique<dataplane::Device>();
    FakeNetwork network_;
    StaticNeighbours configured_{{{ip("10.7.7.7"), kPeer}}};
    PathResolver path_resolver_{*device_, network_, configured_};
    NeighbourResolver::ResolvedPath path_;
};

TEST_F(PathResolverTest, TheMacComesAndChangesUnderThePath) {
    ASSERT_EQ(acquire("10.0.0.2", path_), 0);
    EXPECT_EQ(mac(path_), std::nullopt);
    learn("10.0.0.2", kPeer);
    EXPECT_EQ(mac(path_), kPeer);
    learn("10.0.0.2", kOwn);
    EXPECT_EQ(mac(path_), kOwn);
    learn("10.0.0.2", std::nullopt);
    EXPECT_EQ(mac(path_), std::nullopt);
}

TEST_F(PathResolverTest, DestinationsBehindAGatewayShareIt) {
    NeighbourResolver::ResolvedPath other;
    ASSERT_EQ(acquire("10.1.0.2", path_), 0);
    ASSERT_EQ(acquire("10.1.9.9", other), 0);
    EXPECT_EQ(network_.wanted, std::set<net::Hop>({{ip("10.0.0.254"), 0}}));
    learn("10.0.0.254", kPeer);
    EXPECT_EQ(mac(path_), kPeer);
    EXPECT_EQ(mac(other), kPeer);
    path_resolver_.release(path_.neighbour);
    EXPECT_EQ(mac(path_), std::nullopt);
    EXPECT_EQ(network_.wanted.size(), 1U);
    path_resolver_.release(other.neighbour);
    EXPECT_TRUE(network_.wanted.empty());
    EXPECT_EQ(path_resolver_.size(), 0U);
}

TEST_F(PathResolverTest, OneEntryForAllUsersOfADestination) {
    NeighbourResolver::ResolvedPath again;
    ASSERT_EQ(acquire("10.0.0.2", path_), 0);
    ASSERT_EQ(acquire("10.0.0.2", again), 0);
    EXPECT_EQ(again.neighbour, path_.neighbour);
    path_resolver_.release(again.neighbour);
    learn("10.0.0.2", kPeer);
    EXPECT_EQ(mac(path_), kPeer);
    EXPECT_EQ(path_resolver_.size(), 1U);
}

TEST_F(PathResolverTest, NoRouteAndTooManyLeaveNothingBehind) {
    EXPECT_EQ(acquire("10.2.0.1", path_), ENETUNREACH);
    EXPECT_EQ(path_resolver_.size(), 0U);
    for (const char* to : {"10.0.0.2", "10.0.0.3", "10.0.0.4"}) {
        EXPECT_EQ(acquire(to, path_), 0);
    }
    EXPECT_EQ(acquire("10.0.0.5", path_), ENOMEM);
    EXPECT_EQ(path_resolver_.size(), 3U);
}

TEST_F(PathResolverTest, TableFull) {
    network_.routes.push_back(*parse_route("default via 10.0.0.254"));
    wire::Gid to = ip("20.0.0.0");
    for (std::uint32_t i = 0; i < NeighbourMacs::kEntries; ++i) {
        to[14] = static_cast<std::uint8_t>(i >> 8U);
        to[15] = static_cast<std::uint8_t>(i);
        ASSERT_EQ(path_resolver_.acquire(own_, 0, to, path_), 0);
    }
    EXPECT_EQ(acquire("30.0.0.1", path_), ENOMEM);
    path_resolver_.release(path_.neighbour);
    EXPECT_EQ(acquire("30.0.0.1", path_), 0);
}

// A datagram may wait for the answer after its address handle was destroyed.
TEST_F(PathResolverTest, WhoIsGivenUpWhileHeIsAskedForIsStillAskedFor) {
    ASSERT_EQ(acquire("10.0.0.2", path_), 0);
    path_resolver_.release(path_.neighbour);
    EXPECT_EQ(path_resolver_.size(), 0U);
    learn("10.0.0.2", kPeer);
    EXPECT_EQ(mac(path_), kPeer);
    NeighbourResolver::ResolvedPath again;
    ASSERT_EQ(acquire("10.0.0.2", again), 0);
    EXPECT_EQ(again.neighbour, path_.neighbour);
    path_resolver_.release(again.neighbour);
    EXPECT_EQ(mac(path_), std::nullopt);
    EXPECT_TRUE(network_.wanted.empty());
}

TEST_F(PathResolverTest, ThoseWhoAreGivenUpMakeRoom) {
    for (const char* to :
         {"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"}) {  // three are possible at a time
        ASSERT_EQ(acquire(to, path_), 0) << to;
        path_resolver_.release(path_.neighbour);
    }
    network_.routes.push_back(*parse_route("default via 10.0.0.254"));
    for (int i = 0; i < 3 * static_cast<int>(PathResolver::kLingering); ++i) {
        ASSERT_EQ(acquire("20.0.0." + std::to_string(i), path_), 0);
        path_resolver_.release(path_.neighbour);
    }
    EXPECT_EQ(network_.wanted, std::set<net::Hop>({{ip("10.0.0.254"), 0}}));
    EXPECT_EQ(path_resolver_.size(), 0U);
}

TEST_F(PathResolverTest, ToItselfAndToWhatTheConfigurationNames) {
    ASSERT_EQ(acquire("10.0.0.1", path_), 0);
    EXPECT_EQ(mac(path_), kOwn);
    ASSERT_EQ(acquire("10.7.7.7", path_), 0);
    EXPECT_EQ(path_.neighbour, wire::kNoNeighbour);
    EXPECT_EQ(path_.mac, kPeer);
}

TEST_F(PathResolverTest, FromAnAddressThatIsGoneNothingGoesOut) {
    ASSERT_EQ(acquire("10.0.0.2", path_), 0);
    learn("10.0.0.2", kPeer);
    EXPECT_TRUE(dataplane::set_addresses(*device_, kOwn, {}));
    path_resolver_.network_changed();
    EXPECT_EQ(mac(path_), std::nullopt);  // though there is a route
    network_.gone = {own_};
    path_resolver_.network_changed();
    EXPECT_EQ(mac(path_), std::nullopt);
    EXPECT_TRUE(network_.wanted.empty());
    network_.gone = {};
    EXPECT_TRUE(dataplane::set_addresses(*device_, kOwn, {{own_, 0, "eth0"}}));
    path_resolver_.network_changed();
    EXPECT_EQ(mac(path_), kPeer);
}

TEST_F(PathResolverTest, ARouteThatChangesLeadsAllElsewhere) {
    ASSERT_EQ(acquire("10.1.0.2", path_), 0);
    learn("10.0.0.254", kPeer);
    learn("10.0.0.253", kOwn);
    network_.routes[1].via = ip("10.0.0.253");
    path_resolver_.network_changed();
    EXPECT_EQ(mac(path_), kOwn);
    EXPECT_EQ(network_.wanted, std::set<net::Hop>({{ip("10.0.0.253"), 0}}));
}

class AddressVectorTest : public testing::Test {
  protected:
    AddressVectorTest() {
        EXPECT_TRUE(dataplane::set_addresses(*device_, kOwn,
                                             {{ip("10.0.0.1"), 0, "eth0"}, {ip("10.0.0.1"), 7, "eth0.7"}}));
        device_->neighbours = &neighbours_;
        av_.is_global = 1;
        av_.port_num = 1;
        av_.sl = 11;
        av_.traffic_class = 0xa5;
        const wire::Gid to = ip("10.7.7.7");
        std::copy(to.begin(), to.end(), std::begin(av_.dgid));
    }
    wire::PathSpec resolve(std::uint8_t index) {
        wire::PathSpec spec;
        av_.sgid_index = index;
        EXPECT_EQ(resolve_address(*device_, av_, spec), 0);
        return spec;
    }
    std::unique_ptr<dataplane::Device> device_ = std::make_unique<dataplane::Device>();
    StaticNeighbours neighbours_{{{ip("10.7.7.7"), kPeer}}};
    abi::AddressVector av_{};
};

TEST_F(AddressVectorTest, TheTagIsTheGidsVlanWithTheSlAsPriority) {
    EXPECT_EQ(resolve(1).vlan_tci, 0);
    EXPECT_EQ(resolve(2).vlan_tci, 3U << 13U | 7U);
    EXPECT_EQ(resolve(2).traffic_class, 0xa5);
    const wire::Path path = wire::make_path(resolve(2));
    EXPECT_EQ(path.bytes[12], 0x81);
    EXPECT_EQ(path.bytes[14], 0x60);
    EXPECT_EQ(path.bytes[15], 7);
}

TEST_F(AddressVectorTest, HopLimitAndEcn) {
    for (const auto& [given, sent] : {std::pair{0, 64}, {1, 64}, {2, 2}, {255, 255}}) {
        av_.hop_limit = static_cast<std::uint8_t>(given);
        EXPECT_EQ(resolve(1).hop_limit, sent) << given;
    }
    device_->is_ecn_capable = true;
    EXPECT_EQ(resolve(1).traffic_class, 0xa6);
}

TEST_F(AddressVectorTest, OfThePathBitsThePortsOwnCount) {
    device_->has_infiniband_link = true;
    device_->subnet.lid = 0x44;
    av_.is_global = 0;
    av_.dlid = 9;
    for (const auto& [lmc, bits, slid] :
         {std::tuple{0, 0, 0x44}, {0, 0x44, 0x44}, {2, 3, 0x47}, {2, 0x7d, 0x45}}) {
        device_->subnet.lmc = static_cast<std::uint8_t>(lmc);
        av_.src_path_bits = static_cast<std::uint8_t>(bits);
        EXPECT_EQ(resolve(0).slid, slid) << bits << " of LMC " << lmc;
    }
}

TEST_F(AddressVectorTest, AUdpChecksumThatHoldsForBothFamilies) {
    for (const bool ipv6 : {false, true}) {
        wire::PathSpec spec = resolve(2);
        if (ipv6) {
            spec.src_gid = ip("fd00::1");
            spec.dst_gid = ip("fd00::2");
        }
        const wire::Path path = wire::make_path(spec);
        wire::PacketHeader header;
        header.opcode = 0x11;
        header.dest_qp = 5;
        std::array<std::byte, 256> frame{};
        const std::size_t length = wire::build_frame(path, header, {}, frame);
        ASSERT_NE(length, 0U);
        wire::set_udp_checksum(path, {frame.data(), length});
        wire::PacketView view;
        ASSERT_EQ(wire::parse_frame({frame.data(), length}, view), wire::ParseError::kNone);
        EXPECT_TRUE(wire::icrc_ok(view));
        EXPECT_NE(frame[path.length - 2U] | frame[path.length - 1U], std::byte{0});
        frame[length - 5] ^= std::byte{1};
        EXPECT_EQ(wire::parse_frame({frame.data(), length}, view), wire::ParseError::kMalformed);
    }
}

TEST(AddressBook, IndexesStayAndAreUsedAgain) {
    auto device = std::make_unique<dataplane::Device>();
    const dataplane::InterfaceAddress a{ip("10.0.0.1"), 0, "eth0"};
    const dataplane::InterfaceAddress b{ip("10.0.0.2"), 0, "eth0"};
    const dataplane::InterfaceAddress on_vlan{ip("10.0.0.1"), 7, "eth0.7"};
    EXPECT_TRUE(dataplane::set_addresses(*device, kOwn, {a, b, a}));
    EXPECT_EQ(device->gids[0], link_local_gid(kOwn));
    EXPECT_EQ(device->gids[1], a.gid);
    EXPECT_EQ(device->gids[2], b.gid);
    EXPECT_EQ(device->gids[3], wire::Gid{});
    EXPECT_FALSE(dataplane::set_addresses(*device, kOwn, {b, a}));
    EXPECT_TRUE(dataplane::set_addresses(*device, kOwn, {b}));
    EXPECT_EQ(device->gids[1], wire::Gid{});
    EXPECT_EQ(device->gids[2], b.gid);
    EXPECT_TRUE(dataplane::set_addresses(*device, kOwn, {b, on_vlan, a}));
    EXPECT_EQ(device->gids[1], on_vlan.gid);
    EXPECT_EQ(device->gid_vlans[1], 7);
    EXPECT_EQ(device->gid_interfaces[1], "eth0.7");
    EXPECT_EQ(device->gids[3], a.gid);
    EXPECT_TRUE(dataplane::set_addresses(*device, kPeer, {b, on_vlan, a}));
    EXPECT_EQ(device->gids[0], link_local_gid(kPeer));
    EXPECT_EQ(device->mac, kPeer);
}

TEST(AddressBook, TheKernelsLinkLocalAddressIsGid0) {
    auto device = std::make_unique<dataplane::Device>();
    EXPECT_TRUE(dataplane::set_addresses(*device, kOwn, {{link_local_gid(kOwn), 0, "eth0"}}));
    EXPECT_EQ(device->gid_interfaces[0], "eth0");
    EXPECT_EQ(device->gids[1], wire::Gid{});
}

TEST(AddressBook, MoreThanTheTableHolds) {
    auto device = std::make_unique<dataplane::Device>();
    std::vector<dataplane::InterfaceAddress> many;
    for (std::uint8_t i = 1; i < 2 * dataplane::Device::kGidTableLength; ++i) {
        many.push_back({ip("10.0.0." + std::to_string(i)), 0, "eth0"});
    }
    EXPECT_TRUE(dataplane::set_addresses(*device, kOwn, many));
    EXPECT_EQ(device->gids.back(), many[dataplane::Device::kGidTableLength - 2].gid);
    EXPECT_EQ(std::count(device->gids.begin(), device->gids.end(), wire::Gid{}), 0);
}

TEST(Routes, TheLongestPrefixWins) {
    const std::vector<RouteConfig> routes{
        link_route("10.0.0.1/24", ip("10.0.0.1")), *parse_route("default via 10.0.0.254"),
        *parse_route("10.0.0.128/25 via 10.0.0.3"), link_route("fd00::1/64", ip("fd00::1"))};
    EXPECT_EQ(find_route(routes, ip("10.0.0.5")), &routes[0]);
    EXPECT_EQ(find_route(routes, ip("10.0.0.200")), &routes[2]);
    EXPECT_EQ(find_route(routes, ip("11.0.0.1")), &routes[1]);
    EXPECT_EQ(find_route(routes, ip("fd00::99")), &routes[3]);
    EXPECT_EQ(find_route(routes, ip("fd01::99")), nullptr);
    EXPECT_EQ(find_route({link_route("10.0.0.1", ip("10.0.0.1"))}, ip("99.9.9.9"))->prefix_bits, 96U);
}

TEST(Routes, WhatIsNoRoute) {
    for (const char* text : {"", "10.0.0.0/8", "10.0.0.0 via 10.0.0.1", "10.0.0.0/33 via 10.0.0.1",
                             "10.0.0.0/8 via fd00::1", "default via", "default via 10.0.0.1/24",
                             "fd00::/129 via fd00::1", "10.0.0.0/x via 10.0.0.1", "default via ff02::1"}) {
        EXPECT_FALSE(parse_route(text).has_value()) << text;
    }
}

}  // namespace
}  // namespace urnic::daemon
