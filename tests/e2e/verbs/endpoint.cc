#include "tests/e2e/verbs/endpoint.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

namespace urnic::e2e {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint8_t kPort = 1;

/// The test that has waited in vain; any thread of it may have.
std::atomic<const testing::TestInfo*> gave_up{nullptr};

int patience_ms() {
    constexpr int kNoMoreMs = 100;
    const testing::TestInfo* running = testing::UnitTest::GetInstance()->current_test_info();
    return running != nullptr && running == gave_up.load() ? kNoMoreMs : kPatienceMs;
}

void give_up() { gave_up.store(testing::UnitTest::GetInstance()->current_test_info()); }

bool readable_within(int fd, int timeout_ms) {
    pollfd waiting{fd, POLLIN, 0};
    return poll(&waiting, 1, timeout_ms) == 1;
}

ibv_qp_init_attr_ex qp_attributes(const Endpoint& endpoint, const EndpointOptions& options) {
    ibv_qp_init_attr_ex init{};
    init.send_cq = endpoint.cq;
    init.recv_cq = endpoint.cq;
    init.cap.max_send_wr = options.max_send_wr;
    init.cap.max_recv_wr = options.max_recv_wr;
    init.cap.max_send_sge = options.max_sge;
    init.cap.max_recv_sge = options.max_sge;
    init.cap.max_inline_data = options.max_inline;
    init.qp_type = options.type;
    init.sq_sig_all = options.signal_all ? 1 : 0;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = endpoint.pd;
    return init;
}

}  // namespace

bool comes(const std::function<bool()>& there) {
    const auto deadline = Clock::now() + std::chrono::milliseconds(patience_ms());
    while (!there()) {
        if (Clock::now() > deadline) {
            give_up();
            return false;
        }
        std::this_thread::yield();
    }
    return true;
}

bool becomes_readable(int fd) {
    if (readable_within(fd, patience_ms())) return true;
    give_up();
    return false;
}

std::optional<ibv_async_event> next_event(ibv_context* context) {
    if (!becomes_readable(context->async_fd)) return std::nullopt;
    ibv_async_event event{};
    EXPECT_EQ(ibv_get_async_event(context, &event), 0);
    ibv_ack_async_event(&event);
    return event;
}

ibv_async_event next_event(ibv_context* context, ibv_event_type type) {
    const auto event = next_event(context);
    EXPECT_TRUE(event.has_value()) << "no event came: " << ibv_event_type_str(type);
    if (!event.has_value()) return {};
    EXPECT_EQ(event->event_type, type)
        << ibv_event_type_str(event->event_type) << " instead of " << ibv_event_type_str(type);
    return *event;
}

bool has_event(const ibv_context* context) { return readable_within(context->async_fd, 0); }

pid_t fork_child() {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    // The parent may have gone before the kernel was asked.
    if (child == 0 && (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent)) ::_exit(127);
    return child;
}

Context open_device(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    Context context;
    for (int i = 0; list != nullptr && i < count; ++i) {
        if (name == ibv_get_device_name(list[i])) context.reset(ibv_open_device(list[i]));
    }
    ibv_free_device_list(list);
    EXPECT_NE(context, nullptr) << name << " not found or not opened; run this under urnic run --standalone";
    return context;
}

