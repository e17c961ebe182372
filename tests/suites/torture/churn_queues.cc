// Channels, completion queues, shared receive queues and queue pairs.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/suites/torture/churn.h"

namespace urnic::torture {
namespace {

constexpr std::size_t kMostQueues = 16;
/// Of these the memory keys never give write access, so nothing that is sent here can hurt who verifies.
constexpr int kWriteAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kPathMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

/// The attributes that a transition needs (IBA 11.2.5.2, table 95).
int mask_of(ibv_qp_type type, ibv_qp_state to, ibv_qp_state from) {
    const bool datagram = type == IBV_QPT_UD;
    const bool responds = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
    const bool requests = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
    int mask = IBV_QP_STATE;
    if (to == IBV_QPS_INIT) return kInitMask | (datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (to == IBV_QPS_RTR && !datagram) {
        mask = kPathMask;
        if (responds) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    if (to == IBV_QPS_RTS && from == IBV_QPS_RTR) {
        mask |= IBV_QP_SQ_PSN;
        if (responds || requests) mask |= IBV_QP_TIMEOUT;
        if (requests) mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return mask;
}

/// Where a QP of the type may go from there besides ERR and RESET.
ibv_qp_state forward(ibv_qp_state from) {
    switch (from) {
        case IBV_QPS_RESET:
            return IBV_QPS_INIT;
        case IBV_QPS_INIT:
            return IBV_QPS_RTR;
        case IBV_QPS_RTR:
        case IBV_QPS_RTS:
        case IBV_QPS_SQE:
            return IBV_QPS_RTS;
        default:
            return IBV_QPS_RESET;
    }
}

}  // namespace

bool Pool::cq_in_use(const ibv_cq* cq) const {
    return std::any_of(qps_.begin(), qps_.end(), [cq](const Queue& queue) {
        return queue.qp->send_cq == cq || queue.qp->recv_cq == cq;
    });
}

void Pool::create_channel() {
    if (channels_.size() >= 5) return;
    ibv_comp_channel* channel = ibv_create_comp_channel(context_);
    if (channel == nullptr) fail("create_comp_channel");
    channels_.push_back(channel);
    shared_.count("create_comp_channel");
}

void Pool::destroy_channel() {
    if (channels_.empty()) return;
    ibv_comp_channel*& channel = any(channels_);
    const bool in_use = std::any_of(
        cqs_.begin(), cqs_.end(), [&](const CompletionQueue& queue) { return queue.cq->channel == channel; });
    expect(ibv_destroy_comp_channel(channel), in_use, "destroy_comp_channel");
    if (!in_use) forget(channels_, channel);
}

void Pool::create_cq() {
    if (cqs_.size() >= kMostQueues) return;
    CompletionQueue queue;
    queue.entries = static_cast<int>(random_.between(1, random_.one_in(10) ? 20'000 : 300));
    ibv_comp_channel* channel = channels_.empty() || random_.one_in(2) ? nullptr : any(channels_);
    queue.cq = ibv_create_cq(context_, queue.entries, this, channel, 0);
    if (queue.cq == nullptr) fail("create_cq of %d", queue.entries);
    cqs_.push_back(queue);
    shared_.count("create_cq");
}

void Pool::resize_cq() {
    if (cqs_.empty()) return;
    CompletionQueue& queue = any(cqs_);
    const int entries = static_cast<int>(random_.between(1, 500));
    const int result = ibv_resize_cq(queue.cq, entries);
    // Too few for what lies in it.
    if (result == EINVAL || errno == EINVAL) return;
    expect(result, false, "resize_cq");
}

void Pool::drain(ibv_cq* cq) {
    std::array<ibv_wc, 16> completions{};
    for (int rounds = 0; rounds < 100; ++rounds) {
        const int found = ibv_poll_cq(cq, completions.size(), completions.data());
        // A queue that ran over polls as broken.
        if (found <= 0) return;
        for (int i = 0; i < found; ++i) {
            if (completions.at(static_cast<std::size_t>(i)).wr_id != 77)
                fail("poll_cq: a completion of nobody");
        }
    }
}

void Pool::arm_cq() {
    if (cqs_.empty()) return;
    ibv_cq* cq = any(cqs_).cq;
    expect(ibv_req_notify_cq(cq, static_cast<int>(random_.below(2))), false, "req_notify_cq");
    if (random_.one_in(2)) drain(cq);
}

void Pool::destroy_cq() {
    if (cqs_.empty()) return;
    CompletionQueue& queue = any(cqs_);
    const bool in_use = cq_in_use(queue.cq);
    const int result = ibv_destroy_cq(queue.cq);
    // An XRC SRQ uses its CQ too, which libibverbs does not show.
    if (!in_use && result == EBUSY && !xrcds_.empty()) return;
    expect(result, in_use, "destroy_cq");
    if (!in_use) forget(cqs_, queue);
}

void Pool::create_srq() {
    if (pds_.empty() || srqs_.size() >= kMostQueues) return;
    ibv_srq_init_attr_ex init{};
    init.attr.max_wr = random_.between(1, 300);
    init.attr.max_sge = random_.between(1, 4);
    init.pd = any(pds_);
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    init.srq_type = IBV_SRQT_BASIC;
    if (!xrcds_.empty() && !cqs_.empty() && random_.one_in(2)) {
        init.srq_type = IBV_SRQT_XRC;
        init.xrcd = any(xrcds_);
        init.cq = any(cqs_).cq;
        init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    }
    ibv_srq* srq = ibv_create_srq_ex(context_, &init);
    if (srq == nullptr) {
        if (shared_.not_offered("shared receive queue")) return;
        fail("create_srq_ex of type %d", static_cast<int>(init.srq_type));
    }
    srqs_.push_back(srq);
    shared_.count("create_srq_ex");
}

void Pool::change_srq() {
    if (srqs_.empty()) return;
    ibv_srq* srq = any(srqs_);
    ibv_recv_wr receive{};
    receive.wr_id = 77;
    ibv_recv_wr* bad = nullptr;
    for (std::uint32_t i = random_.below(10); i > 0; --i) (void)ibv_post_srq_recv(srq, &receive, &bad);
    ibv_srq_attr attr{};
    if (ibv_query_srq(srq, &attr) != 0) fail("query_srq");
    attr.srq_limit = random_.below(5);
    attr.max_wr = random_.between(1, 300);
    const int mask = random_.one_in(2) ? IBV_SRQ_LIMIT : IBV_SRQ_MAX_WR;
    // Refused: smaller than what is in it, or a limit above its size.
    if (ibv_modify_srq(srq, &attr, mask) == 0) shared_.count("modify_srq");
}

void Pool::destroy_srq() {
    if (srqs_.empty()) return;
    ibv_srq*& srq = any(srqs_);
    const bool in_use =
        std::any_of(qps_.begin(), qps_.end(), [&](const Queue& queue) { return queue.qp->srq == srq; });
    expect(ibv_destroy_srq(srq), in_use, "destroy_srq");
    if (!in_use) forget(srqs_, srq);
}

void Pool::create_qp() {
    constexpr std::array kTypes{IBV_QPT_RC, IBV_QPT_RC,       IBV_QPT_UC,
                                IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV};
    if (pds_.empty() || cqs_.empty() || qps_.size() >= kMostQueues) return;
    ibv_qp_init_attr_ex init{};
    init.qp_type = kTypes[random_.below(kTypes.size())];
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = any(pds_);
    init.send_cq = any(cqs_).cq;
    init.recv_cq = any(cqs_).cq;
    init.cap = {random_.between(1, 200), random_.between(1, 200), random_.between(1, 8),
                random_.between(1, 8), random_.below(200)};
    init.sq_sig_all = static_cast<int>(random_.below(2));
    if (init.qp_type == IBV_QPT_XRC_SEND) {
        init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
    } else if (init.qp_type == IBV_QPT_XRC_RECV) {
        if (xrcds_.empty()) return;
        init = {};
        init.qp_type = IBV_QPT_XRC_RECV;
        init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        init.xrcd = any(xrcds_);
    } else if (init.qp_type != IBV_QPT_UC && !srqs_.empty() && random_.one_in(2)) {
        init.srq = any(srqs_);
        std::uint32_t number = 0;
        if (ibv_get_srq_num(init.srq, &number) == 0) init.srq = nullptr;  // of XRC
    }
    ibv_qp* qp = ibv_create_qp_ex(context_, &init);
    const std::string name = std::string(name_of(init.qp_type)) + " QP";
    if (qp == nullptr) {
        if (shared_.not_offered(name)) return;
        fail("create_qp_ex: %s", name.c_str());
    }
    qps_.push_back({qp, IBV_QPS_RESET, {}});
    shared_.count(name);
}

int Pool::next_state(Queue& queue, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = kPort;
    attr.qkey = kChurnQkey;
    attr.qp_access_flags = kWriteAccess;
    attr.path_mtu = static_cast<ibv_mtu>(random_.between(IBV_MTU_256, IBV_MTU_4096));
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = kPort;
    attr.ah_attr.grh.dgid = peer_;
    attr.ah_attr.grh.sgid_index = kGid;
    attr.ah_attr.grh.hop_limit = 1;
    // One of its own, which may answer; or nobody.
    attr.dest_qp_num = random_.one_in(2) ? any(qps_).qp->qp_num : 0xfffffe;
    attr.rq_psn = attr.sq_psn = random_.one_in(2) ? 0 : random_.below(1U << 24U);
    attr.max_dest_rd_atomic = attr.max_rd_atomic = static_cast<std::uint8_t>(random_.below(17));
    attr.min_rnr_timer = static_cast<std::uint8_t>(random_.below(32));
    attr.timeout = static_cast<std::uint8_t>(random_.below(16));
    attr.retry_cnt = attr.rnr_retry = static_cast<std::uint8_t>(random_.below(8));
    return ibv_modify_qp(queue.qp, &attr, mask_of(queue.qp->qp_type, state, queue.state));
}

void Pool::move_qp() {
    if (qps_.empty()) return;
    Queue& queue = any(qps_);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    if (ibv_query_qp(queue.qp, &attr, IBV_QP_STATE, &init) != 0) fail("query_qp");
    queue.state = attr.qp_state;
    constexpr std::array kAnywhere{IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_SQD};
    // From RESET there is one way.
    const bool anywhere = queue.state != IBV_QPS_RESET && random_.one_in(5);
    const ibv_qp_state to = anywhere ? kAnywhere[random_.below(kAnywhere.size())] : forward(queue.state);
    const bool drains = to == IBV_QPS_SQD;
    const int result = next_state(queue, to);
    if (result == 0) {
        queue.state = to;
        shared_.count("modify_qp to " + std::to_string(to));
        return;
    }
    // It may have failed since it was asked for its state; and not every state can drain.
    if (ibv_query_qp(queue.qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state != queue.state) {
        queue.state = attr.qp_state;
        return;
    }
    if (!drains) {
        errno = result;
        fail("modify_qp, %s, from state %d to %d", name_of(queue.qp->qp_type), queue.state, to);
    }
}

void Pool::use_qp() {
    if (qps_.empty()) return;
    const Queue& queue = any(qps_);
    if (queue.qp->qp_type == IBV_QPT_XRC_RECV) return;
    ibv_sge element{};
    if (!mrs_.empty()) {
        const ibv_mr* mr = any(mrs_).mr;
        element = {reinterpret_cast<std::uint64_t>(mr->addr), static_cast<std::uint32_t>(mr->length),
                   mr->lkey};
    }
    ibv_send_wr request{};
    ibv_send_wr* bad = nullptr;
    request.wr_id = 77;
    request.sg_list = &element;
    request.num_sge = static_cast<int>(random_.below(2));
    request.send_flags = random_.one_in(2) ? IBV_SEND_SIGNALED : 0;
    request.opcode = random_.one_in(2) ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
    request.wr.rdma = {element.addr, random_.below(1U << 31U)};
    if (queue.qp->qp_type == IBV_QPT_UD) {
        request.opcode = IBV_WR_SEND;
        if (ahs_.empty()) return;
        request.wr.ud = {any(ahs_), any(qps_).qp->qp_num, kChurnQkey};
    } else if (queue.qp->qp_type == IBV_QPT_UC) {
        // Its peer may be gone, and a stranger of the same number, who cannot tell, would take its packets.
        request.opcode = IBV_WR_RDMA_WRITE;
    }
    // The queue may be full, or its state take none.
    for (std::uint32_t i = random_.below(5); i > 0; --i) {
        if (ibv_post_send(queue.qp, &request, &bad) == 0) shared_.count("post_send of no avail");
    }
    if (queue.qp->srq != nullptr || queue.qp->qp_type == IBV_QPT_XRC_SEND) return;
    ibv_recv_wr receive{};
    ibv_recv_wr* bad_receive = nullptr;
    receive.wr_id = 77;
    for (std::uint32_t i = random_.below(5); i > 0; --i)
        (void)ibv_post_recv(queue.qp, &receive, &bad_receive);
}

void Pool::attach_qp() {
    if (qps_.empty()) return;
    Queue& queue = any(qps_);
    if (queue.qp->qp_type != IBV_QPT_UD) return;
    ibv_gid group{};
    group.raw[0] = 0xff;
    group.raw[1] = 0x0e;
    group.raw[15] = static_cast<std::uint8_t>(random_.between(1, 5));
    const auto is_group = [&](const ibv_gid& other) {
        return std::memcmp(&other, &group, sizeof group) == 0;
    };
    if (std::any_of(queue.groups.begin(), queue.groups.end(), is_group)) {
        expect(ibv_detach_mcast(queue.qp, &group, 0), false, "detach_mcast");
        std::erase_if(queue.groups, is_group);
        return;
    }
    const int result = ibv_attach_mcast(queue.qp, &group, 0);
    if (result != 0) {
        errno = result;
        if (shared_.not_offered("multicast")) return;
        fail("attach_mcast");
    }
    queue.groups.push_back(group);
    shared_.count("attach_mcast");
}

/// A QP that is attached to a group stays (ibv_attach_mcast(3)).
void Pool::release(Queue& queue) {
    if (!queue.groups.empty()) expect(ibv_destroy_qp(queue.qp), true, "destroy_qp");
    for (ibv_gid& group : queue.groups) expect(ibv_detach_mcast(queue.qp, &group, 0), false, "detach_mcast");
    expect(ibv_destroy_qp(queue.qp), false, "destroy_qp");
}

void Pool::destroy_qp() {
    if (qps_.empty()) return;
    Queue& queue = any(qps_);
    release(queue);
    forget(qps_, queue);
}

}  // namespace urnic::torture
