// What all processes of one user may have together: [daemon.limits.per_uid].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace urnic::daemon {

/// What the daemon has a limited number of, and clients take.
enum class Resource : std::uint8_t {
    kConnections,
    kDescriptors,
    kContexts,
    kChannels,
    kQps,  // XRC targets included
    kCqs,
    kSrqs,
    kXrcds,
    kMrs,
    kMws,
    kDms,
    kPds,
    kAhs,
    kMcastGroups,
    kMcastAttachments,
    kCmChannels,
    kCmIds,
    kCmGroups,
    kSubnetGroups,
    kCmPorts,
};
inline constexpr std::size_t kNumResources = static_cast<std::size_t>(Resource::kCmPorts) + 1;

/// Memory that clients make the daemon's, or that the daemon may be charged for.
enum class ByteResource : std::uint8_t {
    kRegistered,  // a page of a registered file is charged to whoever touches it first
    kRings,       // the most that each client's ring memory has had: its pages stay
    kDeviceMemory,
};
inline constexpr std::size_t kNumByteResources = static_cast<std::size_t>(ByteResource::kDeviceMemory) + 1;

/// By Resource. The defaults are a quarter of what the daemon, or one of its RNICs, has.
struct UserLimits {
    std::array<std::uint32_t, kNumResources> most{
        256,    // of ControlServer::Options::max_connections
        0,      // of RLIMIT_NOFILE, once it is known; until then no limit
        4096,   // contexts
        4096,   // completion channels
        4096,   // QPs
        4096,   // CQs
        4096,   // SRQs
        4096,   // XRC domains
        16384,  // MRs
        16384,  // MWs
        1024,   // DMs
        8192,   // PDs
        16384,  // AHs
        1024,   // multicast groups that there would not be without the user
        16384,  // memberships in them
        4096,   // event channels of rdma_cm
        8192,   // its ids
        16384,  // its memberships in multicast groups
        256,    // groups of a subnet of InfiniBand that ports are in for its ids
        7058,   // its ports, of those that are given out when none is asked for
    };
    std::array<std::uint64_t, kNumByteResources> most_bytes{
        0,            // of the machine's memory, once it is known: all of it; until then no limit
        0,            // a quarter of it
        256U << 20U,  // device memory
    };
    std::uint32_t& operator[](Resource resource) { return most.at(static_cast<std::size_t>(resource)); }
    std::uint32_t operator[](Resource resource) const { return most.at(static_cast<std::size_t>(resource)); }
    std::uint64_t& operator[](ByteResource resource) {
        return most_bytes.at(static_cast<std::size_t>(resource));
    }
    std::uint64_t operator[](ByteResource resource) const {
        return most_bytes.at(static_cast<std::size_t>(resource));
    }
};

/// The key in [daemon.limits.per_uid].
inline constexpr std::array<const char*, kNumResources> kUserLimitKeys{
    "max_connections", "max_descriptors", "max_contexts",  "max_channels",      "max_qps",
    "max_cqs",         "max_srqs",        "max_xrcds",     "max_mrs",           "max_mws",
    "max_dms",         "max_pds",         "max_ahs",       "max_mcast_groups",  "max_mcast_attachments",
    "max_cm_channels", "max_cm_ids",      "max_cm_groups", "max_subnet_groups", "max_cm_ports"};
inline constexpr std::array<const char*, kNumByteResources> kUserByteLimitKeys{
    "max_registered_bytes", "max_ring_bytes", "max_device_memory_bytes"};

}  // namespace urnic::daemon
