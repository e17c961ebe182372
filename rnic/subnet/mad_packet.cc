#include "rnic/subnet/mad_packet.h"

#include <algorithm>

#include "base/check.h"
#include "rnic/wire/ib_frame.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::subnet {

namespace {

constexpr std::uint8_t kUdSendOnly = std::uint8_t{wire::kServiceUd} | std::uint8_t{wire::kSendOnly};

}  // namespace

void encode(const MadPacket& packet, PacketBytes& bytes) {
    wire::PathSpec spec;
    spec.is_infiniband = true;
    spec.sl = packet.sl;
    spec.slid = packet.slid;
    spec.dlid = packet.dlid;
    wire::Path path = wire::make_ib_path(spec);
    if (packet.dest_qp == wire::kQp0) {
        path.bytes[wire::kLrhVl] = kVl15 << 4U;
    }
    wire::PacketHeader header;
    header.opcode = kUdSendOnly;
    header.pkey = packet.pkey;
    header.dest_qp = packet.dest_qp;
    header.deth = {packet.qkey, packet.src_qp};
    MemoryPiece piece;
    // Only read: pieces are for reading and writing.
    piece.direct = const_cast<std::byte*>(packet.mad.data());
    piece.length_bytes = packet.mad.size();
    URNIC_CHECK(wire::build_ib_frame(path, header, {&piece, 1}, bytes) == bytes.size());
}

std::optional<MadPacket> decode(std::span<const std::byte> bytes) {
    wire::PacketView view;
    if (wire::parse_ib_frame(bytes, view) != wire::ParseError::kNone || view.header.opcode != kUdSendOnly ||
        view.payload.size() != wire::kMadBytes || view.header.dest_qp > wire::kQp1) {
        return std::nullopt;
    }
    const bool is_qp0 = view.header.dest_qp == wire::kQp0;
    const bool is_vl15 = std::to_integer<unsigned>(bytes[wire::kLrhVl]) >> 4U == kVl15;
    if (is_vl15 != is_qp0 || view.header.deth.qkey != (is_qp0 ? 0 : wire::kGsiQkey)) {
        return std::nullopt;
    }
    MadPacket packet{view.slid,
                     view.dlid,
                     view.sl,
                     view.header.pkey,
                     view.header.deth.src_qp,
                     view.header.dest_qp,
                     view.header.deth.qkey,
                     {}};
    std::copy(view.payload.begin(), view.payload.end(), packet.mad.begin());
    return packet;
}

}  // namespace urnic::subnet
