// What subnet management knows of a node: an RNIC with one port, or a switch with port 0 and the others.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rnic/device/pkey_table.h"
#include "rnic/wire/mad/subnet_attributes.h"
#include "rnic/wire/packet_view.h"

namespace urnic::subnet {

inline constexpr std::uint16_t kLinearFdbCap = 0xc000;   // every unicast LID
inline constexpr std::uint16_t kMulticastFdbCap = 1024;  // MLIDs from 0xc000 on
inline constexpr std::uint8_t kNoPort = 255;             // of a forwarding table: the packet is dropped
inline constexpr std::uint64_t kDefaultGidPrefix = 0xfe80'0000'0000'0000;
/// PortInfo:CapabilityMask (IBA table 146).
inline constexpr std::uint32_t kIsSm = 1U << 1U;
inline constexpr std::uint32_t kIsTrapSupported = 1U << 3U;
inline constexpr std::uint32_t kIsSlMappingSupported = 1U << 6U;
inline constexpr std::uint32_t kIsSystemImageGuidSupported = 1U << 11U;
inline constexpr std::uint32_t kIsPkeySwitchExternalPortTrapSupported = 1U << 12U;
inline constexpr std::uint32_t kIsExtendedSpeedsSupported = 1U << 14U;
inline constexpr std::uint32_t kIsCommunicationManagementSupported = 1U << 16U;
inline constexpr std::uint32_t kIsCapabilityMaskNoticeSupported = 1U << 22U;

struct PortOptions {
    std::uint16_t lid = 0;                // when it begins; 0: none yet
    bool is_active = false;               // from the beginning on: nobody manages it
    std::uint8_t mtu = 5;                 // ibv_mtu
    std::uint8_t vl_cap = 1;              // PortInfo:VLCap; 1: VL0 alone
    std::uint8_t vl_arbitration_cap = 0;  // entries of each table; 0: it has none
};

struct NodeOptions {
    wire::mad::NodeType type = wire::mad::kChannelAdapter;
    std::uint8_t num_ports = 1;
    std::uint64_t guid = 0;  // in host order; its ports have the same
    std::string description;
    PkeyTable pkeys;              // of an RNIC's port
    bool enforces_pkeys = false;  // a switch, at its ports, as PortInfo says
    PortOptions port;
};

/// One port, with what Set of its attributes changes.
struct PortRecord {
    wire::mad::PortInfo info;
    PkeyTable pkeys;
    std::vector<wire::mad::SlToVlMapping> sl_to_vl;          // by port that packets come in through
    std::array<wire::mad::VlArbitration, 4> vl_arbitration;  // low: 0 and 1, high: 2 and 3
    bool is_connected = false;                               // the cable is there, and the other end is on
};

struct Node {
    explicit Node(const NodeOptions& options);

    [[nodiscard]] bool is_switch() const { return node_info.node_type == wire::mad::kSwitch; }
    [[nodiscard]] std::uint8_t num_ports() const { return node_info.num_ports; }
    /// That has the node's LID and M_Key: 0 of a switch, 1 of an RNIC.
    [[nodiscard]] PortRecord& base_port() { return ports[is_switch() ? 0 : 1]; }
    [[nodiscard]] std::uint16_t lid() const { return ports[is_switch() ? 0 : 1].info.lid; }
    /// Whether the LID is one of the node's, by its LMC (IBA 4.1.3).
    [[nodiscard]] bool has_lid(std::uint16_t lid) const;
    /// The port that a switch forwards a LID through; kNoPort.
    [[nodiscard]] std::uint8_t forward(std::uint16_t dlid) const;

    bool is_locked = false;  // no Set changes it, whatever M_Key it has
    wire::mad::NodeInfo node_info;
    wire::mad::NodeDescription description;
    wire::mad::SwitchInfo switch_info;                                   // of a switch
    std::vector<PortRecord> ports;                                       // [0] of a switch alone
    std::vector<std::uint8_t> linear;                                    // kLinearFdbCap of a switch
    std::vector<std::array<std::uint16_t, kMulticastFdbCap>> multicast;  // port masks, by position
};

/// The cable of a port is plugged in, and the other end on, or not: the physical state follows, and the
/// logical one (IBA 7.2.7, 14.2.5.6). Returns whether the state has changed.
bool set_connected(Node& node, std::uint8_t port, bool is_connected);

}  // namespace urnic::subnet
