#include "rnic/wire/dissect/describe.h"

#include "rnic/wire/dissect/describe_mad.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/dissect/ipoib/ipoib.h"
#include "rnic/wire/dissect/table_layer.h"
#include "rnic/wire/mad/mad.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

namespace {

DescribedField number_field(const char* name, std::uint64_t value, std::string text) {
    return {name, std::move(text), true, value};
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
    if (service == kServiceUd && packet.link == LinkLayer::kInfiniBand && can_be_ipoib(packet.payload)) {
        return true;
    }
    return is_ipoib(packet.payload, packet.payload_bytes,
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
