#include "rnic/subnet/subnet_agent.h"

#include <algorithm>
#include <cstring>

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;

constexpr std::size_t kSmpData = 64;
constexpr std::uint32_t kPkeysPerBlock = 32;
constexpr std::uint32_t kLidsPerBlock = 64;
constexpr std::uint32_t kMlidsPerBlock = 32;
constexpr TimeNs kNsPerSecond = 1'000'000'000;

bool is_request(std::uint8_t method) { return method == wire::kMadGet || method == wire::kMadSet; }

void saturate(std::uint16_t& counter) { counter = static_cast<std::uint16_t>(std::min(counter + 1, 0xffff)); }

}  // namespace

struct SubnetAgent::Row {
    std::uint16_t attribute_id;
    bool can_set;
    bool of_switch;  // alone
    Operation operation;
};

Handled SubnetAgent::handle(MadRef mad, std::uint8_t ingress, TimeNs now, Change& change) {
    static constexpr Row kRows[] = {
        {mad::kNodeDescription, false, false, &SubnetAgent::node_description},
        {mad::kNodeInfo, false, false, &SubnetAgent::node_info},
        {mad::kSwitchInfo, true, true, &SubnetAgent::switch_info},
        {mad::kGuidInfo, true, false, &SubnetAgent::guid_info},
        {mad::kPortInfo, true, false, &SubnetAgent::port_info},
        {mad::kPkeyTable, true, false, &SubnetAgent::pkey_table},
        {mad::kSlToVlMapping, true, false, &SubnetAgent::sl_to_vl},
        {mad::kVlArbitration, true, false, &SubnetAgent::vl_arbitration},
        {mad::kLinearForwarding, true, true, &SubnetAgent::linear_forwarding},
        {mad::kMulticastForwarding, true, true, &SubnetAgent::multicast_forwarding},
    };
    change = Change{};
    if (mad.is_response() || mad.attribute_id() == mad::kSmInfo || mad.method() == wire::kMadTrap) {
        return Handled::kForSm;
    }
    if (mad.method() == wire::kMadTrapRepress) {
        return Handled::kDiscard;
    }
    const auto refuse = [&](std::uint16_t status) {
        ++counters_.bad;
        make_response(mad, status);
        return Handled::kReply;
    };
    if (mad.base_version() != kBaseVersion || mad.class_version() != kSubnetClassVersion) {
        return refuse(kStatusBadVersion);
    }
    if (!is_request(mad.method())) {
        return refuse(kStatusBadMethod);
    }
    const bool is_set = mad.method() == wire::kMadSet;
    const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& candidate) {
        return candidate.attribute_id == mad.attribute_id() && (node_.is_switch() || !candidate.of_switch) &&
               (candidate.can_set || !is_set);
    });
    if (row == std::end(kRows)) {
        return refuse(kStatusBadAttribute);
    }
    if (!is_allowed(mad, is_set, now, change)) {
        return Handled::kDiscard;
    }
    ++(is_set ? counters_.sets : counters_.gets);
    const std::uint16_t status = (this->*row->operation)({mad, ingress, is_set, change});
    if (status != kStatusGood) {
        change = Change{};
        ++counters_.bad;
    }
    make_response(mad, status);
    return Handled::kReply;
}

// IBA 14.2.4: a violation is not answered, and starts the lease, at whose end the key no longer protects.
bool SubnetAgent::is_allowed(MadRef mad, bool is_set, TimeNs now, Change& change) {
    mad::PortInfo& info = node_.base_port().info;
    end_lease(now);
    has_key_ = !node_.is_locked && (info.m_key == 0 || info.m_key == mad.m_key());
    if (has_key_) {
        lease_ends_ = kNever;
        return true;
    }
    if (!is_set && info.m_key_protect_bits <= 1) {
        return true;
    }
    ++counters_.m_key_violations;
    saturate(info.m_key_violations);
    if (lease_ends_ == kNever && info.m_key_lease_period != 0) {
        lease_ends_ = now + info.m_key_lease_period * kNsPerSecond;
    }
    change.is_m_key_violation = true;
    return false;
}

void SubnetAgent::end_lease(TimeNs now) {
    if (now >= lease_ends_) {
        node_.base_port().info.m_key_protect_bits = 0;
        lease_ends_ = kNever;
    }
}

