// Multicast groups as clients join and leave them.
#include "rnic/wire/multicast.h"
#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

constexpr wire::Gid kGroup = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 129, 2, 3};
constexpr wire::Gid kGroup6 = {0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44};

wire::Gid group_number(std::uint32_t n) {
    wire::Gid gid = kGroup;
    gid[13] = 1;
    gid[14] = static_cast<std::uint8_t>(n >> 8U);
    gid[15] = static_cast<std::uint8_t>(n);
    return gid;
}

class ControlMcast : public ControlTest {
  protected:
    explicit ControlMcast(ClientLimits limits = {}) : ControlTest({}, limits), client_(client()) { begin(); }

    void begin() {
        context_ = client_.open();
        pd_ = client_.pd(context_);
        cq_ = client_.cq(context_);
    }
    [[nodiscard]] abi::CreateQpReply make_qp(QpType type = QpType::kUd,
                                             std::uint16_t create_flags = 0) const {
        abi::CreateQpRequest request = qp_request(pd_, cq_);
        request.type = static_cast<std::uint8_t>(type);
        request.create_flags = create_flags;
        const Answer answer = client_.ask(Op::kCreateQp, request);
        EXPECT_EQ(answer.error(), 0);
        return answer.as<abi::CreateQpReply>();
    }
    [[nodiscard]] int change(Op op, std::uint32_t qp, const wire::Gid& gid) const {
        abi::McastRequest request{};
        request.qp = qp;
        std::copy(gid.begin(), gid.end(), request.gid);
        return client_.ask(op, request).error();
    }
    [[nodiscard]] int attach(std::uint32_t qp, const wire::Gid& gid) const {
        return change(Op::kAttachMcast, qp, gid);
    }
    [[nodiscard]] int detach(std::uint32_t qp, const wire::Gid& gid) const {
        return change(Op::kDetachMcast, qp, gid);
    }
    struct Seen {
        bool known = false;
        std::uint32_t workers = 0;
        bool has_members = false;
    };
    /// What worker `w` knows of the group.
    [[nodiscard]] Seen seen(std::uint32_t w, const wire::Gid& gid) const {
        Seen result;
        control.workers[w]->call([&] {
            if (const dataplane::GroupOnWorker* group = control.workers[w]->multicast(0).find(gid);
                group != nullptr) {
                result = {true, group->workers, group->members != nullptr};
            }
        });
        return result;
    }

    TestClient client_;
    std::uint32_t context_ = 0;
    std::uint32_t pd_ = 0;
    std::uint32_t cq_ = 0;
};

TEST_F(ControlMcast, EveryWorkerKnowsWhoHasMembers) {
    std::vector<abi::CreateQpReply> qps;
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
        qps.push_back(make_qp());
    }
    std::uint32_t workers = 0;
    for (const abi::CreateQpReply& qp : qps) {
        ASSERT_EQ(attach(qp.handle, kGroup), 0);
        workers |= 1U << qp.worker;
        for (std::uint32_t w = 0; w < kWorkers; ++w) {
            const Seen group = seen(w, kGroup);
            EXPECT_TRUE(group.known);
            EXPECT_EQ(group.workers, workers);
            EXPECT_EQ(group.has_members, (workers >> w & 1U) != 0);
        }
    }
    EXPECT_EQ(workers, (1U << kWorkers) - 1);
    for (const abi::CreateQpReply& qp : qps) {
        EXPECT_EQ(detach(qp.handle, kGroup), 0);
        workers &= ~(1U << qp.worker);
        for (std::uint32_t w = 0; w < kWorkers; ++w) {
            const Seen group = seen(w, kGroup);
            EXPECT_EQ(group.known, workers != 0);
            EXPECT_EQ(group.workers, workers);
        }
    }
}

TEST_F(ControlMcast, ThePortIsToldOfTheGroups) {
    const std::uint32_t qp = make_qp().handle;
    EXPECT_EQ(attach(qp, kGroup), 0);
    EXPECT_EQ(attach(qp, kGroup6), 0);
    EXPECT_EQ(port(0).groups(),
              (std::vector<wire::Mac>{{1, 0, 0x5e, 1, 2, 3}, {0x33, 0x33, 0x11, 0x22, 0x33, 0x44}}));
    EXPECT_EQ(detach(qp, kGroup), 0);
    EXPECT_EQ(port(0).groups(), (std::vector<wire::Mac>{{0x33, 0x33, 0x11, 0x22, 0x33, 0x44}}));
    EXPECT_TRUE(port(1).groups().empty());
}

TEST_F(ControlMcast, WhatCannotBeAMemberOrAGroup) {
    const std::uint32_t qp = make_qp().handle;
    EXPECT_EQ(attach(qp + 77, kGroup), ENOENT);
    for (const QpType type : {QpType::kRc, QpType::kUc}) {
        EXPECT_EQ(attach(make_qp(type).handle, kGroup), EINVAL);
    }
    wire::Gid unicast = kGroup;
    unicast[12] = 240;
    EXPECT_EQ(attach(qp, unicast), EINVAL);
    unicast[12] = 223;
    EXPECT_EQ(attach(qp, unicast), EINVAL);
    EXPECT_EQ(attach(qp, control.devices[0]->device->gids[0]), EINVAL);
    EXPECT_EQ(attach(qp, {}), EINVAL);
    EXPECT_EQ(detach(qp, kGroup), EINVAL);
    EXPECT_EQ(detach(qp + 77, kGroup), ENOENT);
    EXPECT_EQ(control.devices[0]->groups.num_groups(), 0U);
}

