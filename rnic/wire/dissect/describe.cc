#include "rnic/wire/dissect/describe.h"

#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/dissect/ipoib/ipoib.h"
#include "rnic/wire/mad/cm.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

namespace {

DescribedField number_field(const char* name, std::uint64_t value, std::string text) {
    return {name, std::move(text), true, value};
}

Layer layer_of(const HeaderTable& table, const void* object) {
    Layer layer{table.name, {}};
    for (const Field& field : table.fields) {
        const bool is_number = !field.is_bytes();
        layer.fields.push_back(
            {field.name, field_text(field, object), is_number, is_number ? field_number(field, object) : 0});
    }
    return layer;
}

/// A header at the front of `bytes`; the rest of them is left in `bytes`. Returns whether they hold it.
template <class T>
bool take_layer(const HeaderTable& table, std::span<const std::byte>& bytes, T& object,
                std::vector<Layer>& layers) {
    if (bytes.size() < table.length_bytes) {
        return false;
    }
    read_fields(table, bytes.data(), &object);
    layers.push_back(layer_of(table, &object));
    bytes = bytes.subspan(table.length_bytes);
    return true;
}

/// The RDMA IP CM service's own header lies at the front of the private data of REQ and SIDR_REQ.
template <class M>
void add_ip_cm_header(const M& message, std::vector<Layer>& layers) {
    if constexpr (requires { message.service_id; }) {
        if (!std::is_same_v<M, cm::SidrRep> && cm::is_ip_cm_service(message.service_id)) {
            cm::IpCmHeader header;
            read_fields(cm::kIpCmHeaderTable, reinterpret_cast<const std::byte*>(message.private_data.data()),
                        &header);
            layers.push_back(layer_of(cm::kIpCmHeaderTable, &header));
        }
    }
}

void add_cm_message(std::uint16_t attribute_id, std::span<const std::byte> body, std::vector<Layer>& layers) {
    if (body.size() < cm::kMessageBytes) {
        return;
    }
    const std::optional<cm::Message> message =
        cm::parse_message(attribute_id, body.first<cm::kMessageBytes>());
    if (!message) {
        return;
    }
    std::visit(
        [&layers](const auto& one) {
            layers.push_back(layer_of(one.table(), &one));
            add_ip_cm_header(one, layers);
        },
        *message);
}

void add_mad(std::span<const std::byte> payload, std::vector<Layer>& layers) {
    if (payload.size() < kMadHeaderBytes) {
        return;
    }
    MadHeader header;
    read_fields(kMadTable, payload.data(), &header);
    if (header.mgmt_class == kMadClassSubnetDirected) {
        SmpDirected smp;
        if (!take_layer(kSmpDirectedTable, payload, smp, layers)) {
            return;
        }
    } else {
        (void)take_layer(kMadTable, payload, header, layers);
    }
    if (const char* name = mad_attribute_name(header.mgmt_class, header.attribute_id)) {
        layers.back().fields.push_back({"attribute", name});
    }
    if (header.mgmt_class == kMadClassCommunication) {
        add_cm_message(header.attribute_id, payload, layers);
    } else if (header.mgmt_class == kMadClassSubnetLidRouted) {
        SmpLidRouted smp;
        (void)take_layer(kSmpLidRoutedTable, payload, smp, layers);
    }
}

void add_ipoib(std::span<const std::byte> payload, std::vector<Layer>& layers) {
    IpoibEncapsulation encapsulation;
    if (!take_layer(kIpoibEncapsulationTable, payload, encapsulation, layers)) {
        return;
    }
    IpoibArp arp;
    Ipv4 ipv4;
    Grh ipv6;
    switch (encapsulation.ether_type) {
        case kEtherTypeArp:
        case kEtherTypeRarp:
            (void)take_layer(kIpoibArpTable, payload, arp, layers);
            break;
        case kEtherTypeIpv4:
            (void)take_layer(kIpv4Table, payload, ipv4, layers);
            break;
        case kEtherTypeIpv6:
            (void)take_layer(kIpv6Table, payload, ipv6, layers);
            break;
        default:
            break;
    }
}

void add_link(const Packet& packet, std::vector<Layer>& layers) {
    if (packet.link == LinkLayer::kInfiniBand) {
        layers.push_back(layer_of(kLrhTable, &packet.lrh));
        return;
    }
    layers.push_back(layer_of(kEthernetTable, &packet.ethernet));
    for (std::size_t i = 0; i < packet.vlan_count && i < packet.vlan.size(); ++i) {
        layers.push_back(layer_of(kVlanTable, &packet.vlan[i]));
    }
    if (packet.has_pfc) {
        layers.push_back(layer_of(kPfcTable, &packet.pfc));
    }
}

void add_network(const Packet& packet, std::vector<Layer>& layers) {
    switch (packet.network) {
        case Network::kIpv4:
            layers.push_back(layer_of(kIpv4Table, &packet.ipv4));
            break;
        case Network::kIpv6:
            layers.push_back(layer_of(kIpv6Table, &packet.grh));
            break;
        case Network::kGrh:
            layers.push_back(layer_of(kGrhTable, &packet.grh));
            break;
        case Network::kRawHeader:
            layers.push_back(layer_of(kRawHeaderTable, &packet.raw));
            break;
        case Network::kNone:
            break;
    }
    if (packet.has_udp) {
        layers.push_back(layer_of(kUdpTable, &packet.udp));
    }
}

void add_transport(const Packet& packet, std::vector<Layer>& layers) {
    layers.push_back(layer_of(kBthTable, &packet.transport));
    if (packet.outcome == Outcome::kCut) {
        return;  // the extended headers were not captured whole
    }
    const std::uint16_t mask = opcode_info(packet.transport.opcode).headers;
    for (const ExtendedHeader& extended : extended_headers()) {
        if ((mask & extended.mask) != 0) {
            layers.push_back(layer_of(extended.table, &packet.transport));
        }
    }
}

void add_checks(const Packet& packet, std::vector<Layer>& layers) {
    Layer checks{"checks", {}};
    const auto add = [&checks](const char* name, CheckVerdict verdict, const std::string& value) {
        if (verdict != CheckVerdict::kAbsent) {
            const bool has_value = verdict != CheckVerdict::kNotCaptured && !value.empty();
            checks.fields.push_back({name, (has_value ? value + " " : "") + verdict_name(verdict)});
        }
    };
    add("ip_checksum", packet.ip_checksum, "");
    add("udp_checksum", packet.udp_checksum, "");
    add("icrc", packet.icrc_verdict, hex_text(packet.icrc, 8));
    add("vcrc", packet.vcrc_verdict, hex_text(packet.vcrc, 4));
    checks.fields.push_back({"outcome", outcome_name(packet.outcome)});
    if (*packet.reason != '\0') {
        checks.fields.push_back({"reason", packet.reason});
    }
    if (packet.captured_bytes != packet.wire_bytes) {
        checks.fields.push_back(
            number_field("captured_bytes", packet.captured_bytes, std::to_string(packet.captured_bytes)));
    }
    checks.fields.push_back(number_field("wire_bytes", packet.wire_bytes, std::to_string(packet.wire_bytes)));
    if (packet.trailer_bytes != 0) {
        checks.fields.push_back(
            number_field("trailer_bytes", packet.trailer_bytes, std::to_string(packet.trailer_bytes)));
    }
    layers.push_back(std::move(checks));
}

}  // namespace

