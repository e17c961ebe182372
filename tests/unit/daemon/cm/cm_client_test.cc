// librdmacm's commands as a client gives them, well or badly: errors are those of the kernel, and nothing is
// left.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <random>

#include "daemon/cm/client.h"
#include "daemon/control/control_server.h"
#include "tests/unit/daemon/inline_worker.h"
#include "tests/unit/daemon/own_neighbours.h"

namespace urnic::daemon {
namespace {

class OneQp final : public QpOwner {
  public:
    [[nodiscard]] bool has_qp(const RnicState&, std::uint32_t number) const override { return number == 17; }
};

class CmClientTest : public testing::Test {
  protected:
    CmClientTest() {
        for (std::uint32_t i = 0; i < 2; ++i) {
            auto device = std::make_unique<dataplane::Device>();
            device->name = "urnic" + std::to_string(i);
            device->index = i;
            device->node_guid = i + 1;
            device->mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)};
            device->gids[0] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0,
                               0,    0,    0, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)};
            device->gids[1] = {0, 0, 0,    0,    0,   0,  0, 0,
                               0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(i + 1)};
            device->neighbours = &neighbours_;
            control_.devices.push_back(std::make_unique<RnicState>(*device, 1));
            devices_.push_back(std::move(device));
        }
        control_.workers.push_back(std::make_unique<dataplane::Worker>(dataplane::WorkerConfig{}));
        control_.limits.max_cm_ids = 100;
        control_.limits.max_cm_channels = 4;
        service_ = std::make_unique<CmService>(control_);
        client_ = std::make_unique<CmClient>(*service_, owner_, control_.user(1000), false, nullptr);
        EXPECT_EQ(client_->open_channel(channel_, reader_), 0);
    }

    template <typename T>
    int give(std::uint32_t command, const T& body, std::size_t bytes = sizeof(T), std::uint32_t out = 512,
             std::uint32_t channel = 0) {
        abi::CmCommandRequest request{};
        request.channel = channel == 0 ? channel_ : channel;
        request.command = command;
        request.in_bytes = static_cast<std::uint32_t>(bytes);
        request.out_bytes = out;
        std::memcpy(request.body, &body, std::min(bytes, sizeof body));
        reply_ = {};
        const int error = client_->command(request, reply_);
        // As the provider does.
        const abi::CmChannelFill& fill = channel == 0 ? reply_.own : reply_.other;
        for (; static_cast<std::int32_t>(fill.announced - taken_ - fill.waiting) > 0; ++taken_) {
            char byte = 0;
            EXPECT_EQ(::recv(reader_.get(), &byte, sizeof byte, MSG_DONTWAIT), 1);
        }
        return error;
    }
    template <typename T>
    [[nodiscard]] T answer() const {
        T body{};
        std::memcpy(&body, reply_.body, sizeof body);
        return body;
    }
    std::uint32_t create(std::uint16_t space = RDMA_PS_TCP, std::uint32_t channel = 0) {
        rdma_ucm_create_id command{};
        command.uid = ++uid_;
        command.ps = space;
        command.qp_type = 2;
        EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, command, sizeof command, 512, channel), 0);
        return answer<rdma_ucm_create_id_resp>().id;
    }
    static sockaddr_in6 ipv4(std::uint32_t address, std::uint16_t port) {
        sockaddr_in short_one{};
        short_one.sin_family = AF_INET;
        short_one.sin_addr.s_addr = htonl(address);
        short_one.sin_port = htons(port);
        sockaddr_in6 whole{};
        std::memcpy(&whole, &short_one, sizeof short_one);
        return whole;
    }
    int bind(std::uint32_t id, const sockaddr_in6& address) {
        rdma_ucm_bind_ip command{};
        command.id = id;
        command.addr = address;
        return give(RDMA_USER_CM_CMD_BIND_IP, command);
    }
    int listen(std::uint32_t id) { return give(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 5}); }
    int resolve(std::uint32_t id, const sockaddr_in6& to, const sockaddr_in6& from = {}) {
        rdma_ucm_resolve_ip command{};
        command.id = id;
        command.src_addr = from;
        command.dst_addr = to;
        return give(RDMA_USER_CM_CMD_RESOLVE_IP, command);
    }
    int option(std::uint32_t id, std::uint32_t name, std::uint32_t value, std::uint32_t length) {
        struct {
            rdma_ucm_set_option head;
            std::uint32_t value;
        } command{{0, id, RDMA_OPTION_ID, name, length}, value};
        return give(RDMA_USER_CM_CMD_SET_OPTION, command, sizeof command.head + length);
    }
    int destroy(std::uint32_t id) {
        rdma_ucm_destroy_id command{};
        command.id = id;
        return give(RDMA_USER_CM_CMD_DESTROY_ID, command);
    }
    int get_event() { return give(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}); }
    [[nodiscard]] bool readable() const {
        pollfd entry{reader_.get(), POLLIN, 0};
        return ::poll(&entry, 1, 0) == 1;
    }

    /// A REQ of the second device's address comes to the first.
    void request(std::uint16_t port) {
        struct Sent final : cm::Outbox {
            void send(const cm::SendMad& mad) override { bytes = mad.bytes; }
            void event(const cm::Event& /*event*/) override {}
            std::array<std::byte, kMadBytes> bytes{};
        } sent;
        cm::Manager peer(cm::Config{});
        cm::ConnectParams params;
        params.route.local_gid = devices_[1]->gids[1];
        params.route.remote_gid = devices_[0]->gids[1];
        params.service_id = cm::ip_service_id(RDMA_PS_TCP, port);
        params.local_qpn = 17;
        params.ip = {.ip_version = 4,
                     .src_port = 40000,
                     .src_address = ip_cm_address(params.route.local_gid),
                     .dst_address = ip_cm_address(params.route.remote_gid)};
        ASSERT_EQ(peer.connect(params, 0, sent).status, cm::Status::kOk);
        const ReceivedMad mad{.src_gid = params.route.local_gid,
                              .dst_gid = params.route.remote_gid,
                              .src_mac = devices_[1]->mac,
                              .pkey = 0xffff,
                              .src_qp = 1,
                              .bytes = sent.bytes};
        service_->use(*control_.devices[0], [&](cm::Manager& manager, TimeNs now, cm::Outbox& out) {
            manager.receive(mad, now, out);
        });
    }

    static constexpr std::uint32_t kFirst = 0xc6120001;   // 198.18.0.1
    static constexpr std::uint32_t kSecond = 0xc6120002;  // 198.18.0.2

    std::vector<std::unique_ptr<dataplane::Device>> devices_;
    OwnNeighbours neighbours_{devices_};
    ControlState control_;
    std::unique_ptr<CmService> service_;
    OneQp owner_;
    std::unique_ptr<CmClient> client_;
    std::uint32_t channel_ = 0;
    UniqueFd reader_;
    std::uint32_t taken_ = 0;  // messages
    abi::CmCommandReply reply_{};
    std::uint64_t uid_ = 1000;
};

