// The daemon's configuration file (TOML) and the built-in configuration of `urnic run --standalone`.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "congestion/setting_names.h"
#include "daemon/config/http_address.h"
#include "daemon/config/static_routes.h"
#include "daemon/config/user_limits.h"
#include "netsim/infiniband/vl_arbiter.h"
#include "netsim/switch/switch.h"
#include "rnic/device/pfc.h"
#include "rnic/device/pkey_table.h"
#include "rnic/fault/rule.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/packet_view.h"

namespace urnic::daemon {

/// What one client process may own. A request beyond it is answered with ENOMEM.
struct ClientLimits {
    std::uint32_t max_qps = 16384;
    std::uint32_t max_cqs = 16384;
    std::uint32_t max_mrs = 131072;
    std::uint32_t max_pds = 32768;
    std::uint32_t max_ahs = 131072;
    std::uint32_t max_mws = 131072;
    std::uint32_t max_dms = 1024;
    std::uint32_t max_mcast_attachments = 65536;
    std::uint32_t max_srqs = 16384;
    std::uint32_t max_xrcds = 1024;
    std::uint32_t max_contexts = 16384;  // opened devices; each takes two descriptors of the daemon's
    std::uint32_t max_channels = 1024;
    std::uint32_t max_cm_channels = 4096;
    std::uint32_t max_cm_ids = 32768;
    std::uint64_t max_registered_bytes = 1ULL << 42U;
    std::uint64_t max_ring_bytes = 8ULL << 30U;
    std::uint64_t max_device_memory_bytes = 64ULL << 20U;
    /// Whether memory that is not converted is registered for users other than root and the daemon's own. The
    /// kernel copies it, on a worker: a user who withholds its pages stops everybody (docs/adr/0025).
    bool copied_memory_for_all = false;
    /// What all processes of one user may own, who is neither root nor the daemon's.
    UserLimits per_uid{};
};

/// Of `http_traces`: the workers have place for so many (dataplane::kMaxPageCaptures).
inline constexpr std::uint32_t kMaxHttpTraces = 4;

struct DaemonConfig {
    std::string run_dir = "/run/urnic";
    mode_t socket_mode = 0660;
    std::string socket_group;  // empty: leave the group as it is
    std::string user;          // that the daemon becomes once its ports are open; empty: it stays who it is
    std::vector<int> worker_cpus{0};   // one worker for each entry; -1: not bound to a CPU
    bool has_dedicated_cores = false;  // nothing else runs on the workers' CPUs
    std::optional<bool> seccomp;       // filters of system calls; absent: where the kernel has them
    std::optional<bool> hugepages;     // absent: see uses_hugepages()
    std::vector<std::string> eal_args;
    ClientLimits limits;
    std::optional<HttpAddress> http;  // the page of metrics; absent: there is none
    std::uint32_t http_qps = 0;       // QPs with series of their own on it
    std::uint32_t http_traces = 0;    // QPs that have a page of their own, at once
    bool has_histograms = false;      // of messages' sizes and latencies on it
    bool has_telemetry = false;       // DPDK's socket for dpdk-telemetry.py
};

enum class PortKind : std::uint8_t {
    kFabric,    // the in-process wire named `port_device`
    kPci,       // a NIC by its PCI address
    kVdev,      // a DPDK virtual device, for example "net_af_packet0,iface=eth1"
    kAfPacket,  // the kernel's network interface `port_device` in `netns`, by packet sockets
    kAfXdp,     // the same by AF_XDP
    kMemif,     // shared memory with another process on this host, found by the socket `port_device`
};

/// Addresses of an RNIC on the wire, or on one VLAN of it. Of InfiniBand: by which librdmacm knows the port.
struct LinkConfig {
    std::uint16_t vlan = 0;         // 0: untagged
    std::optional<wire::Gid> ipv4;  // IPv4-mapped
    std::optional<wire::Gid> ipv6;
    std::vector<RouteConfig> routes;  // of an RNIC with addresses of its own
};

struct RnicConfig : LinkConfig {
    std::string name;
    PortKind port = PortKind::kFabric;
    std::string port_device;
    std::string netns;  // a network namespace's name or path; empty: the daemon's own
    bool is_memif_server = false;
    std::uint32_t memif_id = 0;
    std::optional<wire::Mac> mac;  // the port's own when absent (kPci, kVdev); a made-up one on a fabric
    std::vector<LinkConfig> vlans;
    std::uint32_t mtu_bytes = 4096;  // largest path MTU
    bool is_mtu_set = false;         // else kAfPacket and kAfXdp take what the interface's MTU allows
    PkeyTable pkeys;
    bool is_infiniband = false;    // the link layer; else Ethernet
    std::uint16_t lid = 0;         // of InfiniBand alone; 0: its subnet manager assigns it
    std::uint8_t lmc = 0;          // its network's
    bool has_external_sm = false;  // a program manages the subnet, by umad; else its ports are active at once
    std::string duplicate_guid_of;  // the RNIC whose GUIDs its management agents say; empty: their own
    bool is_ecn_capable = false;
    congestion::Settings congestion = congestion::default_settings();
    PfcSettings pfc;
    bool rx_priorities_given = false;  // else those that its network pauses, if it is on one
    bool udp_checksum_enabled = false;
    bool use_go_back_n = false;  // after a loss; else early packets are held and the missing one is resent
    bool nak_failed_invalidation = false;  // QpConfig::nak_failed_invalidation
    bool sends_mig_req = true;             // QpConfig::sends_mig_req
    bool acks_each_request = false;        // the same
    TimeNs timer_tick_ns = 0;              // the same
    wire::SourcePortRule source_port_rule = wire::SourcePortRule::kFlow;
    std::string profile;               // whose ways it has, see profiles.h; empty: its own
    bool is_offload_off = false;       // packets between RNICs of its fabric are always frames
    bool is_segmentation_off = false;  // of kAfPacket: each frame is sent alone
    bool reports_multicast = true;     // on real ports, by IGMP and MLD
    std::uint32_t line = 0;            // where it stands in the file
};

/// The RNIC takes MAC and addresses from the kernel's interface and follows them: it has none of its own.
[[nodiscard]] inline bool borrows_addresses(const RnicConfig& rnic) {
    return (rnic.port == PortKind::kAfPacket || rnic.port == PortKind::kAfXdp) && !rnic.mac && !rnic.ipv4 &&
           !rnic.ipv6 && rnic.vlans.empty();
}

/// Somebody on the network of a real port.
struct NeighbourConfig {
    wire::Gid gid{};
    wire::Mac mac{};
};

enum class NetworkShape : std::uint8_t { kStar, kDumbbell, kParkingLot, kLeafSpine };

/// A network of InfiniBand: what a subnet manager would set, at each port alike.
struct SubnetConfig {
    std::uint8_t lmc = 0;                                            // of the RNICs
    std::uint8_t vls = 8;                                            // data VLs
    std::optional<std::array<std::uint8_t, netsim::kSls>> sl_to_vl;  // absent: SL modulo `vls`
    std::optional<netsim::VlArbiter::Table> vl_high;                 // absent: see netsim::VlArbiter
    std::optional<netsim::VlArbiter::Table> vl_low;
    std::uint8_t vl_high_limit = 0;
    std::uint32_t vl_buffer_bytes = 65'536;  // of each port and VL
    std::uint8_t hoq_life = 18;              // PortInfo.HOQLife
    std::uint8_t switch_life = 18;           // SwitchInfo.LifeTimeValue
    std::uint8_t idle_hosts = 0;  // on each switch that has RNICs: nodes of the subnet, and no more
};

/// A network with rates, queues and marks between the RNICs of one fabric.
struct NetworkConfig {
    std::string fabric;
    NetworkShape shape = NetworkShape::kStar;
    std::uint32_t switches = 0;                                // that RNICs hang on, as many on each
    std::uint32_t spines = 0;                                  // of kLeafSpine
    BitsPerSecond link_rate = 1'000'000'000;                   // of each RNIC, in both directions
    TimeNs delay_ns = 1'000;                                   // of each link
    BitsPerSecond trunk_rate = 0;                              // between switches; 0: link_rate
    TimeNs trunk_delay_ns = kNever;                            // kNever: delay_ns
    std::array<std::uint32_t, netsim::kPriorities> weights{};  // see netsim::EgressPort
    netsim::PfcOptions pfc;                                    // lossless 0: none
    std::uint64_t buffer_bytes = 1'000'000;                    // of each switch
    std::uint64_t ecn_kmin_bytes = 0;                          // see netsim::EcnOptions
    std::uint64_t ecn_kmax_bytes = 0;
    double ecn_pmax = 1;
    SubnetConfig subnet;  // where the RNICs are InfiniBand's, which do without pfc, weights, buffer and ecn
};

/// Faults that can be in force at once.
inline constexpr std::size_t kMaxFaults = 256;

struct Config {
    DaemonConfig daemon;
    std::vector<RnicConfig> rnics;
    std::vector<NeighbourConfig> neighbours;
    std::vector<NetworkConfig> networks;
    std::vector<fault::Rule> faults;
    std::vector<std::string> warnings;  // to be logged: old names of keys
};

/// Why a file is no configuration, ready to be shown: "FILE:LINE:COLUMN: what; what is allowed".
struct ConfigError {
    std::string message;
};

/// Returns whether packet memory is to come from huge pages: as the configuration says, else where a port is
/// a NIC by PCI, which without an IOMMU can read no other.
[[nodiscard]] bool uses_hugepages(const Config& config);

/// `file` is only used in messages.
[[nodiscard]] std::variant<Config, ConfigError> parse_config(std::string_view text, const std::string& file);
[[nodiscard]] std::variant<Config, ConfigError> read_config(const std::string& file);

/// urnic0 198.18.0.1/24 and urnic1 198.18.0.2/24 on one in-process wire, one worker, no hugepages. Of
/// InfiniBand: with LIDs 1 and 2.
[[nodiscard]] Config standalone_config(const std::string& run_dir, bool is_infiniband = false);

/// EUI-64 of a MAC in network order, as rxe makes node GUIDs.
[[nodiscard]] std::uint64_t node_guid(const wire::Mac& mac);

}  // namespace urnic::daemon
