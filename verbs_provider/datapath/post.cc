// Posting work requests: fill slots, publish them, ring once. No system call unless the worker sleeps.
#include <errno.h>
#include <unistd.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/datapath/poll_wait.h"
#include "verbs_provider/datapath/post_ring.h"
#include "verbs_provider/datapath/send_opcodes.h"

namespace urnic::provider {

namespace {

constexpr std::uint32_t kKnownFlags = kSendFence | kSendSignaled | kSendSolicited | kSendInline;

/// Copies the gather list's bytes behind the header. Returns false if they are more than the QP's max_inline.
inline bool copy_inline(const Qp& qp, abi::SendWqe& wqe, const struct ibv_send_wr& wr) {
    auto* to = reinterpret_cast<std::byte*>(&wqe + 1);
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        const struct ibv_sge& sge = wr.sg_list[i];
        if (length + sge.length > qp.max_inline) {
            return false;
        }
        std::memcpy(to + length, at_address<const void>(sge.addr), sge.length);
        length += sge.length;
    }
    wqe.num_sge = 0;
    wqe.inline_length = static_cast<std::uint32_t>(length);
    return true;
}

/// Returns false if it is no type 2 window: an application's work request binds no other. From now on the
/// window has its new key: the caller publishes the slot.
bool copy_bind(abi::SendWqe& wqe, const struct ibv_send_wr& wr) {
    if (wr.bind_mw.mw == nullptr || wr.bind_mw.mw->type != IBV_MW_TYPE_2) {
        return false;
    }
    wr.bind_mw.mw->rkey = fill_bind(wqe, *mw_of(wr.bind_mw.mw), wr.bind_mw.rkey, wr.bind_mw.bind_info);
    return true;
}

/// Fills and publishes slot `index`. 0 or EINVAL, and then nothing was published.
inline int write_send(const Qp& qp, std::uint32_t index, const struct ibv_send_wr& wr) {
    std::uint32_t opcode = 0;  // not read as the enumeration: the application may have put anything there
    static_assert(sizeof opcode == sizeof wr.opcode);
    std::memcpy(&opcode, &wr.opcode, sizeof opcode);
    if (opcode >= kSendOpcodes || !qp.send_opcodes[opcode].is_offered || (wr.send_flags & ~kKnownFlags) != 0)
        [[unlikely]] {
        return EINVAL;
    }
    if (static_cast<std::uint32_t>(wr.num_sge) > qp.sq.max_sge) [[unlikely]] {
        return EINVAL;
    }
    const SendOpcode& what = qp.send_opcodes[opcode];
    auto& wqe = *reinterpret_cast<abi::SendWqe*>(qp.sq.slot(index));
    wqe.opcode = static_cast<std::uint8_t>(opcode);
    wqe.flags = static_cast<std::uint16_t>(wr.send_flags);
    wqe.wr_id = wr.wr_id;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        if (!what.can_inline || !copy_inline(qp, wqe, wr)) [[unlikely]] {
            return EINVAL;
        }
    } else if (what.is_local) [[unlikely]] {
        wqe.num_sge = 0;
        wqe.inline_length = 0;
        if (opcode == IBV_WR_BIND_MW && !copy_bind(wqe, wr)) {
            return EINVAL;
        }
    } else {
        wqe.num_sge = static_cast<std::uint8_t>(wr.num_sge);
        wqe.inline_length = 0;
        copy_sges(reinterpret_cast<abi::Sge*>(&wqe + 1), wr.sg_list, static_cast<std::uint32_t>(wr.num_sge));
    }
    wqe.imm_or_rkey = what.has_immediate_or_key ? wr.imm_data : 0;
    if (what.is_atomic) {
        wqe.wr.atomic.remote_addr = wr.wr.atomic.remote_addr;
        wqe.wr.atomic.rkey = wr.wr.atomic.rkey;
        wqe.wr.atomic.compare_add = wr.wr.atomic.compare_add;
        wqe.wr.atomic.swap = wr.wr.atomic.swap;
    } else if (what.is_remote) {
        wqe.wr.rdma.remote_addr = wr.wr.rdma.remote_addr;
        wqe.wr.rdma.rkey = wr.wr.rdma.rkey;
    } else if (what.is_datagram) {
        if (wr.wr.ud.ah == nullptr) [[unlikely]] {
            return EINVAL;
        }
        wqe.wr.ud.address_handle = ah_of(wr.wr.ud.ah)->key;
        wqe.wr.ud.remote_qp_num = wr.wr.ud.remote_qpn;
        wqe.wr.ud.remote_qkey = wr.wr.ud.remote_qkey;
    }
    if (what.is_xrc) {
        wqe.xrc_srq_number = wr.qp_type.xrc.remote_srqn;
    }
    wqe.seq.store(index + 1, std::memory_order_release);
    return 0;
}

bool can_send(std::uint32_t state) { return state >= static_cast<std::uint32_t>(QpState::kRts); }
/// Receives for a QP with an SRQ are posted there; XRC initiators get none.
bool has_receive_ring(const Qp& qp) { return qp.qp.srq == nullptr && qp.qp.recv_cq != nullptr; }
bool can_receive(std::uint32_t state) { return state != static_cast<std::uint32_t>(QpState::kReset); }

}  // namespace

