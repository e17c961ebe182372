// The in-process wire: a small switch whose ports carry complete Ethernet frames, or InfiniBand packets,
// between the RNICs of one daemon. Lossless: a port whose receiver lags takes no more, and the sender keeps
// its frames.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/device/device.h"
#include "dataplane/handoff/worker_handoff.h"
#include "dataplane/port/port.h"

struct rte_ring;

namespace urnic::dataplane {

class InProcessSwitch final : public NeighbourResolver {
  public:
    /// Frames in flight from one worker to one port's queue. Few enough that they stay in the cache.
    static constexpr std::uint32_t kRingFrames = 256;
    /// Unicast LIDs (IBA 4.1.3).
    static constexpr std::uint32_t kLids = 0xc000;

    /// What one port answers to.
    struct PortSpec {
        wire::Mac mac{};
        std::vector<wire::Gid> gids;  // zeros are left out
        bool is_infiniband = false;   // all ports of a switch, or none
        std::uint16_t lid = 0;        // of InfiniBand; 0: a subnet manager is to set the forwarding table
        std::uint8_t lmc = 0;         // 2^lmc LIDs, from that one on
    };

    /// Throws SetupError when the packet memory is too small for the rings.
    InProcessSwitch(const std::vector<PortSpec>& ports, WorkerHandoff& handoff);
    ~InProcessSwitch() override;
    InProcessSwitch(const InProcessSwitch&) = delete;
    InProcessSwitch& operator=(const InProcessSwitch&) = delete;

    /// Port i of the list; lives as long as the switch.
    [[nodiscard]] Port& port(std::uint32_t index);
    [[nodiscard]] std::optional<wire::Mac> resolve(const wire::Gid& gid) const override;
    /// The port has another MAC from now on; resolve() still returns the first. For any thread.
    void set_mac(std::uint32_t port, const wire::Mac& mac);
    /// Of InfiniBand: packets to that LID, below kLids, go to the port; nullopt: nowhere. For any thread.
    void set_forwarding(std::uint16_t lid, std::optional<std::uint32_t> port);
    /// The port that a frame of at least 6 bytes is for; none: unknown MAC.
    [[nodiscard]] std::optional<std::uint32_t> port_of(std::span<const std::byte> frame) const;
    /// On worker 0, for networks of InfiniBand in front of the switch: gives a packet of at least kLrhBytes
    /// to a port, whatever its DLID. Returns false, and leaves the packet with the caller, if there is no
    /// room.
    [[nodiscard]] bool deliver(std::uint32_t port, rte_mbuf* frame);
    /// Returns whether a port may be a member of the group of a multicast LID: the filter lets some
    /// strangers through.
    [[nodiscard]] bool is_member(std::uint32_t port, std::uint16_t mlid) const;
    /// Frames that no port's MAC or LID matched, or that were too short to have one.
    [[nodiscard]] std::uint64_t unknown_mac_frames() const;

  private:
    class SwitchPort;
    /// Sends a multicast frame to every port that wants it, the sender's too: to all of them, or to none
    /// while one of them has no room. Returns whether it did.
    [[nodiscard]] bool replicate(std::uint32_t from, rte_mbuf* frame, std::uint32_t& to_wake);
    [[nodiscard]] bool is_group_frame(std::span<const std::byte> frame) const;
    /// Returns whether a port wants this frame to a group.
    [[nodiscard]] bool is_receiver(std::uint32_t port, std::span<const std::byte> frame) const;
    [[nodiscard]] bool is_subscribed(std::uint32_t port, const wire::Mac& group) const;
    std::uint16_t transmit(std::uint32_t worker, rte_mbuf** frames, std::uint16_t count);
    std::uint16_t receive(std::uint32_t port, std::uint32_t worker, rte_mbuf** frames, std::uint16_t count);
    /// The ring for a frame; nullptr: unknown MAC or LID. `worker` is where it ends.
    [[nodiscard]] rte_ring* route(std::uint32_t from, const rte_mbuf& frame, std::uint32_t& worker) const;
    [[nodiscard]] rte_ring* route_by_lid(std::uint32_t from, std::span<const std::byte> frame,
                                         std::uint32_t& worker) const;
    [[nodiscard]] rte_ring* ring(std::uint32_t from, std::uint32_t port, std::uint32_t to) const;

    WorkerHandoff& handoff_;
    std::vector<PortSpec> specs_;
    std::vector<std::atomic<std::uint64_t>> macs_;  // as 48-bit numbers, by port; of InfiniBand none
    /// InfiniBand: the port of each LID (IBA 18.2.4.3.1).
    std::vector<std::atomic<std::uint32_t>> forwarding_;
    std::vector<std::unique_ptr<SwitchPort>> ports_;
    struct alignas(64) Cursor {
        std::uint32_t next = 0;
    };
    std::vector<Cursor> cursors_;   // by port and receiving worker
    std::vector<rte_ring*> rings_;  // single producer, single consumer
    /// The groups of each port, hashed as NICs do: a bit that is set may let strangers through.
    std::vector<std::atomic<std::uint64_t>> group_filters_;
    std::atomic<std::uint64_t> unknown_mac_frames_{0};
};

}  // namespace urnic::dataplane
