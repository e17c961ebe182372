// Calls of the stock librdmacm that none of its programs makes, or not with every argument. Under `urnic run
// --standalone`.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tests/e2e/verbs/busy_threads.h"
#include "tests/e2e/verbs/connection_parts.h"

namespace urnic::e2e {
namespace {

constexpr int kEventPatienceMs = 30'000;
constexpr int kResolveMs = 2000;

struct IdDeleter {
    void operator()(rdma_cm_id* id) const {
        if (id->qp != nullptr) rdma_destroy_qp(id);
        EXPECT_EQ(rdma_destroy_id(id), 0);
    }
};
using Id = std::unique_ptr<rdma_cm_id, IdDeleter>;

struct Event {
    rdma_cm_event_type type{};
    int status = 0;
    rdma_cm_id* id = nullptr;
    rdma_cm_id* listener = nullptr;
    Bytes private_data;
};

class Channel {
  public:
    Channel() : channel_(rdma_create_event_channel()) { EXPECT_NE(channel_, nullptr); }
    ~Channel() { rdma_destroy_event_channel(channel_); }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    [[nodiscard]] rdma_event_channel* get() const { return channel_; }
    [[nodiscard]] Id make(rdma_port_space space = RDMA_PS_TCP) const {
        rdma_cm_id* id = nullptr;
        EXPECT_EQ(rdma_create_id(channel_, &id, nullptr, space), 0) << std::strerror(errno);
        return Id(id);
    }
    [[nodiscard]] bool readable(int timeout_ms) const {
        pollfd entry{channel_->fd, POLLIN, 0};
        return poll(&entry, 1, timeout_ms) == 1;
    }
    /// The next event, waited for; of that type. Without one there is no id to go on with: the test ends.
    [[nodiscard]] Event take(rdma_cm_event_type expected) const {
        rdma_cm_event* event = nullptr;
        if (!readable(kEventPatienceMs) || rdma_get_cm_event(channel_, &event) != 0) {
            throw std::runtime_error(std::string("no event came, but should have: ") +
                                     rdma_event_str(expected));
        }
        Event seen{event->event, event->status, event->id, event->listen_id, {}};
        const bool is_datagram = event->id->ps == RDMA_PS_UDP;
        const void* data = is_datagram ? event->param.ud.private_data : event->param.conn.private_data;
        const std::size_t size =
            is_datagram ? event->param.ud.private_data_len : event->param.conn.private_data_len;
        if (data != nullptr) {
            seen.private_data.resize(size);
            std::memcpy(seen.private_data.data(), data, size);
        }
        EXPECT_EQ(rdma_ack_cm_event(event), 0);
        EXPECT_EQ(seen.type, expected) << rdma_event_str(seen.type) << ", status " << seen.status;
        return seen;
    }

