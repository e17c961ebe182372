// The fixed front of every packet of one QP, made once when its address vector is set.
#include "base/bytes.h"
#include "rnic/wire/checksum.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/peek.h"

namespace urnic::wire {

namespace {

// Not a checksum yet but the folded sum it comes from, with length and identification still zero;
// build_frame() adds those two and complements (RFC 1624).
void write_ipv4_sum(std::byte* ip) {
    store_be16(ip + kIpv4Checksum, 0);
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < kIpv4Bytes; i += 2) {
        sum += load_be16(ip + i);
    }
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    store_be16(ip + kIpv4Checksum, static_cast<std::uint16_t>(sum));
}

void write_ipv4(std::byte* ip, const PathSpec& spec) {
    ip[0] = std::byte{0x45};
    ip[kIpv4Tos] = std::byte{spec.traffic_class};
    store_be16(ip + kIpv4Fragment, kIpv4DontFragment);
    ip[kIpv4Ttl] = std::byte{spec.hop_limit};
    ip[kIpv4Protocol] = std::byte{kProtocolUdp};
    std::memcpy(ip + kIpv4Source, &spec.src_gid[12], 4);
    std::memcpy(ip + kIpv4Destination, &spec.dst_gid[12], 4);
    write_ipv4_sum(ip);
}

void write_ipv6(std::byte* ip, const PathSpec& spec) {
    store_be32(ip, 0x6000'0000U | std::uint32_t{spec.traffic_class} << 20U | (spec.flow_label & 0xf'ffffU));
    ip[kIpv6NextHeader] = std::byte{kProtocolUdp};
    ip[kIpv6HopLimit] = std::byte{spec.hop_limit};
    std::memcpy(ip + kIpv6Source, spec.src_gid.data(), spec.src_gid.size());
    std::memcpy(ip + kIpv6Destination, spec.dst_gid.data(), spec.dst_gid.size());
}

}  // namespace

Path make_path(const PathSpec& spec) {
    if (spec.is_infiniband) {
        return make_ib_path(spec);
    }
    Path path;
    path.is_ipv4 = is_ipv4_mapped(spec.src_gid) && is_ipv4_mapped(spec.dst_gid);
    path.neighbour = spec.neighbour;
    auto* bytes = reinterpret_cast<std::byte*>(path.bytes.data());
    std::memcpy(bytes, spec.dst_mac.data(), spec.dst_mac.size());
    std::memcpy(bytes + spec.dst_mac.size(), spec.src_mac.data(), spec.src_mac.size());
    std::size_t offset = 2 * sizeof(Mac);
    if (spec.vlan_tci != 0) {
        store_be16(bytes + offset, kEtherTypeVlan);
        store_be16(bytes + offset + 2, spec.vlan_tci);
        offset += kVlanTagBytes;
    }
    store_be16(bytes + offset, path.is_ipv4 ? kEtherTypeIpv4 : kEtherTypeIpv6);
    offset += 2;
    path.l3_offset = static_cast<std::uint8_t>(offset);
    if (path.is_ipv4) {
        write_ipv4(bytes + offset, spec);
        offset += kIpv4Bytes;
    } else {
        write_ipv6(bytes + offset, spec);
        offset += kIpv6Bytes;
    }
    store_be16(bytes + offset + kUdpSourcePort, spec.udp_src_port);
    store_be16(bytes + offset + kUdpDestinationPort, kRocev2UdpPort);
    path.length = static_cast<std::uint8_t>(offset + kUdpBytes);
    return path;
}

std::uint16_t udp_source_port(std::uint32_t flow_label, std::uint32_t qp_num, std::uint32_t dest_qp_num) {
    std::uint64_t mixed = flow_label & 0xf'ffff;
    if (mixed == 0) {
        mixed = std::uint64_t{qp_num} * dest_qp_num;
        mixed ^= mixed >> 28U;
    }
    mixed ^= mixed >> 14U;
    return static_cast<std::uint16_t>(0xc000U | (mixed & 0x3fffU));
}

std::uint16_t udp_source_port(SourcePortRule rule, std::uint32_t flow_label, std::uint32_t qp_num,
                              std::uint32_t dest_qp_num) {
    if (rule == SourcePortRule::kLinux && flow_label == 0) {
        std::uint64_t product = std::uint64_t{qp_num} * dest_qp_num;
        product ^= product >> 20U;
        product ^= product >> 40U;
        flow_label = product & 0xf'ffff;
    }
    return udp_source_port(flow_label, qp_num, dest_qp_num);
}

void set_macs(std::span<std::byte> frame, const Mac& src, const Mac& dst) {
    std::memcpy(frame.data(), dst.data(), dst.size());
    std::memcpy(frame.data() + dst.size(), src.data(), src.size());
}

void set_udp_checksum(const Path& path, std::span<std::byte> frame) {
    std::byte* const ip = frame.data() + path.l3_offset;
    std::byte* const udp = frame.data() + path.length - kUdpBytes;
    const std::span<const std::byte> addresses = path.is_ipv4
                                                     ? std::span<const std::byte>(ip + kIpv4Source, 8)
                                                     : std::span<const std::byte>(ip + kIpv6Source, 32);
    store_be16(udp + kUdpChecksum, 0);
    const std::uint16_t sum = udp_checksum(addresses, frame.subspan(path.length - kUdpBytes));
    store_be16(udp + kUdpChecksum, sum == 0 ? std::uint16_t{0xffff} : sum);  // zero means none (RFC 768)
}

void set_ce(std::span<std::byte> frame) {
    const Peek seen = peek(frame);
    if (!seen.is_ip) {
        return;
    }
    std::byte* const ip = frame.data() + seen.l3_offset;
    if (seen.is_ipv4) {
        ip[kIpv4Tos] |= std::byte{kEcnCe};
        store_be16(ip + kIpv4Checksum, 0);
        store_be16(ip + kIpv4Checksum, checksum_fold(checksum_sum({ip, kIpv4Bytes})));
    } else {
        store_be32(ip, load_be32(ip) | std::uint32_t{kEcnCe} << 20U);
    }
}

void set_traffic_class(Path& path, std::uint8_t traffic_class, std::uint8_t priority) {
    auto* const bytes = reinterpret_cast<std::byte*>(path.bytes.data());
    std::byte* const ip = bytes + path.l3_offset;
    if (path.is_ipv4) {
        ip[kIpv4Tos] = std::byte{traffic_class};
        write_ipv4_sum(ip);
    } else {
        store_be32(ip, (load_be32(ip) & 0xf00f'ffffU) | std::uint32_t{traffic_class} << 20U);
    }
    if (path.l3_offset > kEthernetBytes) {
        std::byte* const tci = ip - kVlanTagBytes;  // the tag's last two bytes are the next EtherType
        store_be16(tci, static_cast<std::uint16_t>((load_be16(tci) & 0x1fffU) | (priority & 7U) << 13U));
    }
}

void set_udp_source_port(Path& path, std::uint16_t port) {
    auto* udp = reinterpret_cast<std::byte*>(path.bytes.data()) + path.length - kUdpBytes;
    store_be16(udp + kUdpSourcePort, port);
}

}  // namespace urnic::wire
