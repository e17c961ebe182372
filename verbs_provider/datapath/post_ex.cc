// Extended posting (ibv_wr_*): requests are built in place between ibv_wr_start() and ibv_wr_complete(),
// which publishes them all; ibv_wr_abort() forgets them. The QP's lock is held in between.
#include <errno.h>

#include "verbs_provider/core/verbs.h"
#include "verbs_provider/datapath/send_opcodes.h"

namespace urnic::provider {

namespace {

/// What each QP type offers, as enum ibv_qp_create_send_ops_flags.
constexpr std::uint64_t kUdOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUcOps = kUdOps | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
constexpr std::uint64_t kRcOps = kUcOps | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                                 IBV_QP_EX_WITH_ATOMIC_WRITE;

std::uint64_t ops_of(QpType type) {
    switch (type) {
        case QpType::kRc:
        case QpType::kXrcSend:
            return kRcOps;
        case QpType::kUc:
            return kUcOps;
        case QpType::kUd:
            return kUdOps;
        default:
            return 0;
    }
}

constexpr unsigned int kKnownExFlags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;

void fail(Qp& qp, int error) {
    if (qp.build_error == 0) {
        qp.build_error = error;
    }
    qp.build_wqe = nullptr;
}

/// Begins the next request; nullptr once anything failed since ibv_wr_start().
abi::SendWqe* begin(struct ibv_qp_ex* ex, WrOpcode opcode) {
    Qp& qp = *qp_of(ex);
    if (qp.build_error != 0) [[unlikely]] {
        return nullptr;
    }
    if (qp.sq.full(qp.build_next)) [[unlikely]] {
        fail(qp, ENOMEM);
        return nullptr;
    }
    // Data is put inline by its own setters, not by a flag.
    if ((ex->wr_flags & ~(kKnownExFlags | IBV_SEND_INLINE)) != 0) [[unlikely]] {
        fail(qp, EINVAL);
        return nullptr;
    }
    auto* wqe = reinterpret_cast<abi::SendWqe*>(qp.sq.slot(qp.build_next++));
    wqe->opcode = static_cast<std::uint8_t>(opcode);
    wqe->num_sge = 0;
    wqe->flags = static_cast<std::uint16_t>(ex->wr_flags & kKnownExFlags);
    wqe->wr_id = ex->wr_id;
    wqe->imm_or_rkey = 0;
    wqe->inline_length = 0;
    wqe->wr.ud.address_handle = 0;  // none until wr_set_ud_addr()
    wqe->xrc_srq_number = 0;        // none until wr_set_xrc_srqn()
    qp.build_wqe = wqe;
    qp.build_opcode = opcode;
    return wqe;
}

abi::SendWqe* begin_remote(struct ibv_qp_ex* ex, WrOpcode opcode, std::uint32_t rkey,
                           std::uint64_t remote_addr) {
    abi::SendWqe* wqe = begin(ex, opcode);
    if (wqe != nullptr) {
        wqe->wr.rdma.rkey = rkey;
        wqe->wr.rdma.remote_addr = remote_addr;
    }
    return wqe;
}

void begin_with_word(struct ibv_qp_ex* ex, WrOpcode opcode, std::uint32_t imm_or_rkey) {
    if (abi::SendWqe* wqe = begin(ex, opcode); wqe != nullptr) {
        wqe->imm_or_rkey = imm_or_rkey;
    }
}

void wr_send(struct ibv_qp_ex* ex) { (void)begin(ex, WrOpcode::kSend); }
void wr_send_imm(struct ibv_qp_ex* ex, std::uint32_t imm) {
    begin_with_word(ex, WrOpcode::kSendWithImm, imm);
}
void wr_send_inv(struct ibv_qp_ex* ex, std::uint32_t rkey) {
    begin_with_word(ex, WrOpcode::kSendWithInvalidate, rkey);
}
void wr_local_inv(struct ibv_qp_ex* ex, std::uint32_t rkey) {
    begin_with_word(ex, WrOpcode::kLocalInvalidate, rkey);
}
/// Room for another bind. Programs that bind are few: it is made with the first.
bool has_room_for_bind(Qp& qp) {
    if (qp.build_binds == nullptr) {
        qp.build_binds = static_cast<BuiltBind*>(std::calloc(qp.sq.entries, sizeof(BuiltBind)));
    }
    // A lie about what has completed could make room in the ring for more of them.
    return qp.build_binds != nullptr && qp.num_binds < qp.sq.entries;
}

void wr_bind_mw(struct ibv_qp_ex* ex, struct ibv_mw* mw, std::uint32_t rkey,
                const struct ibv_mw_bind_info* info) {
    abi::SendWqe* wqe = begin(ex, WrOpcode::kBindMw);
    if (wqe == nullptr) {
        return;
    }
    Qp& qp = *qp_of(ex);
    if (mw->type != IBV_MW_TYPE_2 || !has_room_for_bind(qp)) {
        fail(qp, mw->type != IBV_MW_TYPE_2 ? EINVAL : ENOMEM);
        return;
    }
    qp.build_binds[qp.num_binds++] = {mw, fill_bind(*wqe, *mw_of(mw), rkey, *info)};
    qp.build_wqe = nullptr;  // a bind has no gather list
}

/// The windows have their new keys once the requests are posted.
void give_new_keys(const Qp& qp) {
    for (std::uint32_t i = 0; i < qp.num_binds; ++i) {
        qp.build_binds[i].mw->rkey = qp.build_binds[i].new_key;
    }
}
void wr_rdma_read(struct ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t remote_addr) {
    (void)begin_remote(ex, WrOpcode::kRead, rkey, remote_addr);
}
void wr_rdma_write(struct ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t remote_addr) {
    (void)begin_remote(ex, WrOpcode::kWrite, rkey, remote_addr);
}
void wr_rdma_write_imm(struct ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint32_t imm) {
    if (abi::SendWqe* wqe = begin_remote(ex, WrOpcode::kWriteWithImm, rkey, remote_addr); wqe != nullptr) {
        wqe->imm_or_rkey = imm;
    }
}
void wr_atomic_cmp_swp(struct ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint64_t compare, std::uint64_t swap) {
    if (abi::SendWqe* wqe = begin_remote(ex, WrOpcode::kCompareSwap, rkey, remote_addr); wqe != nullptr) {
        wqe->wr.atomic.compare_add = compare;
        wqe->wr.atomic.swap = swap;
    }
}
void wr_atomic_fetch_add(struct ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) {
    if (abi::SendWqe* wqe = begin_remote(ex, WrOpcode::kFetchAdd, rkey, remote_addr); wqe != nullptr) {
        wqe->wr.atomic.compare_add = add;
        wqe->wr.atomic.swap = 0;
    }
}

void wr_set_ud_addr(struct ibv_qp_ex* ex, struct ibv_ah* ah, std::uint32_t remote_qpn,
                    std::uint32_t remote_qkey) {
    Qp& qp = *qp_of(ex);
    if (qp.build_wqe == nullptr) [[unlikely]] {
        return;
    }
    if (ah == nullptr) [[unlikely]] {
        fail(qp, EINVAL);
        return;
    }
    qp.build_wqe->wr.ud.address_handle = ah_of(ah)->key;
    qp.build_wqe->wr.ud.remote_qp_num = remote_qpn;
    qp.build_wqe->wr.ud.remote_qkey = remote_qkey;
}

void wr_set_xrc_srqn(struct ibv_qp_ex* ex, std::uint32_t remote_srqn) {
    if (abi::SendWqe* wqe = qp_of(ex)->build_wqe; wqe != nullptr) [[likely]] {
        wqe->xrc_srq_number = remote_srqn;
    }
}

void wr_set_sge(struct ibv_qp_ex* ex, std::uint32_t lkey, std::uint64_t addr, std::uint32_t length) {
    Qp& qp = *qp_of(ex);
    if (qp.build_wqe == nullptr) [[unlikely]] {
        return;
    }
    if (qp.sq.max_sge == 0) [[unlikely]] {
        fail(qp, EINVAL);
        return;
    }
    qp.build_wqe->num_sge = 1;
    *reinterpret_cast<abi::Sge*>(qp.build_wqe + 1) = {addr, length, lkey};
}

void wr_set_sge_list(struct ibv_qp_ex* ex, std::size_t num_sge, const struct ibv_sge* list) {
    Qp& qp = *qp_of(ex);
    if (qp.build_wqe == nullptr) [[unlikely]] {
        return;
    }
    if (num_sge > qp.sq.max_sge) [[unlikely]] {
        fail(qp, EINVAL);
        return;
    }
    auto* to = reinterpret_cast<abi::Sge*>(qp.build_wqe + 1);
    for (std::size_t i = 0; i < num_sge; ++i) {
        to[i] = {list[i].addr, list[i].length, list[i].lkey};
    }
    qp.build_wqe->num_sge = static_cast<std::uint8_t>(num_sge);
}

void wr_set_inline_data_list(struct ibv_qp_ex* ex, std::size_t num_buf, const struct ibv_data_buf* list) {
    Qp& qp = *qp_of(ex);
    if (qp.build_wqe == nullptr) [[unlikely]] {
        return;
    }
    if (!qp.send_opcodes[static_cast<std::uint8_t>(qp.build_opcode)].can_inline) [[unlikely]] {
        fail(qp, EINVAL);  // what a READ or an atomic operation brings must go somewhere
        return;
    }
    auto* to = reinterpret_cast<std::byte*>(qp.build_wqe + 1);
    std::size_t length = 0;
    for (std::size_t i = 0; i < num_buf; ++i) {
        if (list[i].length > qp.max_inline - length) [[unlikely]] {
            fail(qp, EINVAL);
            return;
        }
        std::memcpy(to + length, list[i].addr, list[i].length);
        length += list[i].length;
    }
    qp.build_wqe->num_sge = 0;
    qp.build_wqe->inline_length = static_cast<std::uint32_t>(length);
    qp.build_wqe->flags |= kSendInline;
}

void wr_set_inline_data(struct ibv_qp_ex* ex, void* addr, std::size_t length) {
    const struct ibv_data_buf buffer { addr, length };
    wr_set_inline_data_list(ex, 1, &buffer);
}

/// The 8 bytes are taken now: there is no setter for them.
void wr_atomic_write(struct ibv_qp_ex* ex, std::uint32_t rkey, std::uint64_t remote_addr, const void* value) {
    if (begin_remote(ex, WrOpcode::kAtomicWrite, rkey, remote_addr) != nullptr) {
        const struct ibv_data_buf buffer { const_cast<void*>(value), sizeof(std::uint64_t) };
        wr_set_inline_data_list(ex, 1, &buffer);
    }
}

void wr_start(struct ibv_qp_ex* ex) {
    Qp& qp = *qp_of(ex);
    qp.sq_lock.lock();
    qp.build_next = qp.sq.head.load(std::memory_order_relaxed);
    qp.build_wqe = nullptr;
    qp.build_error = 0;
    qp.num_binds = 0;
    if (qp.state.load(std::memory_order_relaxed) < static_cast<std::uint32_t>(QpState::kRts)) [[unlikely]] {
        qp.build_error = EINVAL;
    }
    if (qp.session->state_relaxed() == SessionState::kForkedChild) [[unlikely]] {
        qp.build_error = EIO;
    }
}

int wr_complete(struct ibv_qp_ex* ex) {
    Qp& qp = *qp_of(ex);
    const int error = qp.build_error;
    const std::uint32_t begin = qp.sq.head.load(std::memory_order_relaxed);
    const std::uint32_t end = qp.build_next;
    if (error == 0) [[likely]] {
        if (qp.num_binds != 0) [[unlikely]] {
            give_new_keys(qp);
        }
        for (std::uint32_t index = begin; index != end; ++index) {
            auto* wqe = reinterpret_cast<abi::SendWqe*>(qp.sq.slot(index));
            wqe->seq.store(index + 1, std::memory_order_release);
        }
        qp.sq.head.store(end, std::memory_order_release);
    }
    qp.sq_lock.unlock();
    if (error != 0) [[unlikely]] {
        errno = error;
    } else if (begin != end) {
        ring_doorbell(qp);
    }
    return error;
}

void wr_abort(struct ibv_qp_ex* ex) { qp_of(ex)->sq_lock.unlock(); }

}  // namespace

int set_post_functions(Qp& qp, QpType type, std::uint64_t ops) {
    const std::size_t flag = qp_ex_flag_offset();
    const bool is_reliable = type == QpType::kRc || type == QpType::kXrcSend;
    if ((ops & ~ops_of(type)) != 0 || flag == 0) {
        return EOPNOTSUPP;
    }
    struct ibv_qp_ex& ex = qp.qp_ex;
    ex.wr_send = wr_send;
    ex.wr_send_imm = wr_send_imm;
    if (type == QpType::kUd) {
        ex.wr_set_ud_addr = wr_set_ud_addr;
    } else {
        ex.wr_rdma_write = wr_rdma_write;
        ex.wr_rdma_write_imm = wr_rdma_write_imm;
        ex.wr_bind_mw = wr_bind_mw;
        ex.wr_local_inv = wr_local_inv;
    }
    if (is_reliable) {
        ex.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
        ex.wr_atomic_fetch_add = wr_atomic_fetch_add;
        ex.wr_atomic_write = wr_atomic_write;
        ex.wr_rdma_read = wr_rdma_read;
        ex.wr_send_inv = wr_send_inv;
    }
    if (type == QpType::kXrcSend) {
        ex.wr_set_xrc_srqn = wr_set_xrc_srqn;
    }
    ex.wr_set_inline_data = wr_set_inline_data;
    ex.wr_set_inline_data_list = wr_set_inline_data_list;
    ex.wr_set_sge = wr_set_sge;
    ex.wr_set_sge_list = wr_set_sge_list;
    ex.wr_start = wr_start;
    ex.wr_complete = wr_complete;
    ex.wr_abort = wr_abort;
    std::memcpy(qp.room + flag, &kPrivateQpEx, sizeof kPrivateQpEx);
    return 0;
}

}  // namespace urnic::provider
