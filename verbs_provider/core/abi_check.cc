// The values that travel between provider and daemon are those of <infiniband/verbs.h>: nobody translates.
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "abi/control.h"
#include "abi/verbs_values.h"

namespace urnic {

namespace {

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
    return static_cast<unsigned long>(ours) == static_cast<unsigned long>(theirs);
}

static_assert(same(WrOpcode::kWrite, IBV_WR_RDMA_WRITE));
static_assert(same(WrOpcode::kWriteWithImm, IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(same(WrOpcode::kSend, IBV_WR_SEND));
static_assert(same(WrOpcode::kSendWithImm, IBV_WR_SEND_WITH_IMM));
static_assert(same(WrOpcode::kRead, IBV_WR_RDMA_READ));
static_assert(same(WrOpcode::kCompareSwap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(same(WrOpcode::kFetchAdd, IBV_WR_ATOMIC_FETCH_AND_ADD));
static_assert(same(WrOpcode::kLocalInvalidate, IBV_WR_LOCAL_INV));
static_assert(same(WrOpcode::kBindMw, IBV_WR_BIND_MW));
static_assert(same(WrOpcode::kSendWithInvalidate, IBV_WR_SEND_WITH_INV));
static_assert(same(WrOpcode::kAtomicWrite, IBV_WR_ATOMIC_WRITE));

static_assert(same(kSendFence, IBV_SEND_FENCE));
static_assert(same(kSendSignaled, IBV_SEND_SIGNALED));
static_assert(same(kSendSolicited, IBV_SEND_SOLICITED));
static_assert(same(kSendInline, IBV_SEND_INLINE));

static_assert(same(WcStatus::kSuccess, IBV_WC_SUCCESS));
static_assert(same(WcStatus::kLocLenErr, IBV_WC_LOC_LEN_ERR));
static_assert(same(WcStatus::kLocQpOpErr, IBV_WC_LOC_QP_OP_ERR));
static_assert(same(WcStatus::kLocProtErr, IBV_WC_LOC_PROT_ERR));
static_assert(same(WcStatus::kWrFlushErr, IBV_WC_WR_FLUSH_ERR));
static_assert(same(WcStatus::kMwBindErr, IBV_WC_MW_BIND_ERR));
static_assert(same(WcStatus::kBadRespErr, IBV_WC_BAD_RESP_ERR));
static_assert(same(WcStatus::kLocAccessErr, IBV_WC_LOC_ACCESS_ERR));
static_assert(same(WcStatus::kRemInvReqErr, IBV_WC_REM_INV_REQ_ERR));
static_assert(same(WcStatus::kRemAccessErr, IBV_WC_REM_ACCESS_ERR));
static_assert(same(WcStatus::kRemOpErr, IBV_WC_REM_OP_ERR));
static_assert(same(WcStatus::kRetryExcErr, IBV_WC_RETRY_EXC_ERR));
static_assert(same(WcStatus::kRnrRetryExcErr, IBV_WC_RNR_RETRY_EXC_ERR));
static_assert(same(WcStatus::kRemAbortErr, IBV_WC_REM_ABORT_ERR));
static_assert(same(WcStatus::kFatalErr, IBV_WC_FATAL_ERR));
static_assert(same(WcStatus::kGeneralErr, IBV_WC_GENERAL_ERR));

static_assert(same(WcOpcode::kSend, IBV_WC_SEND));
static_assert(same(WcOpcode::kRdmaWrite, IBV_WC_RDMA_WRITE));
static_assert(same(WcOpcode::kRdmaRead, IBV_WC_RDMA_READ));
static_assert(same(WcOpcode::kCompSwap, IBV_WC_COMP_SWAP));
static_assert(same(WcOpcode::kFetchAdd, IBV_WC_FETCH_ADD));
static_assert(same(WcOpcode::kBindMw, IBV_WC_BIND_MW));
static_assert(same(WcOpcode::kLocalInv, IBV_WC_LOCAL_INV));
static_assert(same(WcOpcode::kAtomicWrite, IBV_WC_ATOMIC_WRITE));
static_assert(same(WcOpcode::kRecv, IBV_WC_RECV));
static_assert(same(WcOpcode::kRecvRdmaWithImm, IBV_WC_RECV_RDMA_WITH_IMM));
static_assert(same(kWcGrh, IBV_WC_GRH));
static_assert(same(kWcWithImm, IBV_WC_WITH_IMM));
static_assert(same(kWcWithInv, IBV_WC_WITH_INV));

static_assert(same(kAccessLocalWrite, IBV_ACCESS_LOCAL_WRITE));
static_assert(same(kAccessRemoteWrite, IBV_ACCESS_REMOTE_WRITE));
static_assert(same(kAccessRemoteRead, IBV_ACCESS_REMOTE_READ));
static_assert(same(kAccessRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(same(kAccessMwBind, IBV_ACCESS_MW_BIND));
static_assert(same(kAccessZeroBased, IBV_ACCESS_ZERO_BASED));
static_assert(same(kAccessHugetlb, IBV_ACCESS_HUGETLB));
static_assert(same(kAccessRelaxedOrdering, IBV_ACCESS_RELAXED_ORDERING));

static_assert(same(QpType::kRc, IBV_QPT_RC));
static_assert(same(QpType::kUc, IBV_QPT_UC));
static_assert(same(QpType::kUd, IBV_QPT_UD));
static_assert(same(QpType::kRawPacket, IBV_QPT_RAW_PACKET));
static_assert(same(QpType::kXrcSend, IBV_QPT_XRC_SEND));
static_assert(same(QpType::kXrcRecv, IBV_QPT_XRC_RECV));
static_assert(same(kQpBlockSelfMcastLb, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB));
static_assert(same(QpState::kReset, IBV_QPS_RESET));
static_assert(same(QpState::kInit, IBV_QPS_INIT));
static_assert(same(QpState::kRtr, IBV_QPS_RTR));
static_assert(same(QpState::kRts, IBV_QPS_RTS));
static_assert(same(QpState::kSqd, IBV_QPS_SQD));
static_assert(same(QpState::kSqe, IBV_QPS_SQE));
static_assert(same(QpState::kErr, IBV_QPS_ERR));

static_assert(same(kQpAttrState, IBV_QP_STATE));
static_assert(same(kQpAttrCurState, IBV_QP_CUR_STATE));
static_assert(same(kQpAttrEnSqdAsyncNotify, IBV_QP_EN_SQD_ASYNC_NOTIFY));
static_assert(same(kQpAttrAccessFlags, IBV_QP_ACCESS_FLAGS));
static_assert(same(kQpAttrPkeyIndex, IBV_QP_PKEY_INDEX));
static_assert(same(kQpAttrPort, IBV_QP_PORT));
static_assert(same(kQpAttrQkey, IBV_QP_QKEY));
static_assert(same(kQpAttrAv, IBV_QP_AV));
static_assert(same(kQpAttrPathMtu, IBV_QP_PATH_MTU));
static_assert(same(kQpAttrTimeout, IBV_QP_TIMEOUT));
static_assert(same(kQpAttrRetryCnt, IBV_QP_RETRY_CNT));
static_assert(same(kQpAttrRnrRetry, IBV_QP_RNR_RETRY));
static_assert(same(kQpAttrRqPsn, IBV_QP_RQ_PSN));
static_assert(same(kQpAttrMaxQpRdAtomic, IBV_QP_MAX_QP_RD_ATOMIC));
static_assert(same(kQpAttrAltPath, IBV_QP_ALT_PATH));
static_assert(same(kQpAttrMinRnrTimer, IBV_QP_MIN_RNR_TIMER));
static_assert(same(kQpAttrSqPsn, IBV_QP_SQ_PSN));
static_assert(same(kQpAttrMaxDestRdAtomic, IBV_QP_MAX_DEST_RD_ATOMIC));
static_assert(same(kQpAttrPathMigState, IBV_QP_PATH_MIG_STATE));
static_assert(same(kQpAttrCap, IBV_QP_CAP));
static_assert(same(kQpAttrDestQpn, IBV_QP_DEST_QPN));
static_assert(same(kQpAttrRateLimit, IBV_QP_RATE_LIMIT));

static_assert(same(kSrqMaxWr, IBV_SRQ_MAX_WR));
static_assert(same(kSrqLimit, IBV_SRQ_LIMIT));

static_assert(same(AsyncEventType::kCqErr, IBV_EVENT_CQ_ERR));
static_assert(same(AsyncEventType::kQpFatal, IBV_EVENT_QP_FATAL));
static_assert(same(AsyncEventType::kQpReqErr, IBV_EVENT_QP_REQ_ERR));
static_assert(same(AsyncEventType::kQpAccessErr, IBV_EVENT_QP_ACCESS_ERR));
static_assert(same(AsyncEventType::kCommEst, IBV_EVENT_COMM_EST));
static_assert(same(AsyncEventType::kSqDrained, IBV_EVENT_SQ_DRAINED));
static_assert(same(AsyncEventType::kPathMig, IBV_EVENT_PATH_MIG));
static_assert(same(AsyncEventType::kPathMigErr, IBV_EVENT_PATH_MIG_ERR));
static_assert(same(AsyncEventType::kDeviceFatal, IBV_EVENT_DEVICE_FATAL));
static_assert(same(AsyncEventType::kPortActive, IBV_EVENT_PORT_ACTIVE));
static_assert(same(AsyncEventType::kPortErr, IBV_EVENT_PORT_ERR));
static_assert(same(AsyncEventType::kLidChange, IBV_EVENT_LID_CHANGE));
static_assert(same(AsyncEventType::kPkeyChange, IBV_EVENT_PKEY_CHANGE));
static_assert(same(AsyncEventType::kSmChange, IBV_EVENT_SM_CHANGE));
static_assert(same(AsyncEventType::kSrqErr, IBV_EVENT_SRQ_ERR));
static_assert(same(AsyncEventType::kSrqLimitReached, IBV_EVENT_SRQ_LIMIT_REACHED));
static_assert(same(AsyncEventType::kQpLastWqeReached, IBV_EVENT_QP_LAST_WQE_REACHED));
static_assert(same(AsyncEventType::kClientReregister, IBV_EVENT_CLIENT_REREGISTER));
static_assert(same(AsyncEventType::kGidChange, IBV_EVENT_GID_CHANGE));

static_assert(sizeof(abi::Sge) == sizeof(ibv_sge));
static_assert(sizeof(abi::AsyncEvent) == sizeof(ib_uverbs_async_event_desc));
static_assert(mtu_bytes(IBV_MTU_256) == 256 && mtu_bytes(IBV_MTU_4096) == 4096);

}  // namespace

}  // namespace urnic
