// One emulated RNIC: identity, addresses, keys, counters, and the port it sends through.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "abi/control.h"
#include "congestion/cnp_gaps.h"
#include "congestion/settings.h"
#include "dataplane/port/kernel/segmentation_offload.h"
#include "dataplane/port/port.h"
#include "rnic/device/address_handles.h"
#include "rnic/device/counters.h"
#include "rnic/device/message_histograms.h"
#include "rnic/device/neighbour_macs.h"
#include "rnic/device/pfc_receiver.h"
#include "rnic/device/pkey_table.h"
#include "rnic/mem/key_table.h"
#include "rnic/neighbour/neighbour_resolver.h"
#include "rnic/qp/qp.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

class FrameInbox;
class KeyViolationInbox;
class MadInbox;

/// What is known of a port; changed by report_port() alone.
struct PortState {
    bool wanted = true;
    bool link = true;
    bool present = true;
    bool managed = true;  // of InfiniBand: the subnet manager has made it active
    [[nodiscard]] bool has_link() const { return wanted && link && present; }
    [[nodiscard]] bool is_up() const { return has_link() && managed; }
    /// As a NIC reports them (IBA 14.2.5.6, PortPhysicalState).
    enum class Phys : std::uint8_t { kPolling = 2, kDisabled = 3, kLinkUp = 5 };
    [[nodiscard]] Phys phys() const {
        return !wanted ? Phys::kDisabled : has_link() ? Phys::kLinkUp : Phys::kPolling;
    }
};

/// What a subnet manager has told a port of native InfiniBand (IBA 14.2.5.6). Control thread, but for what
/// packets are compared with.
struct SubnetPortInfo {
    std::atomic<std::uint16_t> lid{0};  // 0: none yet
    std::atomic<std::uint8_t> lmc{0};   // it has 2^lmc LIDs
    std::uint16_t sm_lid = 0;
    std::uint8_t sm_sl = 0;
    std::uint32_t capability_mask = 0;
    std::uint8_t state = 0;  // PortInfo:PortState; 0: nobody says

    /// Returns whether the LID is one of the port's.
    [[nodiscard]] bool has_lid(std::uint16_t dlid) const {
        const std::uint16_t own = lid.load(std::memory_order_relaxed);
        return own != 0 && (dlid ^ own) >> lmc.load(std::memory_order_relaxed) == 0;
    }
};

/// Whether a device takes part in local offload, and if not, why. What comes and goes (faults, observers) is
/// the workers' (Worker::is_observed()).
enum class LocalOffload : std::uint8_t {
    kOn,
    kNotFabric,   // its port is none of the in-process switch
    kNetwork,     // an emulated network is between it and the switch
    kInfiniband,  // VCRC and link layer are those of InfiniBand
    kPfc,         // an RNIC of the fabric counts waiting frames
    kOff,         // an RNIC of the fabric has offload = "off"
};

/// Built by the control thread before the workers start. Afterwards it changes addresses (workers copy them
/// in Worker::refresh_addresses()), `neighbour_macs`, `keys`, `handles` and `port_state`, at which it alone
/// looks; workers change their `counters`
/// and `message_histograms`.
struct Device {
    static constexpr std::uint32_t kGidTableLength = 16;

    std::string name;     // "urnic0"
    std::string profile;  // RnicConfig::profile
    std::uint32_t index = 0;
    std::uint64_t node_guid = 0;  // network order
    wire::Mac mac{};
    std::array<wire::Gid, kGidTableLength> gids{};  // [0] link-local, [1] IPv4-mapped; zeros are free entries
    std::array<std::uint16_t, kGidTableLength> gid_vlans{};     // of each GID's interface; 0: untagged
    std::array<std::string, kGidTableLength> gid_interfaces{};  // the kernel's, "eth0.7"; empty: none
    bool has_infiniband_link = false;                           // else Ethernet's; does not change
    SubnetPortInfo subnet;                                      // of InfiniBand
    /// Of InfiniBand, where a GID is no IP address: those by which librdmacm knows the port, IPv4-mapped,
    /// IPv6 and link-local; zeros: none.
    std::array<wire::Gid, 3> ipoib_addresses{};
    [[nodiscard]] bool is_infiniband() const { return has_infiniband_link; }
    /// Of either link layer; zeros are free entries. Over RoCE an address is the GID of the same index.
    [[nodiscard]] std::span<const wire::Gid> ip_addresses() const {
        return is_infiniband() ? std::span<const wire::Gid>(ipoib_addresses)
                               : std::span<const wire::Gid>(gids);
    }
    // Of InfiniBand a subnet manager changes it; QPs look at it in Worker::call() alone.
    PkeyTable pkeys;
    NeighbourMacs neighbour_macs;           // what paths of a real port name
    FrameInbox* neighbour_inbox = nullptr;  // nullptr: ARP and ND are not received
    FrameInbox* query_inbox = nullptr;      // nullptr: membership queries are not received
    bool is_ecn_capable = false;            // packets say ECT(0)
    bool udp_checksum_enabled = false;
    std::uint32_t mtu_bytes = 4096;        // largest path MTU
    bool use_go_back_n = false;            // RnicConfig::use_go_back_n
    bool nak_failed_invalidation = false;  // RnicConfig::nak_failed_invalidation
    bool sends_mig_req = true;             // QpConfig::sends_mig_req
    bool acks_each_request = false;        // the same
    TimeNs timer_tick_ns = 0;              // the same
    wire::SourcePortRule source_port_rule = wire::SourcePortRule::kFlow;
    /// Of connected QPs, on each worker: changed in Worker::call() alone. All are the same, for a worker must
    /// not see half a change.
    std::array<congestion::Settings, abi::kMaxWorkers> congestion{};
    congestion::CnpGaps cnp_gaps;
    abi::DeviceCaps caps{};
    KeyTable keys;
    AddressHandles handles;
    std::array<Counters, abi::kMaxWorkers> counters;
    std::vector<MessageHistograms> message_histograms;  // of each worker; empty: nobody asks for them
    Port* port = nullptr;
    /// Whether packets between RNICs of one worker need not become frames (docs/adr/0035).
    LocalOffload local_offload = LocalOffload::kNotFabric;
    /// Whether a packet socket sends several frames at a time (docs/adr/0040).
    std::atomic<SegmentationOffload> segmentation{SegmentationOffload::kNotPacket};
    PfcSettings pfc;
    PfcCounters pfc_counters;
    PfcReceiver pfc_receiver{pfc, pfc_counters};    // worker 0 is the owner
    std::atomic<std::uint32_t> pausing_workers{0};  // bit w: worker w has paused the other end of the link
    PortState port_state;                           // see port_state.h
    NeighbourResolver* neighbours = nullptr;
    MadInbox* mads = nullptr;  // nullptr: QP1 has no receiver, its MADs are dropped
    /// Of InfiniBand: nullptr while nobody tells the subnet manager.
    std::atomic<KeyViolationInbox*> key_violations{nullptr};
};

/// Connected QPs may be marked: they slow down when they are. Control thread.
[[nodiscard]] inline bool has_congestion_control(const Device& device) {
    return device.congestion[0].rate.algorithm != congestion::Algorithm::kNone;
}

/// The device's part of a connected QP's rate and of its answers to marks.
inline void use_congestion(Device& device, std::uint32_t worker, QpConfig& config) {
    config.congestion = &device.congestion[worker];
    config.cnp_gaps = &device.cnp_gaps;
}

}  // namespace urnic::dataplane
