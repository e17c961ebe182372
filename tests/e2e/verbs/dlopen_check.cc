// A program that is not linked to libibverbs and opens it at run time, as MPI libraries and NCCL do. Makes
// one verified transfer from urnic0 to urnic1. Usage: dlopen_check
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void* library = nullptr;

void check(bool ok, const char* what) {
    if (ok) return;
    std::fprintf(stderr, "dlopen_check: %s failed: %s\n", what, std::strerror(errno));
    std::exit(1);
}

template <typename Function>
Function* find(const char* name, Function* /*like*/) {
    void* address = dlsym(library, name);
    check(address != nullptr, name);
    return reinterpret_cast<Function*>(address);
}
#define FIND(name) find(#name, &(name))

// ibv_reg_mr and ibv_query_port are macros; these are the functions behind them.
using RegMr = ibv_mr*(ibv_pd*, void*, std::size_t, int);

struct Side {
    ibv_context* context;
    ibv_pd* pd;
    ibv_cq* cq;
    ibv_qp* qp;
    ibv_mr* mr;
    ibv_gid gid;
    alignas(4096) std::uint8_t data[4096];
};
Side sides[2];

void open_side(Side& side, ibv_device* device) {
    side.context = FIND(ibv_open_device)(device);
    check(side.context != nullptr, "ibv_open_device");
    side.pd = FIND(ibv_alloc_pd)(side.context);
    check(side.pd != nullptr, "ibv_alloc_pd");
    side.cq = FIND(ibv_create_cq)(side.context, 16, nullptr, nullptr, 0);
    check(side.cq != nullptr, "ibv_create_cq");
    auto* reg_mr = reinterpret_cast<RegMr*>(dlsym(library, "ibv_reg_mr"));
    side.mr = reg_mr(side.pd, side.data, sizeof(side.data), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    check(side.mr != nullptr, "ibv_reg_mr");
    ibv_qp_init_attr init{};
    init.send_cq = side.cq;
    init.recv_cq = side.cq;
    init.cap = {
        .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    side.qp = FIND(ibv_create_qp)(side.pd, &init);
    check(side.qp != nullptr, "ibv_create_qp");
    check(FIND(ibv_query_gid)(side.context, 1, 1, &side.gid) == 0, "ibv_query_gid");
}

void connect(Side& side, const Side& peer) {
    auto* modify = FIND(ibv_modify_qp);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    check(modify(side.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.hop_limit = 1;
    check(modify(side.qp, &attr,
                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    check(modify(side.qp, &attr,
                 IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                     IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "RTS");
}

}  // namespace

int main() {
    library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    check(library != nullptr, "dlopen");
    int count = 0;
    ibv_device** list = FIND(ibv_get_device_list)(&count);
    check(list != nullptr && count == 2, "ibv_get_device_list: two devices");
    for (int i = 0; i < 2; ++i) open_side(sides[i], list[i]);
    connect(sides[0], sides[1]);
    connect(sides[1], sides[0]);
    for (std::size_t i = 0; i < sizeof(sides[0].data); ++i)
        sides[0].data[i] = static_cast<std::uint8_t>(i * 7 + 1);
    ibv_sge sge{reinterpret_cast<std::uint64_t>(sides[0].data), sizeof(sides[0].data), sides[0].mr->lkey};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(sides[1].data);
    wr.wr.rdma.rkey = sides[1].mr->rkey;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(sides[0].qp, &wr, &bad) == 0, "ibv_post_send");
    ibv_wc completion{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (ibv_poll_cq(sides[0].cq, 1, &completion) == 0) {
        check(std::chrono::steady_clock::now() < deadline, "ibv_poll_cq: a completion");
    }
    check(completion.status == IBV_WC_SUCCESS, "completion");
    check(std::memcmp(sides[0].data, sides[1].data, sizeof(sides[0].data)) == 0, "payload");
    for (Side& side : sides) {
        check(FIND(ibv_destroy_qp)(side.qp) == 0, "ibv_destroy_qp");
        check(FIND(ibv_dereg_mr)(side.mr) == 0, "ibv_dereg_mr");
        check(FIND(ibv_destroy_cq)(side.cq) == 0, "ibv_destroy_cq");
        check(FIND(ibv_dealloc_pd)(side.pd) == 0, "ibv_dealloc_pd");
        check(FIND(ibv_close_device)(side.context) == 0, "ibv_close_device");
    }
    FIND(ibv_free_device_list)(list);
    std::printf("transferred 4096 bytes\n");
    return 0;
}