namespace {

/// The encapsulation stands at the front of a message: of a datagram, and of a SEND in connected mode.
bool carries_ipoib(const Packet& packet) {
    const std::uint8_t service = packet.transport.opcode & kServiceMask;
    const std::uint16_t flags = opcode_info(packet.transport.opcode).flags;
    if ((service != kServiceUd && service != kServiceRc && service != kServiceUc) || (flags & kIsSend) == 0 ||
        (flags & kStarts) == 0) {
        return false;
    }
    // Datagrams of a native link are IPoIB's or a MAD in all that is usual: a hint is enough.
    if (service == kServiceUd && packet.link == LinkLayer::kInfiniBand && looks_like_ipoib(packet.payload)) {
        return true;
    }
    return holds_ipoib(packet.payload, packet.payload_bytes,
                       (flags & kEnds) != 0 ? MessagePart::kWhole : MessagePart::kFirst);
}

}  // namespace

std::vector<Layer> describe_payload(const Packet& packet) {
    std::vector<Layer> layers;
    if (!packet.has_transport) {
        return layers;
    }
    const bool is_datagram = (packet.transport.opcode & kServiceMask) == kServiceUd;
    if (is_datagram && packet.transport.dest_qp <= kQp1) {
        add_mad(packet.payload, layers);
    } else if (carries_ipoib(packet)) {
        add_ipoib(packet.payload, layers);
    }
    return layers;
}

std::vector<Layer> describe(const Packet& packet, std::span<const Layer> upper) {
    std::vector<Layer> layers;
    add_link(packet, layers);
    add_network(packet, layers);
    if (packet.has_transport) {
        add_transport(packet, layers);
    }
    std::vector<Layer> inner = describe_payload(packet);
    layers.insert(layers.end(), std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
    layers.insert(layers.end(), upper.begin(), upper.end());
    if (packet.payload_bytes != 0) {
        layers.push_back(
            {"payload",
             {number_field("length", packet.payload_bytes, std::to_string(packet.payload_bytes)),
              number_field("captured", packet.payload.size(), std::to_string(packet.payload.size()))}});
    }
    add_checks(packet, layers);
    return layers;
}

const char* verdict_name(CheckVerdict verdict) {
    constexpr std::array<const char*, 4> kNames = {"absent", "good", "BAD", "not captured"};
    return kNames[static_cast<std::size_t>(verdict)];
}

const char* outcome_name(Outcome outcome) {
    constexpr std::array<const char*, 4> kNames = {"complete", "foreign", "cut", "malformed"};
    return kNames[static_cast<std::size_t>(outcome)];
}

}  // namespace urnic::wire