  private:
    rdma_event_channel* channel_;
};

/// Parameters with private data; the QP is nobody's, and another one each time.
struct Param {
    explicit Param(Bytes bytes = {}) : data(std::move(bytes)) {
        static std::uint32_t next_qpn = 0x1000;
        param.private_data = data.empty() ? nullptr : data.data();
        param.private_data_len = static_cast<std::uint8_t>(data.size());
        param.retry_count = 7;
        param.rnr_retry_count = 7;
        param.qp_num = ++next_qpn;
        param.responder_resources = 1;
        param.initiator_depth = 1;
    }
    Bytes data;
    rdma_conn_param param{};
};

/// A listener and a client that has a route to it; the server's events and the client's apart.
class Connection : public testing::Test {
  protected:
    void listen(rdma_port_space space = RDMA_PS_TCP) {
        listener = server.make(space);
        sockaddr_in at = ipv4(kServer);
        ASSERT_EQ(rdma_bind_addr(listener.get(), as_sockaddr(at)), 0);
        ASSERT_EQ(rdma_listen(listener.get(), 0), 0);
    }
    void to_address(const Id& id) {
        sockaddr_in from = ipv4(kClient);
        sockaddr_in to = ipv4(kServer, ntohs(rdma_get_src_port(listener.get())));
        ASSERT_EQ(rdma_resolve_addr(id.get(), as_sockaddr(from), as_sockaddr(to), kResolveMs), 0);
        (void)client.take(RDMA_CM_EVENT_ADDR_RESOLVED);
    }
    void to_route(const Id& id) {
        to_address(id);
        ASSERT_EQ(rdma_resolve_route(id.get(), kResolveMs), 0);
        (void)client.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
    }
    /// The request that the server's next event is.
    Id requested(Event* seen = nullptr) const {
        const Event event = server.take(RDMA_CM_EVENT_CONNECT_REQUEST);
        EXPECT_EQ(event.listener, listener.get());
        if (seen != nullptr) *seen = event;
        return Id(event.id);
    }
    /// Both hear of the end.
    void disconnect(const Id& active, const Id& passive) const {
        EXPECT_EQ(rdma_disconnect(active.get()), 0);
        (void)server.take(RDMA_CM_EVENT_DISCONNECTED);
        EXPECT_EQ(rdma_disconnect(passive.get()), 0);
        (void)client.take(RDMA_CM_EVENT_DISCONNECTED);
    }

