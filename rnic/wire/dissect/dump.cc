#include "rnic/wire/dissect/dump.h"

#include <algorithm>

#include "base/address_text.h"
#include "rnic/wire/dissect/describe.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

namespace {

constexpr std::size_t kBytesPerLine = 16;

std::string addresses(const Packet& packet) {
    if (packet.network == Network::kIpv4) {
        return ipv4_text(packet.ipv4.src_address) + " > " + ipv4_text(packet.ipv4.dst_address);
    }
    if (packet.network == Network::kIpv6 || packet.network == Network::kGrh) {
        return gid_text(packet.grh.src_gid) + " > " + gid_text(packet.grh.dst_gid);
    }
    if (packet.link == LinkLayer::kInfiniBand) {
        return "lid " + hex_text(packet.lrh.slid, 4) + " > " + hex_text(packet.lrh.dlid, 4);
    }
    return mac_text(packet.ethernet.src_mac) + " > " + mac_text(packet.ethernet.dst_mac);
}

/// " RETH{va=0x... rkey=0x...}": a table's fields on the line.
std::string braces(const HeaderTable& table, const void* object) {
    std::string text = std::string(" ") + table.name + "{";
    for (const Field& field : table.fields) {
        if (&field != table.fields.data()) {
            text += ' ';
        }
        text += field.name;
        text += '=';
        text += field_text(field, object);
    }
    return text + "}";
}

std::string transport_summary(const Packet& packet) {
    const PacketHeader& header = packet.transport;
    const OpcodeInfo& info = opcode_info(header.opcode);
    std::string text = info.name;
    if ((info.flags & kValid) == 0) {
        text += " opcode " + hex_text(header.opcode, 2);
    }
    text += " qp=" + hex_text(header.dest_qp, 6) + " psn=" + std::to_string(header.psn.value());
    const struct {
        bool set;
        const char* name;
    } flags[] = {{header.solicited, " solicited"},
                 {header.ack_req, " ack_req"},
                 {header.fecn, " fecn"},
                 {header.becn, " becn"}};
    for (const auto& flag : flags) {
        text += flag.set ? flag.name : "";
    }
    if (packet.outcome != Outcome::kCut) {
        for (const ExtendedHeader& extended : extended_headers()) {
            if ((info.headers & extended.mask) != 0 && !extended.table.fields.empty()) {
                text += braces(extended.table, &header);
            }
        }
    }
    if (packet.payload_bytes != 0) {
        text += " payload=" + std::to_string(packet.payload_bytes);
    }
    return text;
}

/// The fields of a payload's layers that stand on the line: those that name the conversation and its step.
struct ShownField {
    const char* layer;  // how its name begins
    const char* field;
};
constexpr ShownField kShownFields[] = {
    {"MAD", "mgmt_class"},     {"MAD", "method"},         {"MAD", "transaction_id"}, {"MAD", "attribute"},
    {"SMP", "method"},         {"SMP", "direction"},      {"SMP", "hop_pointer"},    {"SMP", "hop_count"},
    {"SMP", "transaction_id"}, {"SMP", "attribute"},      {"CM", "request_id"},      {"CM", "local_comm_id"},
    {"CM", "remote_comm_id"},  {"CM", "service_id"},      {"CM", "local_qpn"},       {"CM", "qpn"},
    {"CM", "starting_psn"},    {"CM", "remote_qpn_eecn"}, {"CM", "status"},          {"CM", "ap_status"},
    {"CM", "reason"},          {"CM", "message_mraed"},   {"IP CM", "src_port"},     {"IP CM", "src_address"},
    {"IP CM", "dst_address"},  {"IPoIB", "ether_type"},   {"ARP", "operation"},      {"ARP", "sender_ip"},
    {"ARP", "target_ip"},      {"IPv", "src_address"},    {"IPv", "dst_address"},    {"IPv", "src_gid"},
    {"IPv", "dst_gid"},        {"IPv", "protocol"},       {"IPv", "next_header"},
};

bool is_shown(const Layer& layer, const DescribedField& field) {
    return field.is_shown ||
           std::any_of(std::begin(kShownFields), std::end(kShownFields), [&](const ShownField& shown) {
               return layer.name.starts_with(shown.layer) && field.name == shown.field;
           });
}

std::string layers_summary(std::span<const Layer> layers) {
    std::string text;
    for (const Layer& layer : layers) {
        std::string fields;
        for (const DescribedField& field : layer.fields) {
            if (is_shown(layer, field)) {
                fields += fields.empty() ? "" : " ";
                fields += field.name + "=" + field.text;
            }
        }
        text += ' ';
        text += layer.name;
        if (!fields.empty()) {
            text += '{';
            text += fields;
            text += '}';
        }
    }
    return text;
}

std::string what(const Packet& packet, std::span<const Layer> upper) {
    if (packet.has_transport) {
        return transport_summary(packet) + layers_summary(describe_payload(packet)) + layers_summary(upper);
    }
    if (packet.has_pfc) {
        std::string text = "PFC";
        for (std::size_t i = 0; i < 8; ++i) {
            if ((packet.pfc.class_enable >> i & 1U) != 0) {
                text += " class" + std::to_string(i) + "=" + std::to_string(packet.pfc.pause_quanta[i]);
            }
        }
        return text;
    }
    if (packet.network == Network::kRawHeader) {
        return "raw, EtherType " + hex_text(packet.raw.ether_type, 4);
    }
    if (packet.network == Network::kIpv4) {
        const char* name = ip_protocol_name(packet.ipv4.protocol);
        return name != nullptr ? name : "IP protocol " + std::to_string(packet.ipv4.protocol);
    }
    if (packet.network == Network::kIpv6 || packet.network == Network::kGrh) {
        const char* name = ip_protocol_name(packet.grh.next_header);
        return name != nullptr ? name : "next header " + std::to_string(packet.grh.next_header);
    }
    if (packet.link == LinkLayer::kInfiniBand) {
        return "LRH";
    }
    const std::uint16_t type =
        packet.vlan_count != 0 ? packet.vlan[packet.vlan_count - 1U].ether_type : packet.ethernet.ether_type;
    const char* name = ether_type_name(type);
    return name != nullptr ? name : "EtherType " + hex_text(type, 4);
}

std::string hex_lines(std::span<const std::byte> bytes, const std::string& indent) {
    std::string text;
    for (std::size_t line = 0; line < bytes.size(); line += kBytesPerLine) {
        text += indent;
        text.append(hex_text(line, 4), 2);
        text += ' ';
        for (std::size_t i = line; i < bytes.size() && i < line + kBytesPerLine; ++i) {
            text += ' ';
            text.append(hex_text(std::to_integer<std::uint64_t>(bytes[i]), 2), 2);
        }
        text += "\n";
    }
    return text;
}

}  // namespace

