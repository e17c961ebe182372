// The control protocol between provider (or `urnic status`) and daemon: one request and one reply a datagram
// on a Unix SOCK_SEQPACKET socket, file descriptors by SCM_RIGHTS. All integers in host order (one host).
// Every request begins with RequestHeader, every reply with ReplyHeader; `error` is 0 or an errno value, and
// an error reply is the header alone. Handles are per client (a Hello starts a client) and drawn from one
// space for each object kind.
#pragma once

#include <cstdint>

#include "abi/queues.h"

namespace urnic::abi {

inline constexpr std::uint32_t kControlMagic = 0x75726e63;  // "urnc"
/// Raised whenever anything in abi/ changes its meaning. Provider and daemon must agree.
inline constexpr std::uint32_t kAbiVersion = 10;
inline constexpr std::size_t kMaxMessageBytes = 2048;
/// File descriptors one message can carry: Hello's reply is the largest (2 + a wake eventfd for each worker).
inline constexpr std::uint32_t kMaxMessageFds = 2 + kMaxWorkers;

enum class Op : std::uint32_t {
    kHello = 1,
    kAttachMemory,
    kOpenDevice,
    kCloseDevice,
    kQueryPort,
    kAllocPd,
    kDeallocPd,
    kRegMr,
    kDeregMr,
    kCreateChannel,
    kDestroyChannel,
    kCreateCq,
    kResizeCq,
    kDestroyCq,
    kCreateQp,
    kModifyQp,
    kQueryQp,
    kDestroyQp,
    kStatus,
    kFault,
    kCreateAh,
    kDestroyAh,
    kAllocMw,
    kDeallocMw,
    kReregMr,
    kAllocNullMr,
    kAllocDm,
    kFreeDm,
    kRegDmMr,
    kImportDevice,
    kImportPd,
    kImportMr,
    kImportDm,
    kAttachMcast,
    kDetachMcast,
    kPort,
    kModifyCq,
    kCreateSrq,
    kModifySrq,
    kQuerySrq,
    kDestroySrq,
    kOpenXrcd,
    kOpenXrcdOfFile,
    kCloseXrcd,
    kOpenQp,
    kOpenCmChannel,
    kCloseCmChannel,  // a HandleRequest
    kCmCommand,
    kCongestion,
    kAttachProcess,
    kCmAccept,
    kCapture,  // abi/capture.h
    kNetlink,  // abi/netlink.h
};

struct RequestHeader {
    std::uint32_t magic;
    Op op;
    std::uint32_t cookie;  // returned in the reply
    std::uint32_t length;  // of the whole message, this header included
};

struct ReplyHeader {
    std::uint32_t magic;
    Op op;
    std::uint32_t cookie;
    std::int32_t error;  // 0 or errno
    std::uint32_t length;
    std::uint32_t reserved;
};

/// First request of a connection. Reply fds: [0] DaemonState (read-only memfd), [1] doorbells (memfd,
/// doorbell_bytes(num_workers)), [2 + w] wake eventfd of worker w. Error EPROTO: the ABI versions differ; the
/// reply then is whole and names the daemon's.
struct HelloRequest {
    RequestHeader header;
    std::uint32_t abi_version;
    std::uint32_t reserved;
    char program[32];  // for `urnic status`, NUL-terminated
};
struct HelloReply {
    ReplyHeader header;
    std::uint32_t abi_version;
    std::uint32_t num_workers;
    std::uint32_t client_id;
    std::int32_t daemon_pid;
};

/// Carries one fd: the client's memory file, a memfd sealed with F_SEAL_SHRINK | F_SEAL_GROW whose offsets
/// are the client's virtual addresses (sparse, kMemoryFileBytes long). Once for each client, before the first
/// converted MR.
inline constexpr std::uint64_t kMemoryFileBytes = 1ULL << 47U;
struct AttachMemoryRequest {
    RequestHeader header;
};

/// Carries two fds: the client's [0] /proc/self (O_PATH) and [1] /proc/self/mem (O_RDWR). Once for each
/// client, before the first MR that is not converted: the daemon copies to and from the address space that
/// [1] was opened for, and from nowhere without it.
struct AttachProcessRequest {
    RequestHeader header;
};

/// Reply fds: [0] the async event socket (SEQPACKET), one AsyncEvent a datagram; [1] the context's command
/// fd, a memfd without content. Who has it may import the context's objects.
inline constexpr char kContextTokenName[] = "urnic-context";
struct OpenDeviceRequest {
    RequestHeader header;
    char name[64];  // as in sysfs: "urnic0"
};
struct DeviceCaps {
    std::uint64_t node_guid;  // network order
    std::uint64_t max_mr_size;
    std::uint32_t max_qp, max_qp_wr, max_sge, max_sge_rd, max_inline, max_cq, max_cqe, max_mr, max_pd, max_ah;
    std::uint32_t max_mw;
    std::uint32_t max_qp_rd_atom, max_qp_init_rd_atom, max_res_rd_atom;
    std::uint32_t gid_table_len, pkey_table_len;
    std::uint32_t num_ports;
    std::uint64_t max_dm_bytes;
    std::uint32_t max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach;
    std::uint32_t max_srq, max_srq_wr, max_srq_sge;
};
struct OpenDeviceReply {
    ReplyHeader header;
    std::uint32_t context;
    std::uint32_t reserved;
    DeviceCaps caps;
};

/// The same layout as struct ib_uverbs_async_event_desc, which libibverbs reads from async_fd.
struct AsyncEvent {
    std::uint64_t element;  // the object's user_handle, or the port number
    std::uint32_t event_type;
    std::uint32_t reserved;
};
static_assert(sizeof(AsyncEvent) == 16);

/// Any request that names one object: CloseDevice, DeallocPd, DeregMr, DestroyChannel, DestroyCq, QueryQp,
/// DestroyQp, DestroyAh, DeallocMw, FreeDm, QuerySrq, DestroySrq, CloseXrcd; AllocNullMr names a PD.
struct HandleRequest {
    RequestHeader header;
    std::uint32_t handle;
    std::uint32_t reserved;
};
/// A reply that has nothing to say but success.
struct EmptyReply {
    ReplyHeader header;
};
/// Reply that names a new object: AllocPd, CreateChannel, OpenXrcd. CreateChannel's reply carries the two
/// ends of a Unix SEQPACKET socket pair, a message of 8 bytes, the user handle, for each event: [0] the end
/// that the application owns, blocking, which only receives; [1] the daemon's end, by which the provider puts
/// back events of others when it takes back those of a destroyed CQ, and wakes readers when the daemon dies.
struct HandleReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t reserved;
};
/// Reply to DestroyCq, DestroyQp and DestroySrq: events ever put into the event socket and the channel
/// for the object (those that found them full do not count). The provider takes back what nobody has read and
/// waits until the application has acknowledged the rest.
struct DestroyReply {
    ReplyHeader header;
    std::uint32_t async_events;
    std::uint32_t completion_events;
};

