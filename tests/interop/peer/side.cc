#include "tests/interop/peer/side.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace urnic::interop {

namespace {

// More than all retries take at a local ACK timeout of 4 s. Whoever started the program has a limit of its
// own.
constexpr auto kPatience = std::chrono::seconds(110);
constexpr unsigned kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

template <typename T>
T* made(T* object, const char* what) {
    check(object != nullptr, std::string(what) + ": " + std::strerror(errno));
    return object;
}

void done(int result, const char* what) {
    check(result == 0, std::string(what) + ": " + std::strerror(result < 0 ? errno : result));
}

ibv_context* open_device(const std::string& name) {
    int count = 0;
    ibv_device** devices = made(ibv_get_device_list(&count), "ibv_get_device_list");
    ibv_device** const end = devices + count;
    ibv_device** found = name.empty() ? devices : std::find_if(devices, end, [&](ibv_device* device) {
        return name == ibv_get_device_name(device);
    });
    ibv_context* context = found != end ? ibv_open_device(*found) : nullptr;
    ibv_free_device_list(devices);
    check(context != nullptr, "no device " + name);
    return context;
}

ibv_mtu mtu_of(int bytes) {
    switch (bytes) {
        case 256:
            return IBV_MTU_256;
        case 512:
            return IBV_MTU_512;
        case 1024:
            return IBV_MTU_1024;
        case 2048:
            return IBV_MTU_2048;
        case 4096:
            return IBV_MTU_4096;
        default:
            throw Wrong("no path MTU of " + std::to_string(bytes));
    }
}

ibv_ah_attr path_to(const ibv_gid& gid, int own_index) {
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = gid;
    path.grh.sgid_index = static_cast<std::uint8_t>(own_index);
    path.grh.hop_limit = 64;
    return path;
}

}  // namespace

Side::Side(const Options& options, Link link) : options_(options), link_(std::move(link)), memory_(kMemory) {
    context_.reset(open_device(options.device));
    pd_.reset(made(ibv_alloc_pd(context_.get()), "ibv_alloc_pd"));
    mr_.reset(
        made(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(), static_cast<int>(kAccess)), "ibv_reg_mr"));
    cq_.reset(made(ibv_create_cq(context_.get(), 2 * kDepth, nullptr, nullptr, 0), "ibv_create_cq"));
    mine_.memory = reinterpret_cast<std::uint64_t>(memory_.data());
    mine_.rkey = mr_->rkey;
    ibv_port_attr port{};
    done(ibv_query_port(context_.get(), 1, &port), "ibv_query_port");
    mine_.active_mtu = 128U << static_cast<unsigned>(port.active_mtu);
    done(ibv_query_gid(context_.get(), 1, options.gid_index, &mine_.gid), "ibv_query_gid");
}

void Side::to_init(ibv_qp_type type) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = kQkey;
    attr.qp_access_flags = type == IBV_QPT_UC
                               ? IBV_ACCESS_REMOTE_WRITE
                               : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    const int last = type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    done(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | last),
         "modify to INIT");
}

void Side::to_ready_rc(ibv_qp_type type, Patience patience) const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = mtu_of(options_.mtu);
    attr.dest_qp_num = peer_.qpn;
    attr.rq_psn = peer_.psn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = static_cast<std::uint8_t>(patience.min_rnr_timer);
    attr.ah_attr = path_to(peer_.gid, options_.gid_index);
    const int common = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    const bool reliable = type == IBV_QPT_RC;
    done(ibv_modify_qp(qp_.get(), &attr,
                       common | (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)),
         "modify to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = mine_.psn;
    attr.timeout = static_cast<std::uint8_t>(options_.timeout);
    attr.retry_cnt = static_cast<std::uint8_t>(options_.retries);
    attr.rnr_retry = static_cast<std::uint8_t>(patience.rnr_retry);
    attr.max_rd_atomic = 4;
    const int kept = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    done(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | (reliable ? kept : 0)),
         "modify to RTS");
}

