#include "rnic/subnet/subnet_administrator.h"

#include <algorithm>

#include "rnic/subnet/sa_choice.h"
#include "rnic/subnet/sa_components.h"
#include "rnic/subnet/sa_paths.h"
#include "rnic/wire/mad/performance_attributes.h"

namespace urnic::subnet {

namespace {

namespace mad = wire::mad;
namespace mc = member_component;

/// ClassPortInfo:CapabilityMask (IBA table 190).
constexpr std::uint16_t kIsUdMulticastSupported = 1U << 9U;
constexpr std::uint16_t kIsCapabilityMaskMatchSupported = 1U << 13U;
/// And CapabilityMask2.
constexpr std::uint32_t kIsSendOnlyFullMemberSupported = 1U << 12U;
/// A PortInfoRecord's CapabilityMask is one that must have the bits of the request's (IBA 15.2.5.3).
constexpr std::uint32_t kMatchesCapabilityMask = 1U << 31U;

/// How an attribute may be asked for.
struct Method {
    std::uint8_t method;
    std::uint16_t attribute_id;
};
constexpr Method kMethods[] = {
    {wire::kMadGet, mad::kClassPortInfo},       {wire::kMadGet, mad::kNodeRecord},
    {wire::kMadGetTable, mad::kNodeRecord},     {wire::kMadGet, mad::kPortInfoRecord},
    {wire::kMadGetTable, mad::kPortInfoRecord}, {wire::kMadGet, mad::kPathRecord},
    {wire::kMadGetTable, mad::kPathRecord},     {wire::kMadGet, mad::kMcMemberRecord},
    {wire::kMadGetTable, mad::kMcMemberRecord}, {wire::kMadSet, mad::kMcMemberRecord},
    {wire::kMadDelete, mad::kMcMemberRecord},   {wire::kMadSet, mad::kInformInfo},
    {wire::kMadGet, mad::kInformInfoRecord},    {wire::kMadGetTable, mad::kInformInfoRecord},
    {wire::kMadGet, mad::kSmInfoRecord},        {wire::kMadGetTable, mad::kSmInfoRecord},
};

std::uint16_t method_status(std::uint8_t method, std::uint16_t attribute_id) {
    const auto has_method = [&](const Method& each) { return each.method == method; };
    if (std::none_of(std::begin(kMethods), std::end(kMethods), has_method)) {
        return kStatusBadMethod;
    }
    const bool is_one = std::any_of(std::begin(kMethods), std::end(kMethods), [&](const Method& each) {
        return each.method == method && each.attribute_id == attribute_id;
    });
    return is_one ? kStatusGood : kStatusBadAttribute;
}

/// Set is answered by GetResp, the others by responses of their own.
std::uint8_t response_of(std::uint8_t method) {
    return method == wire::kMadSet ? std::uint8_t{wire::kMadGetResponse}
                                   : static_cast<std::uint8_t>(method | 0x80U);
}

std::vector<std::byte> octets(std::initializer_list<std::pair<const wire::HeaderTable*, const void*>> parts) {
    std::vector<std::byte> bytes;
    for (const auto& [table, object] : parts) {
        const std::size_t at = bytes.size();
        bytes.resize(at + table->length_bytes);
        wire::write_fields(*table, object, bytes.data() + at);
    }
    return bytes;
}

template <class T>
T read(const wire::HeaderTable& table, const std::byte* data) {
    T value;
    wire::read_fields(table, data, &value);
    return value;
}

/// Records begin at multiples of eight octets (IBA 15.2.1.1, AttributeOffset).
std::size_t stride_of(std::size_t record_bytes) { return (record_bytes + 7) / 8 * 8; }

}  // namespace

SubnetAdministrator::SubnetAdministrator(const Node& home, std::vector<const Node*> nodes,
                                         std::function<void(const MadPacket&)> send, Succession succession)
    : home_(home), nodes_(std::move(nodes)), send_(std::move(send)), succession_(succession) {
    groups_.add_broadcast(Endpoint(home), wire::kDefaultPkey);
    for (const Node* node : nodes_) {
        for (const std::uint16_t pkey : Endpoint(*node).pkeys().entries) {
            if (wire::is_partition(pkey) && (pkey & wire::kFullMember) != 0) {
                groups_.add_broadcast(Endpoint(home), pkey);
            }
        }
    }
}

bool SubnetAdministrator::handle(const MadPacket& packet, TimeNs now) {
    if (packet.dest_qp == wire::kQp0) {
        return handle_smp(packet, now);
    }
    MadBytes bytes = packet.mad;
    const MadRef mad(bytes);
    if (packet.dest_qp != wire::kQp1 || mad.mgmt_class() != wire::kMadClassSubnetAdministration) {
        return false;
    }
    if (is_rmpp_active(packet.mad) && rmpp_type(packet.mad) != mad::kRmppData) {
        return take_control(packet, now);
    }
    if (mad.is_response()) {
        return subscriptions_.take(packet);
    }
    const auto header = mad.read<mad::SaHeader>(mad::kSaHeaderTable, mad::kSaHeaderOffset);
    if (!Endpoint(home_).pkeys().find(packet.pkey)) {
        ++counters_.drop_pkey;
    } else if (header.sm_key != 0 && header.sm_key != kSmKey) {
        ++counters_.drop_key;
    } else {
        answer(packet, now);
    }
    return true;
}

bool SubnetAdministrator::take_control(const MadPacket& packet, TimeNs now) {
    const auto table = std::find_if(tables_.begin(), tables_.end(),
                                    [&](const RmppTransfer& candidate) { return candidate.is_of(packet); });
    if (table == tables_.end()) {
        return false;
    }
    if (!table->on_control(packet, now, send_)) {
        tables_.erase(table);
    }
    return true;
}

void SubnetAdministrator::answer(MadPacket packet, TimeNs now) {
    MadRef mad(packet.mad);
    const auto header = mad.read<mad::SaHeader>(mad::kSaHeaderTable, mad::kSaHeaderOffset);
    const Request request{mad.method(),          mad.attribute_id(), mad.attribute_modifier(),
                          header.component_mask, header.sm_key != 0, {packet.slid, packet.sl, packet.pkey},
                          packet.src_qp};
    const bool is_repeated = std::any_of(tables_.begin(), tables_.end(),
                                         [&](const RmppTransfer& table) { return table.is_of(packet); });
    if (is_repeated) {
        ++counters_.drop_repeated;
        return;
    }
    Records records;
    std::uint16_t status = method_status(request.method, request.attribute_id);
    if (mad.base_version() != kBaseVersion || mad.class_version() != kSaClassVersion) {
        status = kStatusBadVersion;
    } else if (status == kStatusGood) {
        // What is no record is asked for or set whole.
        const bool is_record =
            request.attribute_id != mad::kClassPortInfo && request.attribute_id != mad::kInformInfo;
        status = is_record && (request.mask & ~known_components(request.attribute_id)) != 0
                     ? std::uint16_t{kSaRequestInvalid}
                     : perform(request, mad.at(mad::kSaDataOffset), records);
    }
    const bool is_table = request.method == wire::kMadGetTable;
    if (status == kStatusGood && !is_table && records.size() != 1) {
        status = records.empty() ? kSaNoRecords : kSaTooManyRecords;
    }
    std::swap(packet.slid, packet.dlid);
    std::swap(packet.src_qp, packet.dest_qp);
    if (status == kStatusGood && is_table) {
        status = reply_with_table(packet, records, now);
    }
    ++act_count_;
    ++counters_.requests;
    counters_.errors += status != kStatusGood ? 1 : 0;
    if (status != kStatusGood || !is_table) {
        reply(packet, status, records);
    }
    report_groups(now);
}

std::uint16_t SubnetAdministrator::perform(const Request& request, const std::byte* data, Records& records) {
    switch (request.attribute_id) {
        case mad::kClassPortInfo:
            add_class_port_info(records);
            return kStatusGood;
        case mad::kNodeRecord:
            return find_nodes(request, data, records);
        case mad::kPortInfoRecord:
            return find_ports(request, data, records);
        case mad::kSmInfoRecord:
            return find_managers(request, data, records);
        case mad::kPathRecord:
            return find_paths(request, data, records);
        case mad::kInformInfo:
            return subscribe(request, data, records);
        case mad::kInformInfoRecord:
            return find_subscriptions(request, data, records);
        default:
            return request.method == wire::kMadSet || request.method == wire::kMadDelete
                       ? change_member(request, data, records)
                       : find_members(request, data, records);
    }
}

void SubnetAdministrator::add_class_port_info(Records& records) const {
    mad::ClassPortInfo info;
    info.base_version = kBaseVersion;
    info.class_version = kSaClassVersion;
    info.capability_mask = kIsUdMulticastSupported | kIsCapabilityMaskMatchSupported;
    info.capability_mask2 = kIsSendOnlyFullMemberSupported;
    info.resp_time_value = Endpoint(home_).info().resp_time_value;
    records.push_back(octets({{&mad::kClassPortInfoTable, &info}}));
}

/// Of nodes that have a LID: records are found by it.
std::uint16_t SubnetAdministrator::find_nodes(const Request& request, const std::byte* data,
                                              Records& records) const {
    for (const Node* node : nodes_) {
        const mad::LidRecord lid{node->lid()};
        mad::NodeInfo info = node->node_info;
        info.local_port_num = node->is_switch() ? 0 : 1;
        std::vector<std::byte> record = octets({{&mad::kLidRecordTable, &lid},
                                                {&mad::kNodeInfoTable, &info},
                                                {&mad::kNodeDescriptionTable, &node->description}});
        if (node->lid() != 0 && components_match(request.attribute_id, request.mask, data, record.data())) {
            records.push_back(std::move(record));
        }
    }
    return kStatusGood;
}

std::uint16_t SubnetAdministrator::find_ports(const Request& request, const std::byte* data,
                                              Records& records) const {
    const bool has_bits =
        (request.modifier & kMatchesCapabilityMask) != 0 && (request.mask & kCapabilityMaskComponent) != 0;
    const std::uint64_t mask = has_bits ? request.mask & ~kCapabilityMaskComponent : request.mask;
    const auto wanted = read<mad::PortInfo>(mad::kPortInfoTable, data + mad::kPortRecordTable.length_bytes);
    for (const Node* node : nodes_) {
        for (std::size_t number = node->is_switch() ? 0 : 1; number < node->ports.size(); ++number) {
            mad::PortInfo info = node->ports[number].info;
            const mad::PortRecord place{node->lid(), static_cast<std::uint8_t>(number), 0};
            // Who knows the M_Key rules the port.
            info.m_key = request.is_trusted ? info.m_key : 0;
            std::vector<std::byte> record =
                octets({{&mad::kPortRecordTable, &place}, {&mad::kPortInfoTable, &info}});
            const bool has_capabilities =
                !has_bits || (info.capability_mask & wanted.capability_mask) == wanted.capability_mask;
            if (node->lid() != 0 && has_capabilities &&
                components_match(request.attribute_id, mask, data, record.data())) {
                records.push_back(std::move(record));
            }
        }
    }
    return kStatusGood;
}

/// The one that answers.
std::uint16_t SubnetAdministrator::find_managers(const Request& request, const std::byte* data,
                                                 Records& records) const {
    const mad::LidRecord lid{home_.lid()};
    mad::SmInfo info = sm_info();
    info.sm_key = request.is_trusted ? info.sm_key : 0;
    std::vector<std::byte> record = octets({{&mad::kLidRecordTable, &lid}, {&mad::kSmInfoTable, &info}});
    if (components_match(request.attribute_id, request.mask, data, record.data())) {
        records.push_back(std::move(record));
    }
    return kStatusGood;
}

std::uint16_t SubnetAdministrator::find_paths(const Request& request, const std::byte* data,
                                              Records& records) const {
    const auto wanted = read<mad::PathRecord>(mad::kPathRecordTable, data);
    std::vector<mad::PathRecord> paths;
    const std::uint16_t status =
        subnet::find_paths(endpoints_of(nodes_), groups_, wanted, request.mask,
                           kMaxTableBytes / stride_of(mad::kPathRecordTable.length_bytes), paths);
    for (const mad::PathRecord& path : paths) {
        records.push_back(octets({{&mad::kPathRecordTable, &path}}));
    }
    return status;
}

std::uint16_t SubnetAdministrator::find_members(const Request& request, const std::byte* data,
                                                Records& records) const {
    // Within bounds, not the same; and a member has all states that are named, perhaps others.
    constexpr std::uint64_t kNotCompared = mc::kMtuSelector | mc::kMtu | mc::kRateSelector | mc::kRate |
                                           mc::kLifeSelector | mc::kLife | mc::kJoinState;
    const auto wanted = read<mad::McMemberRecord>(mad::kMcMemberRecordTable, data);
    const auto bound = [&](std::uint64_t components, std::uint8_t selector, std::uint8_t value) {
        return bound_of((request.mask & components) == components, selector, value);
    };
    const Bound mtu = bound(mc::kMtu | mc::kMtuSelector, wanted.mtu_selector, wanted.mtu);
    const Bound rate = bound(mc::kRate | mc::kRateSelector, wanted.rate_selector, wanted.rate);
    const Bound life =
        bound(mc::kLife | mc::kLifeSelector, wanted.packet_life_time_selector, wanted.packet_life_time);
    // Who is a member is told to who is trusted (IBA 15.4.1.2).
    for (const mad::McMemberRecord& each : groups_.records(request.is_trusted)) {
        const bool has_states = (request.mask & mc::kJoinState) == 0 ||
                                (each.join_state & wanted.join_state) == wanted.join_state;
        std::vector<std::byte> record = octets({{&mad::kMcMemberRecordTable, &each}});
        if (has_states && mtu_fits(mtu, each.mtu) && rate_fits(rate, each.rate) &&
            life_time_fits(life, each.packet_life_time) &&
            components_match(request.attribute_id, request.mask & ~kNotCompared, data, record.data())) {
            records.push_back(std::move(record));
        }
    }
    return kStatusGood;
}

std::uint16_t SubnetAdministrator::change_member(const Request& request, const std::byte* data,
                                                 Records& records) {
    auto record = read<mad::McMemberRecord>(mad::kMcMemberRecordTable, data);
    if ((request.mask & mc::kPortGid) == 0) {
        return kSaInsufficientComponents;
    }
    const std::vector<Endpoint> endpoints = endpoints_of(nodes_);
    const Endpoint* const port = find_gid(endpoints, record.port_gid);
    if (port == nullptr) {
        return kSaInvalidGid;
    }
    // For others only who is trusted and says so (ProxyJoin).
    const bool is_proxy = request.is_trusted && (request.mask & mc::kProxyJoin) != 0 && record.proxy_join;
    if (!port->has_lid(request.from.lid) && !is_proxy) {
        return kSaRequestInvalid;
    }
    const std::uint16_t status = request.method == wire::kMadSet ? groups_.join(*port, request.mask, record)
                                                                 : groups_.leave(*port, request.mask, record);
    if (status == kStatusGood) {
        records.push_back(octets({{&mad::kMcMemberRecordTable, &record}}));
    }
    return status;
}

std::uint16_t SubnetAdministrator::subscribe(const Request& request, const std::byte* data,
                                             Records& records) {
    const std::vector<Endpoint> endpoints = endpoints_of(nodes_);
    const Endpoint* const subscriber = find_lid(endpoints, request.from.lid);
    if (subscriber == nullptr) {
        return kSaRequestInvalid;
    }
    const auto info = read<mad::InformInfo>(mad::kInformInfoTable, data);
    const std::uint16_t status =
        subscriptions_.set(info, *subscriber, endpoints, request.from, request.src_qp);
    if (status == kStatusGood) {
        records.push_back(octets({{&mad::kInformInfoTable, &info}}));
    }
    return status;
}

/// Of ports that share a partition with who asks.
std::uint16_t SubnetAdministrator::find_subscriptions(const Request& request, const std::byte* data,
                                                      Records& records) const {
    const std::vector<Endpoint> endpoints = endpoints_of(nodes_);
    const Endpoint* const asker = find_lid(endpoints, request.from.lid);
    for (const SaSubscriptions::Record& each : subscriptions_.records()) {
        // The InformInfo begins where the other part's length ends.
        std::vector<std::byte> record =
            octets({{&mad::kSubscriberRecordTable, &each.subscriber}, {&mad::kInformInfoTable, &each.info}});
        const Endpoint* const owner = find_gid(endpoints, each.subscriber.subscriber_gid);
        const bool is_open = asker != nullptr && owner != nullptr &&
                             shared_pkey(asker->pkeys(), owner->pkeys(), std::nullopt).has_value();
        if (is_open && components_match(request.attribute_id, request.mask, data, record.data())) {
            records.push_back(std::move(record));
        }
    }
    return kStatusGood;
}

/// One MAD; with an error the request's own data, of which InformInfo says that nothing is subscribed to (IBA
/// 13.4.11, o13-13).
void SubnetAdministrator::reply(MadPacket packet, std::uint16_t status, const Records& records) {
    constexpr std::size_t kSubscribeOctet = 23;
    MadRef mad(packet.mad);
    if (status != kStatusGood && mad.attribute_id() == mad::kInformInfo) {
        *mad.at(mad::kSaDataOffset + kSubscribeOctet) = std::byte{0};
    }
    std::fill_n(mad.at(mad::kRmppOffset), mad::kSaHeaderOffset - mad::kRmppOffset, std::byte{0});
    if (status == kStatusGood) {
        std::fill_n(mad.at(mad::kSaDataOffset), wire::kMadBytes - mad::kSaDataOffset, std::byte{0});
        std::copy(records.front().begin(), records.front().end(), mad.at(mad::kSaDataOffset));
    }
    mad.set_method(response_of(mad.method()));
    mad.set_status(status);
    send_(packet);
}

/// By RMPP, whatever its length is (IBA 15.4.6). Nothing that matches is a table without records.
std::uint16_t SubnetAdministrator::reply_with_table(const MadPacket& packet, const Records& records,
                                                    TimeNs now) {
    const std::size_t stride = records.empty() ? 0 : stride_of(records.front().size());
    if (tables_.size() >= kMaxTables || stride * records.size() > kMaxTableBytes) {
        return kSaNoResources;
    }
    MadPacket first = packet;
    MadRef mad(first.mad);
    auto header = mad.read<mad::SaHeader>(mad::kSaHeaderTable, mad::kSaHeaderOffset);
    header.attribute_offset = static_cast<std::uint16_t>(stride / 8);
    mad.write(mad::kSaHeaderTable, mad::kSaHeaderOffset, header);
    mad.set_method(response_of(mad.method()));
    mad.set_status(kStatusGood);
    std::vector<std::byte> message(first.mad.begin(), first.mad.begin() + mad::kSaDataOffset);
    for (const std::vector<std::byte>& record : records) {
        message.insert(message.end(), record.begin(), record.end());
        message.resize(message.size() + stride - record.size());
    }
    tables_.emplace_back(first, message, now).pump(send_);
    return kStatusGood;
}

void SubnetAdministrator::advance(TimeNs now) {
    tables_.remove_if([&](RmppTransfer& table) { return !table.advance(now, send_); });
    subscriptions_.advance(now, send_);
    if (succession_ == Succession::kHandsOver) {
        handover_.advance(other_managers(), now, send_);
    }
}

TimeNs SubnetAdministrator::next_event() const {
    TimeNs next = std::min(subscriptions_.next_event(), handover_.next_event());
    for (const RmppTransfer& table : tables_) {
        next = std::min(next, table.next_event());
    }
    return next;
}

}  // namespace urnic::subnet
