#include "tests/e2e/crash/victim.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

namespace urnic::e2e {

Identity identity_of(const Endpoint& endpoint) {
    Identity identity{endpoint.qp->qp_num, endpoint.mr->rkey, endpoint.address(0), {}};
    EXPECT_EQ(ibv_query_gid(endpoint.context.get(), 1, 1, &identity.gid), 0);
    return identity;
}

void connect_to(const Endpoint& endpoint, const Identity& peer) {
    PathOptions path;
    path.timeout = 12;  // 16.8 ms
    path.retry_cnt = 3;
    ASSERT_EQ(to_init(endpoint, path), 0);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = path.mtu;
    attr.dest_qp_num = peer.qp_num;
    attr.rq_psn = 1;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = path.min_rnr_timer;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.grh.dgid = peer.gid;
    ASSERT_EQ(ibv_modify_qp(endpoint.qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
              0);
    ASSERT_EQ(to_rts(endpoint, 1, path), 0);
}

int post_transfer(const Endpoint& endpoint, const Identity& peer, std::uint64_t wr_id) {
    // From the first half of the buffer into the peer's second half.
    ibv_sge sge = endpoint.sge(0, kTransferBytes);
    ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, wr_id, &sge, 1);
    wr.wr.rdma.remote_addr = peer.addr + kTransferBytes;
    wr.wr.rdma.rkey = peer.rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(endpoint.qp, &wr, &bad);
}

namespace {

int send_and_die(const Endpoint& endpoint) {
    char go = 0;
    if (read(STDIN_FILENO, &go, 1) != 1) {
        return 1;
    }
    ibv_sge sge = endpoint.sge(0, kTransferBytes);
    ibv_send_wr wr = request(IBV_WR_SEND, 1, &sge, 1);
    endpoint.post(wr);
    return ::kill(::getpid(), SIGKILL);
}

}  // namespace

int run_victim(const std::string& device, bool sends) {
    EndpointOptions options;
    options.buffer_bytes = std::size_t{2} * kTransferBytes;
    const Endpoint endpoint(device, options);
    if (!endpoint.ok()) {
        return 1;
    }
    fill(endpoint.at(0), kTransferBytes, 7);
    const Identity mine = identity_of(endpoint);
    Identity peer{};
    if (write(STDOUT_FILENO, &mine, sizeof mine) != sizeof mine ||
        read(STDIN_FILENO, &peer, sizeof peer) != sizeof peer) {
        return 1;
    }
    connect_to(endpoint, peer);
    if (write(STDOUT_FILENO, "r", 1) != 1) {
        return 1;
    }
    if (sends) {
        return send_and_die(endpoint);
    }
    std::uint32_t outstanding = 0;
    for (;;) {
        while (outstanding < kDepth && post_transfer(endpoint, peer, 0) == 0) {
            ++outstanding;
        }
        ibv_wc completion{};
        if (ibv_poll_cq(endpoint.cq, 1, &completion) == 1) {
            if (completion.status != IBV_WC_SUCCESS) {
                return 1;
            }
            --outstanding;
        } else {
            std::this_thread::yield();
        }
    }
}

Victim::Victim(const std::string& device, const Endpoint& endpoint, bool sends) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    EXPECT_EQ(pipe2(to.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(from.data(), O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    std::string program = "/proc/self/exe";
    std::string mode = sends ? "sender" : "victim";
    std::string name = device;
    std::array<char*, 4> arguments{program.data(), mode.data(), name.data(), nullptr};
    EXPECT_EQ(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    const Identity mine = identity_of(endpoint);
    char ready = 0;
    EXPECT_EQ(read(from[0], &identity_, sizeof identity_), static_cast<ssize_t>(sizeof identity_));
    connect_to(endpoint, identity_);
    EXPECT_EQ(write(to[1], &mine, sizeof mine), static_cast<ssize_t>(sizeof mine));
    EXPECT_EQ(read(from[0], &ready, 1), 1) << "the victim did not connect";
    input_ = to[1];
    close(from[0]);
}

void Victim::send_and_die() {
    EXPECT_EQ(write(input_, "g", 1), 1);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void Victim::kill() {
    if (input_ >= 0) {
        close(input_);
        input_ = -1;
    }
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
}

}  // namespace urnic::e2e