TEST_F(CmClientTest, ChannelIsReadableWhileAnEventWaits) {
    const std::uint32_t id = create();
    EXPECT_FALSE(readable());
    EXPECT_EQ(get_event(), EAGAIN);
    ASSERT_EQ(resolve(id, ipv4(kFirst, 7174)), 0);
    EXPECT_TRUE(readable());
    ASSERT_EQ(get_event(), 0);
    const auto event = answer<rdma_ucm_event_resp>();
    EXPECT_EQ(event.uid, uid_);
    EXPECT_EQ(event.id, id);
    EXPECT_EQ(event.event, kAddrResolved);
    EXPECT_FALSE(readable());
    ASSERT_EQ(destroy(id), 0);
    EXPECT_EQ(answer<rdma_ucm_destroy_id_resp>().events_reported, 1U);
}

TEST_F(CmClientTest, EventsThatNobodyHasSeenGoWithTheirId) {
    const std::uint32_t id = create();
    const std::uint32_t other = create();
    ASSERT_EQ(resolve(id, ipv4(kFirst, 7174)), 0);
    ASSERT_EQ(resolve(other, ipv4(kFirst, 7174)), 0);
    ASSERT_EQ(destroy(id), 0);
    EXPECT_EQ(answer<rdma_ucm_destroy_id_resp>().events_reported, 0U);
    EXPECT_TRUE(readable());
    ASSERT_EQ(get_event(), 0);
    EXPECT_EQ(answer<rdma_ucm_event_resp>().id, other);
    EXPECT_FALSE(readable());
    EXPECT_EQ(get_event(), EAGAIN);
}

