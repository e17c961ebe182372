// Set of PortInfo (IBA 14.2.5.6, table 146).
#include <algorithm>

#include "rnic/subnet/subnet_agent.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

constexpr std::uint8_t kAllWidths = 0xff;
constexpr std::uint8_t kAllSpeeds = 0x0f;
constexpr std::uint8_t kAllExtendedSpeeds = 0x1f;

bool may_become(std::uint8_t from, std::uint8_t to) {
    switch (to) {
        case mad::kNoChange:
        case mad::kDown:
            return true;
        case mad::kArmed:
            return from == mad::kInit || from == mad::kArmed;
        case mad::kActive:
            return from == mad::kArmed || from == mad::kActive;
        default:
            return false;
    }
}

/// Of a port with a link: states, widths, speeds.
bool is_valid_link(const mad::PortInfo& info, const mad::PortInfo& wanted) {
    const bool has_states = may_become(info.port_state, wanted.port_state) &&
                            wanted.port_physical_state <= mad::kDisabled &&
                            (wanted.port_physical_state == 0 || wanted.port_state <= mad::kDown) &&
                            wanted.link_down_default_state <= mad::kPolling;
    const bool has_width = wanted.link_width_enabled == kAllWidths ||
                           (wanted.link_width_enabled & ~info.link_width_supported) == 0;
    const bool has_speed = wanted.link_speed_enabled == kAllSpeeds ||
                           (wanted.link_speed_enabled & ~info.link_speed_supported) == 0;
    const bool has_mtu = wanted.neighbor_mtu >= 1 && wanted.neighbor_mtu <= info.mtu_cap;
    return has_states && has_width && has_speed && has_mtu && wanted.operational_vls <= info.vl_cap;
}

/// Of a port that has the node's LID.
bool is_valid_base(const mad::PortInfo& wanted) {
    const std::uint32_t last = wanted.lid + (1U << wanted.lmc) - 1;
    return wanted.lid != 0 && last <= kLastUnicastLid && (wanted.lid & ((1U << wanted.lmc) - 1)) == 0 &&
           wanted.master_sm_lid <= kLastUnicastLid;
}

void set_base(mad::PortInfo& info, const mad::PortInfo& wanted, Change& change) {
    info.m_key = wanted.m_key;
    info.m_key_protect_bits = wanted.m_key_protect_bits;
    info.m_key_lease_period = wanted.m_key_lease_period;
    info.gid_prefix = wanted.gid_prefix;
    info.lid = wanted.lid;
    info.lmc = wanted.lmc;
    info.master_sm_lid = wanted.master_sm_lid;
    info.master_sm_sl = wanted.master_sm_sl;
    info.subnet_timeout = wanted.subnet_timeout;
    // Counters are written with what they are to begin from.
    info.m_key_violations = wanted.m_key_violations;
    info.p_key_violations = wanted.p_key_violations;
    info.q_key_violations = wanted.q_key_violations;
    change.is_reregister = wanted.client_reregister;
}

void set_link(mad::PortInfo& info, const mad::PortInfo& wanted) {
    if (wanted.link_width_enabled != 0) {
        info.link_width_enabled =
            wanted.link_width_enabled == kAllWidths ? info.link_width_supported : wanted.link_width_enabled;
    }
    if (wanted.link_speed_enabled != 0) {
        info.link_speed_enabled =
            wanted.link_speed_enabled == kAllSpeeds ? info.link_speed_supported : wanted.link_speed_enabled;
    }
    if (wanted.link_speed_ext_enabled != 0) {
        info.link_speed_ext_enabled = wanted.link_speed_ext_enabled == kAllExtendedSpeeds
                                          ? info.link_speed_ext_supported
                                          : wanted.link_speed_ext_enabled;
    }
    if (wanted.link_down_default_state != 0) {
        info.link_down_default_state = wanted.link_down_default_state;
    }
    if (wanted.operational_vls != 0) {
        info.operational_vls = wanted.operational_vls;
    }
    info.neighbor_mtu = wanted.neighbor_mtu;
    info.vl_high_limit = wanted.vl_high_limit;
    info.vl_stall_count = wanted.vl_stall_count;
    info.hoq_life = wanted.hoq_life;
    info.partition_enforcement_inbound = wanted.partition_enforcement_inbound;
    info.partition_enforcement_outbound = wanted.partition_enforcement_outbound;
    info.filter_raw_inbound = wanted.filter_raw_inbound;
    info.filter_raw_outbound = wanted.filter_raw_outbound;
    info.local_phy_errors = wanted.local_phy_errors;
    info.overrun_errors = wanted.overrun_errors;
}

/// A link that is taken down trains again at once, unless it is to stay down.
void set_state(Node& node, std::uint8_t port, const mad::PortInfo& wanted, Change& change) {
    PortRecord& record = node.ports.at(port);
    mad::PortInfo& info = record.info;
    const bool changes_physically = wanted.port_physical_state != 0;
    if (wanted.port_state == mad::kDown || changes_physically) {
        info.port_state = mad::kDown;
        const std::uint8_t to =
            changes_physically ? wanted.port_physical_state : info.link_down_default_state;
        info.port_physical_state = to;
        change.is_reset = true;
        (void)set_connected(node, port, record.is_connected);
    } else if (wanted.port_state != mad::kNoChange) {
        info.port_state = wanted.port_state;
    }
}

}  // namespace

std::uint16_t set_port_info(Node& node, std::uint8_t port, const mad::PortInfo& wanted, Change& change) {
    mad::PortInfo& info = node.ports.at(port).info;
    const bool is_base = &node.base_port().info == &info;
    const bool has_link = !node.is_switch() || port != 0;
    if ((is_base && !is_valid_base(wanted)) || (has_link && !is_valid_link(info, wanted))) {
        return kStatusBadValue;
    }
    change.kind = Change::Kind::kPort;
    change.port = port;
    if (is_base) {
        set_base(info, wanted, change);
    }
    if (has_link) {
        set_link(info, wanted);
        set_state(node, port, wanted, change);
    }
    return kStatusGood;
}

}  // namespace urnic::subnet
