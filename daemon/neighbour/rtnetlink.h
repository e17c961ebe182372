// What the kernel of one network namespace says of interfaces, addresses, routes and neighbours (rtnetlink).
// Questions are answered while they are asked: none of these waits for the network.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/device/gid_table.h"
#include "os/net_namespace.h"

struct nl_sock;

namespace urnic::daemon {

/// An interface, its VLAN sub-interfaces, and their addresses.
struct InterfaceView {
    std::map<std::uint16_t, int> index_of_vlan;  // 0: the interface itself; empty: there is none of the name
    wire::Mac mac{};
    std::vector<dataplane::InterfaceAddress> addresses;
};

/// What the kernel knows of a neighbour.
struct KernelNeighbour {
    int interface = 0;
    wire::Gid address{};
    std::optional<wire::Mac> mac;  // as long as the kernel would use it
    bool is_fresh = false;         // confirmed lately, or set by hand
};

/// What a change was about.
struct RtnetlinkChanges {
    bool addresses = false;  // or interfaces
    bool routes = false;
    bool neighbours_lost = false;  // more changes than the socket holds: look at all again
    std::vector<KernelNeighbour> neighbours;
};

class Rtnetlink {
  public:
    /// Throws SetupError.
    explicit Rtnetlink(const NetNamespace& where);
    ~Rtnetlink();
    Rtnetlink(const Rtnetlink&) = delete;
    Rtnetlink& operator=(const Rtnetlink&) = delete;

    /// Readable when something has changed.
    [[nodiscard]] int changes_fd() const;
    /// Some of what has changed; the descriptor stays readable while there is more.
    [[nodiscard]] RtnetlinkChanges changes();

    /// Nullopt: the kernel does not answer (it is out of memory, for one).
    [[nodiscard]] std::optional<InterfaceView> look(const std::string& interface);
    /// The next hop from an address of the interface; nullopt: no route that way.
    [[nodiscard]] std::optional<wire::Gid> next_hop(int interface, const wire::Gid& source,
                                                    const wire::Gid& destination);
    [[nodiscard]] std::optional<KernelNeighbour> neighbour(int interface, const wire::Gid& address);
    /// Asks the kernel to resolve the neighbour, or to confirm it. Returns whether the kernel accepts that
    /// (it needs CAP_NET_ADMIN).
    bool resolve(int interface, const wire::Gid& address);

  private:
    struct SocketDeleter {
        void operator()(nl_sock* socket) const;
    };
    using Socket = std::unique_ptr<nl_sock, SocketDeleter>;
    [[nodiscard]] static Socket connect();

    Socket query_;
    Socket changes_;
};

}  // namespace urnic::daemon