/// The port that a modifier names: of an RNIC 0 is the one that the request came through.
PortRecord* SubnetAgent::port_of(std::uint32_t number, std::uint8_t ingress, std::uint8_t& port) {
    if (!node_.is_switch() && number == 0) {
        number = std::max<std::uint32_t>(ingress, 1);
    }
    if (number > node_.num_ports()) {
        return nullptr;
    }
    port = static_cast<std::uint8_t>(number);
    return &node_.ports[port];
}

std::uint16_t SubnetAgent::node_description(const Request& request) {
    MadRef(request.mad).write(mad::kNodeDescriptionTable, kSmpData, node_.description);
    return kStatusGood;
}

std::uint16_t SubnetAgent::node_info(const Request& request) {
    mad::NodeInfo info = node_.node_info;
    info.local_port_num = node_.is_switch() ? request.ingress : 1;
    MadRef(request.mad).write(mad::kNodeInfoTable, kSmpData, info);
    return kStatusGood;
}

std::uint16_t SubnetAgent::switch_info(const Request& request) {
    mad::SwitchInfo& info = node_.switch_info;
    if (request.is_set) {
        const auto wanted = request.mad.read<mad::SwitchInfo>(mad::kSwitchInfoTable, kSmpData);
        if (wanted.linear_fdb_top >= info.linear_fdb_cap) {
            return kStatusBadValue;
        }
        // Nothing else of it is for who forwards.
        if (info.linear_fdb_top != wanted.linear_fdb_top) {
            request.change.kind = Change::Kind::kSwitch;
        }
        info.linear_fdb_top = wanted.linear_fdb_top;
        info.default_port = wanted.default_port;
        info.default_multicast_primary_port = wanted.default_multicast_primary_port;
        info.default_multicast_not_primary_port = wanted.default_multicast_not_primary_port;
        info.life_time_value = wanted.life_time_value;
        info.multicast_fdb_top = wanted.multicast_fdb_top;
        // A one clears it (IBA table 144).
        info.port_state_change = info.port_state_change && !wanted.port_state_change;
    }
    MadRef(request.mad).write(mad::kSwitchInfoTable, kSmpData, info);
    return kStatusGood;
}

std::uint16_t SubnetAgent::port_info(const Request& request) {
    // Bit 31 says that the subnet manager knows the extended speeds, the rest is reserved.
    constexpr std::uint32_t kPortMask = 0xff;
    std::uint8_t port = 0;
    PortRecord* record = port_of(request.mad.attribute_modifier() & kPortMask, request.ingress, port);
    if (record == nullptr) {
        return kStatusBadValue;
    }
    if (request.is_set) {
        const auto wanted = request.mad.read<mad::PortInfo>(mad::kPortInfoTable, kSmpData);
        if (const std::uint16_t status = set_port_info(node_, port, wanted, request.change); status != 0) {
            return status;
        }
    }
    mad::PortInfo shown = record->info;
    shown.local_port_num = node_.is_switch() ? request.ingress : port;
    // At level 0 everybody may read it, and take over once the lease is over (IBA 14.2.4.1).
    if (!has_key_ && node_.base_port().info.m_key_protect_bits != 0) {
        shown.m_key = 0;
    }
    MadRef(request.mad).write(mad::kPortInfoTable, kSmpData, shown);
    return kStatusGood;
}

/// One GUID, which is the port's own and read-only (IBA 14.2.5.5).
std::uint16_t SubnetAgent::guid_info(const Request& request) {
    if (request.mad.attribute_modifier() != 0) {
        return kStatusBadValue;
    }
    std::byte* data = request.mad.at(kSmpData);
    std::memset(data, 0, kSmpData);
    store_be64(data, node_.node_info.port_guid);
    return kStatusGood;
}

std::uint16_t SubnetAgent::pkey_table(const Request& request) {
    const std::uint32_t modifier = request.mad.attribute_modifier();
    const std::uint32_t block = modifier & 0xffffU;
    std::uint8_t port = 0;
    PortRecord* record = port_of(node_.is_switch() ? modifier >> 16U : 0, request.ingress, port);
    if (record == nullptr || block >= PkeyTable::kEntries / kPkeysPerBlock) {
        return kStatusBadValue;
    }
    std::uint16_t* entries = &record->pkeys.entries.at(std::size_t{block} * kPkeysPerBlock);
    std::byte* data = request.mad.at(kSmpData);
    for (std::size_t i = 0; i < kPkeysPerBlock; ++i) {
        if (request.is_set) {
            entries[i] = load_be16(data + i * 2);
        }
        store_be16(data + i * 2, entries[i]);
    }
    if (request.is_set) {
        request.change.kind = Change::Kind::kPkeys;
        request.change.port = port;
        request.change.block = static_cast<std::uint16_t>(block);
    }
    return kStatusGood;
}

