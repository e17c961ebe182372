// One tenant against all others: does what a program may do with the descriptors and the memory that it
// shares with the daemon, and holds it. Begins as root, for memory that lets the kernel wait, and continues
// as another user. Prints "held" when the daemon has been led into the trap, then waits to be ended.
//
//   attack neighbour [WRITES]    no attack: so many (200) verified WRITEs, then "done"
//   attack channel               reads its completion channel into stalled memory, then gets another event
//   attack watchers              watches its completion channel 300,000 times, and gets events for ever
//   attack ring SOCKET           holds the lock of its rings' file, then destroys a CQ
//   attack ring_end SOCKET       the same, and hangs up
//   attack cm SOCKET             receives from its rdma_cm channel into stalled memory, then gets the event
//   attack copied_write          lets a WRITE go into stalled memory that is registered; else "refused"
//   attack copied_send           sends from such memory
#include <arpa/inet.h>
#include <rdma/rdma_user_cm.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>

#include "tests/e2e/tenants/raw_client.h"
#include "tests/e2e/tenants/stalled_memory.h"
#include "tests/e2e/verbs/endpoint.h"

namespace {

using urnic::e2e::Endpoint;
using urnic::e2e::StalledMemory;

constexpr uid_t kOtherUser = 65534;
constexpr std::size_t kStalledBytes = 1U << 20U;
constexpr int kWatchedCopies = 1000;
constexpr int kEpolls = 300;

void say(const char* word) {
    std::printf("%s\n", word);
    std::fflush(stdout);
}

[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "attack: %s: %s\n", what, std::strerror(errno));
    std::_Exit(1);
}

/// Rights are gone for good; the daemon learns of this user when the program connects.
void become_another() {
    const rlimit files{4096, 4096};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
        setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) {
        give_up("setresuid");
    }
    (void)prctl(PR_SET_DUMPABLE, 1UL);  // as after any exec
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
}

[[noreturn]] void hold() {
    say("held");
    for (;;) {
        pause();
    }
}

/// A thread that the end of the program does not wait for.
void start(std::function<void()> function) { std::thread(std::move(function)).detach(); }

/// Both ends of a connection.
struct Pair {
    Endpoint a;
    Endpoint b;

    Pair() : a("urnic0", {.with_channel = true}), b("urnic1") {
        if (!a.ok() || !b.ok()) {
            give_up("no QP");
        }
        urnic::e2e::connect(a, b);
    }
    /// One WRITE from a to b.
    void write(ibv_sge sge, std::uint64_t va, std::uint32_t rkey) const {
        ibv_send_wr wr = urnic::e2e::request(IBV_WR_RDMA_WRITE, 1, &sge, 1);
        wr.wr.rdma.remote_addr = va;
        wr.wr.rdma.rkey = rkey;
        a.post(wr);
    }
    void write() const { write(a.sge(0, 8), b.address(0), b.mr->rkey); }
    /// An event in a's channel.
    void raise_event() const {
        if (ibv_req_notify_cq(a.cq, 0) != 0) {
            give_up("req_notify");
        }
        write();
        (void)a.poll_one();
    }
};

int neighbour(std::uint32_t writes) {
    const Pair pair;
    for (std::uint32_t round = 0; round < writes; ++round) {
        constexpr std::size_t kBytes = 64U << 10U;
        urnic::e2e::fill(pair.a.at(0), kBytes, round);
        pair.write(pair.a.sge(0, kBytes), pair.b.address(0), pair.b.mr->rkey);
        if (pair.a.poll_one().status != IBV_WC_SUCCESS ||
            urnic::e2e::first_difference(pair.b.at(0), kBytes, round) >= 0) {
            return 1;
        }
    }
    say("done");
    return 0;
}

void hold_channel(const StalledMemory& stalled) {
    const Pair pair;
    pair.raise_event();
    start([&] { (void)!read(pair.a.channel->fd, stalled.data(), sizeof(void*)); });
    stalled.wait_for_victim();
    pair.raise_event();
    hold();
}

/// Each event wakes this many.
void watch(int fd) {
    std::vector<int> copies;
    for (int i = 0; i < kWatchedCopies; ++i) {
        copies.push_back(dup(fd));
    }
    for (int i = 0; i < kEpolls; ++i) {
        const int epoll = epoll_create1(EPOLL_CLOEXEC);
        epoll_event event{};
        event.events = EPOLLIN | EPOLLET;
        for (const int copy : copies) {
            if (epoll_ctl(epoll, EPOLL_CTL_ADD, copy, &event) != 0) {
                give_up("epoll_ctl");
            }
        }
    }
}

void watch_channel() {
    const Pair pair;
    watch(pair.a.channel->fd);
    say("held");
    for (;;) {
        pair.raise_event();
        ibv_cq* cq = nullptr;
        void* context = nullptr;
        if (ibv_get_cq_event(pair.a.channel, &cq, &context) != 0) {
            give_up("get_cq_event");
        }
        ibv_ack_cq_events(cq, 1);
    }
}

