// Captured bytes into a Packet: every length is checked against the wire and against what was captured.
#include <algorithm>

#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/crc/vcrc.h"
#include "rnic/wire/dissect/ib/crc.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

namespace {

/// Walks through the captured bytes; `end` is where the packet ends on the wire by its own lengths.
class Parser {
  public:
    Parser(std::span<const std::byte> captured, std::size_t wire_bytes, Packet& packet)
        : captured_(captured), end_(wire_bytes), packet_(packet) {}

    void ethernet();
    void infiniband();

  private:
    bool take(const HeaderTable& table, void* object);
    void stop(Outcome outcome, const char* reason) {
        packet_.outcome = outcome;
        packet_.reason = reason;
    }
    bool ends_at(std::size_t end, const char* reason);
    void ethernet_payload(std::uint16_t ether_type);
    void pfc();
    void ipv4();
    void ipv6();
    void udp(std::span<const std::byte> addresses);
    void grh(IcrcScope scope);
    void raw(std::size_t length);
    void transport(IcrcScope scope, std::size_t covered_from);
    void finish_transport(IcrcScope scope, std::size_t covered_from, const OpcodeInfo& info);
    void rest_is_payload();
    void check_vcrc(std::size_t at);

    /// What was captured of [from, to).
    [[nodiscard]] std::span<const std::byte> slice(std::size_t from, std::size_t to) const {
        from = std::min(from, captured_.size());
        return captured_.subspan(from, std::clamp(to, from, captured_.size()) - from);
    }
    [[nodiscard]] bool has(std::size_t to) const { return to <= captured_.size(); }

