// Reaches for the memory of a set-user-ID program: registers memory of a process that then becomes that
// program, while a child keeps its connection to the daemon.
//
//   set_user_id attack PROGRAM   PROGRAM is a copy of this one with another owner and the set-user-ID bit
//   set_user_id victim IN OUT    what PROGRAM does: has a secret, says that it runs, and looks what became of
//                                the secret once it is told to
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "tests/e2e/crash/victim.h"
#include "tests/e2e/verbs/endpoint.h"

using namespace urnic::e2e;

namespace {

constexpr std::size_t kSecretBytes = 4096;
constexpr char kHarmless = 'h';
constexpr char kSecret = 's';
constexpr char kForged = 'f';

/// At the same address in each process: the program is not position-independent. Initialised, so that it is a
/// part of the program's file, which registration leaves where it is.
alignas(kSecretBytes) std::array<char, kSecretBytes> secret = {kHarmless};

struct Pipe {
    std::array<int, 2> ends{-1, -1};
    Pipe() {
        if (::pipe(ends.data()) != 0) {
            std::perror("pipe");
            std::exit(1);
        }
    }
};

template <class T>
void give(int fd, const T& what) {
    if (::write(fd, &what, sizeof what) != sizeof what) {
        std::exit(1);
    }
}

template <class T>
T take(int fd) {
    T what{};
    if (::read(fd, &what, sizeof what) != sizeof what) {
        std::exit(1);
    }
    return what;
}

int victim(int in, int out) {
    secret.fill(kSecret);
    std::printf("victim runs as %u\n", ::geteuid());
    std::fflush(stdout);
    give(out, 'r');
    (void)take<char>(in);
    const bool intact = std::all_of(secret.begin(), secret.end(), [](char c) { return c == kSecret; });
    std::printf("%s\n", intact ? "victim is intact" : "victim was overwritten");
    return 0;
}

/// A child that shares nothing but descriptors, and that the provider does not notice.
void keep_descriptors_open() {
    // Before it begins: it may run for the first time when its parent has ended.
    const auto parent = ::getpid();
    const long child = ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (child == 0) {
        while (::getppid() == parent) {
            ::usleep(10'000);
        }
        ::_exit(0);
    }
}

/// A way to the secret, for the reader.
void offer(const Endpoint& endpoint, int from_reader, int to_reader) {
    ibv_mr* region = ibv_reg_mr(endpoint.pd, secret.data(), secret.size(),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    if (!endpoint.ok() || region == nullptr) {
        std::exit(1);
    }
    Identity mine = identity_of(endpoint);
    mine.addr = reinterpret_cast<std::uint64_t>(secret.data());
    mine.rkey = region->rkey;
    give(to_reader, mine);
    connect_to(endpoint, take<Identity>(from_reader));
    give(to_reader, 'c');
}

[[noreturn]] void become(const char* program, int from_reader, int to_reader) {
    const Endpoint to_read("urnic0");
    const Endpoint to_write("urnic0");
    offer(to_read, from_reader, to_reader);
    offer(to_write, from_reader, to_reader);
    (void)take<char>(from_reader);
    keep_descriptors_open();
    ::execl(program, program, "victim", std::to_string(from_reader).c_str(),
            std::to_string(to_reader).c_str(), nullptr);
    std::perror(program);
    std::exit(1);
}

ibv_wc_status carry_out(const Endpoint& endpoint, const Identity& peer, ibv_wr_opcode opcode) {
    ibv_sge sge = endpoint.sge(0, kSecretBytes);
    ibv_send_wr wr = request(opcode, 1, &sge, 1);
    wr.wr.rdma.remote_addr = peer.addr;
    wr.wr.rdma.rkey = peer.rkey;
    endpoint.post(wr);
    return endpoint.poll_one().status;
}

Identity accept_offer(const Endpoint& endpoint, int from_peer, int to_peer) {
    give(to_peer, identity_of(endpoint));
    const auto peer = take<Identity>(from_peer);
    connect_to(endpoint, peer);
    (void)take<char>(from_peer);
    return peer;
}

/// Prints what the peer's keys lead to before and after it has become another program.
int reader(int from_peer, int to_peer) {
    // One that is refused a READ is in error: another one WRITEs.
    const Endpoint reads("urnic1");
    const Endpoint writes("urnic1");
    const Identity to_read = accept_offer(reads, from_peer, to_peer);
    const Identity to_write = accept_offer(writes, from_peer, to_peer);
    for (const auto& [endpoint, peer] : {std::pair{&reads, &to_read}, std::pair{&writes, &to_write}}) {
        std::printf("own memory: %s\n", ibv_wc_status_str(carry_out(*endpoint, *peer, IBV_WR_RDMA_READ)));
    }
    std::fflush(stdout);
    give(to_peer, 'x');
    (void)take<char>(from_peer);
    std::memset(reads.at(0), 0, kSecretBytes);
    const ibv_wc_status read = carry_out(reads, to_read, IBV_WR_RDMA_READ);
    const bool seen = std::memchr(reads.at(0), kSecret, kSecretBytes) != nullptr;
    std::printf("read: %s, the secret is %s\n", ibv_wc_status_str(read), seen ? "seen" : "not seen");
    std::memset(writes.at(0), kForged, kSecretBytes);
    std::printf("write: %s\n", ibv_wc_status_str(carry_out(writes, to_write, IBV_WR_RDMA_WRITE)));
    std::fflush(stdout);
    give(to_peer, 'e');
    return 0;
}

int attack(const char* program) {
    const Pipe to_reader;
    const Pipe to_owner;
    const pid_t owner = fork_child();
    if (owner == 0) {
        become(program, to_owner.ends[0], to_reader.ends[1]);
    }
    const int result = reader(to_reader.ends[0], to_owner.ends[1]);
    int status = 0;
    ::waitpid(owner, &status, 0);
    return result != 0 ? result : status;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 4 && std::strcmp(argv[1], "victim") == 0) {
        return victim(std::stoi(argv[2]), std::stoi(argv[3]));
    }
    return argc == 3 ? attack(argv[2]) : 2;
}
