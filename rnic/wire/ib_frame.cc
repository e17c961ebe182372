#include "rnic/wire/ib_frame.h"

#include <array>

#include "rnic/wire/blank_header.h"
#include "rnic/wire/crc/crc32.h"
#include "rnic/wire/crc/vcrc.h"
#include "rnic/wire/gather_payload.h"
#include "rnic/wire/transport_headers.h"

namespace urnic::wire {

namespace {

constexpr std::byte kGrhVersion{0x60};

std::uint8_t link_next_header(const std::byte* lrh) {
    return std::to_integer<std::uint8_t>(lrh[kLrhSlLnh]) & 0x03U;
}

/// LRH and GRH of a packet; 0: it has no InfiniBand transport, or no room for it.
std::size_t front_bytes(std::span<const std::byte> frame) {
    if (frame.size() < kLrhBytes + kBthBytes + kIcrcBytes + kVcrcBytes) {
        return 0;
    }
    switch (link_next_header(frame.data())) {
        case kLnhTransport:
            return kLrhBytes;
        case kLnhGlobal:
            return frame.size() < kLrhBytes + kGrhBytes + kBthBytes + kIcrcBytes + kVcrcBytes
                       ? 0
                       : kLrhBytes + kGrhBytes;
        default:
            return 0;
    }
}

/// The CRC register over LRH, GRH and BTH, with ones for what changes on the way (IBA 7.8.1): the VL, or with
/// a GRH, when a router may give the packet another LRH, all of it; the GRH's traffic class, flow label and
/// hop limit; the byte of FECN and BECN.
std::uint32_t icrc_of_front(const std::byte* frame, std::size_t lrh_and_grh) {
    constexpr std::byte kOnes{0xff};
    std::array<std::byte, kLrhBytes + kGrhBytes + kBthBytes> masked{};
    const std::size_t length = lrh_and_grh + kBthBytes;
    std::memcpy(masked.data(), frame, length);
    if (lrh_and_grh == kLrhBytes) {
        masked[kLrhVl] |= std::byte{0xf0};
    } else {
        std::memset(masked.data(), 0xff, kLrhBytes);
        std::byte* grh = masked.data() + kLrhBytes;
        grh[0] |= std::byte{0x0f};
        grh[1] = grh[2] = grh[3] = kOnes;
        grh[kIpv6HopLimit] = kOnes;
    }
    masked[lrh_and_grh + kBthResv8a] = kOnes;
    return crc32_update(0xffff'ffffU, masked.data(), length);
}

void parse_link(std::span<const std::byte> frame, PacketView& view) {
    view.slid = load_be16(&frame[kLrhSlid]);
    view.dlid = load_be16(&frame[kLrhDlid]);
    view.sl = std::to_integer<std::uint8_t>(frame[kLrhSlLnh] >> 4U);
    view.is_ipv4 = false;
    if (!view.has_grh) {
        view.src_gid = lid_gid(view.slid);
        view.dst_gid = lid_gid(view.dlid);
        return;
    }
    const std::byte* grh = frame.data() + kLrhBytes;
    std::memcpy(view.src_gid.data(), grh + kIpv6Source, view.src_gid.size());
    std::memcpy(view.dst_gid.data(), grh + kIpv6Destination, view.dst_gid.size());
    view.hop_limit = std::to_integer<std::uint8_t>(grh[kIpv6HopLimit]);
}

/// The fields that say how long the packet is, and what the headers are.
bool lengths_agree(std::span<const std::byte> frame, std::size_t lrh_and_grh) {
    const std::size_t words = load_be16(&frame[kLrhLength]) & kLrhLengthMask;
    const std::byte version = frame[kLrhVl] & std::byte{0x0f};
    if (words * 4 + kVcrcBytes != frame.size() || version != std::byte{0}) {
        return false;
    }
    if (lrh_and_grh == kLrhBytes) {
        return true;
    }
    const std::byte* grh = frame.data() + kLrhBytes;
    return (grh[0] & std::byte{0xf0}) == kGrhVersion &&
           load_be16(grh + kIpv6PayloadLength) == frame.size() - lrh_and_grh - kVcrcBytes &&
           grh[kIpv6NextHeader] == std::byte{kNextHeaderIba};
}

}  // namespace

Path make_ib_path(const PathSpec& spec) {
    Path path;
    path.is_ipv4 = false;
    path.neighbour = kNoNeighbour;
    auto* bytes = reinterpret_cast<std::byte*>(path.bytes.data());
    bytes[kLrhSlLnh] = static_cast<std::byte>(
        (spec.sl & 0x0fU) << 4U | (spec.has_grh ? unsigned{kLnhGlobal} : unsigned{kLnhTransport}));
    store_be16(bytes + kLrhDlid, spec.dlid);
    store_be16(bytes + kLrhSlid, spec.slid);
    path.length = kLrhBytes;
    if (spec.has_grh) {
        std::byte* grh = bytes + kLrhBytes;
        store_be32(grh,
                   0x6000'0000U | std::uint32_t{spec.traffic_class} << 20U | (spec.flow_label & 0xf'ffffU));
        grh[kIpv6NextHeader] = std::byte{kNextHeaderIba};
        grh[kIpv6HopLimit] = std::byte{spec.hop_limit};
        std::memcpy(grh + kIpv6Source, spec.src_gid.data(), spec.src_gid.size());
        std::memcpy(grh + kIpv6Destination, spec.dst_gid.data(), spec.dst_gid.size());
        path.length = kLrhBytes + kGrhBytes;
    }
    return path;
}

std::size_t build_ib_frame(const Path& path, const PacketHeader& header, std::span<const MemoryPiece> pieces,
                           std::span<std::byte> frame) {
    const OpcodeInfo& info = opcode_info(header.opcode);
    std::uint64_t payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        payload_bytes += piece.length_bytes;
    }
    const auto pad_bytes = static_cast<std::uint32_t>(-payload_bytes & 3U);
    const std::uint64_t front = std::uint64_t{path.length} + info.header_bytes;
    const std::uint64_t covered = front + payload_bytes + pad_bytes + kIcrcBytes;  // by the VCRC
    if (covered + kVcrcBytes > frame.size() || covered / 4 > kLrhLengthMask) {
        return 0;
    }
    std::byte* bth = frame.data() + path.length;
    std::memcpy(frame.data(), path.bytes.data(), path.length);
    store_be16(&frame[kLrhLength], static_cast<std::uint16_t>(covered / 4));
    if (path.length != kLrhBytes) {
        store_be16(&frame[kLrhBytes + kIpv6PayloadLength], static_cast<std::uint16_t>(covered - path.length));
    }
    write_bth(bth, header, pad_bytes);
    write_extended(bth + kBthBytes, info.headers, header);
    std::uint32_t crc = icrc_of_front(frame.data(), path.length);
    crc = crc32_update(crc, bth + kBthBytes, info.header_bytes - kBthBytes);
    std::byte* end = frame.data() + front;
    if (!gather_payload(pieces, end, crc)) {
        return 0;
    }
    end += payload_bytes;
    std::memset(end, 0, pad_bytes);
    crc = crc32_update(crc, end, pad_bytes);
    store_le32(end + pad_bytes, ~crc);
    store_le16(&frame[covered], variant_crc(frame.first(covered)));
    return covered + kVcrcBytes;
}