    std::span<const std::byte> captured_;
    std::size_t at_ = 0;
    std::size_t end_;
    Packet& packet_;
};

bool Parser::take(const HeaderTable& table, void* object) {
    if (end_ - at_ < table.length_bytes) {
        stop(Outcome::kMalformed, table.name);
        return false;
    }
    if (!has(at_ + table.length_bytes)) {
        stop(Outcome::kCut, table.name);
        return false;
    }
    read_fields(table, &captured_[at_], object);
    at_ += table.length_bytes;
    return true;
}

/// Sets where the packet ends by its own account.
bool Parser::ends_at(std::size_t end, const char* reason) {
    if (end < at_ || end > end_) {
        stop(Outcome::kMalformed, reason);
        return false;
    }
    packet_.trailer_bytes = end_ - end;
    end_ = end;
    return true;
}

void Parser::rest_is_payload() {
    packet_.payload = slice(at_, end_);
    packet_.payload_bytes = end_ - at_;
}

void Parser::ethernet() {
    packet_.link = LinkLayer::kEthernet;
    if (!take(kEthernetTable, &packet_.ethernet)) {
        return;
    }
    std::uint16_t ether_type = packet_.ethernet.ether_type;
    while ((ether_type == kEtherTypeVlan || ether_type == kEtherTypeServiceVlan) &&
           packet_.vlan_count < packet_.vlan.size()) {
        VlanTag& tag = packet_.vlan[packet_.vlan_count];
        if (!take(kVlanTable, &tag)) {
            return;
        }
        ++packet_.vlan_count;
        ether_type = tag.ether_type;
    }
    ethernet_payload(ether_type);
}

void Parser::ethernet_payload(std::uint16_t ether_type) {
    switch (ether_type) {
        case kEtherTypeIpv4:
            return ipv4();
        case kEtherTypeIpv6:
            return ipv6();
        case kEtherTypeRocev1:
            return grh(IcrcScope::kGrh);
        case kEtherTypeMacControl:
            return pfc();
        default:
            rest_is_payload();
            stop(Outcome::kForeign, "EtherType is not of RoCE");
    }
}

void Parser::pfc() {
    if (!take(kPfcTable, &packet_.pfc)) {
        return;
    }
    packet_.has_pfc = packet_.pfc.opcode == kMacControlPfc;
    if (!packet_.has_pfc) {
        stop(Outcome::kForeign, "MAC control, not PFC");
    }
    packet_.trailer_bytes = end_ - at_;
}

void Parser::ipv4() {
    const std::size_t ip = at_;
    if (!take(kIpv4Table, &packet_.ipv4)) {
        return;
    }
    const Ipv4& ipv4 = packet_.ipv4;
    packet_.network = Network::kIpv4;
    const std::size_t header_bytes = std::size_t{ipv4.header_words} * 4;
    if (ipv4.version != 4 || header_bytes < kIpv4Bytes) {
        return stop(Outcome::kMalformed, "IPv4 version or header length");
    }
    packet_.ip_checksum = CheckVerdict::kNotCaptured;
    const std::size_t header_end = ip + header_bytes;
    if (has(header_end)) {
        const bool good = checksum_fold(checksum_sum(slice(ip, header_end))) == 0;
        packet_.ip_checksum = good ? CheckVerdict::kGood : CheckVerdict::kBad;
    }
    if (!ends_at(ip + ipv4.total_length, "IPv4 total length")) {
        return;
    }
    const bool fragment = ipv4.more_fragments || ipv4.fragment_offset != 0;
    if (fragment || ipv4.protocol != kProtocolUdp) {
        rest_is_payload();
        return stop(Outcome::kForeign, fragment ? "fragment" : "IPv4, not UDP");
    }
    if (header_end != at_) {
        rest_is_payload();
        return stop(Outcome::kForeign, "IPv4 options, which RoCEv2 has not");
    }
    udp(slice(ip + kIpv4Source, ip + kIpv4Bytes));
}

void Parser::ipv6() {
    const std::size_t ip = at_;
    if (!take(kIpv6Table, &packet_.grh)) {
        return;
    }
    packet_.network = Network::kIpv6;
    if (packet_.grh.version != 6) {
        return stop(Outcome::kMalformed, "IPv6 version");
    }
    if (!ends_at(at_ + packet_.grh.payload_length, "IPv6 payload length")) {
        return;
    }
    if (packet_.grh.next_header != kProtocolUdp) {
        rest_is_payload();
        return stop(Outcome::kForeign, "IPv6, not UDP");
    }
    udp(slice(ip + kIpv6Source, ip + kIpv6Bytes));
}

void Parser::udp(std::span<const std::byte> addresses) {
    const std::size_t udp = at_;
    if (!take(kUdpTable, &packet_.udp)) {
        return;
    }
    packet_.has_udp = true;
    const std::size_t datagram_end = udp + packet_.udp.length;
    if (packet_.udp.dst_port != kRocev2UdpPort) {
        rest_is_payload();
        return stop(Outcome::kForeign, "UDP, not port 4791");
    }
    if (packet_.udp.length < kUdpBytes || datagram_end != end_) {
        return stop(Outcome::kMalformed, "UDP length");
    }
    if (packet_.udp.checksum != 0) {
        const bool good = has(datagram_end) && udp_checksum(addresses, slice(udp, datagram_end)) == 0;
        packet_.udp_checksum = !has(datagram_end) ? CheckVerdict::kNotCaptured
                               : good             ? CheckVerdict::kGood
                                                  : CheckVerdict::kBad;
    }
    const bool is_ipv4 = packet_.network == Network::kIpv4;
    transport(is_ipv4 ? IcrcScope::kIpv4 : IcrcScope::kIpv6, udp - (is_ipv4 ? kIpv4Bytes : kIpv6Bytes));
}

void Parser::grh(IcrcScope scope) {
    if (!take(kGrhTable, &packet_.grh)) {
        return;
    }
    packet_.network = Network::kGrh;
    if (packet_.grh.version != 6) {
        return stop(Outcome::kMalformed, "GRH version");
    }
    const std::size_t end = at_ + packet_.grh.payload_length;
    if (scope == IcrcScope::kGrh ? !ends_at(end, "GRH payload length") : end != end_) {
        return stop(Outcome::kMalformed, "GRH payload length");
    }
    if (packet_.grh.next_header != kNextHeaderIba) {
        rest_is_payload();
        return stop(Outcome::kForeign, "GRH next header is not IBA transport");
    }
    transport(scope, scope == IcrcScope::kGrh ? at_ - kGrhBytes : 0);
}

void Parser::infiniband() {
    packet_.link = LinkLayer::kInfiniBand;
    if (!take(kLrhTable, &packet_.lrh)) {
        return;
    }
    const std::size_t length = packet_.lrh.length_words * std::size_t{4};
    if (length < kLrhBytes || length > end_) {
        return stop(Outcome::kMalformed, "LRH packet length");
    }
    // Some capture devices leave the VCRC out.
    const bool has_vcrc = end_ >= length + kVcrcBytes;
    packet_.trailer_bytes = end_ - length - (has_vcrc ? kVcrcBytes : 0);
    end_ = length;
    if (has_vcrc) {
        check_vcrc(length);
    }
    switch (packet_.lrh.lnh) {
        case kLnhTransport:
            return transport(IcrcScope::kLrh, 0);
        case kLnhGlobal:
            return grh(IcrcScope::kLrhAndGrh);
        default:
            return raw(length);
    }
}

void Parser::check_vcrc(std::size_t at) {
    if (!has(at + kVcrcBytes)) {
        packet_.vcrc_verdict = CheckVerdict::kNotCaptured;
        return;
    }
    packet_.vcrc = __builtin_bswap16(load_be16(&captured_[at]));
    packet_.vcrc_verdict =
        variant_crc(slice(0, at)) == packet_.vcrc ? CheckVerdict::kGood : CheckVerdict::kBad;
}

/// A packet without InfiniBand transport: no ICRC.
void Parser::raw(std::size_t length) {
    const bool is_ipv6 = packet_.lrh.lnh == kLnhIpv6;
    if (is_ipv6 ? !take(kIpv6Table, &packet_.grh) : !take(kRawHeaderTable, &packet_.raw)) {
        return;
    }
    packet_.network = is_ipv6 ? Network::kIpv6 : Network::kRawHeader;
    if (is_ipv6) {
        if (at_ + packet_.grh.payload_length > length) {
            return stop(Outcome::kMalformed, "IPv6 payload length");
        }
        end_ = at_ + packet_.grh.payload_length;
    }
    rest_is_payload();
}

void Parser::transport(IcrcScope scope, std::size_t covered_from) {
    // The ICRC is the packet's end, so that what is left holds BTH and extended headers in front of it.
    if (end_ - at_ < kBthBytes + kIcrcBytes) {
        return stop(Outcome::kMalformed, "no room for BTH and ICRC");
    }
    packet_.icrc_verdict = has(end_) ? CheckVerdict::kAbsent : CheckVerdict::kNotCaptured;
    const char* cut_in = nullptr;
    const std::size_t bytes = read_transport(slice(at_, end_ - kIcrcBytes), packet_.transport, cut_in);
    const OpcodeInfo& info = opcode_info(packet_.transport.opcode);
    if (bytes == 0) {
        packet_.has_transport = has(at_ + kBthBytes);
        const bool fits = end_ - at_ >= (packet_.has_transport ? info.header_bytes : kBthBytes) + kIcrcBytes;
        return stop(fits ? Outcome::kCut : Outcome::kMalformed, cut_in);
    }
    packet_.has_transport = true;
    at_ += bytes;
    finish_transport(scope, covered_from, info);
}

void Parser::finish_transport(IcrcScope scope, std::size_t covered_from, const OpcodeInfo& info) {
    const std::size_t icrc = end_ - kIcrcBytes;
    if (has(end_)) {
        packet_.icrc = load_le32(&captured_[icrc]);
        const bool good = invariant_crc(scope, slice(covered_from, icrc)) == packet_.icrc;
        packet_.icrc_verdict = good ? CheckVerdict::kGood : CheckVerdict::kBad;
    }
    const std::size_t pad = packet_.transport.pad_count;
    if (icrc - at_ < pad) {
        return stop(Outcome::kMalformed, "PadCnt is larger than what is left");
    }
    packet_.payload_bytes = icrc - at_ - pad;
    packet_.payload = slice(at_, icrc - pad);
    if ((info.flags & kValid) == 0) {
        stop(Outcome::kMalformed, "reserved opcode");
    } else if (packet_.transport.tver != 0) {
        stop(Outcome::kMalformed, "TVer is not 0");
    } else if ((info.flags & kHasPayload) == 0 && packet_.payload_bytes + pad != 0) {
        stop(Outcome::kMalformed, "payload where the opcode has none");
    } else if ((packet_.payload_bytes + pad) % 4 != 0) {
        stop(Outcome::kMalformed, "PadCnt does not make the payload whole words");
    }
}

}  // namespace

void parse_packet(LinkLayer link, std::span<const std::byte> captured, std::size_t wire_bytes,
                  Packet& packet) {
    packet = Packet{};
    packet.captured_bytes = captured.size();
    packet.wire_bytes = std::max(wire_bytes, captured.size());
    Parser parser(captured, packet.wire_bytes, packet);
    if (link == LinkLayer::kEthernet) {
        parser.ethernet();
    } else {
        parser.infiniband();
    }
}

}  // namespace urnic::wire