TEST_F(CmClientTest, RoutesChooseTheDevice) {
    const std::uint32_t id = create();
    // On the wire the other device stands for another machine.
    ASSERT_EQ(resolve(id, ipv4(kSecond, 7174)), 0);
    rdma_ucm_query query{};
    query.id = id;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
    auto route = answer<rdma_ucm_query_route_resp>();
    EXPECT_EQ(route.node_guid, 1U);
    EXPECT_EQ(route.num_paths, 0U);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 100}), 0);
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
    route = answer<rdma_ucm_query_route_resp>();
    EXPECT_EQ(route.num_paths, 1U);
    EXPECT_EQ(std::memcmp(route.ib_route[0].sgid, devices_[0]->gids[1].data(), 16), 0);
    EXPECT_EQ(std::memcmp(route.ib_route[0].dgid, devices_[1]->gids[1].data(), 16), 0);

    const std::uint32_t bound = create();
    ASSERT_EQ(bind(bound, ipv4(kSecond, 0)), 0);
    ASSERT_EQ(resolve(bound, ipv4(kSecond, 7174)), 0);
    query.id = bound;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
    EXPECT_EQ(answer<rdma_ucm_query_route_resp>().node_guid, 2U);

    EXPECT_EQ(resolve(create(), ipv4(0xcb007109, 7174)), ENETUNREACH);
    EXPECT_EQ(resolve(create(), ipv4(INADDR_LOOPBACK, 7174)), 0);
    EXPECT_EQ(resolve(id, ipv4(kSecond, 7174)), EINVAL) << "resolved already";
}

TEST_F(CmClientTest, Ports) {
    const std::uint32_t first = create();
    EXPECT_EQ(bind(first, ipv4(kFirst, 80)), EACCES);
    EXPECT_EQ(bind(first, ipv4(0xcb007109, 8000)), EADDRNOTAVAIL);
    EXPECT_EQ(bind(first, ipv4(kFirst, 8000)), 0);
    EXPECT_EQ(bind(first, ipv4(kFirst, 8001)), EINVAL) << "bound already";
    EXPECT_EQ(bind(create(), ipv4(kFirst, 8000)), EADDRINUSE);
    EXPECT_EQ(bind(create(), ipv4(0, 8000)), EADDRNOTAVAIL);
    EXPECT_EQ(bind(create(), ipv4(kSecond, 8000)), 0) << "another address";
    EXPECT_EQ(bind(create(RDMA_PS_UDP), ipv4(kFirst, 8000)), 0) << "another port space";
    ASSERT_EQ(destroy(first), 0);
    const std::uint32_t again = create();
    EXPECT_EQ(option(again, RDMA_OPTION_ID_REUSEADDR, 1, 4), 0);
    EXPECT_EQ(bind(again, ipv4(kFirst, 8000)), 0);
    const std::uint32_t shared = create();
    EXPECT_EQ(option(shared, RDMA_OPTION_ID_REUSEADDR, 1, 4), 0);
    EXPECT_EQ(bind(shared, ipv4(kFirst, 8000)), 0);
    EXPECT_EQ(listen(again), EADDRINUSE) << "who listens does so alone";
    ASSERT_EQ(destroy(shared), 0);
    EXPECT_EQ(listen(again), 0);
    EXPECT_EQ(listen(again), EINVAL);
    EXPECT_EQ(service_->manager(*control_.devices[0]).listeners(), 1U);
    ASSERT_EQ(destroy(again), 0);
    EXPECT_EQ(service_->manager(*control_.devices[0]).listeners(), 0U);
}

