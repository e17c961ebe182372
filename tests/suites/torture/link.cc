#include "tests/suites/torture/link.h"

#include <fcntl.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <thread>

namespace urnic::torture {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

void expect_done(int result, const char* what) {
    if (result == 0) return;
    errno = result;
    fail("%s", what);
}

ibv_ah_attr path_to(const Side& peer) {
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = kPort;
    path.grh.dgid = peer.gid;
    path.grh.sgid_index = kGid;
    path.grh.hop_limit = 64;
    return path;
}

}  // namespace

Link::Link(Shared& shared, Random& random, std::uint8_t* memory, std::size_t bytes)
    : shared_(shared), random_(random), memory_(memory), bytes_(bytes) {}

bool Link::create_receives(Side& side, bool receiver) {
    ibv_srq_init_attr_ex init{};
    init.attr.max_wr = kSlots;
    init.attr.max_sge = 2;
    init.pd = side.pd;
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    init.srq_type = IBV_SRQT_BASIC;
    if (xrc()) {
        if (!receiver) return true;
        ibv_xrcd_init_attr domain{};
        domain.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        domain.fd = -1;
        domain.oflags = O_CREAT;
        side.xrcd = ibv_open_xrcd(side.context, &domain);
        if (side.xrcd == nullptr) {
            if (shared_.not_offered("XRC domain")) return false;
            fail("open_xrcd");
        }
        init.srq_type = IBV_SRQT_XRC;
        init.xrcd = side.xrcd;
        init.cq = side.cq;
        init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    } else if (plan_.receives == Receives::kQp) {
        return true;
    }
    side.srq = ibv_create_srq_ex(side.context, &init);
    if (side.srq == nullptr) {
        if (shared_.not_offered("shared receive queue")) return false;
        fail("create_srq_ex");
    }
    if (xrc()) expect_done(ibv_get_srq_num(side.srq, &side.srq_number), "get_srq_num");
    return true;
}

ibv_qp* Link::create_qp(Side& side, bool receiver) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = plan_.type;
    init.send_cq = init.recv_cq = side.cq;
    init.cap.max_send_wr = kSlots;
    init.cap.max_recv_wr = kSlots;
    init.cap.max_send_sge = 3;
    init.cap.max_recv_sge = 2;
    init.cap.max_inline_data = kMaxInline;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = side.pd;
    if (xrc() && receiver) {
        init = {};
        init.qp_type = IBV_QPT_XRC_RECV;
        init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        init.xrcd = side.xrcd;
    } else if (xrc()) {
        init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
        init.recv_cq = nullptr;
    } else if (side.srq != nullptr) {
        init.srq = side.srq;
    }
    return ibv_create_qp_ex(side.context, &init);
}

bool Link::create_side(unsigned index) {
    Side& side = sides_[index];
    const unsigned device = plan_.devices[index];
    side = {};
    side.memory = memory_ + index * (bytes_ / 2);
    side.slot_bytes = bytes_ / 2 / kSlots;
    side.gid = shared_.gids()[device];
    side.context = plan_.own_contexts ? open_device(device) : shared_.contexts()[device];
    side.pd = ibv_alloc_pd(side.context);
    if (side.pd == nullptr) fail("alloc_pd");
    if (plan_.channels) {
        side.channel = ibv_create_comp_channel(side.context);
        if (side.channel == nullptr) fail("create_comp_channel");
    }
    side.cq = ibv_create_cq(side.context, static_cast<int>(random_.between(2 * kSlots, 200)), nullptr,
                            side.channel, 0);
    if (side.cq == nullptr) fail("create_cq");
    side.mr =
        ibv_reg_mr(side.pd, side.memory, bytes_ / 2, kAccess | (plan_.window != 0 ? IBV_ACCESS_MW_BIND : 0));
    if (side.mr == nullptr) {
        if (plan_.window != 0 && shared_.not_offered("memory window")) return false;
        fail("reg_mr");
    }
    side.rkey = side.mr->rkey;
    if (!create_receives(side, index == 1)) return false;
    side.qp = create_qp(side, index == 1);
    if (side.qp == nullptr) {
        if (shared_.not_offered(std::string(name_of(plan_.type)) + " QP")) return false;
        fail("create_qp_ex: %s", name_of(plan_.type));
    }
    return true;
}