std::string summary(const Packet& packet, std::span<const Layer> upper) {
    std::string text = addresses(packet) + " " + what(packet, upper);
    const struct {
        const char* name;
        CheckVerdict verdict;
        bool shown_when_good;
    } checks[] = {{"ip_checksum", packet.ip_checksum, false},
                  {"udp_checksum", packet.udp_checksum, false},
                  {"icrc", packet.icrc_verdict, true},
                  {"vcrc", packet.vcrc_verdict, true}};
    for (const auto& check : checks) {
        const bool quiet = check.verdict == CheckVerdict::kAbsent ||
                           (check.verdict == CheckVerdict::kGood && !check.shown_when_good);
        if (!quiet) {
            text += std::string(" ") + check.name + "=" + verdict_name(check.verdict);
        }
    }
    if (packet.outcome == Outcome::kCut) {
        text += std::string(" [cut in ") + packet.reason + "]";
    } else if (packet.outcome != Outcome::kComplete) {
        text += std::string(" [") + outcome_name(packet.outcome) + ": " + packet.reason + "]";
    }
    if (packet.captured_bytes != packet.wire_bytes) {
        text += " [" + std::to_string(packet.captured_bytes) + " of " + std::to_string(packet.wire_bytes) +
                " bytes captured]";
    }
    return text;
}

std::string dump(const Packet& packet, const std::string& indent, std::span<const Layer> upper) {
    std::string text;
    for (const Layer& layer : describe(packet, upper)) {
        text += indent + layer.name + "\n";
        for (const DescribedField& field : layer.fields) {
            text += indent + "  " + field.name + ": " + field.text + "\n";
        }
        if (layer.name == "payload") {
            text += hex_lines(packet.payload, indent + "  ");
        }
    }
    return text;
}

}  // namespace urnic::wire