    Channel server;
    Channel client;
    Id listener;
};

/// Messages have room of one size (IBA 12.6): the rest is zeros.
void expect_data(const Bytes& seen, const Bytes& given, std::size_t room) {
    ASSERT_EQ(seen.size(), room);
    EXPECT_TRUE(std::equal(given.begin(), given.end(), seen.begin())) << given.size() << " bytes";
    EXPECT_TRUE(std::all_of(seen.begin() + static_cast<std::ptrdiff_t>(given.size()), seen.end(),
                            [](std::uint8_t byte) { return byte == 0; }))
        << given.size() << " bytes";
}

constexpr std::size_t kReqRoom = 56;  // 92 less the IP CM service's header (annex A11)
constexpr std::size_t kRepRoom = 196;
constexpr std::size_t kRejRoom = 148;
constexpr std::size_t kSidrReqRoom = 180;  // 216 less that header
constexpr std::size_t kSidrRepRoom = 136;

TEST_F(Connection, PrivateDataOfEverySize) {
    listen();
    for (std::size_t size = 0; size <= kRepRoom; ++size) {
        SCOPED_TRACE(size);
        const Id active = client.make();
        to_route(active);
        Param request(pattern(size % (kReqRoom + 1)));
        ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
        Event event;
        const Id passive = requested(&event);
        expect_data(event.private_data, request.data, kReqRoom);
        Param reply(pattern(size));
        ASSERT_EQ(rdma_accept(passive.get(), &reply.param), 0);
        expect_data(client.take(RDMA_CM_EVENT_CONNECT_RESPONSE).private_data, reply.data, kRepRoom);
        ASSERT_EQ(rdma_establish(active.get()), 0);
        (void)server.take(RDMA_CM_EVENT_ESTABLISHED);
        disconnect(active, passive);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_F(Connection, PrivateDataOfRefusals) {
    listen();
    for (std::size_t size = 0; size <= kRejRoom; ++size) {
        SCOPED_TRACE(size);
        const Id active = client.make();
        to_route(active);
        Param request;
        ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
        const Id passive = requested();
        const Bytes why = pattern(size);
        ASSERT_EQ(rdma_reject(passive.get(), why.data(), static_cast<std::uint8_t>(size)), 0);
        const Event event = client.take(RDMA_CM_EVENT_REJECTED);
        EXPECT_EQ(event.status, 28) << "rejected by the consumer";
        expect_data(event.private_data, why, kRejRoom);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_F(Connection, PrivateDataOfDatagramServices) {
    listen(RDMA_PS_UDP);
    for (std::size_t size = 0; size <= kSidrReqRoom; ++size) {
        SCOPED_TRACE(size);
        const Id active = client.make(RDMA_PS_UDP);
        to_route(active);
        Param request(pattern(size));
        ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
        Event event;
        const Id passive = requested(&event);
        expect_data(event.private_data, request.data, kSidrReqRoom);
        Param reply(pattern(size % (kSidrRepRoom + 1)));
        ASSERT_EQ(rdma_accept(passive.get(), &reply.param), 0);
        expect_data(client.take(RDMA_CM_EVENT_ESTABLISHED).private_data, reply.data, kSidrRepRoom);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_F(Connection, MorePrivateDataThanThereIsRoomFor) {
    listen();
    const Id active = client.make();
    to_route(active);
    Param long_request(pattern(kReqRoom + 1));
    EXPECT_EQ(rdma_connect(active.get(), &long_request.param), -1);
    EXPECT_EQ(errno, EINVAL);
    Param request;
    ASSERT_EQ(rdma_connect(active.get(), &request.param), 0) << "the id is what it was";
    const Id passive = requested();
    Param long_reply(pattern(kRepRoom + 1));
    EXPECT_EQ(rdma_accept(passive.get(), &long_reply.param), -1);
    EXPECT_EQ(errno, EINVAL);
    const Bytes why = pattern(kRejRoom + 1);
    EXPECT_EQ(rdma_reject(passive.get(), why.data(), static_cast<std::uint8_t>(why.size())), -1);
    EXPECT_EQ(errno, EINVAL);
}

/// Data may come before the RTU; then the program says so (IBV_EVENT_COMM_EST).
TEST_F(Connection, NotifyEstablishes) {
    listen();
    EXPECT_EQ(rdma_notify(listener.get(), IBV_EVENT_COMM_EST), -1);
    EXPECT_EQ(errno, EINVAL) << "no connection";
    const Id active = client.make();
    to_route(active);
    Param request;
    ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
    const Id passive = requested();
    EXPECT_EQ(rdma_notify(passive.get(), IBV_EVENT_COMM_EST), -1) << "nothing was accepted";
    EXPECT_EQ(errno, EINVAL);
    Param reply;
    ASSERT_EQ(rdma_accept(passive.get(), &reply.param), 0);
    (void)client.take(RDMA_CM_EVENT_CONNECT_RESPONSE);
    EXPECT_EQ(rdma_notify(passive.get(), IBV_EVENT_PATH_MIG), -1) << "means nothing to it";
    EXPECT_EQ(errno, EINVAL);
    ASSERT_EQ(rdma_notify(passive.get(), IBV_EVENT_COMM_EST), 0);
    (void)server.take(RDMA_CM_EVENT_ESTABLISHED);
    // The RTU says nothing new.
    ASSERT_EQ(rdma_establish(active.get()), 0);
    EXPECT_EQ(rdma_notify(passive.get(), IBV_EVENT_COMM_EST), 0);
    disconnect(active, passive);
}

TEST_F(Connection, EventsMoveWithTheirId) {
    listen();
    const Channel other;
    const Channel calls;
    const Id active = client.make();
    sockaddr_in to = ipv4(kServer, ntohs(rdma_get_src_port(listener.get())));
    ASSERT_EQ(rdma_resolve_addr(active.get(), nullptr, as_sockaddr(to), kResolveMs), 0);
    ASSERT_TRUE(client.readable(kEventPatienceMs));
    ASSERT_EQ(rdma_migrate_id(active.get(), other.get()), 0);
    EXPECT_FALSE(client.readable(0));
    EXPECT_EQ(other.take(RDMA_CM_EVENT_ADDR_RESOLVED).id, active.get());
    ASSERT_EQ(rdma_resolve_route(active.get(), kResolveMs), 0);
    (void)other.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
    // A request that waits moves with its listener.
    Param request;
    ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
    ASSERT_TRUE(server.readable(kEventPatienceMs));
    ASSERT_EQ(rdma_migrate_id(listener.get(), calls.get()), 0);
    EXPECT_FALSE(server.readable(0));
    const Event event = calls.take(RDMA_CM_EVENT_CONNECT_REQUEST);
    const Id passive(event.id);
    ASSERT_EQ(rdma_reject(passive.get(), nullptr, 0), 0);
    (void)other.take(RDMA_CM_EVENT_REJECTED);
    listener.reset();  // before its channel
    // Without a channel calls wait for their events.
    const Id waiting = client.make();
    ASSERT_EQ(rdma_migrate_id(waiting.get(), nullptr), 0);
    ASSERT_EQ(rdma_resolve_addr(waiting.get(), nullptr, as_sockaddr(to), kResolveMs), 0);
    ASSERT_EQ(rdma_resolve_route(waiting.get(), kResolveMs), 0);
}

ibv_qp_attr attributes_of(const Id& id) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(id->qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_STATE, &init), 0);
    return attr;
}

/// What the kernel makes of them: over RoCE the type of service is the traffic class of both QPs, the
/// time-out is the QP's own.
TEST_F(Connection, TypeOfServiceAndAckTimeout) {
    constexpr std::uint8_t kTos = 0x48;
    constexpr std::uint8_t kAckTimeout = 15;
    listen();
    const Id active = client.make();
    std::uint8_t tos = kTos;
    std::uint8_t ack_timeout = kAckTimeout;
    ASSERT_EQ(rdma_set_option(active.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos), 0);
    ASSERT_EQ(rdma_set_option(active.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
                              sizeof ack_timeout),
              0);
    to_route(active);
    ibv_qp_init_attr init = queues();
    ASSERT_EQ(rdma_create_qp(active.get(), nullptr, &init), 0);
    Param request;
    ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
    const Id passive = requested();
    init = queues();
    ASSERT_EQ(rdma_create_qp(passive.get(), nullptr, &init), 0);
    ASSERT_EQ(rdma_accept(passive.get(), &request.param), 0);
    (void)client.take(RDMA_CM_EVENT_ESTABLISHED);
    (void)server.take(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(attributes_of(active).qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attributes_of(active).timeout, kAckTimeout);
    // Over InfiniBand it is what the path is asked for; packets have no GRH.
    ibv_port_attr port{};
    ASSERT_EQ(ibv_query_port(active->verbs, 1, &port), 0);
    const bool is_infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
    const std::uint8_t traffic_class = is_infiniband ? std::uint8_t{0} : kTos;
    EXPECT_EQ(attributes_of(active).ah_attr.is_global, is_infiniband ? 0 : 1);
    EXPECT_EQ(attributes_of(active).ah_attr.grh.traffic_class, traffic_class);
    EXPECT_EQ(attributes_of(passive).ah_attr.grh.traffic_class, traffic_class);
    disconnect(active, passive);
}

TEST_F(Connection, OneFamilyAlone) {
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    const Id both = server.make();
    ASSERT_EQ(rdma_bind_addr(both.get(), as_sockaddr(any6)), 0);
    sockaddr_in any4 = ipv4("0.0.0.0", ntohs(rdma_get_src_port(both.get())));
    const Id refused = server.make();
    EXPECT_EQ(rdma_bind_addr(refused.get(), as_sockaddr(any4)), -1) << "[::] takes IPv4, too";

    const Id ipv6 = server.make();
    int yes = 1;
    ASSERT_EQ(rdma_set_option(ipv6.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes), 0);
    ASSERT_EQ(rdma_bind_addr(ipv6.get(), as_sockaddr(any6)), 0);
    ASSERT_EQ(rdma_listen(ipv6.get(), 0), 0);
    const std::uint16_t port = ntohs(rdma_get_src_port(ipv6.get()));
    const Id active = client.make();
    sockaddr_in to = ipv4(kServer, port);
    ASSERT_EQ(rdma_resolve_addr(active.get(), nullptr, as_sockaddr(to), kResolveMs), 0);
    (void)client.take(RDMA_CM_EVENT_ADDR_RESOLVED);
    ASSERT_EQ(rdma_resolve_route(active.get(), kResolveMs), 0);
    (void)client.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
    Param request;
    ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
    EXPECT_EQ(client.take(RDMA_CM_EVENT_REJECTED).status, 8) << "no such service over IPv4";
    // The port is free for IPv4's listener.
    any4.sin_port = htons(port);
    const Id ipv4_too = server.make();
    EXPECT_EQ(rdma_bind_addr(ipv4_too.get(), as_sockaddr(any4)), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_listen(ipv4_too.get(), 0), 0) << std::strerror(errno);
}

/// The RNIC is the one with the address that was asked for, or, for a wildcard, the one that was reached.
/// As librpma finds out and asks for it: the device says it (IB_UVERBS_DEVICE_ATOMIC_WRITE), and the QP is
/// made with that one operation named.
TEST_F(Connection, AQpThatIsAskedForAtomicWrites) {
    const Id id = client.make();
    sockaddr_in from = ipv4(kClient);
    ASSERT_EQ(rdma_bind_addr(id.get(), as_sockaddr(from)), 0);
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(id->verbs, nullptr, &device), 0);
    EXPECT_NE(device.device_cap_flags_ex & std::uint64_t{1} << 40U, 0U);
    ibv_cq* const cq = ibv_create_cq(id->verbs, 16, nullptr, nullptr, 0);
    ibv_pd* const pd = ibv_alloc_pd(id->verbs);
    ASSERT_TRUE(cq != nullptr && pd != nullptr);
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {
        .max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 8};
    attr.qp_type = IBV_QPT_RC;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE;
    attr.pd = pd;
    ASSERT_EQ(rdma_create_qp_ex(id.get(), &attr), 0) << std::strerror(errno);
    const ibv_qp_ex* const extended = ibv_qp_to_qp_ex(id->qp);
    ASSERT_NE(extended, nullptr);
    EXPECT_NE(extended->wr_atomic_write, nullptr);
    rdma_destroy_qp(id.get());
    EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_EQ(ibv_dealloc_pd(pd), 0);
}

TEST_F(Connection, AddressesChooseTheDevice) {
    listener = server.make();
    sockaddr_in any = ipv4("0.0.0.0");
    ASSERT_EQ(rdma_bind_addr(listener.get(), as_sockaddr(any)), 0);
    ASSERT_EQ(rdma_listen(listener.get(), 0), 0);
    EXPECT_EQ(listener->verbs, nullptr);
    struct Way {
        const char* to;
        const char* active_device;
        const char* passive_device;
    };
    for (const Way& way : {Way{kServer, "urnic1", "urnic0"}, Way{kClient, "urnic0", "urnic1"},
                           Way{"127.0.0.1", nullptr, "urnic0"}}) {
        SCOPED_TRACE(way.to);
        const Id active = client.make();
        sockaddr_in to = ipv4(way.to, ntohs(rdma_get_src_port(listener.get())));
        ASSERT_EQ(rdma_resolve_addr(active.get(), nullptr, as_sockaddr(to), kResolveMs), 0);
        (void)client.take(RDMA_CM_EVENT_ADDR_RESOLVED);
        ASSERT_NE(active->verbs, nullptr);
        if (way.active_device != nullptr) {
            EXPECT_STREQ(ibv_get_device_name(active->verbs->device), way.active_device);
        }
        ASSERT_EQ(rdma_resolve_route(active.get(), kResolveMs), 0);
        (void)client.take(RDMA_CM_EVENT_ROUTE_RESOLVED);
        Param request;
        ASSERT_EQ(rdma_connect(active.get(), &request.param), 0);
        const Id passive = requested();
        ASSERT_NE(passive->verbs, nullptr);
        EXPECT_STREQ(ibv_get_device_name(passive->verbs->device), way.passive_device);
        ASSERT_EQ(rdma_reject(passive.get(), nullptr, 0), 0);
        (void)client.take(RDMA_CM_EVENT_REJECTED);
    }
}

TEST_F(Connection, GroupsAreJoinedAndLeft) {
    const Id member = client.make(RDMA_PS_UDP);
    sockaddr_in at = ipv4(kClient);
    ASSERT_EQ(rdma_bind_addr(member.get(), as_sockaddr(at)), 0);
    ibv_qp_init_attr init = queues();
    init.qp_type = IBV_QPT_UD;
    ASSERT_EQ(rdma_create_qp(member.get(), nullptr, &init), 0);
    sockaddr_in group = ipv4("239.4.5.6");
    EXPECT_EQ(rdma_leave_multicast(member.get(), as_sockaddr(group)), -1);
    EXPECT_EQ(errno, EADDRNOTAVAIL);
    for (int times = 0; times < 3; ++times) {
        ASSERT_EQ(rdma_join_multicast(member.get(), as_sockaddr(group), nullptr), 0) << std::strerror(errno);
        (void)client.take(RDMA_CM_EVENT_MULTICAST_JOIN);
        ASSERT_EQ(rdma_leave_multicast(member.get(), as_sockaddr(group)), 0) << std::strerror(errno);
    }
    sockaddr_in no_group = ipv4(kServer);
    EXPECT_EQ(rdma_join_multicast(member.get(), as_sockaddr(no_group), nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
}

/// An id's QP with one buffer. Before its id.
class Queues {
  public:
    explicit Queues(rdma_cm_id* id) {
        ibv_qp_init_attr init = queues();
        EXPECT_EQ(rdma_create_qp(id, nullptr, &init), 0) << std::strerror(errno);
        memory_ = rdma_reg_msgs(id, bytes.data(), bytes.size());
        EXPECT_NE(memory_, nullptr) << std::strerror(errno);
    }
    ~Queues() { rdma_dereg_mr(memory_); }
    Queues(const Queues&) = delete;
    Queues& operator=(const Queues&) = delete;
    [[nodiscard]] ibv_mr* memory() const { return memory_; }

    Bytes bytes = Bytes(64);

  private:
    ibv_mr* memory_ = nullptr;
};

/// The peer must not wait for ever for what was sent: librdmacm takes the QP to ERR before it disconnects.
TEST_F(Connection, WhatWasSentBeforeADisconnectArrives) {
    constexpr int kRounds = 100;
    const BusyThreads busy;
    const Bytes sent = pattern(64);
    listen();
    for (int i = 0; i < kRounds && !HasFailure(); ++i) {
        SCOPED_TRACE(i);
        const Id active = client.make();
        to_route(active);
        Queues from(active.get());
        Param param;
        ASSERT_EQ(rdma_connect(active.get(), &param.param), 0);
        const Id passive = requested();
        Queues to(passive.get());
        ASSERT_EQ(rdma_post_recv(passive.get(), nullptr, to.bytes.data(), 64, to.memory()), 0);
        ASSERT_EQ(rdma_accept(passive.get(), &param.param), 0);
        (void)client.take(RDMA_CM_EVENT_ESTABLISHED);
        (void)server.take(RDMA_CM_EVENT_ESTABLISHED);
        std::copy(sent.begin(), sent.end(), from.bytes.begin());  // in its place: the memory is registered
        ASSERT_EQ(rdma_post_send(active.get(), nullptr, from.bytes.data(), 64, from.memory(), 0), 0);
        disconnect(active, passive);
        ibv_wc completion{};
        ASSERT_EQ(ibv_poll_cq(passive->recv_cq, 1, &completion), 1) << "it is over, and nothing came";
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
        EXPECT_EQ(to.bytes, sent);
    }
}

}  // namespace
}  // namespace urnic::e2e