void Link::connect_ud(Side& side, const Side& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.qkey = kTrafficQkey;
    expect_done(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                "INIT");
    attr.qp_state = IBV_QPS_RTR;
    expect_done(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE), "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = plan_.psn;
    expect_done(ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
    ibv_ah_attr path = path_to(peer);
    side.ah = ibv_create_ah(side.pd, &path);
    if (side.ah == nullptr) fail("create_ah");
}

void Link::connect(unsigned index) {
    Side& side = sides_[index];
    const Side& peer = sides_[1 - index];
    if (plan_.type == IBV_QPT_UD) return connect_ud(side, peer);
    const bool reliable = plan_.type != IBV_QPT_UC;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.qp_access_flags = reliable ? kAccess : IBV_ACCESS_REMOTE_WRITE;
    expect_done(
        ibv_modify_qp(side.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr = path_to(peer);
    attr.path_mtu = plan_.mtu;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.rq_psn = attr.sq_psn = plan_.psn;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 8;
    attr.min_rnr_timer = 1;
    attr.timeout = 14;
    attr.retry_cnt = attr.rnr_retry = 7;
    int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const bool receiver = side.qp->qp_type != IBV_QPT_XRC_SEND;
    if (reliable && receiver) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    expect_done(ibv_modify_qp(side.qp, &attr, mask), "RTR");
    attr.qp_state = IBV_QPS_RTS;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (reliable) mask |= IBV_QP_TIMEOUT;
    if (reliable && side.qp->qp_type != IBV_QPT_XRC_RECV) {
        mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    expect_done(ibv_modify_qp(side.qp, &attr, mask), "RTS");
}

bool Link::bind_window(Side& side) {
    side.mw = ibv_alloc_mw(side.pd, plan_.window == 1 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
    if (side.mw == nullptr) {
        if (shared_.not_offered("memory window")) return false;
        fail("alloc_mw");
    }
    const ibv_mw_bind_info info{side.mr, reinterpret_cast<std::uint64_t>(side.memory), bytes_ / 2,
                                IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};
    if (plan_.window == 1) {
        ibv_mw_bind bind{1, IBV_SEND_SIGNALED, info};
        expect_done(ibv_bind_mw(side.qp, side.mw, &bind), "bind_mw");
        side.rkey = side.mw->rkey;
    } else {
        ibv_send_wr request{};
        ibv_send_wr* bad = nullptr;
        request.opcode = IBV_WR_BIND_MW;
        request.send_flags = IBV_SEND_SIGNALED;
        request.bind_mw = {side.mw, ibv_inc_rkey(side.mw->rkey), info};
        side.rkey = request.bind_mw.rkey;
        expect_done(ibv_post_send(side.qp, &request, &bad), "post of BIND_MW");
    }
    const ibv_wc done = wait(static_cast<unsigned>(&side - sides_.data()));
    if (done.status != IBV_WC_SUCCESS) fail("BIND_MW: %s", ibv_wc_status_str(done.status));
    shared_.count("window of type " + std::to_string(plan_.window));
    return true;
}

bool Link::open(const LinkPlan& plan) {
    plan_ = plan;
    const bool created = create_side(0) && create_side(1);
    if (created) {
        connect(0);
        connect(1);
    }
    if (!created || (plan_.window != 0 && !(bind_window(sides_[0]) && bind_window(sides_[1])))) {
        close();
        return false;
    }
    return true;
}

void Link::close() {
    for (Side& side : sides_) {
        if (side.context == nullptr) continue;
        if (side.events > 0) ibv_ack_cq_events(side.cq, side.events);
        if (side.ah != nullptr) expect_done(ibv_destroy_ah(side.ah), "destroy_ah");
        // The order that lets everything go: IBA 10.2.9 and the man pages.
        if (side.qp != nullptr) expect_done(ibv_destroy_qp(side.qp), "destroy_qp");
        if (side.mw != nullptr) expect_done(ibv_dealloc_mw(side.mw), "dealloc_mw");
        if (side.mr != nullptr) expect_done(ibv_dereg_mr(side.mr), "dereg_mr");
        if (side.srq != nullptr) expect_done(ibv_destroy_srq(side.srq), "destroy_srq");
        if (side.xrcd != nullptr) expect_done(ibv_close_xrcd(side.xrcd), "close_xrcd");
        if (side.cq != nullptr) expect_done(ibv_destroy_cq(side.cq), "destroy_cq");
        if (side.channel != nullptr)
            expect_done(ibv_destroy_comp_channel(side.channel), "destroy_comp_channel");
        if (side.pd != nullptr) expect_done(ibv_dealloc_pd(side.pd), "dealloc_pd");
        if (plan_.own_contexts) expect_done(ibv_close_device(side.context), "close_device");
        side = {};
    }
}

void Link::wait_for_event(Side& side) {
    pollfd waiting{side.channel->fd, POLLIN, 0};
    if (poll(&waiting, 1, kPatienceMs) != 1) fail("no event for an armed CQ");
    ibv_cq* cq = nullptr;
    void* cookie = nullptr;
    if (ibv_get_cq_event(side.channel, &cq, &cookie) != 0 || cq != side.cq) fail("get_cq_event");
    ++side.events;
}

ibv_wc Link::wait(unsigned index) {
    Side& side = sides_[index];
    ibv_wc completion{};
    const auto deadline = Clock::now() + std::chrono::milliseconds(kPatienceMs);
    bool armed = false;
    for (;;) {
        const int found = ibv_poll_cq(side.cq, 1, &completion);
        if (found < 0) fail("poll_cq");
        if (found == 1) return completion;
        if (Clock::now() > deadline)
            fail("no completion on side %u of a link, %s", index, name_of(plan_.type));
        if (side.channel == nullptr) {
            std::this_thread::yield();
        } else if (armed) {
            wait_for_event(side);
            armed = false;
        } else {
            // Armed first, then looked once more: what came in between raises no event.
            expect_done(ibv_req_notify_cq(side.cq, 0), "req_notify_cq");
            armed = true;
        }
    }
}

void Link::post_receive(unsigned index, std::uint64_t wr_id, std::uint8_t* at, std::uint32_t length) {
    const Side& side = sides_[index];
    ibv_sge element{reinterpret_cast<std::uint64_t>(at), length, side.mr->lkey};
    ibv_recv_wr receive{};
    receive.wr_id = wr_id;
    receive.sg_list = &element;
    receive.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (side.srq != nullptr)
        expect_done(ibv_post_srq_recv(side.srq, &receive, &bad), "post_srq_recv");
    else
        expect_done(ibv_post_recv(side.qp, &receive, &bad), "post_recv");
}

void Link::to_error(unsigned index) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    expect_done(ibv_modify_qp(sides_[index].qp, &attr, IBV_QP_STATE), "ERR");
}

}  // namespace urnic::torture