struct QueryPortRequest {
    RequestHeader header;
    std::uint32_t context;
    std::uint32_t port_num;
};
struct QueryPortReply {
    ReplyHeader header;
    std::uint32_t gid_table_len, port_cap_flags, max_msg_sz, bad_pkey_counter, qkey_violation_counter;
    std::uint16_t pkey_table_len, lid;
    std::uint8_t state, max_mtu, active_mtu, active_width, active_speed, phys_state, link_layer, max_vl_num;
    std::uint16_t sm_lid;
    std::uint8_t sm_sl, lmc;
};

/// AllocPd, CreateChannel: the context they belong to.
struct ContextRequest {
    RequestHeader header;
    std::uint32_t context;
    std::uint32_t reserved;
};

enum RegMrFlags : std::uint32_t {
    kRegMrConverted =
        1U << 0U,  // the pages lie in the memory file; otherwise the daemon copies (AttachProcess)
};
struct RegMrRequest {
    RequestHeader header;
    std::uint32_t pd;
    std::uint32_t access;  // AccessFlags
    std::uint64_t addr;
    std::uint64_t length;
    std::uint64_t iova;
    std::uint32_t flags;  // RegMrFlags
    std::uint32_t reserved;
};
struct RegMrReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t lkey, rkey;
    std::uint32_t reserved;
};

/// Rings of a client lie side by side in its ring memory, one sealed memfd, so that tens of thousands of
/// queues cost the daemon neither a mapping nor a descriptor each. Replies carry its fd and the queue's
/// page-aligned place in it: the provider maps that part alone (MAP_SHARED) and closes the fd. Reply fd: [0]
/// ring memory; the CQ is cq_bytes(num_workers, entries) at memory_offset.
enum CqFlags : std::uint32_t {
    kCqIgnoreOverrun = 1U << 0U,  // what finds no room is lost, and nobody is told
    kCqTimestamps = 1U << 1U,     // each completion's own time; otherwise that of the worker's round
};
struct CreateCqRequest {
    RequestHeader header;
    std::uint32_t context;
    std::uint32_t entries;  // wanted; the reply says what was made
    std::uint32_t channel;  // 0: none
    std::uint32_t comp_vector;
    std::uint64_t user_handle;  // sent to the channel and in async events
    std::uint32_t flags;        // CqFlags
    std::uint32_t reserved;
};
struct CreateCqReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t entries;  // of each worker's ring; a power of two
    std::uint64_t memory_offset;
};

