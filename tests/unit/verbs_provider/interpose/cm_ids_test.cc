// What the provider answers librdmacm from what came with an event, and when it does not.
#include "verbs_provider/interpose/cm_ids.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>

#include <array>
#include <cstring>

namespace urnic::provider {
namespace {

using Snapshot = abi::CmIdSnapshot;

constexpr std::uint32_t kId = 5;
constexpr std::uint64_t kUid = 0x1000;

template <typename T>
const std::uint8_t* bytes_of(const T& body) {
    return reinterpret_cast<const std::uint8_t*>(&body);
}

class CmIds : public testing::Test {
  protected:
    CmIds() {
        rdma_ucm_create_id create{};
        create.uid = kUid;
        std::array<std::uint8_t, abi::kMaxCmBytes> answer{};
        const rdma_ucm_create_id_resp created{kId};
        std::memcpy(answer.data(), &created, sizeof created);
        EXPECT_EQ(take_cm_answer(place_, RDMA_USER_CM_CMD_CREATE_ID, bytes_of(create), sizeof create,
                                 answer.data(), sizeof created),
                  CmAnswer::kGood);
        snapshot_.id = kId;
        snapshot_.is_valid = 1;
        snapshot_.qp_attr_states = 0b101;
        snapshot_.qp_attr[0][0] = 10;
        snapshot_.qp_attr[2][0] = 30;
    }
    ~CmIds() override {
        forget_cm_channel(place_);
        forget_cm_channel(other_place_);
    }

    void keep() { keep_cm_snapshot(place_, snapshot_, cm_changes()); }
    template <typename T>
    void change(std::uint32_t command, const T& body) {
        drop_cm_snapshot(place_, command, bytes_of(body), sizeof body);
    }
    [[nodiscard]] bool knows_route(const CmPlace& place, std::uint32_t id = kId,
                                   std::size_t room = Snapshot::kRouteBytes) {
        rdma_ucm_query query{};
        query.id = id;
        return answer_from_cm_snapshot(place, RDMA_USER_CM_CMD_QUERY_ROUTE, bytes_of(query), sizeof query,
                                       answer_.data(), room);
    }
    [[nodiscard]] bool knows_route() { return knows_route(place_); }
    [[nodiscard]] bool knows_state(std::uint32_t state, std::size_t room = Snapshot::kQpAttrBytes) {
        const rdma_ucm_init_qp_attr init{0, kId, state};
        return answer_from_cm_snapshot(place_, RDMA_USER_CM_CMD_INIT_QP_ATTR, bytes_of(init), sizeof init,
                                       answer_.data(), room);
    }

