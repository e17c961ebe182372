// The numeric values of the verbs API that travel between provider and daemon. They equal those of
// <infiniband/verbs.h> (verbs_provider/core/abi_check.cc asserts it), so that neither side translates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace urnic {

/// ibv_wr_opcode.
enum class WrOpcode : std::uint8_t {
    kWrite = 0,
    kWriteWithImm = 1,
    kSend = 2,
    kSendWithImm = 3,
    kRead = 4,
    kCompareSwap = 5,
    kFetchAdd = 6,
    kLocalInvalidate = 7,
    kBindMw = 8,
    kSendWithInvalidate = 9,
    kFlush = 14,  // verbs call it so from rdma-core 45 on
    kAtomicWrite = 15,
};

/// ibv_send_flags, a bit mask.
enum SendFlags : std::uint16_t {
    kSendFence = 1U << 0U,
    kSendSignaled = 1U << 1U,
    kSendSolicited = 1U << 2U,
    kSendInline = 1U << 3U,
};

/// ibv_wc_status.
enum class WcStatus : std::uint8_t {
    kSuccess = 0,
    kLocLenErr = 1,
    kLocQpOpErr = 2,
    kLocProtErr = 4,
    kWrFlushErr = 5,
    kMwBindErr = 6,
    kBadRespErr = 7,
    kLocAccessErr = 8,
    kRemInvReqErr = 9,
    kRemAccessErr = 10,
    kRemOpErr = 11,
    kRetryExcErr = 12,
    kRnrRetryExcErr = 13,
    kRemAbortErr = 16,
    kFatalErr = 19,
    kGeneralErr = 21,
};

/// ibv_wc_opcode.
enum class WcOpcode : std::uint8_t {
    kSend = 0,
    kRdmaWrite = 1,
    kRdmaRead = 2,
    kCompSwap = 3,
    kFetchAdd = 4,
    kBindMw = 5,
    kLocalInv = 6,
    kFlush = 8,
    kAtomicWrite = 9,
    kRecv = 128,
    kRecvRdmaWithImm = 129,
};

/// ibv_wc_flags, a bit mask.
enum WcFlags : std::uint8_t { kWcGrh = 1U << 0U, kWcWithImm = 1U << 1U, kWcWithInv = 1U << 3U };

/// ibv_access_flags, a bit mask.
enum AccessFlags : std::uint32_t {
    kAccessLocalWrite = 1U << 0U,
    kAccessRemoteWrite = 1U << 1U,
    kAccessRemoteRead = 1U << 2U,
    kAccessRemoteAtomic = 1U << 3U,
    kAccessMwBind = 1U << 4U,
    kAccessZeroBased = 1U << 5U,
    kAccessHugetlb = 1U << 7U,
    kAccessFlushGlobal = 1U << 8U,  // these two are in verbs from rdma-core 45 on
    kAccessFlushPersistent = 1U << 9U,
    kAccessRelaxedOrdering = 1U << 20U,
};

/// ibv_qp_type.
enum class QpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4, kRawPacket = 8, kXrcSend = 9, kXrcRecv = 10 };

/// ibv_qp_create_flags, a bit mask.
enum QpCreateFlags : std::uint16_t { kQpBlockSelfMcastLb = 1U << 1U };

/// ibv_qp_state.
enum class QpState : std::uint8_t {
    kReset = 0,
    kInit = 1,
    kRtr = 2,
    kRts = 3,
    kSqd = 4,
    kSqe = 5,
    kErr = 6,
};
/// "RTS"; "unknown" for a value that is none.
constexpr const char* qp_state_name(QpState state) {
    constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
    const auto index = static_cast<std::size_t>(state);
    return index < std::size(kNames) ? kNames[index] : "unknown";
}

/// ibv_qp_attr_mask, a bit mask.
enum QpAttrMask : std::uint32_t {
    kQpAttrState = 1U << 0U,
    kQpAttrCurState = 1U << 1U,
    kQpAttrEnSqdAsyncNotify = 1U << 2U,
    kQpAttrAccessFlags = 1U << 3U,
    kQpAttrPkeyIndex = 1U << 4U,
    kQpAttrPort = 1U << 5U,
    kQpAttrQkey = 1U << 6U,
    kQpAttrAv = 1U << 7U,
    kQpAttrPathMtu = 1U << 8U,
    kQpAttrTimeout = 1U << 9U,
    kQpAttrRetryCnt = 1U << 10U,
    kQpAttrRnrRetry = 1U << 11U,
    kQpAttrRqPsn = 1U << 12U,
    kQpAttrMaxQpRdAtomic = 1U << 13U,
    kQpAttrAltPath = 1U << 14U,
    kQpAttrMinRnrTimer = 1U << 15U,
    kQpAttrSqPsn = 1U << 16U,
    kQpAttrMaxDestRdAtomic = 1U << 17U,
    kQpAttrPathMigState = 1U << 18U,
    kQpAttrCap = 1U << 19U,
    kQpAttrDestQpn = 1U << 20U,
    kQpAttrRateLimit = 1U << 25U,
};

/// ibv_srq_attr_mask, a bit mask.
enum SrqAttrMask : std::uint32_t { kSrqMaxWr = 1U << 0U, kSrqLimit = 1U << 1U };

/// ibv_event_type.
enum class AsyncEventType : std::uint32_t {
    kCqErr = 0,
    kQpFatal = 1,
    kQpReqErr = 2,
    kQpAccessErr = 3,
    kCommEst = 4,
    kSqDrained = 5,
    kPathMig = 6,
    kPathMigErr = 7,
    kDeviceFatal = 8,
    kPortActive = 9,
    kPortErr = 10,
    kLidChange = 11,
    kPkeyChange = 12,
    kSmChange = 13,
    kSrqErr = 14,
    kSrqLimitReached = 15,
    kQpLastWqeReached = 16,
    kClientReregister = 17,
    kGidChange = 18,
};

/// ibv_mtu 1..5 to bytes: 256 << (mtu - 1).
constexpr std::uint32_t mtu_bytes(std::uint8_t mtu_enum) { return 128U << mtu_enum; }

}  // namespace urnic