/// Reply (CreateCqReply) with fd [0]: ring memory. From the reply on, new completions go to the new place
/// alone; what is left in the old rings stays readable until the CQ is resized again or destroyed. A
/// notification asked for in the old memory is carried over to the new. EINVAL: more completions wait to be
/// polled, `unpolled` that the provider keeps from earlier rings among them, than the new size has room for
/// (IBA 11.2.8.3); what was posted before counts as far as it can be executed at once.
struct ResizeCqRequest {
    RequestHeader header;
    std::uint32_t cq;
    std::uint32_t entries;
    std::uint32_t unpolled;
    std::uint32_t reserved;
};

/// From now on an event of an armed CQ comes after `count` completions or `period_us` microseconds after the
/// first of them, whichever is first; 0 takes that condition away, and with neither every completion may
/// raise one.
struct ModifyCqRequest {
    RequestHeader header;
    std::uint32_t cq;
    std::uint16_t count;
    std::uint16_t period_us;
};

/// Reply fd: [0] ring memory (see CreateCqRequest). The QP's part is memory_bytes at memory_offset:
/// `sq_entries` slots of `sq_stride` bytes first, receive slots rq_offset after the beginning of the part.
/// With an SRQ the QP has no receive slots. An XRC target QP (kXrcRecv) names an XRC domain instead of a PD,
/// has neither rings nor CQs nor a doorbell, and the reply carries no fd.
struct CreateQpRequest {
    RequestHeader header;
    std::uint32_t pd;
    std::uint32_t send_cq, recv_cq;
    std::uint32_t srq;  // 0: none
    std::uint8_t type;  // QpType
    std::uint8_t sq_sig_all;
    std::uint16_t create_flags;  // QpCreateFlags
    std::uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline;
    std::uint64_t user_handle;
    std::uint32_t xrcd;  // kXrcRecv; else 0
    std::uint32_t reserved2;
};
struct CreateQpReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t qp_num;
    std::uint32_t worker;
    std::uint32_t doorbell_slot;
    std::uint32_t sq_entries, sq_stride, rq_entries, rq_stride;
    std::uint32_t max_send_sge, max_recv_sge, max_inline;
    std::uint32_t reserved;
    std::uint64_t rq_offset, memory_offset, memory_bytes;
};

/// ibv_ah_attr.
struct AddressVector {
    std::uint8_t dgid[16];
    std::uint32_t flow_label;
    std::uint8_t sgid_index, hop_limit, traffic_class, sl;
    std::uint8_t is_global, port_num, static_rate, src_path_bits;
    std::uint16_t dlid;
    std::uint16_t reserved;
};

/// ibv_qp_attr without the capabilities, which never change.
struct QpAttr {
    std::uint32_t mask;  // QpAttrMask
    QpState state, cur_state;
    std::uint8_t path_mtu, path_mig_state;
    std::uint32_t qkey, rq_psn, sq_psn, dest_qp_num, access_flags;
    std::uint16_t pkey_index;
    std::uint8_t en_sqd_async_notify, sq_draining;
    std::uint8_t max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num;
    std::uint8_t timeout, retry_cnt, rnr_retry, reserved;
    std::uint32_t rate_limit;
    AddressVector av;
};
/// A change to RESET empties both rings: the provider starts again at index 0 once the reply is there.
struct ModifyQpRequest {
    RequestHeader header;
    std::uint32_t qp;
    std::uint32_t reserved;
    QpAttr attr;
};
struct QueryQpReply {
    ReplyHeader header;
    QpAttr attr;
};

/// Error ENETUNREACH: nobody on the network has that GID. `key` is what WrOperands::ud.address_handle holds;
/// it is good for QPs of the same PD, until the handle is destroyed.
struct CreateAhRequest {
    RequestHeader header;
    std::uint32_t pd;
    std::uint32_t reserved;
    AddressVector av;
};
struct CreateAhReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t key;
};

/// Reply fd: [0] ring memory; the SRQ is memory_bytes at memory_offset (an SrqHeader and its ring). Error
/// EINVAL too for an XRC SRQ without domain or CQ.
struct CreateSrqRequest {
    RequestHeader header;
    std::uint32_t pd;
    std::uint32_t max_wr, max_sge;
    std::uint32_t xrcd, cq;  // both, or both 0: a basic SRQ
    std::uint32_t reserved;
    std::uint64_t user_handle;
};
struct SrqReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t srq_number;
    std::uint32_t entries, stride, max_sge;
    std::uint32_t limit;
    std::uint64_t memory_offset, memory_bytes;
};

