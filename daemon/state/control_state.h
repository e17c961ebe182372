// What the control thread serves clients from: devices, workers, limits, and the numbers handed out.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/verbs_values.h"
#include "daemon/config/config.h"
#include "daemon/state/active_captures.h"
#include "daemon/state/active_faults.h"
#include "daemon/state/pd_numbers.h"
#include "daemon/state/rnic_state.h"
#include "daemon/state/turn_times.h"
#include "daemon/state/user.h"
#include "dataplane/device/device.h"
#include "dataplane/wire/emulated_network.h"
#include "dataplane/worker/worker.h"
#include "os/disposer.h"
#include "os/event_loop.h"
#include "os/memfd.h"

namespace urnic::daemon {

struct ClientState;
class CmService;
class SubnetGsi;

/// Tells a context's command fd: no other file has it while we hold ours.
struct ContextToken {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    friend bool operator<(const ContextToken& a, const ContextToken& b) {
        return std::pair(a.device, a.inode) < std::pair(b.device, b.inode);
    }
};
/// Whose context that is.
struct ContextOwner {
    ClientState* client = nullptr;
    std::uint32_t handle = 0;
    std::uint64_t serial = 0;  // never used again, as an inode number may be
    int fd = -1;               // the command fd; the context's
};

/// An emulated network. It belongs to worker 0, where `view` is called.
struct EmulatedNetworkInfo {
    std::string fabric;
    bool is_infiniband = false;
    std::vector<std::string> devices;  // by port
    std::vector<std::string> trunks;   // ports between switches, numbered on from those
    std::function<dataplane::NetworkPortView(std::uint32_t port)> view;
    /// EmulatedNetwork::way(), EmulatedSubnet::way(), on worker 0.
    std::function<std::vector<std::uint32_t>(std::uint32_t port, std::span<const std::byte> headers)> way;
    /// Of InfiniBand, on the control thread: takes the link of a trunk down or up; `port` as for `view`.
    std::function<void(std::uint32_t port, bool up)> set_link;

    [[nodiscard]] const std::string& port_name(std::size_t port) const {
        return port < devices.size() ? devices[port] : trunks[port - devices.size()];
    }
};

/// A fabric of the configuration, emulated network or not.
struct FabricInfo {
    std::string name;
    /// Frames that no RNIC of it is meant by; for any thread.
    std::function<std::uint64_t()> unknown_destinations;
};

/// Who is told, on the control thread, what has changed on an RNIC.
class RnicObserver {
  public:
    virtual ~RnicObserver() = default;
    virtual void on_port_state(const RnicState& rnic, bool is_up) = 0;
    virtual void on_gids(const RnicState& rnic) = 0;
    /// A cable, so to speak: before on_port_state(), if that follows.
    virtual void on_link(RnicState& /*rnic*/, bool /*has_link*/) {}
    /// Of InfiniBand: Device::subnet has changed; `event` of the kinds that tell of it, if it is to be told.
    virtual void on_subnet(const RnicState& /*rnic*/, std::optional<AsyncEventType> /*event*/) {}
};

/// Touched by the control thread alone.
struct ControlState {
    std::vector<std::unique_ptr<RnicState>> devices;
    std::vector<std::unique_ptr<dataplane::Worker>> workers;
    std::vector<int> worker_cpus;           // as configured, -1: not bound; for status
    std::vector<std::uint32_t> worker_qps;  // QPs on each worker: a new one goes to the emptiest
    Memfd daemon_state_memfd;               // abi::DaemonState
    ClientLimits limits;
    std::string version;
    std::uint64_t started_ns = 0;  // CLOCK_MONOTONIC
    PdNumbers pd_numbers;
    ActiveFaults faults;
    ActiveCaptures captures;
    std::vector<EmulatedNetworkInfo> networks;
    std::vector<FabricInfo> fabrics;
    std::map<ContextToken, ContextOwner> contexts;
    std::uint64_t next_context_serial = 1;
    Disposer disposer;                     // of what clients leave behind
    CmService* cm = nullptr;               // nullptr: rdma_cm is not served
    SubnetGsi* gsi = nullptr;              // nullptr: no subnet of InfiniBand is managed here
    std::vector<RnicObserver*> observers;  // called in this order

    /// Everybody who ever connected, with what he has now: who comes again is the one he was.
    std::map<uid_t, User> users;
    [[nodiscard]] User& user(uid_t uid);
    LimitedLog nobodys_long_rounds;  // rounds of workers that took long in no user's turn
    ControlTurns turns;
    /// For tests, which have one user alone.
    bool (*is_privileged)(uid_t uid) = is_root_or_daemon;

    /// What the control thread waits for. Whoever adds a descriptor outlives the loop's last round.
    EventLoop event_loop;

    [[nodiscard]] std::uint32_t num_workers() const { return static_cast<std::uint32_t>(workers.size()); }
    [[nodiscard]] abi::DaemonState& daemon_state() const {
        return *reinterpret_cast<abi::DaemonState*>(daemon_state_memfd.mapping.data());
    }
    /// Returns when no worker holds anything that was unpublished before.
    void barrier() const;
    [[nodiscard]] RnicState* find_device(const std::string& name) const;
    /// The worker that the next QP goes to.
    [[nodiscard]] std::uint32_t least_loaded_worker() const;
};

}  // namespace urnic::daemon
