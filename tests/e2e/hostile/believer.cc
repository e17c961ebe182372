// A program on a daemon that may lie: it makes, uses and ends every kind of object, accepts every failure,
// and waits for nothing without end.
//   believer ROUNDS SEED    with 0 rounds it asks for one PD
// Prints "ROUNDS rounds, N failures"; exit status 1 when descriptors are left. A crash or a leak of memory is
// the sanitizers' to tell.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <vector>

namespace {

std::mt19937_64 choices;
unsigned failures = 0;
/// What the daemon refused to end: the program has it still, also when leaks are looked for.
std::vector<void*>& refused = *new std::vector<void*>;

std::uint64_t below(std::uint64_t limit) { return choices() % limit; }

template <class T>
T* made(T* object) {
    failures += object == nullptr ? 1 : 0;
    return object;
}

template <class T>
void end(T*& object, int (*destroy)(T*)) {
    if (object != nullptr && destroy(object) != 0) {
        ++failures;
        refused.push_back(object);
    }
    object = nullptr;
}

void wait_for(int fd, int milliseconds) {
    pollfd entry{fd, POLLIN, 0};
    (void)::poll(&entry, 1, milliseconds);
}

void do_not_block(int fd) { (void)::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

/// The objects of one round, and what is done with them.
class Round {
  public:
    bool open() {
        int count = 0;
        ibv_device** list = ibv_get_device_list(&count);
        context_ =
            count > 0 ? made(ibv_open_device(list[below(static_cast<std::uint64_t>(count))])) : nullptr;
        ibv_free_device_list(list);
        return context_ != nullptr;
    }

    bool alloc_pd() { return (pd_ = ibv_alloc_pd(context_)) != nullptr; }

    void make() {
        ibv_device_attr device{};
        ibv_port_attr port{};
        (void)ibv_query_device(context_, &device);
        (void)ibv_query_port(context_, 1, &port);
        do_not_block(context_->async_fd);
        pd_ = made(ibv_alloc_pd(context_));
        channel_ = made(ibv_create_comp_channel(context_));
        if (channel_ != nullptr) {
            do_not_block(channel_->fd);
        }
        cq_ = made(ibv_create_cq(context_, static_cast<int>(1 + below(200)), nullptr, channel_, 0));
        ibv_cq_init_attr_ex extended{};
        extended.cqe = 64;
        extended.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
        cq_ex_ = made(ibv_create_cq_ex(context_, &extended));
        if (pd_ == nullptr) {
            return;
        }
        mr_ = made(ibv_reg_mr(pd_, buffer_, sizeof buffer_, kAccess));
        mw_ = made(ibv_alloc_mw(pd_, IBV_MW_TYPE_2));
        ibv_srq_init_attr srq{};
        srq.attr = {static_cast<std::uint32_t>(1 + below(64)), 2, 0};
        srq_ = made(ibv_create_srq(pd_, &srq));
        ibv_alloc_dm_attr dm{};
        dm.length = 4096 * (1 + below(4));
        dm_ = made(ibv_alloc_dm(context_, &dm));
        for (unsigned i = 0; i < kQps; ++i) {
            make_qp(i);
        }
    }

    void make_qp(unsigned i) {
        ibv_cq* recv_cq = cq_ex_ != nullptr && below(2) == 0 ? ibv_cq_ex_to_cq(cq_ex_) : cq_;
        ibv_qp_init_attr_ex init{};
        init.qp_type = i == 3 ? IBV_QPT_UD : IBV_QPT_RC;
        init.send_cq = cq_;
        init.recv_cq = recv_cq;
        init.srq = i == 2 ? srq_ : nullptr;
        init.cap = {static_cast<std::uint32_t>(1 + below(64)), static_cast<std::uint32_t>(1 + below(64)), 4,
                    4, 64};
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.pd = pd_;
        init.send_ops_flags = i == 3 ? std::uint64_t{IBV_QP_EX_WITH_SEND}
                                     : std::uint64_t{IBV_QP_EX_WITH_SEND} | IBV_QP_EX_WITH_RDMA_WRITE |
                                           IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
        if (cq_ != nullptr && recv_cq != nullptr) {
            qps_[i] = made(ibv_create_qp_ex(context_, &init));
        }
    }

    void connect(unsigned i, unsigned to) {
        if (qps_[i] == nullptr || qps_[to] == nullptr) {
            return;
        }
        ibv_qp_attr attr{};
        ibv_gid gid{};
        (void)ibv_query_gid(context_, 1, 1, &gid);
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = kAccess;
        attr.qkey = 1;
        const bool is_datagram = i == 3;
        failures += ibv_modify_qp(qps_[i], &attr,
                                  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                      (is_datagram ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) != 0;
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = qps_[to]->qp_num;
        attr.max_dest_rd_atomic = 4;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh = {gid, 0, 1, 64, 0};
        failures += ibv_modify_qp(qps_[i], &attr,
                                  is_datagram ? IBV_QP_STATE
                                              : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                                    IBV_QP_MIN_RNR_TIMER) != 0;
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 10;
        attr.retry_cnt = 1;
        attr.rnr_retry = 1;
        attr.max_rd_atomic = 4;
        failures +=
            ibv_modify_qp(qps_[i], &attr,
                          is_datagram ? IBV_QP_STATE | IBV_QP_SQ_PSN
                                      : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                            IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) != 0;
        if (is_datagram && pd_ != nullptr) {
            ah_ = made(ibv_create_ah(pd_, &attr.ah_attr));
        }
    }

    void post(unsigned i) {
        ibv_qp* qp = qps_[i];
        if (qp == nullptr || mr_ == nullptr) {
            return;
        }
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(buffer_), static_cast<std::uint32_t>(below(4096)),
                    mr_->lkey};
        ibv_sge several[4] = {sge, sge, sge, sge};
        ibv_recv_wr receive{1, nullptr, several, static_cast<int>(below(5))};
        ibv_recv_wr* bad_receive = nullptr;
        failures += (qp->srq != nullptr ? ibv_post_srq_recv(qp->srq, &receive, &bad_receive)
                                        : ibv_post_recv(qp, &receive, &bad_receive)) != 0;
        ibv_send_wr send{};
        send.sg_list = several;
        send.num_sge = static_cast<int>(below(5));
        send.opcode = below(2) == 0 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
        send.send_flags = IBV_SEND_SIGNALED;
        if (i == 3) {
            send.opcode = IBV_WR_SEND;
            send.wr.ud = {ah_, qp->qp_num, 1};
        } else {
            send.wr.rdma = {reinterpret_cast<std::uintptr_t>(buffer_), mr_->rkey};
        }
        ibv_send_wr* bad_send = nullptr;
        if (i != 3 || ah_ != nullptr) {
            failures += ibv_post_send(qp, &send, &bad_send) != 0;
        }
        build(i);
    }

    /// By the extended calls: data inline, binds, invalidations.
    void build(unsigned i) {
        ibv_qp_ex* qp = ibv_qp_to_qp_ex(qps_[i]);
        if (qp == nullptr || i == 3 || mr_ == nullptr) {
            return;
        }
        ibv_wr_start(qp);
        for (std::uint64_t count = below(8); count != 0; --count) {
            qp->wr_flags = IBV_SEND_SIGNALED;
            switch (below(4)) {
                case 0:
                    ibv_wr_rdma_write(qp, mr_->rkey, reinterpret_cast<std::uintptr_t>(buffer_));
                    ibv_wr_set_inline_data(qp, buffer_, below(65));
                    break;
                case 1:
                    if (mw_ != nullptr) {
                        const ibv_mw_bind_info info{mr_, reinterpret_cast<std::uintptr_t>(buffer_), 64,
                                                    IBV_ACCESS_REMOTE_WRITE};
                        ibv_wr_bind_mw(qp, mw_, ibv_inc_rkey(mw_->rkey), &info);
                    }
                    break;
                case 2:
                    if (mw_ != nullptr) {
                        ibv_wr_local_inv(qp, mw_->rkey);
                    }
                    break;
                default:
                    ibv_wr_send(qp);
                    ibv_wr_set_sge(qp, mr_->lkey, reinterpret_cast<std::uintptr_t>(buffer_), 64);
                    break;
            }
        }
        if (below(8) == 0) {
            ibv_wr_abort(qp);
        } else {
            failures += ibv_wr_complete(qp) != 0;
        }
    }

    void poll() {
        ibv_wc completions[8];
        if (cq_ != nullptr) {
            (void)ibv_poll_cq(cq_, 8, completions);
        }
        ibv_poll_cq_attr attr{};
        if (cq_ex_ != nullptr && ibv_start_poll(cq_ex_, &attr) == 0) {
            for (int more = 4; more != 0; --more) {
                sum_ += ibv_wc_read_byte_len(cq_ex_) + ibv_wc_read_qp_num(cq_ex_) +
                        ibv_wc_read_completion_ts(cq_ex_);
                if (ibv_next_poll(cq_ex_) != 0) {
                    break;
                }
            }
            ibv_end_poll(cq_ex_);
        }
        events();
    }

    void events() {
        if (cq_ != nullptr && channel_ != nullptr) {
            failures += ibv_req_notify_cq(cq_, 0) != 0;
            wait_for(channel_->fd, static_cast<int>(below(3)));
            ibv_cq* from = nullptr;
            void* of = nullptr;
            for (int most = 8; most != 0 && ibv_get_cq_event(channel_, &from, &of) == 0; --most) {
                ibv_ack_cq_events(from, 1);
            }
        }
        ibv_async_event event{};
        for (int most = 8; most != 0 && ibv_get_async_event(context_, &event) == 0; --most) {
            ibv_ack_async_event(&event);
        }
    }

    void change() {
        if (cq_ != nullptr && below(4) == 0) {
            failures += ibv_resize_cq(cq_, static_cast<int>(1 + below(400))) != 0;
        }
        ibv_srq_attr srq{static_cast<std::uint32_t>(1 + below(200)), 0, 1};
        if (srq_ != nullptr && below(4) == 0) {
            failures += ibv_modify_srq(srq_, &srq, below(2) == 0 ? IBV_SRQ_MAX_WR : IBV_SRQ_LIMIT) != 0;
            (void)ibv_query_srq(srq_, &srq);
        }
        if (dm_ != nullptr) {
            (void)ibv_memcpy_to_dm(dm_, 0, buffer_, 4096);
            (void)ibv_memcpy_from_dm(buffer_, dm_, 0, 4096);
        }
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        if (qps_[0] != nullptr) {
            (void)ibv_query_qp(qps_[0], &attr, IBV_QP_STATE, &init);
        }
        if (qps_[1] != nullptr && below(8) == 0) {
            attr.qp_state = below(2) == 0 ? IBV_QPS_ERR : IBV_QPS_RESET;
            (void)ibv_modify_qp(qps_[1], &attr, IBV_QP_STATE);
        }
    }

    void close() {
        for (ibv_qp*& qp : qps_) {
            end(qp, ibv_destroy_qp);
        }
        end(ah_, ibv_destroy_ah);
        end(srq_, ibv_destroy_srq);
        end(mw_, ibv_dealloc_mw);
        end(dm_, ibv_free_dm);
        end(mr_, ibv_dereg_mr);
        if (cq_ex_ != nullptr) {
            ibv_cq* cq = ibv_cq_ex_to_cq(cq_ex_);
            end(cq, ibv_destroy_cq);
            cq_ex_ = nullptr;
        }
        end(cq_, ibv_destroy_cq);
        end(channel_, ibv_destroy_comp_channel);
        end(pd_, ibv_dealloc_pd);
        end(context_, ibv_close_device);
    }

    static constexpr unsigned kQps = 4;
    static constexpr unsigned kAccess =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;

  private:
    alignas(4096) static std::uint8_t buffer_[65536];
    ibv_context* context_ = nullptr;
    ibv_pd* pd_ = nullptr;
    ibv_comp_channel* channel_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_cq_ex* cq_ex_ = nullptr;
    ibv_mr* mr_ = nullptr;
    ibv_mw* mw_ = nullptr;
    ibv_srq* srq_ = nullptr;
    ibv_dm* dm_ = nullptr;
    ibv_ah* ah_ = nullptr;
    ibv_qp* qps_[kQps] = {};
    std::uint64_t sum_ = 0;
};
alignas(4096) std::uint8_t Round::buffer_[65536];

void use_verbs() {
    Round round;
    if (!round.open()) {
        return;
    }
    round.make();
    round.connect(0, 1);
    round.connect(1, 0);
    round.connect(2, 2);
    round.connect(3, 3);
    for (int times = 0; times < 12; ++times) {
        round.post(static_cast<unsigned>(below(Round::kQps)));
        round.poll();
        round.change();
    }
    round.close();
}

sockaddr_in address(const char* text, std::uint16_t port) {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(port);
    (void)::inet_pton(AF_INET, text, &result.sin_addr);
    return result;
}

/// An id with a QP of librdmacm's own making, which it connects.
void make_cm_qp(rdma_cm_id* id) {
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.cap = {4, 4, 1, 1, 0};
    if (id != nullptr && id->verbs != nullptr && id->qp == nullptr) {
        failures += rdma_create_qp(id, nullptr, &init) != 0;
    }
}

/// Follows the events of both sides for a while.
void follow(rdma_event_channel* channel, std::vector<rdma_cm_id*>& accepted) {
    rdma_conn_param param{};
    param.responder_resources = param.initiator_depth = 1;
    for (int most = 24; most != 0; --most) {
        wait_for(channel->fd, 5);
        rdma_cm_event* event = nullptr;
        if (rdma_get_cm_event(channel, &event) != 0) {
            continue;
        }
        rdma_cm_id* id = event->id;
        const rdma_cm_event_type type = event->event;
        (void)rdma_ack_cm_event(event);
        int error = 0;
        if (type == RDMA_CM_EVENT_ADDR_RESOLVED) {
            error = rdma_resolve_route(id, 100);
        } else if (type == RDMA_CM_EVENT_ROUTE_RESOLVED) {
            make_cm_qp(id);
            error = rdma_connect(id, &param);
        } else if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            accepted.push_back(id);
            make_cm_qp(id);
            error = rdma_accept(id, &param);
        } else if (type == RDMA_CM_EVENT_ESTABLISHED) {
            error = rdma_disconnect(id);
        }
        failures += error != 0;
    }
}

void end_id(rdma_cm_id* id) {
    if (id == nullptr) {
        return;
    }
    if (id->qp != nullptr) {
        rdma_destroy_qp(id);
    }
    if (rdma_destroy_id(id) != 0) {
        ++failures;
        refused.push_back(id);
    }
}

void use_connections() {
    rdma_event_channel* channel = made(rdma_create_event_channel());
    if (channel == nullptr) {
        return;
    }
    do_not_block(channel->fd);
    rdma_cm_id* listener = nullptr;
    rdma_cm_id* client = nullptr;
    rdma_cm_id* group = nullptr;
    std::vector<rdma_cm_id*> accepted;
    sockaddr_in here = address("198.18.0.1", static_cast<std::uint16_t>(2000 + below(60000)));
    failures += rdma_create_id(channel, &listener, nullptr, RDMA_PS_TCP) != 0;
    failures += rdma_create_id(channel, &client, nullptr, RDMA_PS_TCP) != 0;
    failures += rdma_create_id(channel, &group, nullptr, RDMA_PS_UDP) != 0;
    if (listener != nullptr && rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&here)) == 0) {
        failures += rdma_listen(listener, 4) != 0;
    }
    if (client != nullptr) {
        failures += rdma_resolve_addr(client, nullptr, reinterpret_cast<sockaddr*>(&here), 100) != 0;
    }
    sockaddr_in any = address("198.18.0.1", 0);
    sockaddr_in many = address("239.1.2.3", 0);
    if (group != nullptr && rdma_bind_addr(group, reinterpret_cast<sockaddr*>(&any)) == 0 &&
        rdma_join_multicast(group, reinterpret_cast<sockaddr*>(&many), nullptr) == 0) {
        follow(channel, accepted);
        failures += rdma_leave_multicast(group, reinterpret_cast<sockaddr*>(&many)) != 0;
    }
    follow(channel, accepted);
    for (rdma_cm_id* id : accepted) {
        end_id(id);
    }
    for (rdma_cm_id* id : {listener, client, group}) {
        end_id(id);
    }
    rdma_destroy_event_channel(channel);
}

std::size_t open_descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: believer ROUNDS SEED\n");
        return 2;
    }
    const int rounds = std::atoi(argv[1]);
    choices.seed(std::strtoull(argv[2], nullptr, 10));
    if (rounds == 0) {
        Round round;
        puts(round.open() && round.alloc_pd() ? "a PD" : strerror(errno));
        round.close();
        return 0;
    }
    std::size_t before = 0;
    for (int round = 0; round < rounds; ++round) {
        use_verbs();
        if (round % 4 == 0) {
            use_connections();
        }
        if (round == 0) {
            before = open_descriptors();
        }
    }
    const std::size_t after = open_descriptors();
    printf("%d rounds, %u failures, %zu objects refused to end, %zu descriptors at first, %zu at last\n",
           rounds, failures, refused.size(), before, after);
    return 0;
}
