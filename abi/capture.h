// A live capture (`urnic capture`): the request for it, and the rings in which workers leave what they saw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "abi/control.h"

namespace urnic::abi {

/// RNICs of one daemon.
inline constexpr std::uint32_t kCaptureRnics = 64;
inline constexpr std::size_t kMaxCaptureBytes = std::size_t{9} << 27U;
inline constexpr std::size_t kMinCaptureRingBytes = std::size_t{1} << 16U;

/// Begins a capture, which ends with the connection: one for each. Needs no Hello. Carries one fd, a memfd
/// sealed with F_SEAL_SHRINK | F_SEAL_GROW; the daemon divides it evenly among its workers, but for
/// kControlCaptureBytes behind those for the control thread, which has the MADs of InfiniBand
/// (docs/adr/0033). Each part is a CaptureRing and its bytes. Errors: EPERM for anybody but root and the
/// daemon's own user, because packets are everybody's; EBUSY, EINVAL, ENODEV: the reply then is whole and
/// says in words what is wrong.
struct CaptureRequest {
    RequestHeader header;
    std::uint32_t snap_bytes;  // of each packet, at most
    std::uint32_t filters;     // CaptureFilter
    std::uint32_t qpn;         // at either end
    std::uint32_t opcode;      // of the BTH
    std::uint8_t peer[16];     // GID of the other end; ::LID without a GRH
    char devices[1024];        // a name on each line, NUL-terminated; empty: all
};
enum CaptureFilter : std::uint32_t {
    kFilterQpn = 1U << 0U,
    kFilterOpcode = 1U << 1U,
    kFilterPeer = 1U << 2U,
    kFilterOwnQp = 1U << 3U  // `qpn` of this end alone: of its packets, WQEs and completions
};
/// In CaptureRequest::filters: what is no packet is recorded, too, of the chosen RNICs (CaptureKind),
/// whatever the filter but for kFilterOwnQp.
inline constexpr std::uint32_t kCaptureCompletions = 1U << 31U;
/// Reply fd: [0] a memfd with {"rnics": [{"index", "name", "link_layer", "mac"}]} of those captured.
struct CaptureReply {
    ReplyHeader header;
    std::uint32_t rings;          // of workers
    std::uint32_t control_bytes;  // of the control thread's part; 0: there is none
    std::uint64_t ring_bytes;     // of each other part, its CaptureRing included
    char message[768];            // NUL-terminated
};

/// At the front of a part. Positions count bytes on for ever; a record lies at its position modulo the size
/// of what is behind, which is a power of two. Written by one thread of the daemon, but for `tail`.
struct CaptureRing {
    alignas(64) std::atomic<std::uint64_t> head;  // whole records end here
    alignas(64) std::atomic<std::uint64_t> tail;  // the reader needs nothing before it any more
    struct Counts {
        std::atomic<std::uint64_t> seen;  // packets that the filter chose, and what is recorded beside them
        std::atomic<std::uint64_t> lost;  // of those, without room
    };
    alignas(64) Counts rnics[kCaptureRnics];
};
/// In front of the bytes, so that they begin at a page.
inline constexpr std::size_t kCaptureRingHeaderBytes = 4096;
static_assert(sizeof(CaptureRing) <= kCaptureRingHeaderBytes);
/// Of the control thread's part: room for more MADs than a subnet has under way at once.
inline constexpr std::size_t kControlCaptureBytes = kCaptureRingHeaderBytes + (std::size_t{4} << 20U);

/// What became of a packet.
enum class PacketFate : std::uint8_t {
    kSent,
    kRetransmission,  // of a request: sent before
    kDelivered,       // to the QP, or to the connection manager
    kDuplicate,       // a request that was executed before
    kEarlyKept,       // an earlier one is missing; it waits
    kEarlyDropped,    // an earlier one is missing; it has to be sent again
    kNoReceive,       // the receive queue is empty: answered by an RNR NAK
    kRefused,         // answered by a NAK for an error
    kDropped,         // see PacketDrop
};
inline constexpr std::string_view kPacketFates[] = {"sent",       "retransmission", "delivered",
                                                    "duplicate",  "early-kept",     "early-dropped",
                                                    "no-receive", "refused",        "dropped"};

/// Names of drop counters, as `urnic status` has them; a record has the place in this list. The last
/// kMadDrops are of MADs on InfiniBand, which have no counters there.
inline constexpr std::string_view kPacketDrops[] = {
    "drop_malformed", "drop_not_roce",     "drop_not_for_us",     "drop_unknown_qp",      "drop_wrong_sender",
    "drop_qp_state",  "drop_pkey",         "drop_qkey",           "drop_opcode",          "drop_uc_message",
    "drop_mad_full",  "drop_port_down",    "drop_neighbour_msgs", "rx_icrc_encapsulated", "drop_mad_route",
    "drop_mad_m_key", "drop_mad_not_taken"};
inline constexpr std::size_t kMadDrops = 3;

inline constexpr std::uint32_t kNoQp = ~0U;
inline constexpr std::uint8_t kNoState = 0xff;
inline constexpr std::uint16_t kCaptureFiller = 0xffff;

enum class CaptureKind : std::uint8_t { kPacket, kCompletion, kWqe, kRate, kTimer, kPause };

/// The captured bytes follow. Records are aligned to 8 bytes.
struct CaptureRecord {
    std::uint32_t bytes;  // of the record with this header and padding
    std::uint16_t
        rnic;  // index; kCaptureFiller: nothing up to the end of the ring, of which only `bytes` counts
    PacketFate fate;
    std::uint8_t drop;           // of kDropped: place in kPacketDrops
    std::uint64_t time_ns;       // CLOCK_MONOTONIC
    std::uint32_t wire_bytes;    // of the frame, without FCS; an InfiniBand packet from LRH to VCRC
    std::uint32_t captured;      // of them here
    std::uint32_t qpn;           // of this end; kNoQp: not known
    std::uint32_t lost_before;   // records of this RNIC and ring that had no room since its last one
    std::uint32_t expected_psn;  // the next request's, of a QP with `state`
    std::uint32_t next_psn;      // of its own next new request
    std::uint8_t is_sent;        // by this end
    std::uint8_t state;          // QpState of this end behind the packet; kNoState: not known
    /// Of all but kPacket what is named Captured and so follows; fate and PSNs say nothing. kPause is of the
    /// RNIC, and of no QP.
    CaptureKind kind;
    std::uint8_t reserved[5];
};
static_assert(sizeof(CaptureRecord) == 48);

/// What a trace shows of a completion; immediate data are not among it. The wr_id is often an address in the
/// application: readers show it to those alone who may capture.
struct CapturedCompletion {
    std::uint64_t wr_id;
    std::uint32_t wqe_index;
    std::uint32_t byte_len;
    std::uint8_t status;  // WcStatus
    std::uint8_t opcode;  // WcOpcode, if the status is success
    std::uint8_t is_recv;
    std::uint8_t is_solicited;
    std::uint8_t reserved[4];
};
static_assert(sizeof(CapturedCompletion) == 24);

/// What a trace shows of a WQE that the worker has taken out of its queue.
struct CapturedWqe {
    std::uint64_t wr_id;         // of a send; as of a completion
    std::uint64_t length_bytes;  // of a send: its list, or what is inline
    std::uint32_t wqe_index;
    std::uint32_t first_psn;  // of a send: of its message; one that sends nothing has the next one's
    std::uint8_t opcode;      // of a send: WrOpcode, as the application wrote it
    std::uint8_t is_recv;     // of a receive queue or SRQ: what follows the index says nothing
    std::uint8_t
        is_reused;  // the application had written its next WQE there: of a send only its index and PSN
    std::uint8_t reserved[5];
};
static_assert(sizeof(CapturedWqe) == 32);

/// Why a QP may send at another rate.
enum class RateCause : std::uint8_t { kCnp, kTimer, kByteCounter, kRtt, kSettings };
inline constexpr std::string_view kRateCauses[] = {"cnp", "timer", "byte_counter", "rtt", "settings"};

/// How fast a QP may send from now on.
struct CapturedRate {
    std::uint64_t bits_per_s;  // of frames; 0: as fast as it can
    std::uint64_t old_bits_per_s;
    std::uint64_t target_bits_per_s;  // of DCQCN, as alpha: 0 of others
    std::uint32_t alpha_ppm;
    RateCause cause;
    std::uint8_t reserved[3];
};
static_assert(sizeof(CapturedRate) == 32);

inline constexpr std::string_view kTimerNames[] = {"ack", "rnr", "probe"};

/// A timer of a requester expired.
struct CapturedTimer {
    std::uint8_t timer;        // place in kTimerNames
    std::uint8_t retries;      // used up before
    std::uint8_t retry_limit;  // 7 of rnr: there is none
    std::uint8_t reserved[5];
};
static_assert(sizeof(CapturedTimer) == 8);

/// PFC (IEEE 802.1Qbb): the other end of the link has paused or resumed priorities of the RNIC, or the RNIC
/// those of the other end.
struct CapturedPause {
    std::uint8_t paused;   // bit n: priority n was paused
    std::uint8_t resumed;  // the same
    std::uint8_t is_sent;
    std::uint8_t reserved[5];
};
static_assert(sizeof(CapturedPause) == 8);

}  // namespace urnic::abi
