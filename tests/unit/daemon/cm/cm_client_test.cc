// librdmacm's commands as a client gives them, well or badly: errors are those of the kernel, and nothing is
// left.
#include <poll.h>

#include <cstring>
#include <random>

#include "tests/unit/daemon/cm/cm_client_fixture.h"

namespace urnic::daemon {
namespace {

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

/// What comes with an event is what the two questions that librdmacm has next would be answered.
TEST_F(CmClientTest, AnEventBringsTheAnswersToWhatIsAskedNext) {
    const auto expect_answers = [this](std::uint32_t id) {
        const abi::CmIdSnapshot snapshot = reply_.snapshot;
        ASSERT_EQ(snapshot.is_valid, 1);
        ASSERT_EQ(snapshot.id, id);
        rdma_ucm_query query{};
        query.id = id;
        ASSERT_EQ(give(RDMA_USER_CM_CMD_QUERY_ROUTE, query), 0);
        EXPECT_EQ(std::memcmp(snapshot.route, reply_.body, sizeof snapshot.route), 0);
        for (std::uint32_t i = 0; i < abi::CmIdSnapshot::kStates; ++i) {
            const int error = give(RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr{0, id, i + 1});
            EXPECT_EQ(error == 0, (snapshot.qp_attr_states >> i & 1U) != 0) << i;
            if (error == 0) {
                EXPECT_EQ(std::memcmp(snapshot.qp_attr[i], reply_.body, sizeof snapshot.qp_attr[i]), 0) << i;
            }
        }
        EXPECT_EQ(reply_.snapshot.is_valid, 0) << "an event alone brings one";
    };
    const std::uint32_t active = create();
    ASSERT_EQ(resolve(active, ipv4(kSecond, 7174)), 0);
    ASSERT_EQ(get_event(), 0);
    expect_answers(active);
    ASSERT_EQ(give(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{active, 100}), 0);
    ASSERT_EQ(get_event(), 0);
    expect_answers(active);

    const std::uint32_t listener = create();
    ASSERT_EQ(bind(listener, ipv4(kFirst, 7175)), 0);
    ASSERT_EQ(listen(listener), 0);
    request(7175);
    ASSERT_EQ(get_event(), 0);
    const std::uint32_t passive = answer<rdma_ucm_event_resp>().id;
    EXPECT_EQ(reply_.snapshot.qp_attr_states, 7) << "the peer is known";
    expect_answers(passive);
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
    CmClient stranger(*service_, owner_, control_.user(1000));
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

/// What is refused can be said again.
TEST_F(CmClientTest, WhoAcceptsNamesHisOwnQp) {
    const std::uint32_t listener = create();
    ASSERT_EQ(bind(listener, ipv4(kFirst, 7174)), 0);
    ASSERT_EQ(listen(listener), 0);
    const std::uint32_t of_another = control_.devices[0]->qp_numbers.allocate(0).value();
    request(7174);
    ASSERT_EQ(get_event(), 0);
    rdma_ucm_accept accept{};
    accept.id = answer<rdma_ucm_event_resp>().id;
    accept.conn_param.valid = 1;
    accept.conn_param.qp_num = of_another;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_ACCEPT, accept), EINVAL);
    EXPECT_EQ(service_->manager(*control_.devices[0]).half_open(), 1U) << "it waits for an answer";
    accept.conn_param.qp_num = 17;
    EXPECT_EQ(give(RDMA_USER_CM_CMD_ACCEPT, accept), 0);
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
    EXPECT_EQ(give(23, 0), EINVAL);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_QUERY, 0), EINVAL) << "too short";
    rdma_ucm_bind bind{};
    bind.id = create(RDMA_PS_IB);
    bind.addr_size = 48;
    const sa_family_t af_ib = 27;
    std::memcpy(&bind.addr, &af_ib, sizeof af_ib);
    EXPECT_EQ(give(RDMA_USER_CM_CMD_BIND, bind), EAFNOSUPPORT)
        << "librdmacm's question; no RNIC is of InfiniBand";
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