void ring_doorbell(Qp& qp) {
    if (qp.bell_word == nullptr) [[unlikely]] {
        return;  // XRC target: nothing is ever posted
    }
    if (qp.session->state_relaxed() != SessionState::kLive) [[unlikely]] {
        // Nobody listens; whoever waits for a completion finds the flush.
        if (qp.session->state_relaxed() == SessionState::kDead) {
            notify_flush(*cq_of(qp.qp.send_cq));
            if (qp.qp.recv_cq != nullptr) {
                notify_flush(*cq_of(qp.qp.recv_cq));
            }
        }
        return;
    }
    if (qp.bell_word->fetch_or(qp.bell_bit, std::memory_order_seq_cst) == 0) {
        qp.bell_summary->fetch_or(qp.bell_summary_bit, std::memory_order_seq_cst);
    }
    // The worker says that it sleeps before it looks at the doorbells for the last time: either it sees this
    // ring, or this load sees that it sleeps.
    if (qp.worker_sleeping->load(std::memory_order_seq_cst) != 0) [[unlikely]] {
        const std::uint64_t one = 1;
        const int before = errno;
        [[maybe_unused]] const ssize_t written = write(qp.worker_wake_fd, &one, sizeof one);
        errno = before;
        note_wake(*cq_of(qp.qp.send_cq));
    }
}

void mark_error(Qp& qp) {
    if (qp.in_error.load(std::memory_order_relaxed) != 0) {
        return;
    }
    bool late_receives = false;
    {
        // Under the lock, a receive is either posted before (and seen here) or sees the flag.
        Guard guard(qp.rq_lock);
        qp.in_error.store(1, std::memory_order_relaxed);
        late_receives = qp.rq.outstanding();
    }
    if (late_receives && qp.session->state_relaxed() == SessionState::kLive) {
        ring_doorbell(qp);
    }
}

int post_send(struct ibv_qp* ibv_qp, struct ibv_send_wr* wr, struct ibv_send_wr** bad_wr) {
    Qp& qp = *qp_of(ibv_qp);
    int error = 0;
    std::uint32_t posted = 0;
    if (qp.session->state_relaxed() == SessionState::kForkedChild) [[unlikely]] {
        error = EIO;
    } else {
        Guard guard(qp.sq_lock);
        if (!can_send(qp.state.load(std::memory_order_relaxed)) || qp.send_opcodes == nullptr) [[unlikely]] {
            error = EINVAL;
        } else {
            error =
                post_list(qp.sq, wr, posted, [&qp](std::uint32_t index, const struct ibv_send_wr& request) {
                    return write_send(qp, index, request);
                });
        }
    }
    if (posted != 0) {
        ring_doorbell(qp);
    }
    return error == 0 ? 0 : refuse_post(error, wr, bad_wr);
}

std::uint32_t fill_bind(abi::SendWqe& wqe, const Mw& mw, std::uint32_t rkey,
                        const struct ibv_mw_bind_info& info) {
    const std::uint32_t new_key = mw.index_bits | (rkey & kConsumerKeyMask);
    wqe.wr.mw.addr = info.addr;
    wqe.wr.mw.new_key = new_key;
    wqe.wr.mw.region_lkey = info.mr != nullptr ? info.mr->lkey : 0;
    wqe.wr.mw.length = info.length;
    wqe.wr.mw.access = info.mw_access_flags;
    return new_key;
}

int bind_mw(struct ibv_qp* ibv_qp, struct ibv_mw* mw, struct ibv_mw_bind* bind) {
    // Each bind gives a key of its own; the bits that may change are those that are the application's for a
    // type 2 window.
    struct ibv_send_wr wr {};
    struct ibv_send_wr* bad_wr = nullptr;
    Mw as_type_2 = *mw_of(mw);
    as_type_2.mw.type = IBV_MW_TYPE_2;
    wr.wr_id = bind->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind->send_flags;
    wr.bind_mw.mw = &as_type_2.mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = bind->bind_info;
    const int error = post_send(ibv_qp, &wr, &bad_wr);
    if (error == 0) {
        mw->rkey = as_type_2.mw.rkey;
    }
    return error;
}

int post_recv(struct ibv_qp* ibv_qp, struct ibv_recv_wr* wr, struct ibv_recv_wr** bad_wr) {
    Qp& qp = *qp_of(ibv_qp);
    int error = 0;
    std::uint32_t posted = 0;
    bool in_error = false;
    if (qp.session->state_relaxed() == SessionState::kForkedChild) [[unlikely]] {
        error = EIO;
    } else {
        Guard guard(qp.rq_lock);
        if (!can_receive(qp.state.load(std::memory_order_relaxed)) || !has_receive_ring(qp)) [[unlikely]] {
            error = EINVAL;
        } else {
            error =
                post_list(qp.rq, wr, posted, [&qp](std::uint32_t index, const struct ibv_recv_wr& request) {
                    return write_recv(qp.rq, index, request);
                });
        }
        in_error = qp.in_error.load(std::memory_order_relaxed) != 0;
    }
    // A receive is found when a message comes; a QP in ERR gets none, and must be told to flush.
    if (posted != 0 && (in_error || qp.session->state_relaxed() == SessionState::kDead)) [[unlikely]] {
        ring_doorbell(qp);
    }
    return error == 0 ? 0 : refuse_post(error, wr, bad_wr);
}

}  // namespace urnic::provider
