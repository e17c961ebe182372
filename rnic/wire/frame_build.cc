// Frames out: one pass over headers and payload.
#include "base/bytes.h"
#include "rnic/wire/crc/crc32.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/gather_payload.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/icrc.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"
#include "rnic/wire/transport_headers.h"

namespace urnic::wire {

namespace {

constexpr std::size_t kLeastPathBytes = kEthernetBytes + kIpv4Bytes + kUdpBytes;

/// The path's bytes, by two copies of a fixed length that overlap: of one that varies the compiler makes a
/// slow `rep movs`. What the first writes too much is the place of BTH and ICRC.
void copy_front(std::byte* frame, const Path& path) {
    constexpr std::size_t kFirst = 48;
    constexpr std::size_t kLast = 32;
    static_assert(kFirst <= kLeastPathBytes + kBthBytes + kIcrcBytes && kLast <= kLeastPathBytes);
    static_assert(kFirst + kLast >= Path::kMaxBytes);
    std::memcpy(frame, path.bytes.data(), kFirst);
    std::memcpy(frame + path.length - kLast, path.bytes.data() + path.length - kLast, kLast);
}

/// Lengths, identification and checksum: what differs from the path's template.
void patch_lengths(std::byte* l3, bool is_ipv4, std::size_t udp_bytes, std::uint16_t id) {
    const auto udp_length = static_cast<std::uint16_t>(udp_bytes);
    if (!is_ipv4) {
        store_be16(l3 + kIpv6PayloadLength, udp_length);
        store_be16(l3 + kIpv6Bytes + kUdpLength, udp_length);
        return;
    }
    const auto total = static_cast<std::uint16_t>(udp_bytes + kIpv4Bytes);
    store_be16(l3 + kIpv4TotalLength, total);
    store_be16(l3 + kIpv4Id, id);
    std::uint32_t sum = std::uint32_t{load_be16(l3 + kIpv4Checksum)} + total + id;
    sum = (sum & 0xffffU) + (sum >> 16U);
    sum = (sum & 0xffffU) + (sum >> 16U);
    store_be16(l3 + kIpv4Checksum, static_cast<std::uint16_t>(~sum));
    store_be16(l3 + kIpv4Bytes + kUdpLength, udp_length);
}

/// Appends the payload at `to`; `crc` becomes the register over head and payload. Returns whether all
/// pieces could be read.
bool gather(const MaskedHead& head, std::span<const MemoryPiece> pieces, std::byte* to, std::uint32_t& crc) {
    if (pieces.size() == 1 && pieces[0].direct != nullptr) [[likely]] {
        crc = crc32_headed_copy(head, to, pieces[0].direct, pieces[0].length_bytes);
        return true;
    }
    crc = crc32_headed_update(head, nullptr, 0);
    return gather_payload(pieces, to, crc);
}

}  // namespace

std::size_t build_frame(const Path& path, const PacketHeader& header, std::span<const MemoryPiece> pieces,
                        std::span<std::byte> frame) {
    const OpcodeInfo& info = opcode_info(header.opcode);
    std::uint64_t payload_bytes = 0;
    for (const MemoryPiece& piece : pieces) {
        payload_bytes += piece.length_bytes;
    }
    const auto pad_bytes = static_cast<std::uint32_t>(-payload_bytes & 3U);
    const std::uint64_t front_bytes = std::uint64_t{path.length} + info.header_bytes;
    const std::uint64_t total = front_bytes + payload_bytes + pad_bytes + kIcrcBytes;
    if (total > frame.size() || total - path.l3_offset > 0xffffU || path.l3_offset == 0) [[unlikely]] {
        return path.l3_offset == 0 && path.length != 0 ? build_ib_frame(path, header, pieces, frame) : 0;
    }
    std::byte* l3 = frame.data() + path.l3_offset;
    std::byte* bth = frame.data() + path.length;
    copy_front(frame.data(), path);
    patch_lengths(l3, path.is_ipv4, total - path.length + kUdpBytes,
                  static_cast<std::uint16_t>(header.psn.value()));
    write_bth(bth, header, pad_bytes);
    write_extended(bth + kBthBytes, info.headers, header);

    const MaskedHead head = icrc_head(l3, front_bytes - path.l3_offset, path.is_ipv4);
    std::uint32_t crc = 0;
    std::byte* payload = frame.data() + front_bytes;
    if (!gather(head, pieces, payload, crc)) {
        return 0;
    }
    std::byte* end = payload + payload_bytes;
    if (pad_bytes != 0) {
        std::memset(end, 0, pad_bytes);
        crc = crc32_update(crc, end, pad_bytes);
        end += pad_bytes;
    }
    store_le32(end, ~crc);
    return total;
}

}  // namespace urnic::wire
