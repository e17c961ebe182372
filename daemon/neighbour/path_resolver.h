// The paths of one RNIC on a real port: the next hop to each destination, and that neighbour's Ethernet
// address as workers look it up (NeighbourMacs).
//
// A path is resolved for a source GID, its VLAN and a destination, and lives as long as a QP or an address
// handle uses it. When addresses, routes or neighbours change, the resolver updates all paths. It is used by
// the control thread alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/device/device.h"
#include "rnic/neighbour/neighbour_cache.h"

namespace urnic::daemon {

/// The source of routes and neighbours: our own ARP and ND, or the kernel's.
class Network {
  public:
    virtual ~Network() = default;
    /// The next hop from an address of ours to `destination`; nullopt: there is no route, or the address is
    /// not ours (any more).
    [[nodiscard]] virtual std::optional<net::Hop> route(const wire::Gid& source, std::uint16_t vlan,
                                                        const wire::Gid& destination) = 0;
    /// Keeps the neighbour's Ethernet address up to date until drop(), and reports changes to
    /// PathResolver::neighbour_changed(). Returns whether there was room for it.
    [[nodiscard]] virtual bool want(const net::Hop& hop, const wire::Gid& source) = 0;
    virtual void drop(const net::Hop& hop) = 0;
    [[nodiscard]] virtual std::optional<wire::Mac> find(const net::Hop& hop) const = 0;
};

class PathResolver final : public NeighbourResolver {
  public:
    /// Paths that were released while their neighbour was being resolved. A program may destroy an address
    /// handle right after its last send, and the frame still waits for the answer, so this many paths stay
    /// until others take their place.
    static constexpr std::size_t kLingering = 16;

    PathResolver(dataplane::Device& device, Network& network, const NeighbourResolver& configured);

    /// Returns the Ethernet address that the configuration gives for `gid`.
    [[nodiscard]] std::optional<wire::Mac> resolve(const wire::Gid& gid) const override;
    [[nodiscard]] int acquire(const wire::Gid& source, std::uint16_t vlan, const wire::Gid& destination,
                              ResolvedPath& path) override;
    void release(std::uint16_t neighbour) override;

    /// The Ethernet address of a wanted neighbour has become known, another one, or unknown.
    void neighbour_changed(const net::Hop& hop);
    /// Our addresses or the routes have changed.
    void network_changed();

    /// The number of paths in use.
    [[nodiscard]] std::size_t size() const { return places_.size() - lingering_.size(); }

  private:
    struct Key {
        wire::Gid source{};
        wire::Gid destination{};
        std::uint16_t vlan = 0;
        bool operator<(const Key& other) const;
    };
    struct Entry {
        Key key;
        std::optional<net::Hop> hop;
        std::uint32_t users = 0;
    };

    [[nodiscard]] bool is_ours(const wire::Gid& gid) const;
    void publish(std::uint16_t place);
    /// Looks up the route again. Returns whether there was room for the neighbour.
    [[nodiscard]] bool update_next_hop(std::uint16_t place);
    void drop_next_hop(Entry& entry);
    void forget(std::uint16_t place);
    void evict_oldest();

    dataplane::Device& device_;
    Network& network_;
    const NeighbourResolver& configured_;
    std::vector<Entry> entries_;
    std::vector<std::uint16_t> free_;
    std::vector<std::uint16_t> lingering_;  // without users, the oldest first
    std::map<Key, std::uint16_t> places_;
    std::map<net::Hop, std::uint32_t> hop_users_;
};

}  // namespace urnic::daemon
