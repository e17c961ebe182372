#include "daemon/config/ports.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "daemon/config/values.h"

namespace urnic::daemon {

namespace {

// The keys, as bits.
constexpr unsigned kFabricKey = 1;
constexpr unsigned kDeviceKey = 2;
constexpr unsigned kInterfaceKey = 4;
constexpr unsigned kNetnsKey = 8;
constexpr unsigned kSocketKey = 16;
constexpr unsigned kRoleKey = 32;
constexpr unsigned kIdKey = 64;
constexpr unsigned kSegmentationKey = 128;
struct KeyName {
    unsigned bit;
    const char* name;
};
constexpr std::array kKeyNames{
    KeyName{kFabricKey, "fabric"},
    KeyName{kDeviceKey, "device"},
    KeyName{kInterfaceKey, "interface"},
    KeyName{kNetnsKey, "netns"},
    KeyName{kSocketKey, "socket"},
    KeyName{kRoleKey, "role"},
    KeyName{kIdKey, "id"},
    KeyName{kSegmentationKey, "segmentation_offload"},
};

struct KindRow {
    const char* name;
    PortKind kind;
    unsigned needs;  // KeyBits
    unsigned takes;  // besides
    const char* example;
};
constexpr std::array kKinds{
    KindRow{"fabric", PortKind::kFabric, kFabricKey, 0, "fabric = \"lab\", the name of the in-process wire"},
    KindRow{"pci", PortKind::kPci, kDeviceKey, 0, "device = \"0000:01:00.0\" (lspci -D lists them)"},
    KindRow{"vdev", PortKind::kVdev, kDeviceKey, 0, "device = \"net_af_packet0,iface=eth1\""},
    KindRow{"af_packet", PortKind::kAfPacket, kInterfaceKey, kNetnsKey | kSegmentationKey,
            "interface = \"eth0\" (ip link lists them)"},
    KindRow{"af_xdp", PortKind::kAfXdp, kInterfaceKey, kNetnsKey,
            "interface = \"eth0\" (ip link lists them)"},
    KindRow{"memif", PortKind::kMemif, kSocketKey | kRoleKey, kIdKey,
            "socket = \"/run/urnic/memif.sock\" and role = \"server\" (the other end: \"client\")"},
};

unsigned given(const PortKeys& keys) {
    return (keys.fabric.empty() ? 0U : kFabricKey) | (keys.device.empty() ? 0U : kDeviceKey) |
           (keys.interface.empty() ? 0U : kInterfaceKey) | (keys.netns.empty() ? 0U : kNetnsKey) |
           (keys.socket.empty() ? 0U : kSocketKey) | (keys.role.empty() ? 0U : kRoleKey) |
           (keys.id ? kIdKey : 0U) | (keys.segmentation_offload.empty() ? 0U : kSegmentationKey);
}

/// "'device' goes with port = \"pci\" or \"vdev\""
std::string goes_with(const KeyName& key) {
    std::string kinds;
    for (const KindRow& row : kKinds) {
        if (((row.needs | row.takes) & key.bit) != 0) {
            kinds += fmt::format("{}\"{}\"", kinds.empty() ? "" : " or ", row.name);
        }
    }
    return fmt::format("'{}' goes with port = {}", key.name, kinds);
}

std::string wrong_value(const PortKeys& keys, PortKind kind) {
    if (kind == PortKind::kPci && !is_pci_address(keys.device)) {
        return fmt::format(
            "'device' is \"{}\"; with port = \"pci\" it must be a PCI address such as "
            "\"0000:01:00.0\" (lspci -D lists them)",
            keys.device);
    }
    if (keys.interface.size() >= IFNAMSIZ || keys.interface.find_first_of("/: \t") != std::string::npos) {
        return fmt::format(
            "'interface' is \"{}\", which is no name of a network interface (ip link lists them)",
            keys.interface);
    }
    if (kind == PortKind::kMemif && keys.role != "server" && keys.role != "client") {
        return "'role' must be \"server\" or \"client\"";
    }
    // It becomes an argument of DPDK's, and the address of a Unix socket.
    if (kind == PortKind::kMemif && (keys.socket.front() != '/' || keys.socket.size() > 107 ||
                                     keys.socket.find(',') != std::string::npos)) {
        return "'socket' must be an absolute path of at most 107 characters without commas";
    }
    return {};
}

}  // namespace

std::string apply_port_keys(const PortKeys& keys, RnicConfig& rnic) {
    const auto* row = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const KindRow& kind) { return keys.port == kind.name; });
    if (row == kKinds.end()) {
        std::string names;
        for (const KindRow& kind : kKinds) {
            names += fmt::format("{}\"{}\"",
                                 &kind == &kKinds.front()  ? ""
                                 : &kind == &kKinds.back() ? " or "
                                                           : ", ",
                                 kind.name);
        }
        return keys.port.empty() ? "this [[rnic]] has no 'port'; allowed: " + names
                                 : fmt::format("'port' is \"{}\"; it must be {}", keys.port, names);
    }
    for (const KeyName& key : kKeyNames) {
        if ((given(keys) & ~(row->needs | row->takes) & key.bit) != 0) {
            return goes_with(key);
        }
    }
    for (const KeyName& key : kKeyNames) {
        if ((row->needs & ~given(keys) & key.bit) != 0) {
            return fmt::format("port = \"{}\" needs '{}', for example {}", row->name, key.name, row->example);
        }
    }
    rnic.port = row->kind;
    rnic.port_device = keys.fabric + keys.device + keys.interface + keys.socket;  // one of them
    rnic.netns = keys.netns;
    rnic.is_memif_server = keys.role == "server";
    rnic.memif_id = keys.id.value_or(0);
    return wrong_value(keys, rnic.port);
}

bool same_port(const RnicConfig& a, const RnicConfig& b) {
    // Packet sockets share an interface, as long as each RNIC has a MAC of its own.
    const bool shares = a.port == PortKind::kAfPacket && a.mac != b.mac;
    return a.port != PortKind::kFabric && a.port == b.port && a.port_device == b.port_device &&
           a.netns == b.netns && a.memif_id == b.memif_id && !shares;
}

}  // namespace urnic::daemon