void Side::to_ready_ud() const {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    done(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE), "modify to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = mine_.psn;
    done(ibv_modify_qp(qp_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "modify to RTS");
}

void Side::connect(ibv_qp_type type, Patience patience) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_.get();
    init.cap = {.max_send_wr = kDepth,
                .max_recv_wr = kDepth,
                .max_send_sge = 2,
                .max_recv_sge = 2,
                .max_inline_data = 0};
    init.qp_type = type;
    init.sq_sig_all = 1;
    qp_.reset(made(ibv_create_qp(pd_.get(), &init), "ibv_create_qp"));
    to_init(type);
    mine_.qpn = qp_->qp_num;
    // Near the wrap, so that every run crosses it.
    mine_.psn = active() ? 0xFFFFF0 : 0xFFFFFA;
    peer_ = link_.exchange(mine_);
    check(std::min(mine_.active_mtu, peer_.active_mtu) >= static_cast<std::uint32_t>(options_.mtu),
          "the ports have no room for this path MTU");
    if (type == IBV_QPT_UD) {
        to_ready_ud();
    } else {
        to_ready_rc(type, patience);
    }
    link_.meet("connected");
}

Owned<ibv_ah> Side::address_handle(const ibv_gid& gid) const {
    ibv_ah_attr path = path_to(gid, options_.gid_index);
    return Owned<ibv_ah>(made(ibv_create_ah(pd_.get(), &path), "ibv_create_ah"));
}

void Side::post_receive(std::uint64_t id, const ibv_sge& sge) {
    ibv_sge copy = sge;
    ibv_recv_wr request{};
    request.wr_id = id;
    request.sg_list = &copy;
    request.num_sge = sge.length != 0 ? 1 : 0;
    ibv_recv_wr* bad = nullptr;
    done(ibv_post_recv(qp_.get(), &request, &bad), "ibv_post_recv");
}

void Side::post(ibv_send_wr request) {
    ibv_send_wr* bad = nullptr;
    done(ibv_post_send(qp_.get(), &request, &bad), "ibv_post_send");
}

ibv_sge Side::piece(std::size_t offset, std::size_t length) const {
    return {.addr = mine_.memory + offset, .length = static_cast<std::uint32_t>(length), .lkey = mr_->lkey};
}

ibv_send_wr Side::request(ibv_wr_opcode opcode, ibv_sge& sge, std::uint64_t remote_offset) const {
    ibv_send_wr request{};
    request.opcode = opcode;
    request.sg_list = &sge;
    request.num_sge = sge.length != 0 ? 1 : 0;
    request.wr.rdma.remote_addr = peer_.memory + remote_offset;
    request.wr.rdma.rkey = peer_.rkey;
    return request;
}

ibv_wc Side::completion() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    ibv_wc wc{};
    int count = 0;
    while ((count = ibv_poll_cq(cq_.get(), 1, &wc)) == 0) {
        check(std::chrono::steady_clock::now() < deadline, "no completion in time");
    }
    check(count == 1, "ibv_poll_cq failed");
    return wc;
}

ibv_wc Side::success(std::uint64_t id) {
    const ibv_wc wc = completion();
    check(wc.status == IBV_WC_SUCCESS,
          "request " + std::to_string(wc.wr_id) + " failed: " + ibv_wc_status_str(wc.status));
    check(wc.wr_id == id, "request " + std::to_string(wc.wr_id) + " completed, not " + std::to_string(id));
    return wc;
}

void fill(std::span<std::uint8_t> bytes, std::uint32_t message) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = pattern(message, i);
    }
}

void verify(std::span<const std::uint8_t> bytes, std::uint32_t message, const std::string& what) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        check(bytes[i] == pattern(message, i), what + " " + std::to_string(message) + ": byte " +
                                                   std::to_string(i) + " of " + std::to_string(bytes.size()) +
                                                   " is " + std::to_string(bytes[i]));
    }
}

void verify_untouched(std::span<const std::uint8_t> bytes, std::uint8_t value, const std::string& what) {
    const auto other =
        std::find_if(bytes.begin(), bytes.end(), [value](std::uint8_t byte) { return byte != value; });
    check(other == bytes.end(), what + ": a byte was written that nobody may write");
}

}  // namespace urnic::interop