TEST_F(ControlMcast, TwiceIsOnce) {
    const std::uint32_t qp = make_qp().handle;
    EXPECT_EQ(attach(qp, kGroup), 0);
    EXPECT_EQ(attach(qp, kGroup), 0);
    EXPECT_EQ(control.devices[0]->groups.num_memberships(), 1U);
    EXPECT_EQ(detach(qp, kGroup), 0);
    EXPECT_EQ(detach(qp, kGroup), EINVAL);
}

TEST_F(ControlMcast, AMemberCannotBeDestroyed) {
    const std::uint32_t qp = make_qp().handle;
    ASSERT_EQ(attach(qp, kGroup), 0);
    EXPECT_EQ(client_.on_handle(Op::kDestroyQp, qp), EBUSY);
    EXPECT_EQ(detach(qp, kGroup), 0);
    EXPECT_EQ(client_.on_handle(Op::kDestroyQp, qp), 0);
}

TEST_F(ControlMcast, MembersGoWithTheirDeviceAndTheirClient) {
    const TestClient stays = client();
    std::vector<abi::CreateQpReply> qps;
    for (std::uint32_t i = 0; i < 9; ++i) {
        qps.push_back(make_qp());
        for (std::uint32_t n = 0; n <= i; ++n) {
            ASSERT_EQ(attach(qps.back().handle, group_number(n)), 0);
        }
    }
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0);
    EXPECT_EQ(control.devices[0]->groups.num_groups(), 0U);
    EXPECT_TRUE(port(0).groups().empty());
    begin();
    ASSERT_EQ(attach(make_qp().handle, kGroup), 0);
    client_.close();
    wait_for_connections(1);
    EXPECT_FALSE(seen(0, kGroup).known);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(ControlMcast, EveryMemberThatTheDeviceReportsCanBeHad) {
    abi::CreateQpReply first = make_qp();
    for (std::uint32_t n = 1; n < MulticastGroups::kMaxMembers; ++n) {
        ASSERT_EQ(attach(make_qp().handle, kGroup), 0);
    }
    EXPECT_EQ(attach(first.handle, kGroup), 0);
    const std::uint32_t last = make_qp().handle;
    EXPECT_EQ(attach(last, kGroup), ENOMEM);
    for (std::uint32_t n = 1; n < MulticastGroups::kMaxGroups; ++n) {
        ASSERT_EQ(attach(last, group_number(n)), 0) << n;
    }
    EXPECT_EQ(attach(last, kGroup6), ENOMEM);
    EXPECT_EQ(detach(last, group_number(77)), 0);
    EXPECT_EQ(attach(last, kGroup6), 0);
}

class ControlMcastLimit : public ControlMcast {
  protected:
    ControlMcastLimit() : ControlMcast({.max_mcast_attachments = 3}) {}
};

TEST_F(ControlMcastLimit, OfOneClient) {
    const std::uint32_t a = make_qp().handle;
    const std::uint32_t b = make_qp().handle;
    EXPECT_EQ(attach(a, kGroup), 0);
    EXPECT_EQ(attach(b, kGroup), 0);
    EXPECT_EQ(attach(a, kGroup6), 0);
    EXPECT_EQ(attach(b, kGroup6), ENOMEM);
    EXPECT_EQ(attach(b, kGroup), 0);  // is one already
    EXPECT_EQ(detach(a, kGroup), 0);
    EXPECT_EQ(attach(b, kGroup6), 0);
}

TEST_F(ControlMcast, CreateFlags) {
    (void)make_qp(QpType::kUd, kQpBlockSelfMcastLb);
    abi::CreateQpRequest request = qp_request(pd_, cq_);
    request.create_flags = 1;
    EXPECT_EQ(client_.ask(Op::kCreateQp, request).error(), EOPNOTSUPP);
}

TEST_F(ControlMcast, AddressHandlesOfGroups) {
    abi::CreateAhRequest request = ah_request(pd_);
    std::copy(kGroup.begin(), kGroup.end(), request.av.dgid);
    const auto reply = client_.ask(Op::kCreateAh, request).as<abi::CreateAhReply>();
    const AddressHandle* handle = control.devices[0]->device->handles.find(reply.key);
    ASSERT_NE(handle, nullptr);
    const wire::Mac mac = wire::multicast_mac(kGroup);
    EXPECT_TRUE(std::equal(mac.begin(), mac.end(), handle->path.bytes.begin()));
    // An IPv6 group wants an IPv6 source.
    std::copy(kGroup6.begin(), kGroup6.end(), request.av.dgid);
    EXPECT_EQ(client_.ask(Op::kCreateAh, request).error(), EINVAL);
    request.av.sgid_index = 0;
    EXPECT_EQ(client_.ask(Op::kCreateAh, request).error(), 0);
}

TEST_F(ControlMcast, AConnectionHasOnePeer) {
    abi::ModifyQpRequest request{};
    request.qp = make_qp(QpType::kRc).handle;
    request.attr.mask = kQpAttrAv;
    request.attr.av = ah_request(pd_).av;
    std::copy(kGroup.begin(), kGroup.end(), request.attr.av.dgid);
    EXPECT_EQ(client_.ask(Op::kModifyQp, request).error(), EINVAL);
}

}  // namespace
}  // namespace urnic::daemon