    int session_ = 0;
    CmPlace place_{&session_, 1};
    CmPlace other_place_{&session_, 2};
    Snapshot snapshot_{};
    std::array<std::uint8_t, abi::kMaxCmBytes> answer_{};
};

TEST_F(CmIds, WhatCameWithAnEventIsAnswered) {
    EXPECT_FALSE(knows_route()) << "nothing has come";
    snapshot_.route[0] = 77;
    keep();
    ASSERT_TRUE(knows_route());
    EXPECT_EQ(answer_[0], 77);
    ASSERT_TRUE(knows_state(1));
    EXPECT_EQ(answer_[0], 10);
    ASSERT_TRUE(knows_state(3));
    EXPECT_EQ(answer_[0], 30);
    EXPECT_FALSE(knows_state(2)) << "the daemon had no answer";
    EXPECT_FALSE(knows_state(0));
    EXPECT_FALSE(knows_state(4));
    EXPECT_FALSE(knows_state(0xffff'ffff));
}

/// The same in three parts, as librdmacm asks where AF_IB is taken.
TEST_F(CmIds, APartOfWhatCameIsAnswered) {
    rdma_ucm_query_route_resp route{};
    route.node_guid = 7;
    route.port_num = 1;
    route.num_paths = 1;
    route.ibdev_index = ~0U;
    route.src_addr.sin6_family = AF_INET;
    route.src_addr.sin6_port = 5;
    route.dst_addr.sin6_family = AF_INET6;
    route.dst_addr.sin6_port = 6;
    ib_user_path_rec& path = route.ib_route[0];
    path.sgid[15] = 1;
    path.dgid[15] = 2;
    path.dlid = htons(3);
    path.flow_label = htonl(0x12345);
    path.hop_limit = 9;
    path.reversible = 1;
    path.pkey = htons(0x8005);
    path.sl = 5;
    path.mtu = 4;
    path.mtu_selector = 2;
    std::memcpy(snapshot_.route, &route, sizeof route);
    rdma_ucm_query query{};
    query.id = kId;
    const auto knows = [&](std::uint32_t option, std::size_t room) {
        answer_ = {};
        query.option = option;
        return answer_from_cm_snapshot(place_, RDMA_USER_CM_CMD_QUERY, bytes_of(query), sizeof query,
                                       answer_.data(), room);
    };
    rdma_ucm_query_addr_resp told{};
    EXPECT_FALSE(knows(RDMA_USER_CM_QUERY_ADDR, sizeof told)) << "nothing has come";
    keep();
    ASSERT_TRUE(knows(RDMA_USER_CM_QUERY_ADDR, sizeof told));
    std::memcpy(&told, answer_.data(), sizeof told);
    EXPECT_EQ(told.node_guid, 7U);
    EXPECT_EQ(told.port_num, 1);
    EXPECT_EQ(told.pkey, htons(0x8005));
    EXPECT_EQ(told.src_size, 16);
    EXPECT_EQ(told.dst_size, 28);
    EXPECT_EQ(std::memcmp(&told.dst_addr, &route.dst_addr, sizeof route.dst_addr), 0);
    ASSERT_TRUE(knows(RDMA_USER_CM_QUERY_GID, sizeof told));
    std::memcpy(&told, answer_.data(), sizeof told);
    EXPECT_EQ(told.src_size, 48);
    EXPECT_EQ(std::memcmp(reinterpret_cast<const std::uint8_t*>(&told.src_addr) + 8, path.sgid, 16), 0);
    EXPECT_EQ(std::memcmp(reinterpret_cast<const std::uint8_t*>(&told.dst_addr) + 8, path.dgid, 16), 0);
    ASSERT_TRUE(knows(RDMA_USER_CM_QUERY_PATH, 440));
    const std::uint8_t* const record = answer_.data() + 16;
    EXPECT_EQ(answer_[0], 1);
    EXPECT_EQ(answer_[8], 0x2b);
    EXPECT_EQ(record[23], 2);     // DGID
    EXPECT_EQ(record[41], 3);     // DLID
    EXPECT_EQ(record[46], 0x45);  // flow label, hop limit
    EXPECT_EQ(record[47], 9);
    EXPECT_EQ(record[49], 0x81);  // reversible, one path
    EXPECT_EQ(record[51], 5);     // P_Key
    EXPECT_EQ(record[53], 5);     // SL
    EXPECT_EQ(record[54], 0x84);  // MTU, exactly
    EXPECT_FALSE(knows(RDMA_USER_CM_QUERY_PATH, 79)) << "no room";
    EXPECT_FALSE(knows(RDMA_USER_CM_QUERY_ADDR, sizeof told - 8)) << "programs with shorter answers";
    EXPECT_FALSE(knows(3, sizeof told)) << "unknown";
    route.src_addr.sin6_family = AF_UNSPEC;  // of AF_IB: a route has no room for it
    std::memcpy(snapshot_.route, &route, sizeof route);
    keep();
    EXPECT_FALSE(knows(RDMA_USER_CM_QUERY_ADDR, sizeof told));
    EXPECT_FALSE(knows(RDMA_USER_CM_QUERY_PATH, 440));
}

TEST_F(CmIds, TheDaemonIsAskedWhereTheQuestionIsAnother) {
    keep();
    EXPECT_FALSE(knows_route(place_, kId + 1024)) << "another id of the same place in the table";
    EXPECT_FALSE(knows_route(other_place_)) << "not the id's channel: that is an error";
    int other_session = 0;
    EXPECT_FALSE(knows_route({&other_session, 1}));
    EXPECT_FALSE(knows_route(place_, kId, Snapshot::kRouteBytes - 8)) << "programs with shorter answers";
    EXPECT_FALSE(knows_state(1, Snapshot::kQpAttrBytes + 8));
    EXPECT_FALSE(answer_from_cm_snapshot(place_, RDMA_USER_CM_CMD_QUERY_ROUTE, nullptr, 0, answer_.data(),
                                         Snapshot::kRouteBytes));
}

/// Also when it fails, and when the event's reply was on its way meanwhile.
TEST_F(CmIds, ACommandThatChangesTheIdEndsIt) {
    rdma_ucm_bind_ip bind{};
    bind.id = kId;
    rdma_ucm_resolve_ip resolve{};
    resolve.id = kId;
    rdma_ucm_connect connect{};
    connect.id = kId;
    rdma_ucm_accept accept{};
    accept.id = kId;
    rdma_ucm_set_option option{};
    option.id = kId;
    rdma_ucm_migrate_id migrate{};
    migrate.id = kId;
    const auto ends = [this](std::uint32_t command, const auto& body) {
        keep();
        EXPECT_TRUE(knows_route());
        const std::uint64_t before = cm_changes();
        change(command, body);
        EXPECT_FALSE(knows_route()) << command;
        EXPECT_FALSE(knows_state(1)) << command;
        keep_cm_snapshot(place_, snapshot_, before);
        EXPECT_FALSE(knows_route()) << command;
    };
    ends(RDMA_USER_CM_CMD_BIND_IP, bind);
    ends(RDMA_USER_CM_CMD_RESOLVE_IP, resolve);
    ends(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{kId, 1});
    ends(RDMA_USER_CM_CMD_CONNECT, connect);
    ends(RDMA_USER_CM_CMD_ACCEPT, accept);
    ends(RDMA_USER_CM_CMD_SET_OPTION, option);
    ends(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{kId});
    ends(RDMA_USER_CM_CMD_MIGRATE_ID, migrate);
    keep();
    change(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{kId + 1, 1});
    EXPECT_TRUE(knows_route()) << "another id's command";
}

TEST_F(CmIds, WhatCannotBeIsNotKept) {
    rdma_ucm_query_route_resp route{};
    route.num_paths = 3;  // of two
    std::memcpy(snapshot_.route, &route, sizeof route);
    keep();
    EXPECT_FALSE(knows_route());
    snapshot_.route[offsetof(rdma_ucm_query_route_resp, num_paths)] = 2;
    snapshot_.is_valid = 0;
    keep();
    EXPECT_FALSE(knows_route());
    snapshot_.is_valid = 1;
    snapshot_.id = kId + 1;
    keep();
    EXPECT_FALSE(knows_route(place_, kId + 1)) << "of an id that there is not";
    EXPECT_FALSE(knows_route());
}

}  // namespace
}  // namespace urnic::provider