TEST_F(CmClientTest, WildcardListensOnEveryDevice) {
    const std::uint32_t id = create();
    ASSERT_EQ(listen(id), 0);
    EXPECT_EQ(service_->manager(*control_.devices[0]).listeners(), 1U);
    EXPECT_EQ(service_->manager(*control_.devices[1]).listeners(), 1U);
    rdma_ucm_query query{};
    query.id = id;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
    EXPECT_GE(ntohs(answer<rdma_ucm_query_route_resp>().src_addr.sin6_port), PortTable::kFirstFree);
    client_.reset();
    EXPECT_EQ(service_->manager(*control_.devices[1]).listeners(), 0U);
    EXPECT_EQ(service_->ports.size(), 0U);
}

TEST_F(CmClientTest, Options) {
    const std::uint32_t id = create();
    EXPECT_EQ(option(id, RDMA_OPTION_ID_TOS, 8, 1), 0);
    EXPECT_EQ(option(id, RDMA_OPTION_ID_TOS, 8, 4), EINVAL);
    EXPECT_EQ(option(id, RDMA_OPTION_ID_AFONLY, 1, 4), 0);
    EXPECT_EQ(option(id, RDMA_OPTION_ID_ACK_TIMEOUT, 20, 1), 0);
    EXPECT_EQ(option(id, RDMA_OPTION_ID_ACK_TIMEOUT, 32, 1), EINVAL);
    EXPECT_EQ(option(id, 99, 1, 4), ENOSYS);
    EXPECT_EQ(option(4711, RDMA_OPTION_ID_TOS, 8, 1), ENOENT);
}

TEST_F(CmClientTest, WrongIdsAndOtherChannels) {
    std::uint32_t other_channel = 0;
    UniqueFd reader;
    ASSERT_EQ(client_->open_channel(other_channel, reader), 0);
    const std::uint32_t id = create();
    rdma_ucm_destroy_id command{};
    command.id = id;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_DESTROY_ID, command, sizeof command, 512, other_channel), EINVAL);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_DESTROY_ID, command, sizeof command, 3), ENOSPC);
    EXPECT_EQ(destroy(id + 1), ENOENT);
    CmClient stranger(*service_, owner_, control_.user(1000), false, nullptr);
    std::uint32_t strange_channel = 0;
    ASSERT_EQ(stranger.open_channel(strange_channel, reader), 0);
    abi::CmCommandRequest request{};
    request.channel = strange_channel;
    request.command = RDMA_USER_CM_CMD_LISTEN;
    request.in_bytes = sizeof(rdma_ucm_listen);
    std::memcpy(request.body, &id, sizeof id);
    EXPECT_EQ(stranger.command(request, reply_), ENOENT) << "another program's";

    ASSERT_EQ(resolve(id, ipv4(kFirst, 7174)), 0);
    rdma_ucm_migrate_id migrate{0, id, channel_};
    EXPECT_EQ(give(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, sizeof migrate, 512, other_channel), 0);
    EXPECT_FALSE(readable()) << "its events went with it";
    EXPECT_EQ(destroy(id), EINVAL);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, 8, 512, other_channel), 0);
    EXPECT_EQ(client_->close_channel(other_channel), 0);
    EXPECT_EQ(client_->num_ids(), 0U) << "a channel's ids end with it";
}

