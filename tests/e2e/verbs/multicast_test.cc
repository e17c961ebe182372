// Multicast through the stock libibverbs: joining and leaving groups, who gets a copy, what a member sees.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/e2e/verbs/endpoint.h"

namespace urnic::e2e {
namespace {

constexpr std::uint32_t kMulticastQp = 0xffffff;

struct Group {
    const char* name;
    ibv_gid gid;
    std::uint8_t sgid_index;
};
constexpr Group kGroups[] = {
    {"IPv4", {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 200, 1, 7}}, 1},
    {"IPv6", {{0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}}, 0},
};

class Multicast : public testing::TestWithParam<Group> {
  protected:
    Endpoint& add(const char* device) {
        nodes_.push_back(std::make_unique<Endpoint>(device, EndpointOptions{.type = IBV_QPT_UD}));
        Endpoint& node = *nodes_.back();
        EXPECT_EQ(to_init(node), 0);
        EXPECT_EQ(to_rtr(node, node, 0), 0);
        EXPECT_EQ(to_rts(node, 0), 0);
        return node;
    }
    Endpoint& join(Endpoint& node) const {
        EXPECT_EQ(ibv_attach_mcast(node.qp, &GetParam().gid, 0), 0);
        return node;
    }
    void leave(const Endpoint& node) const { EXPECT_EQ(ibv_detach_mcast(node.qp, &GetParam().gid, 0), 0); }
    void send(const Endpoint& from, std::uint32_t seed, std::size_t size) {
        ibv_ah_attr attr{};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.sgid_index = GetParam().sgid_index;
        attr.grh.dgid = GetParam().gid;
        attr.grh.hop_limit = 1;
        ibv_ah* ah = ibv_create_ah(from.pd, &attr);
        ASSERT_NE(ah, nullptr) << std::strerror(errno);
        handles_.push_back(ah);
        fill(from.at(1 << 20U), size, seed);
        ibv_sge sge = from.sge(1 << 20U, size);
        ibv_send_wr wr = request(IBV_WR_SEND, seed, &sge, 1);
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = kMulticastQp;
        wr.wr.ud.remote_qkey = kQkey;
        from.post(wr);
    }
    void expect_copy(const Endpoint& at, std::uint64_t wr_id, const Endpoint& from, std::uint32_t seed,
                     std::size_t size) const {
        ibv_wc wc = at.poll_one();
        if (wc.opcode == IBV_WC_SEND) {
            wc = at.poll_one();
        }
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
        ASSERT_EQ(wc.opcode, IBV_WC_RECV);
        EXPECT_EQ(wc.wr_id, wr_id);
        EXPECT_EQ(wc.byte_len, size + kGrhBytes);
        EXPECT_EQ(wc.src_qp, from.qp->qp_num);
        EXPECT_NE(wc.wc_flags & IBV_WC_GRH, 0U);
        EXPECT_EQ(first_difference(at.at(wr_id * 8192 + kGrhBytes), size, seed), -1);
        const bool ipv4 = GetParam().sgid_index == 1;
        const std::uint8_t* to = at.at(wr_id * 8192 + (ipv4 ? 36 : 24));
        EXPECT_EQ(std::memcmp(to, GetParam().gid.raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16), 0);
    }
    static void post_recv(const Endpoint& node, std::uint64_t wr_id) {
        node.post_recv(wr_id, {node.sge(wr_id * 8192, 8192)});
    }
    void TearDown() override {
        for (ibv_ah* ah : handles_) {
            EXPECT_EQ(ibv_destroy_ah(ah), 0);
        }
        for (const auto& node : nodes_) {
            (void)ibv_detach_mcast(node->qp, &GetParam().gid, 0);
        }
    }

    std::vector<std::unique_ptr<Endpoint>> nodes_;
    std::vector<ibv_ah*> handles_;  // they live until what was sent with them is complete
};

TEST_P(Multicast, EveryMemberGetsACopy) {
    Endpoint& sender = add("urnic0");
    std::vector<Endpoint*> members;
    for (const char* device : {"urnic0", "urnic0", "urnic1", "urnic1", "urnic1"}) {
        members.push_back(&join(add(device)));
    }
    Endpoint& outsider = add("urnic1");
    post_recv(outsider, 0);
    std::uint32_t seed = 0;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{4096}}) {
        ++seed;
        for (Endpoint* member : members) {
            post_recv(*member, seed);
        }
        send(sender, seed, size);
        sender.expect_success(seed, IBV_WC_SEND);
        for (Endpoint* member : members) {
            expect_copy(*member, seed, sender, seed, size);
        }
    }
    EXPECT_TRUE(outsider.quiet());
}