Buffer::Buffer(std::size_t length_bytes)
    : data_(static_cast<std::uint8_t*>(
          mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
      length_bytes_(length_bytes) {}

Buffer::~Buffer() { munmap(data_, length_bytes_); }

Endpoint::Endpoint(const std::string& device, const EndpointOptions& options)
    : context(open_device(device)), buffer(options.buffer_bytes) {
    if (context == nullptr) return;
    pd = ibv_alloc_pd(context.get());
    EXPECT_NE(pd, nullptr);
    if (options.with_channel) channel = ibv_create_comp_channel(context.get());
    EXPECT_TRUE(!options.with_channel || channel != nullptr);
    if (pd == nullptr) return;
    create_queues(options);
    mr = ibv_reg_mr(
        pd, buffer.data(), buffer.size(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    EXPECT_NE(mr, nullptr) << std::strerror(errno);
}

void Endpoint::create_queues(const EndpointOptions& options) {
    if (options.extended) {
        ibv_cq_init_attr_ex init{};
        init.cqe = static_cast<std::uint32_t>(options.cq_entries);
        init.channel = channel;
        init.cq_context = this;
        init.wc_flags = options.wc_flags;
        init.comp_mask = options.cq_flags != 0 ? static_cast<std::uint32_t>(IBV_CQ_INIT_ATTR_MASK_FLAGS) : 0U;
        init.flags = options.cq_flags;
        cq_ex = ibv_create_cq_ex(context.get(), &init);
        cq = cq_ex != nullptr ? ibv_cq_ex_to_cq(cq_ex) : nullptr;
    } else {
        cq = ibv_create_cq(context.get(), options.cq_entries, this, channel, 0);
    }
    EXPECT_NE(cq, nullptr) << std::strerror(errno);
    if (cq == nullptr) return;
    ibv_qp_init_attr_ex init = qp_attributes(*this, options);
    if (options.extended) {
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
        if (options.type != IBV_QPT_UD) {
            init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
        }
        if (options.type == IBV_QPT_RC) {
            init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
        }
        qp = ibv_create_qp_ex(context.get(), &init);
        qp_ex = qp != nullptr ? ibv_qp_to_qp_ex(qp) : nullptr;
        EXPECT_NE(qp_ex, nullptr);
    } else {
        // The older call takes a prefix of the structure.
        qp = ibv_create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&init));
    }
    EXPECT_NE(qp, nullptr) << std::strerror(errno);
    if (qp != nullptr) {
        EXPECT_GE(init.cap.max_send_wr, options.max_send_wr);
        EXPECT_GE(init.cap.max_inline_data, options.max_inline);
    }
}

Endpoint::~Endpoint() {
    if (qp != nullptr) {
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    }
    if (mr != nullptr) {
        EXPECT_EQ(ibv_dereg_mr(mr), 0);
    }
    if (cq != nullptr) {
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
    }
    if (channel != nullptr) {
        EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
    }
    if (pd != nullptr) {
        EXPECT_EQ(ibv_dealloc_pd(pd), 0);
    }
}

void Endpoint::post_recv(std::uint64_t wr_id, std::vector<ibv_sge> sges) const {
    ibv_recv_wr request{};
    request.wr_id = wr_id;
    request.sg_list = sges.data();
    request.num_sge = static_cast<int>(sges.size());
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qp, &request, &bad), 0);
}

void Endpoint::post(ibv_send_wr& request) const {
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &request, &bad), 0);
}

ibv_wc Endpoint::poll_one() const {
    ibv_wc completion{};
    int got = 0;
    if (comes([&] { return (got = ibv_poll_cq(cq, 1, &completion)) != 0; }) && got == 1) return completion;
    ADD_FAILURE() << (got < 0 ? "ibv_poll_cq failed" : "no completion came");
    completion.status = IBV_WC_GENERAL_ERR;
    return completion;
}

void Endpoint::expect_success(std::uint64_t wr_id, ibv_wc_opcode opcode) const {
    const ibv_wc completion = poll_one();
    ASSERT_EQ(completion.status, IBV_WC_SUCCESS)
        << ibv_wc_status_str(completion.status) << " wr " << completion.wr_id;
    EXPECT_EQ(completion.wr_id, wr_id);
    EXPECT_EQ(completion.opcode, opcode);
    EXPECT_EQ(completion.qp_num, qp->qp_num);
}

bool Endpoint::quiet() const {
    ibv_wc completion{};
    const auto deadline = Clock::now() + std::chrono::milliseconds(50);
    while (Clock::now() < deadline) {
        if (ibv_poll_cq(cq, 1, &completion) != 0) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

ibv_qp_state Endpoint::state() const {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

ibv_ah_attr address_of(ibv_context* peer, std::uint8_t gid_index) {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(peer, kPort, &port), 0);
    const bool is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = kPort;
    attr.dlid = port.lid;
    attr.grh.sgid_index = gid_index != kUsualGid ? gid_index : (is_ethernet ? 1 : 0);
    attr.grh.hop_limit = 64;
    EXPECT_EQ(ibv_query_gid(peer, kPort, attr.grh.sgid_index, &attr.grh.dgid), 0);
    return attr;
}

int to_init(const Endpoint& endpoint, const PathOptions& path) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = kPort;
    attr.pkey_index = path.pkey_index;
    attr.qp_access_flags = path.access;
    attr.qkey = path.qkey;
    const int own = endpoint.type() == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    return ibv_modify_qp(endpoint.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | own);
}

int to_rtr(const Endpoint& endpoint, const Endpoint& peer, std::uint32_t rq_psn, const PathOptions& path) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = path.mtu;
    attr.dest_qp_num = peer.qp->qp_num;
    attr.rq_psn = rq_psn;
    attr.max_dest_rd_atomic = path.max_rd_atomic;
    attr.min_rnr_timer = path.min_rnr_timer;
    attr.ah_attr = address_of(peer.context.get(), path.gid_index);
    int mask = IBV_QP_STATE;
    if (endpoint.type() != IBV_QPT_UD) {
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    }
    if (endpoint.type() == IBV_QPT_RC) mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return ibv_modify_qp(endpoint.qp, &attr, mask);
}