/// A command that lacks its last byte does nothing, whatever the rest of it says; nor does one of more bytes
/// than there are.
TEST_F(CmClientTest, WrongLengths) {
    const std::uint32_t id = create();
    rdma_ucm_create_id another{};
    another.ps = RDMA_PS_TCP;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, another, sizeof another - 1), EINVAL);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, another, sizeof(abi::CmCommandRequest::body) + 1), EINVAL);
    rdma_ucm_destroy_id end{};
    end.id = id;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_DESTROY_ID, end, sizeof end - 1), EINVAL);
    EXPECT_EQ(client_->num_ids(), 1U);
    rdma_ucm_bind_ip address{};
    address.id = id;
    address.addr = ipv4(kFirst, 7174);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_BIND_IP, address, sizeof address - 1), EINVAL);
    EXPECT_EQ(service_->ports.size(), 0U);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, 5}, sizeof(rdma_ucm_listen) - 1), EINVAL);
    EXPECT_EQ(client_->num_listeners(), 0U);
    rdma_ucm_resolve_ip far{};
    far.id = id;
    far.dst_addr = ipv4(kSecond, 7174);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_IP, far, sizeof far - 1), EINVAL);
    EXPECT_FALSE(readable());
    ASSERT_EQ(resolve(id, far.dst_addr), 0);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, sizeof(rdma_ucm_get_event) - 1), EINVAL);
    EXPECT_TRUE(readable());
    // Of the four bytes that the option's value has, the last is not there.
    const struct {
        rdma_ucm_set_option head;
        std::uint32_t value;
    } families{{0, id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4}, 1};
    EXPECT_EQ(give(RDMA_USER_CM_CMD_SET_OPTION, families, sizeof families - 1), EINVAL);
    for (std::uint32_t command = 0; command <= RDMA_USER_CM_CMD_JOIN_MCAST; ++command) {
        const int error = give(command, 0, 0);
        EXPECT_TRUE(error == EINVAL || error == ENOSYS) << "command " << command << ": " << error;
    }
}

TEST_F(CmClientTest, Limits) {
    UniqueFd reader;
    std::uint32_t channel = 0;
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(client_->open_channel(channel, reader), 0);
    }
    EXPECT_EQ(client_->open_channel(channel, reader), EMFILE);
    rdma_ucm_create_id command{};
    command.ps = RDMA_PS_TCP;
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, command), 0);
    }
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, command), ENOMEM);
    command.ps = 0x1234;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CREATE_ID, command), EINVAL);
}

TEST_F(CmClientTest, ConnectingToOneselfNeedsARouteAndEndsWithTheId) {
    const std::uint32_t id = create();
    rdma_ucm_connect connect{};
    connect.id = id;
    connect.conn_param.valid = 1;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CONNECT, connect), EINVAL);
    ASSERT_EQ(resolve(id, ipv4(kSecond, 7174)), 0);
    ASSERT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 100}), 0);
    connect.conn_param.qp_num = 17;
    connect.conn_param.private_data_len = 57;  // 56 are left beside the addresses
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CONNECT, connect), EINVAL);
    connect.conn_param.private_data_len = 56;
    const std::uint32_t of_another = control_.devices[0]->qp_numbers.allocate(0).value();
    connect.conn_param.qp_num = of_another;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CONNECT, connect), EINVAL);
    connect.conn_param.qp_num = 17;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CONNECT, connect), 0);
    EXPECT_EQ(service_->manager(*control_.devices[0]).size(), 1U);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_CONNECT, connect), EINVAL);
    rdma_ucm_init_qp_attr attr{0, id, 2};
    EXPECT_EQ(give(RDMA_USER_CM_CMD_INIT_QP_ATTR, attr), EINVAL) << "nothing is known of the peer";
    attr.qp_state = 1;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_INIT_QP_ATTR, attr), 0);
    EXPECT_EQ(destroy(id), 0);
    EXPECT_EQ(service_->ports.size(), 0U);
}

/// A number that a connection names is nobody else's while it lives.
TEST_F(CmClientTest, AQpNumberThatAConnectionNamesIsNotGiven) {
    constexpr std::uint32_t kNamed = 18;
    const std::uint32_t id = create();
    ASSERT_EQ(resolve(id, ipv4(kSecond, 7174)), 0);
    ASSERT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 100}), 0);
    rdma_ucm_connect connect{};
    connect.id = id;
    connect.conn_param.valid = 1;
    connect.conn_param.qp_num = kNamed;
    ASSERT_EQ(give(RDMA_USER_CM_CMD_CONNECT, connect), 0);
    EXPECT_FALSE(control_.devices[0]->qp_numbers.reserve(kNamed));
    EXPECT_TRUE(control_.devices[1]->qp_numbers.reserve(kNamed)) << "of another RNIC";
    EXPECT_EQ(destroy(id), 0);
    EXPECT_TRUE(control_.devices[0]->qp_numbers.reserve(kNamed));
}

