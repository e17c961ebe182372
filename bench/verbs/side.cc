#include "bench/verbs/side.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace urnic::bench {

namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::uint8_t kGidIndex = 1;
constexpr int kCqEntries = 16384;
constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

ibv_context* open_device(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    ibv_context* context = nullptr;
    for (int i = 0; list != nullptr && i < count; ++i) {
        if (name == ibv_get_device_name(list[i])) {
            context = ibv_open_device(list[i]);
        }
    }
    ibv_free_device_list(list);
    if (context == nullptr) {
        give_up("cannot open the device: run this under urnic run");
    }
    return context;
}

ibv_qp* make_qp(ibv_pd* pd, ibv_cq* cq) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap.max_send_wr = Side::kQueueDepth;
    init.cap.max_recv_wr = 1;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    if (qp == nullptr) {
        give_up("ibv_create_qp");
    }
    return qp;
}

void modify(ibv_qp* qp, ibv_qp_attr& attr, int mask) {
    if (const int error = ibv_modify_qp(qp, &attr, mask); error != 0) {
        errno = error;
        give_up("ibv_modify_qp");
    }
}

void connect_qp(ibv_qp* qp, const ibv_gid& peer_gid, std::uint32_t peer_qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.qp_access_flags = kAccess;
    modify(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer_qp;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = peer_gid;
    attr.ah_attr.grh.sgid_index = kGidIndex;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = kPort;
    modify(qp, attr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    modify(qp, attr,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace

void give_up(const char* what) {
    std::fprintf(stderr, "verbs_bench: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

Pages::Pages(std::size_t length_bytes)
    : data_(static_cast<std::byte*>(mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0))),
      length_bytes_(length_bytes) {
    if (data_ == MAP_FAILED) {
        give_up("mmap");
    }
}

Pages::~Pages() { munmap(data_, length_bytes_); }

Side::Side(const std::string& device, std::uint32_t qps)
    : context_(open_device(device)), pd_(ibv_alloc_pd(context_.get())) {
    if (pd_ == nullptr) {
        give_up("ibv_alloc_pd");
    }
    mr_.reset(ibv_reg_mr(pd_.get(), buffer_.data(), buffer_.size(), kAccess));
    cq_.reset(ibv_create_cq(context_.get(), kCqEntries, nullptr, nullptr, 0));
    if (mr_ == nullptr || cq_ == nullptr) {
        give_up("ibv_reg_mr or ibv_create_cq");
    }
    qps_.reserve(qps);
    for (std::uint32_t i = 0; i < qps; ++i) {
        qps_.emplace_back(make_qp(pd_.get(), cq_.get()));
    }
}

SideAddress Side::address() const {
    SideAddress address;
    if (ibv_query_gid(context_.get(), kPort, kGidIndex, &address.gid) != 0) {
        give_up("ibv_query_gid");
    }
    address.buffer = reinterpret_cast<std::uint64_t>(buffer_.data());
    address.rkey = mr_->rkey;
    return address;
}

std::vector<std::uint32_t> Side::numbers() const {
    std::vector<std::uint32_t> numbers;
    numbers.reserve(qps_.size());
    for (const auto& qp : qps_) {
        numbers.push_back(qp->qp_num);
    }
    return numbers;
}

void Side::connect(const SideAddress& peer, std::span<const std::uint32_t> peers) const {
    for (std::size_t i = 0; i < qps_.size(); ++i) {
        connect_qp(qps_[i].get(), peer.gid, peers[i]);
    }
}

}  // namespace urnic::bench