TEST_P(Multicast, WhoLeftGetsNothing) {
    Endpoint& sender = add("urnic0");
    Endpoint& stays = join(add("urnic1"));
    Endpoint& leaves = join(add("urnic1"));
    post_recv(stays, 1);
    post_recv(leaves, 1);
    send(sender, 1, 10);
    expect_copy(stays, 1, sender, 1, 10);
    expect_copy(leaves, 1, sender, 1, 10);
    leave(leaves);
    EXPECT_EQ(ibv_detach_mcast(leaves.qp, &GetParam().gid, 0), EINVAL);
    post_recv(stays, 2);
    post_recv(leaves, 2);
    send(sender, 2, 10);
    expect_copy(stays, 2, sender, 2, 10);
    EXPECT_TRUE(leaves.quiet());
}

TEST_P(Multicast, TheSenderIsAMemberLikeOthers) {
    Endpoint& a = join(add("urnic0"));
    Endpoint& b = join(add("urnic0"));
    post_recv(a, 1);
    post_recv(b, 1);
    send(a, 1, 100);
    expect_copy(a, 1, a, 1, 100);
    expect_copy(b, 1, a, 1, 100);
}

TEST_P(Multicast, AQpCanBeDeafToItself) {
    Endpoint& other = join(add("urnic0"));
    Endpoint& home = add("urnic0");
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_UD;
    attr.send_cq = home.cq;
    attr.recv_cq = home.cq;
    attr.cap = {16, 16, 1, 1, 0};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = home.pd;
    attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    ibv_qp* deaf = ibv_create_qp_ex(home.context.get(), &attr);
    ASSERT_NE(deaf, nullptr) << std::strerror(errno);
    std::swap(home.qp, deaf);
    EXPECT_EQ(to_init(home), 0);
    EXPECT_EQ(to_rtr(home, home, 0), 0);
    EXPECT_EQ(to_rts(home, 0), 0);
    join(home);
    post_recv(home, 1);
    post_recv(other, 1);
    post_recv(other, 2);
    send(home, 1, 100);
    expect_copy(other, 1, home, 1, 100);
    home.expect_success(1, IBV_WC_SEND);
    send(other, 2, 50);
    expect_copy(home, 1, other, 2, 50);
    expect_copy(other, 2, other, 2, 50);
    leave(home);
    std::swap(home.qp, deaf);
    EXPECT_EQ(ibv_destroy_qp(deaf), 0);
}

TEST_P(Multicast, AMemberCannotBeDestroyedAndTwiceIsOnce) {
    Endpoint& node = join(add("urnic1"));
    EXPECT_EQ(ibv_attach_mcast(node.qp, &GetParam().gid, 0), 0);
    EXPECT_EQ(ibv_destroy_qp(node.qp), EBUSY);
    post_recv(node, 1);
    post_recv(node, 2);
    Endpoint& sender = add("urnic0");
    send(sender, 1, 10);
    expect_copy(node, 1, sender, 1, 10);
    EXPECT_TRUE(node.quiet());
    leave(node);
}

TEST_P(Multicast, AMemberThatIsKilledIsGone) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork_child();
    if (child == 0) {
        Endpoint& node = join(add("urnic1"));
        post_recv(node, 1);
        const char yes = node.ok() && !HasFailure() ? 'y' : 'n';
        (void)!write(ready[1], &yes, 1);
        pause();
        _exit(1);
    }
    close(ready[1]);  // the child's alone: when it dies early the read ends
    char answer = 0;
    ASSERT_EQ(read(ready[0], &answer, 1), 1) << "no word from the child";
    EXPECT_EQ(answer, 'y');
    Endpoint& sender = add("urnic0");
    Endpoint& stays = join(add("urnic1"));
    post_recv(stays, 1);
    post_recv(stays, 2);
    send(sender, 1, 10);
    expect_copy(stays, 1, sender, 1, 10);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    send(sender, 2, 10);
    expect_copy(stays, 2, sender, 2, 10);
    close(ready[0]);
}

INSTANTIATE_TEST_SUITE_P(Groups, Multicast, testing::ValuesIn(kGroups),
                         [](const auto& param) { return param.param.name; });

TEST(MulticastLimits, AreReported) {
    const Context context = open_device("urnic0");
    ibv_device_attr attr{};
    ASSERT_EQ(ibv_query_device(context.get(), &attr), 0);
    EXPECT_EQ(attr.max_mcast_grp, 4096);
    EXPECT_EQ(attr.max_mcast_qp_attach, 256);
    EXPECT_EQ(attr.max_total_mcast_qp_attach, 65536);
}

TEST(MulticastLimits, OnlyGroupsAndDatagrams) {
    const Endpoint rc("urnic0");
    EXPECT_EQ(ibv_attach_mcast(rc.qp, &kGroups[0].gid, 0), EINVAL);
    const Endpoint ud("urnic0", {.type = IBV_QPT_UD});
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(ud.context.get(), 1, 1, &gid), 0);
    EXPECT_EQ(ibv_attach_mcast(ud.qp, &gid, 0), EINVAL);
    // In RESET already: membership does not depend on the state.
    EXPECT_EQ(ibv_attach_mcast(ud.qp, &kGroups[0].gid, 0), 0);
    EXPECT_EQ(ibv_detach_mcast(ud.qp, &kGroups[0].gid, 0), 0);
}

}  // namespace
}  // namespace urnic::e2e