int to_rts(const Endpoint& endpoint, std::uint32_t sq_psn, const PathOptions& path) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = sq_psn;
    attr.timeout = path.timeout;
    attr.retry_cnt = path.retry_cnt;
    attr.rnr_retry = path.rnr_retry;
    attr.max_rd_atomic = path.max_rd_atomic;
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (endpoint.type() == IBV_QPT_RC) {
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return ibv_modify_qp(endpoint.qp, &attr, mask);
}

int to_state(const Endpoint& endpoint, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return ibv_modify_qp(endpoint.qp, &attr, IBV_QP_STATE);
}

void connect(const Endpoint& a, const Endpoint& b, const PathOptions& path) {
    ASSERT_TRUE(a.ok() && b.ok());
    ASSERT_EQ(to_init(a, path), 0);
    ASSERT_EQ(to_rtr(a, b, path.psn_b, path), 0);
    if (&a == &b) {  // a QP connected to itself
        ASSERT_EQ(to_rts(a, path.psn_b, path), 0);
        return;
    }
    ASSERT_EQ(to_init(b, path), 0);
    ASSERT_EQ(to_rtr(b, a, path.psn_a, path), 0);
    ASSERT_EQ(to_rts(a, path.psn_a, path), 0);
    ASSERT_EQ(to_rts(b, path.psn_b, path), 0);
}

namespace {
std::uint8_t pattern(std::size_t position, std::uint32_t seed) {
    const std::uint64_t mixed = (position + 1) * 0x9e3779b97f4a7c15U + seed * 0xbf58476d1ce4e5b9U;
    return static_cast<std::uint8_t>(mixed >> 37U);
}
}  // namespace

void fill(std::uint8_t* to, std::size_t length, std::uint32_t seed) {
    for (std::size_t i = 0; i < length; ++i) to[i] = pattern(i, seed);
}

std::ptrdiff_t first_difference(const std::uint8_t* data, std::size_t length, std::uint32_t seed) {
    for (std::size_t i = 0; i < length; ++i) {
        if (data[i] != pattern(i, seed)) return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
}

std::ptrdiff_t first_other(const std::uint8_t* data, std::size_t length, std::uint8_t value) {
    for (std::size_t i = 0; i < length; ++i) {
        if (data[i] != value) return static_cast<std::ptrdiff_t>(i);
    }
    return -1;
}

ibv_send_wr request(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge* sges, int num_sge, unsigned flags) {
    ibv_send_wr made{};
    made.wr_id = wr_id;
    made.opcode = opcode;
    made.sg_list = sges;
    made.num_sge = num_sge;
    made.send_flags = flags;
    return made;
}

ibv_send_wr rdma(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge* sges, int num_sge, const Endpoint& peer,
                 std::size_t remote_offset, unsigned flags) {
    ibv_send_wr made = request(opcode, wr_id, sges, num_sge, flags);
    made.wr.rdma.remote_addr = peer.address(remote_offset);
    made.wr.rdma.rkey = peer.mr->rkey;
    return made;
}

ibv_send_wr atomic(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge* sge, const Endpoint& peer,
                   std::size_t remote_offset, std::uint64_t compare_add, std::uint64_t swap) {
    ibv_send_wr made = request(opcode, wr_id, sge, 1);
    made.wr.atomic.remote_addr = peer.address(remote_offset);
    made.wr.atomic.rkey = peer.mr->rkey;
    made.wr.atomic.compare_add = compare_add;
    made.wr.atomic.swap = swap;
    return made;
}

}  // namespace urnic::e2e