void hold_rings(const std::string& socket, const StalledMemory& stalled, bool hangs_up) {
    urnic::e2e::RawClient client(socket);
    urnic::abi::CreateCqRequest request{};
    request.context = client.open("urnic0");
    request.entries = 16;
    const auto reply = client.call<urnic::abi::CreateCqReply>(urnic::abi::Op::kCreateCq, request);
    urnic::e2e::RawClient::must(reply.header.error, "CreateCq");
    const int rings = client.fds.at(0);
    start([&] { (void)!pwrite(rings, stalled.data(), stalled.size(), 0); });
    stalled.wait_for_victim();
    if (hangs_up) {
        client.hang_up();
        hold();
    }
    start([&] {
        urnic::abi::HandleRequest destroy{};
        destroy.handle = reply.handle;
        (void)client.call<urnic::abi::DestroyReply>(urnic::abi::Op::kDestroyCq, destroy);
    });
    hold();
}

/// RDMA_USER_CM_CMD_... without librdmacm, whose provider would wait for the lock itself.
template <typename Answer, typename Body>
Answer cm_command(urnic::e2e::RawClient& client, std::uint32_t channel, std::uint32_t number,
                  const Body& body) {
    urnic::abi::CmCommandRequest request{};
    request.channel = channel;
    request.command = number;
    request.in_bytes = sizeof body;
    request.out_bytes = sizeof(Answer);
    std::memcpy(request.body, &body, sizeof body);
    const auto reply = client.call<urnic::abi::CmCommandReply>(urnic::abi::Op::kCmCommand, request);
    urnic::e2e::RawClient::must(reply.header.error, "CmCommand");
    Answer answer{};
    std::memcpy(&answer, reply.body, sizeof answer);
    return answer;
}

void hold_cm(const std::string& socket, const StalledMemory& stalled) {
    urnic::e2e::RawClient client(socket);
    const auto channel = client.call<urnic::abi::HandleReply>(urnic::abi::Op::kOpenCmChannel,
                                                              urnic::abi::OpenCmChannelRequest{});
    const int fd = client.fds.at(0);
    rdma_ucm_create_id create{};
    create.ps = RDMA_PS_TCP;
    const auto id =
        cm_command<rdma_ucm_create_id_resp>(client, channel.handle, RDMA_USER_CM_CMD_CREATE_ID, create);
    rdma_ucm_resolve_ip resolve{};
    resolve.id = id.id;
    resolve.timeout_ms = 1000;
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(1);
    to.sin_addr.s_addr = htonl(0xc612'0002);  // urnic1's
    std::memcpy(&resolve.dst_addr, &to, sizeof to);
    start([&] { (void)!recv(fd, stalled.data(), 1, 0); });
    (void)cm_command<char>(client, channel.handle, RDMA_USER_CM_CMD_RESOLVE_IP, resolve);
    stalled.wait_for_victim();
    start([&] {
        rdma_ucm_get_event get{};
        (void)cm_command<rdma_ucm_event_resp>(client, channel.handle, RDMA_USER_CM_CMD_GET_EVENT, get);
    });
    hold();
}

void hold_copy(const StalledMemory& stalled, bool is_source) {
    const Pair pair;
    ibv_mr* const mr = ibv_reg_mr(is_source ? pair.a.pd : pair.b.pd, stalled.data(), stalled.size(),
                                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (mr == nullptr && errno == EPERM) {
        say("refused");
        std::_Exit(0);
    }
    if (mr == nullptr) {
        give_up("ibv_reg_mr");
    }
    stalled.stall();
    const auto va = reinterpret_cast<std::uintptr_t>(stalled.data());
    if (is_source) {
        pair.write({va, 4096, mr->lkey}, pair.b.address(0), pair.b.mr->rkey);
    } else {
        pair.write(pair.a.sge(0, 4096), va, mr->rkey);
    }
    stalled.wait_for_victim();
    hold();
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    const StalledMemory stalled(kStalledBytes);
    become_another();
    if (mode != "copied_write" && mode != "copied_send") stalled.stall();
    if (mode == "neighbour")
        return neighbour(argc == 3 ? static_cast<std::uint32_t>(std::stoul(argv[2])) : 200);
    if (mode == "channel") hold_channel(stalled);
    if (mode == "watchers") watch_channel();
    if (mode == "ring" && argc == 3) hold_rings(argv[2], stalled, false);
    if (mode == "ring_end" && argc == 3) hold_rings(argv[2], stalled, true);
    if (mode == "cm" && argc == 3) hold_cm(argv[2], stalled);
    if (mode == "copied_write") hold_copy(stalled, false);
    if (mode == "copied_send") hold_copy(stalled, true);
    std::fprintf(stderr,
                 "usage: attack channel|watchers|copied_write|copied_send | neighbour [WRITES] | "
                 "ring|ring_end|cm SOCKET\n");
    return 2;
}