// The modifier has the port that packets go out through, and in front of it the one that they come in
// through.
std::uint16_t SubnetAgent::sl_to_vl(const Request& request) {
    const std::uint32_t modifier = request.mad.attribute_modifier();
    const std::uint32_t in = node_.is_switch() ? modifier >> 8U & 0xffU : 0;
    std::uint8_t out = 0;
    PortRecord* record = port_of(node_.is_switch() ? modifier & 0xffU : 0, request.ingress, out);
    if (record == nullptr || in >= record->sl_to_vl.size()) {
        return kStatusBadValue;
    }
    mad::SlToVlMapping& mapping = record->sl_to_vl[in];
    if (request.is_set) {
        mapping = request.mad.read<mad::SlToVlMapping>(mad::kSlToVlMappingTable, kSmpData);
        request.change.kind = Change::Kind::kSlToVl;
        request.change.port = out;
        request.change.block = static_cast<std::uint16_t>(in);
    }
    MadRef(request.mad).write(mad::kSlToVlMappingTable, kSmpData, mapping);
    return kStatusGood;
}

std::uint16_t SubnetAgent::vl_arbitration(const Request& request) {
    const std::uint32_t modifier = request.mad.attribute_modifier();
    const std::uint32_t block = modifier >> 16U;
    std::uint8_t port = 0;
    PortRecord* record = port_of(node_.is_switch() ? modifier & 0xffffU : 0, request.ingress, port);
    if (record == nullptr || block == 0 || block > record->vl_arbitration.size() ||
        record->info.vl_arbitration_low_cap <= (block - 1) % 2 * kPkeysPerBlock) {
        return kStatusBadValue;
    }
    mad::VlArbitration& table = record->vl_arbitration.at(block - 1);
    if (request.is_set) {
        table = request.mad.read<mad::VlArbitration>(mad::kVlArbitrationTable, kSmpData);
        request.change.kind = Change::Kind::kVlArbitration;
        request.change.port = port;
        request.change.block = static_cast<std::uint16_t>(block);
    }
    MadRef(request.mad).write(mad::kVlArbitrationTable, kSmpData, table);
    return kStatusGood;
}

std::uint16_t SubnetAgent::linear_forwarding(const Request& request) {
    const std::uint32_t block = request.mad.attribute_modifier();
    if (block >= kLinearFdbCap / kLidsPerBlock) {
        return kStatusBadValue;
    }
    std::uint8_t* ports = &node_.linear.at(std::size_t{block} * kLidsPerBlock);
    if (request.is_set) {
        std::memcpy(ports, request.mad.at(kSmpData), kLidsPerBlock);
        request.change.kind = Change::Kind::kLinear;
        request.change.block = static_cast<std::uint16_t>(block);
    }
    std::memcpy(request.mad.at(kSmpData), ports, kLidsPerBlock);
    return kStatusGood;
}

std::uint16_t SubnetAgent::multicast_forwarding(const Request& request) {
    const std::uint32_t block = request.mad.attribute_modifier() & 0x1ffU;
    const std::uint32_t position = request.mad.attribute_modifier() >> 28U;
    if (block >= kMulticastFdbCap / kMlidsPerBlock || position >= node_.multicast.size()) {
        return kStatusBadValue;
    }
    std::uint16_t* masks = &node_.multicast[position].at(std::size_t{block} * kMlidsPerBlock);
    std::byte* data = request.mad.at(kSmpData);
    for (std::size_t i = 0; i < kMlidsPerBlock; ++i) {
        if (request.is_set) {
            masks[i] = load_be16(data + i * 2);
        }
        store_be16(data + i * 2, masks[i]);
    }
    if (request.is_set) {
        request.change.kind = Change::Kind::kMulticast;
        request.change.block = static_cast<std::uint16_t>(block);
        request.change.position = static_cast<std::uint8_t>(position);
    }
    return kStatusGood;
}

}  // namespace urnic::subnet