/// Until its program takes it, a request is no id of anybody's, and it goes with its listener.
TEST_F(CmClientTest, RequestsThatNobodyHasSeen) {
    const std::uint32_t listener = create();
    ASSERT_EQ(bind(listener, ipv4(kFirst, 7174)), 0);
    ASSERT_EQ(listen(listener), 0);
    request(7174);
    ASSERT_TRUE(readable());
    ASSERT_EQ(client_->num_ids(), 2U);
    std::uint32_t other_channel = 0;
    UniqueFd reader;
    ASSERT_EQ(client_->open_channel(other_channel, reader), 0);
    for (std::uint32_t guess = 0; guess < 100; ++guess) {
        if (guess == listener) {
            continue;
        }
        EXPECT_EQ(destroy(guess), ENOENT) << guess;
        const rdma_ucm_migrate_id migrate{0, guess, channel_};
        EXPECT_EQ(give(RDMA_USER_CM_CMD_MIGRATE_ID, migrate, sizeof migrate, 512, other_channel), ENOENT);
    }
    const auto& manager = service_->manager(*control_.devices[0]);
    EXPECT_EQ(manager.half_open(), 1U);
    ASSERT_EQ(destroy(listener), 0);
    EXPECT_FALSE(readable());
    EXPECT_EQ(client_->num_ids(), 0U);
    EXPECT_EQ(manager.half_open(), 0U);
    EXPECT_EQ(manager.stats().rejects_sent, 1U) << "the peer hears of it";
}

TEST_F(CmClientTest, WhatIsNotServedSaysSo) {
    EXPECT_EQ(give(RDMA_USER_CM_CMD_GET_OPTION, 0), ENOSYS);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_QUERY, 0), ENOSYS);
    EXPECT_EQ(give(23, 0), EINVAL);
    rdma_ucm_bind bind{};
    bind.id = create(RDMA_PS_IB);
    bind.addr_size = 48;
    const sa_family_t af_ib = 27;
    std::memcpy(&bind.addr, &af_ib, sizeof af_ib);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_BIND, bind), EAFNOSUPPORT) << "librdmacm's question";
}

/// Whatever is written: an errno value, never an end; and nothing is left.
TEST_F(CmClientTest, RandomCommands) {
    const auto seed = std::random_device{}();
    RecordProperty("seed", std::to_string(seed));
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    std::uint32_t succeeded = 0;
    for (int i = 0; i < 100'000; ++i) {
        abi::CmCommandRequest request{};
        request.channel = random() % 20 == 0 ? random() % 6 : channel_;
        request.command = random() % 25;
        request.in_bytes = random() % 4 == 0 ? random() % 600 : 320;
        request.out_bytes = random() % 4 == 0 ? random() % 600 : 512;
        // Small numbers: handles, lengths, families.
        for (auto& byte : request.body) {
            byte = static_cast<std::uint8_t>(random() % 8 == 0   ? random()
                                             : random() % 3 == 0 ? random() % 4
                                                                 : 0);
        }
        if (request.command == RDMA_USER_CM_CMD_CREATE_ID && random() % 2 == 0) {
            rdma_ucm_create_id create{};
            create.uid = 1;
            create.ps = random() % 2 == 0 ? RDMA_PS_TCP : RDMA_PS_UDP;
            std::memcpy(request.body, &create, sizeof create);
        } else if (request.command == RDMA_USER_CM_CMD_RESOLVE_IP && random() % 2 == 0) {
            rdma_ucm_resolve_ip to{};
            to.dst_addr = ipv4(kSecond, 7174);
            to.id = random() % 200;
            std::memcpy(request.body, &to, sizeof to);
        } else if (random() % 3 == 0) {
            const std::uint32_t id = random() % 200;
            std::memcpy(request.body, &id, sizeof id);
        }
        succeeded += client_->command(request, reply_) == 0 ? 1 : 0;
        ASSERT_LE(reply_.out_bytes, sizeof reply_.body);
    }
    EXPECT_GT(succeeded, 200U) << "too few get past the checks to say much";
    client_.reset();
    EXPECT_EQ(service_->ports.size(), 0U);
    EXPECT_EQ(service_->manager(*control_.devices[0]).listeners(), 0U);
}

}  // namespace
}  // namespace urnic::daemon
