// Layout of the memory that an application and the daemon share: send, receive and completion rings,
// doorbells.
//
// Rules of every ring: the entry count is a power of two; entry i (a free-running 32-bit index) lives in slot
// i mod count; the producer fills the slot and then stores seq = i + 1 with release order; the consumer sees
// a full slot by that value alone, so no head or tail crosses the process boundary. Memory starts as zeros.
// The daemon copies an entry into private memory before it looks at it, and believes none of it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "abi/verbs_values.h"

namespace urnic::abi {

inline constexpr std::uint32_t kMaxSge = 16;
inline constexpr std::uint32_t kMaxInlineBytes = 1024;
inline constexpr std::uint32_t kMaxQueueEntries = 32768;
inline constexpr std::uint32_t kMaxCqEntries = 1U << 20U;
inline constexpr std::uint32_t kMaxWorkers = 16;
inline constexpr std::size_t kCacheLine = 64;

/// One scatter/gather element; the same layout as ibv_sge.
struct Sge {
    std::uint64_t addr;
    std::uint32_t length;
    std::uint32_t lkey;
};
static_assert(sizeof(Sge) == 16);

/// What a send WQE says by its operation; on a UD QP it is `ud`, whatever the operation. `remote_addr` and
/// `rkey` are at the same place in all that name memory of the peer.
union WrOperands {
    struct {  // WRITE, READ, ATOMIC WRITE
        std::uint64_t remote_addr;
        std::uint32_t rkey;
    } rdma;
    struct {  // COMPARE_SWAP, FETCH_ADD: values in host order
        std::uint64_t remote_addr;
        std::uint32_t rkey;
        std::uint32_t reserved;
        std::uint64_t compare_add;
        std::uint64_t swap;
    } atomic;
    struct {  // FLUSH
        std::uint64_t remote_addr;
        std::uint32_t rkey;
        std::uint32_t feth;  // as in the FETH: selectivity level and placement type
        std::uint64_t length;
    } flush;
    struct {
        std::uint32_t remote_qp_num;
        std::uint32_t remote_qkey;
        std::uint32_t address_handle;  // CreateAhReply::key
    } ud;
    struct {                        // BIND_MW
        std::uint64_t addr;         // where the window begins in the region
        std::uint32_t new_key;      // which also tells the window
        std::uint32_t region_lkey;  // of the region
        std::uint64_t length;
        std::uint32_t access;  // AccessFlags
    } mw;
};
static_assert(sizeof(WrOperands) == 32);

/// Header of a send slot. After it come `num_sge` Sge, or, with kSendInline, `inline_length` bytes.
/// The stride of a send ring is 64 + max(16 * max_sge, max_inline), rounded up to 64.
struct alignas(64) SendWqe {
    std::atomic<std::uint32_t> seq;
    std::uint8_t opcode;   // WrOpcode
    std::uint8_t num_sge;  // 0 with kSendInline
    std::uint16_t flags;   // SendFlags
    std::uint64_t wr_id;
    std::uint32_t
        imm_or_rkey;  // immediate data in network order as the application gave it, or key to invalidate
    std::uint32_t inline_length;
    std::uint32_t xrc_srq_number;
    std::uint32_t reserved;
    WrOperands wr;
};
static_assert(sizeof(SendWqe) == 64);

/// Header of a receive slot; `num_sge` Sge follow. Stride: 16 + 16 * max_sge, rounded up to 32.
struct alignas(16) RecvWqe {
    std::atomic<std::uint32_t> seq;
    std::uint32_t num_sge;
    std::uint64_t wr_id;
};
static_assert(sizeof(RecvWqe) == 16);

/// Begins a shared receive queue's memory; its ring of receive slots follows. Several QPs take receives, and
/// complete them in any order: what tells the application which slots are its own again is `consumed`.
struct alignas(64) SrqHeader {
    std::atomic<std::uint32_t> consumed;  // receives before this index are taken; written by the daemon
};
inline constexpr std::size_t kSrqHeaderBytes = sizeof(SrqHeader);

/// Where a datagram came from, in the order of ibv_wc: one word for all.
struct CqeLink {
    std::uint16_t slid;  // over InfiniBand
    std::uint8_t sl;     // over RoCE what network header the packet had, see ud_qp.cc
    std::uint8_t dlid_path_bits;
};
static_assert(sizeof(CqeLink) == 4);

/// One completion. Written by the daemon, read by the provider.
struct alignas(64) Cqe {
    std::atomic<std::uint32_t> seq;
    std::uint8_t opcode;    // WcOpcode; undefined unless status is success
    std::uint8_t status;    // WcStatus
    std::uint8_t wc_flags;  // WcFlags
    std::uint8_t is_recv;   // 1: wqe_index counts the receive queue (or SRQ), 0: the send queue
    std::uint64_t wr_id;
    std::uint32_t qp_num;
    std::uint32_t wqe_index;  // free-running index of the WQE; all send WQEs up to it are done with
    std::uint32_t byte_len;
    std::uint32_t imm_or_rkey;  // immediate data in network order, or the invalidated key
    std::uint32_t src_qp;
    std::uint32_t vendor_err;
    std::uint64_t timestamp_ns;  // CLOCK_MONOTONIC
    CqeLink link;                // UD; else zeros
    std::uint8_t reserved[8];
    std::uint32_t srq_number;  // XRC: of the SRQ whose receive this is, qp_num is the target QP's; else 0
};
static_assert(sizeof(Cqe) == 64);

/// Values of CqHeader::arm.
enum CqArm : std::uint32_t { kCqDisarmed = 0, kCqArmedSolicited = 1, kCqArmedAny = 2 };

struct alignas(64) CqConsumer {
    std::atomic<std::uint32_t> index;  // entries taken so far, free-running; written by the application
};

/// First page of a CQ's memory. Each worker of the daemon fills a ring of its own (so a ring has one
/// producer); ring w begins at ring_offset(w). The application polls them round robin.
struct alignas(64) CqHeader {
    alignas(64)
        std::atomic<std::uint32_t> arm;  // CqArm; the application raises it, the daemon takes it back to 0
    /// Threads that sleep until there is a completion, each by a bit of its own. A thread sets its bit, looks
    /// at the rings once more, and waits for DaemonState::wake_words; the daemon takes the bits back to 0 and
    /// wakes them.
    std::atomic<std::uint32_t> sleepers;
    CqConsumer consumer[kMaxWorkers];
};
inline constexpr std::size_t kCqHeaderBytes = 4096;
static_assert(sizeof(CqHeader) <= kCqHeaderBytes);

constexpr std::size_t cq_ring_offset(std::uint32_t worker, std::uint32_t entries) {
    return kCqHeaderBytes + static_cast<std::size_t>(worker) * entries * sizeof(Cqe);
}
constexpr std::size_t cq_bytes(std::uint32_t workers, std::uint32_t entries) {
    return cq_ring_offset(workers, entries);
}

/// QPs of one client process on one worker that have new send WQEs. The application sets bit (slot % 64) of
/// words[slot / 64] with fetch_or and, when that word was 0 before, bit (word % 64) of summary[word / 64].
/// The worker takes the summary and then the words back to 0 with exchange.
inline constexpr std::uint32_t kDoorbellSlots = 16384;
struct alignas(64) WorkerDoorbell {
    std::atomic<std::uint64_t> summary[kDoorbellSlots / 64 / 64];
    alignas(64) std::atomic<std::uint64_t> words[kDoorbellSlots / 64];
};
constexpr std::size_t doorbell_bytes(std::uint32_t workers) { return sizeof(WorkerDoorbell) * workers; }

/// Written by the daemon, mapped read-only by every client.
struct alignas(64) WorkerState {
    std::atomic<std::uint32_t> sleeping;  // 1: write to the worker's eventfd after ringing
    std::atomic<std::uint32_t> cpu;       // that it ran on when it last woke up
};
/// Futexes that threads of the application sleep on while they poll; client c has word c modulo their number.
/// Raised before each wake. In memory of the daemon's, so that waking touches no page that a client can
/// withhold.
inline constexpr std::uint32_t kWakeWords = 1024;
struct alignas(64) DaemonState {
    std::atomic<std::uint32_t> alive;  // 1 while the daemon serves; 0 after a clean shutdown
    std::atomic<std::uint32_t>
        cores_shared;  // 1: workers and applications compete for cores: a poll that misses gives way
    WorkerState workers[kMaxWorkers];
    std::atomic<std::uint32_t> wake_words[kWakeWords];
};

constexpr std::size_t round_up(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; }
constexpr std::uint32_t send_stride(std::uint32_t max_sge, std::uint32_t max_inline) {
    const std::size_t body = sizeof(Sge) * max_sge > max_inline ? sizeof(Sge) * max_sge : max_inline;
    return static_cast<std::uint32_t>(round_up(sizeof(SendWqe) + body, 64));
}
constexpr std::uint32_t recv_stride(std::uint32_t max_sge) {
    return static_cast<std::uint32_t>(round_up(sizeof(RecvWqe) + sizeof(Sge) * max_sge, 32));
}
constexpr std::size_t srq_bytes(std::uint32_t entries, std::uint32_t stride) {
    return kSrqHeaderBytes + std::size_t{entries} * stride;
}

}  // namespace urnic::abi
