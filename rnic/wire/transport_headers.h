// BTH and the headers behind it, to and from bytes: the same over UDP and over LRH. Inlined into the two
// places of each, as they stand on the packet path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bytes.h"
#include "rnic/wire/headers.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::wire {

[[gnu::always_inline]] inline void write_bth(std::byte* bth, const PacketHeader& header,
                                             std::uint32_t pad_bytes) {
    const std::uint32_t flags = (header.solicited ? 0x80U : 0U) | (header.mig_req ? 0x40U : 0U) |
                                pad_bytes << 4U | (header.tver & 0x0fU);
    store_be32(bth, std::uint32_t{header.opcode} << 24U | flags << 16U | header.pkey);
    const std::uint32_t congestion = (header.fecn ? 0x80U : 0U) | (header.becn ? 0x40U : 0U);
    store_be32(bth + kBthResv8a, congestion << 24U | (header.dest_qp & 0xff'ffffU));
    store_be32(bth + kBthAckReq, (header.ack_req ? 0x8000'0000U : 0U) | header.psn.value());
}

/// Headers that stand before RETH, AtomicETH and AETH, or behind them, in few packets: one look tells that
/// none of them is there.
inline constexpr std::uint16_t kHasRareFirst = kHasRdeth | kHasDeth | kHasXrceth | kHasFeth;
inline constexpr std::uint16_t kHasRareLast = kHasImm | kHasIeth | kHasCnpReserved;

/// Writes the extended headers that `mask` names, in wire order.
[[gnu::always_inline]] inline void write_extended(std::byte* to, std::uint16_t mask,
                                                  const PacketHeader& header) {
    if ((mask & kHasRareFirst) != 0) {
        if ((mask & kHasRdeth) != 0) {
            store_be32(to, header.rd_ee_context & 0xff'ffffU);
            to += 4;
        }
        if ((mask & kHasDeth) != 0) {
            store_be32(to, header.deth.qkey);
            store_be32(to + 4, header.deth.src_qp & 0xff'ffffU);
            to += 8;
        }
        if ((mask & kHasXrceth) != 0) {
            store_be32(to, header.xrc_srq & 0xff'ffffU);
            to += 4;
        }
        if ((mask & kHasFeth) != 0) {
            store_be32(to, header.feth);
            to += 4;
        }
    }
    if ((mask & kHasReth) != 0) {
        store_be64(to, header.reth.va);
        store_be32(to + 8, header.reth.rkey);
        store_be32(to + 12, header.reth.dma_length);
        to += 16;
    }
    if ((mask & kHasAtomicEth) != 0) {
        store_be64(to, header.atomic.va);
        store_be32(to + 8, header.atomic.rkey);
        store_be64(to + 12, header.atomic.swap_or_add);
        store_be64(to + 20, header.atomic.compare);
        to += 28;
    }
    if ((mask & kHasAeth) != 0) {
        store_be32(to, std::uint32_t{header.aeth.syndrome} << 24U | (header.aeth.msn & 0xff'ffffU));
        to += 4;
    }
    if ((mask & kHasAtomicAck) != 0) {
        store_be64(to, header.atomic_ack);
        to += 8;
    }
    if ((mask & kHasRareLast) != 0) {
        if ((mask & kHasImm) != 0) {
            store_le32(to, header.imm);  // as it lies on the wire
            to += 4;
        }
        if ((mask & kHasIeth) != 0) {
            store_be32(to, header.ieth_rkey);
            to += 4;
        }
        if ((mask & kHasCnpReserved) != 0) {
            std::memset(to, 0, 16);
        }
    }
}

[[gnu::always_inline]] inline void parse_bth(const std::byte* bth, PacketHeader& header) {
    const auto flags = std::to_integer<std::uint8_t>(bth[kBthFlags]);
    const auto congestion = std::to_integer<std::uint8_t>(bth[kBthResv8a]);
    header.opcode = std::to_integer<std::uint8_t>(bth[0]);
    header.solicited = (flags & 0x80U) != 0;
    header.mig_req = (flags & 0x40U) != 0;
    header.pad_count = (flags >> 4U) & 0x03U;
    header.tver = flags & 0x0fU;
    header.pkey = load_be16(bth + kBthPkey);
    header.fecn = (congestion & 0x80U) != 0;
    header.becn = (congestion & 0x40U) != 0;
    header.dest_qp = load_be32(bth + kBthResv8a) & 0xff'ffffU;
    header.ack_req = (bth[kBthAckReq] & std::byte{0x80}) != std::byte{0};
    header.psn = Psn(load_be32(bth + kBthAckReq));
}

/// Reads the extended headers that `mask` names from `from`, which holds all of them.
[[gnu::always_inline]] inline void parse_extended(const std::byte* from, std::uint16_t mask,
                                                  PacketHeader& header) {
    if ((mask & kHasRareFirst) != 0) {
        if ((mask & kHasRdeth) != 0) {
            header.rd_ee_context = load_be32(from) & 0xff'ffffU;
            from += 4;
        }
        if ((mask & kHasDeth) != 0) {
            header.deth = {load_be32(from), load_be32(from + 4) & 0xff'ffffU};
            from += 8;
        }
        if ((mask & kHasXrceth) != 0) {
            header.xrc_srq = load_be32(from) & 0xff'ffffU;
            from += 4;
        }
        if ((mask & kHasFeth) != 0) {
            header.feth = load_be32(from);
            from += 4;
        }
    }
    if ((mask & kHasReth) != 0) {
        header.reth = {load_be64(from), load_be32(from + 8), load_be32(from + 12)};
        from += 16;
    }
    if ((mask & kHasAtomicEth) != 0) {
        header.atomic = {load_be64(from), load_be32(from + 8), load_be64(from + 12), load_be64(from + 20)};
        from += 28;
    }
    if ((mask & kHasAeth) != 0) {
        const std::uint32_t word = load_be32(from);
        header.aeth = {static_cast<std::uint8_t>(word >> 24U), word & 0xff'ffffU};
        from += 4;
    }
    if ((mask & kHasAtomicAck) != 0) {
        header.atomic_ack = load_be64(from);
        from += 8;
    }
    if ((mask & kHasRareLast) != 0) {
        if ((mask & kHasImm) != 0) {
            header.imm = load_le32(from);  // as it lies on the wire
            from += 4;
        }
        if ((mask & kHasIeth) != 0) {
            header.ieth_rkey = load_be32(from);
        }
    }
}

}  // namespace urnic::wire