/// Reply: SrqReply, with fd [0] (ring memory) when the ring was resized: the receives that are posted lie in
/// the new ring too, under the same indexes. The application posts none meanwhile.
struct ModifySrqRequest {
    RequestHeader header;
    std::uint32_t srq;
    std::uint32_t mask;    // SrqAttrMask
    std::uint32_t max_wr;  // kSrqMaxWr: EINVAL when more receives are posted than that
    std::uint32_t limit;   // kSrqLimit
};

/// Opens an XRC domain. OpenXrcd: a new one of this client alone. OpenXrcdOfFile: that of the file whose
/// descriptor comes with the request, on that device, in whatever process it was made; by `flags` it is made
/// if there is none (else EAGAIN), or must not exist yet (else EINVAL).
enum XrcdFlags : std::uint32_t { kXrcdCreate = 1U << 0U, kXrcdExclusive = 1U << 1U };
struct OpenXrcdRequest {
    RequestHeader header;
    std::uint32_t context;
    std::uint32_t flags;  // XrcdFlags
};

/// Opens the target QP of that number in an XRC domain, whoever made it. It lives until every handle to it
/// was destroyed; its events go to each. Reply: CreateQpReply without rings.
struct OpenQpRequest {
    RequestHeader header;
    std::uint32_t xrcd;
    std::uint32_t qp_num;
    std::uint64_t user_handle;
};

/// Reply fd: [0] a memfd with the status as JSON text. Needs no Hello.
struct StatusRequest {
    RequestHeader header;
};

/// AttachMcast, DetachMcast: the QP becomes a member of the group, or leaves it. EINVAL: no UD QP, no
/// multicast GID, on InfiniBand no multicast LID or another one than the RNIC has for the group already, or
/// (detach) no member. ENOMEM: a limit. A QP that is a member cannot be destroyed (EBUSY).
struct McastRequest {
    RequestHeader header;
    std::uint32_t qp;
    std::uint16_t lid;  // of the group, on InfiniBand
    std::uint16_t reserved;
    std::uint8_t gid[16];
};

enum class FaultAction : std::uint32_t {
    kList = 1,  // reply fd: [0] a memfd with {"faults": [...]}
    kAdd,       // request fd: [0] a memfd, sealed like the memory file, with the events as JSON text
    kRemove,
    kClear,
};
inline constexpr std::size_t kMaxFaultTextBytes = 1U << 20U;
/// Needs no Hello. Errors: EPERM for anything but kList from anybody but root and the daemon's own user;
/// EINVAL for a wrong event, ENOENT for a number that no fault has: the reply then is whole and says in words
/// what is wrong.
struct FaultRequest {
    RequestHeader header;
    FaultAction action;
    std::uint32_t id;  // kRemove
    char source[256];  // kAdd: a name for the text, put in front of messages; NUL-terminated
};
struct FaultReply {
    ReplyHeader header;
    char message[768];  // NUL-terminated
};

enum class CongestionAction : std::uint32_t {
    kShow = 1,  // reply fd: [0] a memfd with {"devices": [...]}
    kSet,
};
/// Needs no Hello. Errors: EPERM for a change asked for by anybody but root and the daemon's own user;
/// ENODEV: no such device, ENOENT: no such QP, EINVAL: a wrong setting; the reply then is whole and says so
/// in words.
struct CongestionRequest {
    RequestHeader header;
    CongestionAction action;
    std::uint32_t qpn;  // kSet; 0: the device
    char device[64];    // kSet; NUL-terminated
    char values[768];   // kSet: a "name=value" on each line; NUL-terminated
};
struct CongestionReply {
    ReplyHeader header;
    char message[768];  // NUL-terminated
};

enum class PortAction : std::uint32_t { kQuery = 1, kDown, kUp };
/// Needs no Hello. Errors: EPERM for a change asked for by anybody but root and the daemon's own user;
/// ENODEV: no such device, the reply then is whole and says so in words. A change raises PORT_ERR or
/// PORT_ACTIVE in every context of the device.
struct PortRequest {
    RequestHeader header;
    PortAction action;
    std::uint32_t reserved;
    char device[64];  // NUL-terminated
};
struct PortReply {
    ReplyHeader header;
    std::uint32_t up;  // now
    std::uint32_t reserved;
    char message[256];  // NUL-terminated
};

}  // namespace urnic::abi

#include "abi/control_cm.h"
#include "abi/control_memory.h"
