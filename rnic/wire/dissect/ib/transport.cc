#include "rnic/wire/dissect/ib/transport.h"

#include <array>
#include <cstring>

#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

namespace {

const char* opcode_name(std::uint64_t opcode) { return opcode_info(static_cast<std::uint8_t>(opcode)).name; }

using enum FieldFormat;

constexpr Field kBthFields[] = {
    URNIC_WIRE_NAMED(PacketHeader, opcode, 0, 8, kHex, opcode_name),
    URNIC_WIRE_FIELD(PacketHeader, solicited, 8, 1, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, mig_req, 9, 1, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, pad_count, 10, 2, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, tver, 12, 4, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, pkey, 16, 16, kHex),
    URNIC_WIRE_FIELD(PacketHeader, fecn, 32, 1, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, becn, 33, 1, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, dest_qp, 40, 24, kHex),
    URNIC_WIRE_FIELD(PacketHeader, ack_req, 64, 1, kDecimal),
    URNIC_WIRE_FIELD(PacketHeader, psn, 72, 24, kDecimal),
};
static_assert(well_formed(kBthFields, kBthBytes));
static_assert(sizeof(Psn) == sizeof(std::uint32_t), "the tables read a PSN as a number");

constexpr Field kRdethFields[] = {URNIC_WIRE_FIELD(PacketHeader, rd_ee_context, 8, 24, kHex)};
constexpr Field kDethFields[] = {
    URNIC_WIRE_LABELLED("qkey", PacketHeader, deth.qkey, 0, 32, kHex, nullptr),
    URNIC_WIRE_LABELLED("src_qp", PacketHeader, deth.src_qp, 40, 24, kHex, nullptr),
};
constexpr Field kXrcethFields[] = {URNIC_WIRE_FIELD(PacketHeader, xrc_srq, 8, 24, kHex)};
constexpr Field kFethFields[] = {URNIC_WIRE_FIELD(PacketHeader, feth, 0, 32, kHex)};
constexpr Field kRethFields[] = {
    URNIC_WIRE_LABELLED("va", PacketHeader, reth.va, 0, 64, kHex, nullptr),
    URNIC_WIRE_LABELLED("rkey", PacketHeader, reth.rkey, 64, 32, kHex, nullptr),
    URNIC_WIRE_LABELLED("dma_length", PacketHeader, reth.dma_length, 96, 32, kDecimal, nullptr),
};
constexpr Field kAtomicEthFields[] = {
    URNIC_WIRE_LABELLED("va", PacketHeader, atomic.va, 0, 64, kHex, nullptr),
    URNIC_WIRE_LABELLED("rkey", PacketHeader, atomic.rkey, 64, 32, kHex, nullptr),
    URNIC_WIRE_LABELLED("swap_or_add", PacketHeader, atomic.swap_or_add, 96, 64, kHex, nullptr),
    URNIC_WIRE_LABELLED("compare", PacketHeader, atomic.compare, 160, 64, kHex, nullptr),
};
constexpr Field kAethFields[] = {
    URNIC_WIRE_LABELLED("syndrome", PacketHeader, aeth.syndrome, 0, 8, kHex, syndrome_name),
    URNIC_WIRE_LABELLED("msn", PacketHeader, aeth.msn, 8, 24, kDecimal, nullptr),
};
constexpr Field kAtomicAckFields[] = {URNIC_WIRE_FIELD(PacketHeader, atomic_ack, 0, 64, kHex)};
// Immediate data belongs to the application and stays in the order of the wire.
constexpr Field kImmFields[] = {URNIC_WIRE_FIELD(PacketHeader, imm, 0, 32, kBytes)};
constexpr Field kIethFields[] = {URNIC_WIRE_FIELD(PacketHeader, ieth_rkey, 0, 32, kHex)};

constexpr std::array<ExtendedHeader, 11> kExtended = {{
    {kHasRdeth, {"RDETH", 4, kRdethFields}},
    {kHasDeth, {"DETH", 8, kDethFields}},
    {kHasXrceth, {"XRCETH", 4, kXrcethFields}},
    {kHasFeth, {"FETH", 4, kFethFields}},
    {kHasReth, {"RETH", 16, kRethFields}},
    {kHasAtomicEth, {"AtomicETH", 28, kAtomicEthFields}},
    {kHasAeth, {"AETH", 4, kAethFields}},
    {kHasAtomicAck, {"AtomicAckETH", 8, kAtomicAckFields}},
    {kHasImm, {"ImmDt", 4, kImmFields}},
    {kHasIeth, {"IETH", 4, kIethFields}},
    {kHasCnpReserved, {"CNP reserved", 16, {}}},
}};

constexpr bool all_well_formed() {
    for (const ExtendedHeader& header : kExtended) {
        if (!well_formed(header.table.fields, header.table.length_bytes)) {
            return false;
        }
    }
    return true;
}
static_assert(all_well_formed());

}  // namespace

const HeaderTable kBthTable = {"BTH", kBthBytes, kBthFields};

std::span<const ExtendedHeader> extended_headers() { return kExtended; }

const char* syndrome_name(std::uint64_t syndrome) {
    constexpr std::array<const char*, 5> kNaks = {"NAK PSN sequence error", "NAK invalid request",
                                                  "NAK remote access error", "NAK remote operational error",
                                                  "NAK invalid RD request"};
    const std::uint64_t value = syndrome & kSyndromeValueMask;
    switch (syndrome & kSyndromeKindMask) {
        case kSyndromeAck:
            return value == kCreditsUnlimited ? "ACK, no credit limit" : "ACK";
        case kSyndromeRnrNak:
            return "RNR NAK";
        case kSyndromeNak:
            return value < kNaks.size() ? kNaks[value] : nullptr;
        default:
            return nullptr;
    }
}

std::size_t read_transport(std::span<const std::byte> wire, PacketHeader& header, const char*& cut_in) {
    if (wire.size() < kBthBytes) {
        cut_in = kBthTable.name;
        return 0;
    }
    read_fields(kBthTable, wire.data(), &header);
    const std::uint16_t mask = opcode_info(header.opcode).headers;
    std::size_t offset = kBthBytes;
    for (const ExtendedHeader& extended : kExtended) {
        if ((mask & extended.mask) == 0) {
            continue;
        }
        if (wire.size() - offset < extended.table.length_bytes) {
            cut_in = extended.table.name;
            return 0;
        }
        read_fields(extended.table, &wire[offset], &header);
        offset += extended.table.length_bytes;
    }
    return offset;
}

}  // namespace urnic::wire
