// The ways of one RNIC on a real port to its destinations: which neighbour frames go to, and that
// neighbour's Ethernet address as workers look it up (NeighbourMacs).
//
// A way is made for a source GID, its VLAN and a destination, and lives as long as QPs or address handles use
// it. What is known of the network may change at any time; all ways follow. The control thread's own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "dataplane/device/device.h"
#include "rnic/neighbour/neighbour_cache.h"

namespace urnic::dataplane {

/// Who knows the network: our own ARP and ND, or the kernel.
class Network {
  public:
    virtual ~Network() = default;
    /// The neighbour by which `destination` is reached from an address of ours; nullopt: there is no route,
    /// or the address is not ours (any more).
    [[nodiscard]] virtual std::optional<net::Hop> route(const wire::Gid& source, std::uint16_t vlan,
                                                        const wire::Gid& destination) = 0;
    /// The neighbour's Ethernet address is wanted from now on until drop(); Ways::neighbour_changed() tells
    /// it once it is known. False: too many.
    [[nodiscard]] virtual bool want(const net::Hop& hop, const wire::Gid& source) = 0;
    virtual void drop(const net::Hop& hop) = 0;
    [[nodiscard]] virtual std::optional<wire::Mac> find(const net::Hop& hop) const = 0;
};

class Ways final : public NeighbourResolver {
  public:
    /// Ways that were given up while their neighbour was being asked for: frames may wait for the answer, of
    /// programs that destroy an address handle right after their last send. So many stay until others take
    /// their place.
    static constexpr std::size_t kLingering = 16;

    Ways(Device& device, Network& network, const NeighbourResolver& configured);

    /// Addresses that the configuration gives an Ethernet address.
    [[nodiscard]] std::optional<wire::Mac> resolve(const wire::Gid& gid) const override;
    [[nodiscard]] int acquire(const wire::Gid& source, std::uint16_t vlan, const wire::Gid& destination,
                              Way& way) override;
    void release(std::uint16_t neighbour) override;

    /// A wanted neighbour has this Ethernet address now; nullopt: nobody knows it.
    void neighbour_changed(const net::Hop& hop, const std::optional<wire::Mac>& mac);
    /// Addresses of ours or routes are others now.
    void network_changed();

    /// Those in use.
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
    /// Finds the next hop anew. False: too many neighbours.
    [[nodiscard]] bool lead(std::uint16_t place);
    void leave_hop(Entry& entry);
    void forget(std::uint16_t place);
    void forget_the_oldest_lingering();

    Device& device_;
    Network& network_;
    const NeighbourResolver& configured_;
    std::vector<Entry> entries_;
    std::vector<std::uint16_t> free_;
    std::vector<std::uint16_t> lingering_;  // without users, the oldest first
    std::map<Key, std::uint16_t> places_;
    std::map<net::Hop, std::uint32_t> hop_users_;
};

}  // namespace urnic::dataplane