ParseError parse_ib_frame(std::span<const std::byte> frame, PacketView& view) {
    const std::size_t lrh_and_grh = front_bytes(frame);
    if (lrh_and_grh == 0) {
        const bool is_raw = frame.size() >= kLrhBytes && link_next_header(frame.data()) <= kLnhIpv6;
        return is_raw ? ParseError::kNotRoce : ParseError::kMalformed;
    }
    // The link's own check comes first: without it no field is worth anything (IBA 7.3).
    const std::size_t covered = frame.size() - kVcrcBytes;
    if (variant_crc(frame.first(covered)) != load_le16(&frame[covered])) {
        return ParseError::kBadVcrc;
    }
    if (!lengths_agree(frame, lrh_and_grh)) {
        return ParseError::kMalformed;
    }
    const std::byte* bth = frame.data() + lrh_and_grh;
    const std::size_t transport_bytes = covered - lrh_and_grh - kIcrcBytes;
    view.header = kBlankHeader;
    parse_bth(bth, view.header);
    const OpcodeInfo& info = opcode_info(view.header.opcode);
    const bool has_payload = (info.flags & (kHasPayload | kValid)) != kValid;
    const std::size_t needed = std::size_t{info.header_bytes} + view.header.pad_count;
    if (view.header.tver != 0 || transport_bytes < needed ||
        (!has_payload && transport_bytes != info.header_bytes)) {
        return ParseError::kMalformed;
    }
    const std::uint32_t crc =
        crc32_update(icrc_of_front(frame.data(), lrh_and_grh), bth + kBthBytes, transport_bytes - kBthBytes);
    if (~crc != load_le32(bth + transport_bytes)) {
        return ParseError::kBadIcrc;
    }
    parse_extended(bth + kBthBytes, info.headers, view.header);
    view.has_grh = lrh_and_grh != kLrhBytes;
    parse_link(frame, view);
    view.payload = {bth + info.header_bytes, transport_bytes - needed};
    view.l3 = frame.subspan(kLrhBytes, covered - kIcrcBytes - kLrhBytes);
    return ParseError::kNone;
}

std::uint32_t peek_ib_dest_qp(std::span<const std::byte> frame) {
    const std::size_t lrh_and_grh = front_bytes(frame);
    return lrh_and_grh == 0 ? ~0U : load_be32(&frame[lrh_and_grh + kBthResv8a]) & 0xff'ffffU;
}

LinkPeek peek_link(std::span<const std::byte> frame) {
    LinkPeek seen;
    seen.dlid = load_be16(&frame[kLrhDlid]);
    seen.vl = std::to_integer<std::uint8_t>(frame[kLrhVl] >> 4U);
    seen.sl = std::to_integer<std::uint8_t>(frame[kLrhSlLnh] >> 4U);
    const std::size_t lrh_and_grh = front_bytes(frame);
    seen.has_pkey = lrh_and_grh != 0;
    seen.pkey = seen.has_pkey ? load_be16(&frame[lrh_and_grh + kBthPkey]) : std::uint16_t{0};
    return seen;
}

void set_vl(std::span<std::byte> frame, std::uint8_t vl) {
    frame[kLrhVl] = (frame[kLrhVl] & std::byte{0x0f}) | static_cast<std::byte>(vl << 4U);
    const std::size_t covered = frame.size() - kVcrcBytes;
    store_le16(&frame[covered], variant_crc(frame.first(covered)));
}

std::uint16_t peek_dlid(std::span<const std::byte> frame) { return load_be16(&frame[kLrhDlid]); }

}  // namespace urnic::wire
