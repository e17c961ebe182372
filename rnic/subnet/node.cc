#include "rnic/subnet/node.h"

#include <algorithm>

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

/// 4X of 25.78125 Gb/s, as sysfs says ("100 Gb/sec (4X EDR)"); for who knows no extended speeds 10 Gb/s a
/// lane.
mad::PortInfo port_info(const NodeOptions& options, bool is_management_port) {
    mad::PortInfo info;
    info.gid_prefix = kDefaultGidPrefix;
    info.capability_mask = kIsTrapSupported | kIsSystemImageGuidSupported | kIsExtendedSpeedsSupported |
                           kIsCapabilityMaskNoticeSupported | kIsSlMappingSupported;
    info.link_width_enabled = info.link_width_supported = 0x03;
    info.link_width_active = 2;
    info.link_speed_supported = info.link_speed_enabled = 0x07;
    info.link_speed_active = 4;
    info.link_speed_ext_active = info.link_speed_ext_supported = info.link_speed_ext_enabled = 2;
    info.link_down_default_state = mad::kPolling;
    info.neighbor_mtu = info.mtu_cap = options.port.mtu;
    info.vl_cap = info.operational_vls = options.port.vl_cap;
    info.vl_arbitration_high_cap = info.vl_arbitration_low_cap = options.port.vl_arbitration_cap;
    info.guid_cap = 1;
    info.resp_time_value = 16;  // 268 ms
    info.subnet_timeout = 18;
    // Port 0 of a switch has no link (IBA 18.2.4.1).
    info.port_state = is_management_port ? mad::kActive : mad::kDown;
    info.port_physical_state = is_management_port ? mad::kLinkUp : mad::kPolling;
    info.lid = options.port.lid;
    return info;
}

}  // namespace

Node::Node(const NodeOptions& options) {
    node_info.base_version = 1;
    node_info.class_version = 1;
    node_info.node_type = options.type;
    node_info.num_ports = options.num_ports;
    node_info.system_image_guid = node_info.node_guid = node_info.port_guid = options.guid;
    node_info.partition_cap = PkeyTable::kEntries;
    std::copy_n(options.description.begin(),
                std::min(options.description.size(), description.text.size() - 1), description.text.begin());
    for (unsigned i = 0; i <= options.num_ports; ++i) {
        PortRecord port;
        port.info = port_info(options, is_switch() && i == 0);
        port.info.local_port_num = static_cast<std::uint8_t>(i);
        port.info.lid = i == (is_switch() ? 0U : 1U) ? options.port.lid : 0;
        port.pkeys = options.pkeys;
        port.sl_to_vl.resize(is_switch() ? options.num_ports + 1U : 1U);
        ports.push_back(std::move(port));
    }
    if (is_switch()) {
        switch_info.linear_fdb_cap = kLinearFdbCap;
        switch_info.multicast_fdb_cap = kMulticastFdbCap;
        switch_info.linear_fdb_top = kLinearFdbCap - 1;
        switch_info.default_multicast_primary_port = kNoPort;
        switch_info.default_multicast_not_primary_port = kNoPort;
        switch_info.life_time_value = 18;
        if (options.enforces_pkeys) {
            switch_info.partition_enforcement_cap = PkeyTable::kEntries;
            switch_info.inbound_enforcement = switch_info.outbound_enforcement = true;
            base_port().info.capability_mask |= kIsPkeySwitchExternalPortTrapSupported;
        }
        linear.assign(kLinearFdbCap, kNoPort);
        multicast.resize(options.num_ports / 16U + 1U);
    }
}

bool Node::has_lid(std::uint16_t lid) const {
    const mad::PortInfo& info = ports[is_switch() ? 0 : 1].info;
    return info.lid != 0 && lid >> info.lmc == info.lid >> info.lmc;
}

std::uint8_t Node::forward(std::uint16_t dlid) const {
    if (!is_switch() || dlid >= linear.size() || dlid > switch_info.linear_fdb_top) {
        return kNoPort;
    }
    const std::uint8_t port = linear[dlid];
    return port <= num_ports() ? port : kNoPort;
}

bool set_connected(Node& node, std::uint8_t port, bool is_connected) {
    PortRecord& record = node.ports.at(port);
    record.is_connected = is_connected;
    mad::PortInfo& info = record.info;
    const std::uint8_t before = info.port_state;
    if (info.port_physical_state != mad::kDisabled && info.port_physical_state != mad::kSleep) {
        info.port_physical_state = is_connected ? mad::kLinkUp : mad::kPolling;
    }
    const bool has_link = info.port_physical_state == mad::kLinkUp;
    if (!has_link) {
        info.port_state = mad::kDown;
    } else if (before == mad::kDown) {
        info.port_state = mad::kInit;
    }
    if (info.port_state != before && node.is_switch()) {
        node.switch_info.port_state_change = true;
    }
    return info.port_state != before;
}

}  // namespace urnic::subnet
