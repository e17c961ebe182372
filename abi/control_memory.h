// The part of the control protocol that is about memory: regions registered again, windows, device memory,
// and what one process imports of another. Included by control.h.
#pragma once

#include "abi/control.h"

namespace urnic::abi {

/// Changes what `changes` say of a region; its keys stay. Error EBUSY: memory windows are bound to it. On an
/// error the region is as it was.
enum ReregMrChanges : std::uint32_t {  // ibv_rereg_mr_flags
    kReregMrTranslation = 1U << 0U,    // addr, length, iova, memory_flags
    kReregMrPd = 1U << 1U,
    kReregMrAccess = 1U << 2U,
};
struct ReregMrRequest {
    RequestHeader header;
    std::uint32_t mr;
    std::uint32_t changes;  // ReregMrChanges
    std::uint32_t pd;
    std::uint32_t access;
    std::uint64_t addr;
    std::uint64_t length;
    std::uint64_t iova;
    std::uint32_t memory_flags;  // RegMrFlags
    std::uint32_t reserved;
};

/// DeregMr and ReregMr answer EBUSY while windows are bound to the region.
struct AllocMwRequest {
    RequestHeader header;
    std::uint32_t pd;
    std::uint32_t type;  // ibv_mw_type
};
/// `rkey`: the window's first key. The low 8 bits of those that binds give it are the application's choice
/// (ibv_inc_rkey); the others stay.
struct AllocMwReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t rkey;
};

/// Device memory: zeros of the daemon's. Reply (DmReply) with fd [0]: a memfd of `length` bytes, rounded up
/// to whole pages, sealed in its size, for the application's own access.
struct AllocDmRequest {
    RequestHeader header;
    std::uint32_t context;
    std::uint32_t reserved;
    std::uint64_t length;
};
struct DmReply {
    ReplyHeader header;
    std::uint32_t handle;
    std::uint32_t reserved;
    std::uint64_t length;
};
/// Reply: RegMrReply. The region's addresses begin at 0.
struct RegDmMrRequest {
    RequestHeader header;
    std::uint32_t pd;
    std::uint32_t dm;
    std::uint32_t access;
    std::uint32_t reserved;
    std::uint64_t offset;
    std::uint64_t length;
};

/// Request fd: [0] the command fd of a context, of this process or of another that passed it on. Reply fd:
/// [0] the async event socket of the new context. Error EBADF: no context that is open has it.
struct ImportDeviceRequest {
    RequestHeader header;
};
struct ImportDeviceReply {
    ReplyHeader header;
    std::uint32_t context;
    std::uint32_t reserved;
    DeviceCaps caps;
    char name[64];
};
/// ImportPd and ImportDm: `into` is a context of ImportDevice; ImportMr: a PD of ImportPd. `handle` is what
/// the object is called by the client whose context was imported. Replies: ImportPd HandleReply, ImportMr
/// ImportMrReply, ImportDm DmReply with the fd of AllocDm.
struct ImportRequest {
    RequestHeader header;
    std::uint32_t into;
    std::uint32_t handle;
};
/// The region stays the other client's: it has no handle here.
struct ImportMrReply {
    ReplyHeader header;
    std::uint32_t lkey, rkey;
    std::uint64_t length;
};

}  // namespace urnic::abi
