// Transport headers of InfiniBand in host order, and the opcode values (IBA 9.2, tables 38-48; RoCEv2 annex
// A17).
#pragma once

#include <cstdint>

#include "base/psn.h"

namespace urnic::wire {

/// BTH opcode: service (3 bits) << 5 | operation (5 bits).
enum Service : std::uint8_t {
    kServiceRc = 0x00,
    kServiceUc = 0x20,
    kServiceRd = 0x40,
    kServiceUd = 0x60,
    kServiceCnp = 0x80,
    kServiceXrc = 0xa0,
};
inline constexpr std::uint8_t kServiceMask = 0xe0;
inline constexpr std::uint8_t kOperationMask = 0x1f;
/// The congestion notification packet, the only one of its service (annex A17.9.3).
inline constexpr std::uint8_t kCnp = 0x81;

enum Operation : std::uint8_t {
    kSendFirst = 0x00,
    kSendMiddle = 0x01,
    kSendLast = 0x02,
    kSendLastImm = 0x03,
    kSendOnly = 0x04,
    kSendOnlyImm = 0x05,
    kWriteFirst = 0x06,
    kWriteMiddle = 0x07,
    kWriteLast = 0x08,
    kWriteLastImm = 0x09,
    kWriteOnly = 0x0a,
    kWriteOnlyImm = 0x0b,
    kReadRequest = 0x0c,
    kReadResponseFirst = 0x0d,
    kReadResponseMiddle = 0x0e,
    kReadResponseLast = 0x0f,
    kReadResponseOnly = 0x10,
    kAcknowledge = 0x11,
    kAtomicAcknowledge = 0x12,
    kCompareSwap = 0x13,
    kFetchAdd = 0x14,
    kResync = 0x15,  // RD only
    kSendLastInvalidate = 0x16,
    kSendOnlyInvalidate = 0x17,
    kFlush = 0x1c,
    kAtomicWrite = 0x1d,
};

/// AETH syndromes, byte 0 (IBA table 43-45). ACK carries a credit value in bits 4:0, RNR NAK a timer value.
enum Syndrome : std::uint8_t {
    kSyndromeAck = 0x00,
    kSyndromeRnrNak = 0x20,
    kSyndromeNak = 0x60,
    kSyndromeKindMask = 0xe0,
    kSyndromeValueMask = 0x1f,
    kNakPsnSequenceError = 0x60,
    kNakInvalidRequest = 0x61,
    kNakRemoteAccessError = 0x62,
    kNakRemoteOperationalError = 0x63,
    kNakInvalidRdRequest = 0x64,
    kCreditsUnlimited = 0x1f,
};

/// RDMA extended transport header: WRITE First/Only, READ Request.
struct Reth {
    std::uint64_t va = 0;
    std::uint32_t rkey = 0;
    std::uint32_t dma_length = 0;
};
struct AtomicEth {
    std::uint64_t va = 0;
    std::uint32_t rkey = 0;
    std::uint64_t swap_or_add = 0;
    std::uint64_t compare = 0;
};
struct Aeth {
    std::uint8_t syndrome = 0;
    std::uint32_t msn = 0;
};
struct Deth {
    std::uint32_t qkey = 0;
    std::uint32_t src_qp = 0;
};

/// One packet's transport headers. Only those that the opcode's row of the opcode table names are on the
/// wire.
struct PacketHeader {
    std::uint8_t opcode = 0;
    bool solicited = false;
    bool mig_req = true;
    bool fecn = false;
    bool becn = false;
    bool ack_req = false;
    std::uint8_t pad_count = 0;  // parse only; build works it out
    std::uint8_t tver = 0;
    std::uint16_t pkey = 0xffff;
    std::uint32_t dest_qp = 0;
    Psn psn;
    Reth reth;
    AtomicEth atomic;
    Aeth aeth;
    std::uint64_t atomic_ack = 0;  // original value, host order
    std::uint32_t imm = 0;         // as it lies on the wire (network order), never swapped
    std::uint32_t ieth_rkey = 0;
    Deth deth;
    std::uint32_t xrc_srq = 0;
    std::uint32_t rd_ee_context = 0;  // RDETH
    std::uint32_t feth = 0;           // FLUSH: placement type and selectivity level
};

/// P_Key: partition number, and whether its holder is a full member of the partition.
inline constexpr std::uint16_t kFullMember = 0x8000;
inline constexpr std::uint16_t kPartitionMask = 0x7fff;
inline constexpr std::uint16_t kDefaultPkey = 0xffff;

/// No port is a member of partition 0 (IBA 10.9.1.1: the invalid P_Key).
constexpr bool is_partition(std::uint16_t pkey) { return (pkey & kPartitionMask) != 0; }

/// IBA 10.9.1.2: equal low 15 bits, and a limited member talks to full members only.
constexpr bool pkeys_match(std::uint16_t a, std::uint16_t b) {
    return ((a ^ b) & kPartitionMask) == 0 && ((a | b) & kFullMember) != 0;
}

}  // namespace urnic::wire
