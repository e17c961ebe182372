#include "tests/e2e/rpcrdma/peer_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/e2e/rpcrdma/echo.h"
#include "tests/e2e/rpcrdma/patience.h"

namespace urnic::e2e {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);

void serve(std::uint16_t port, std::uint32_t versions) {
    rpcrdma_options options = default_options();
    options.versions = versions;
    const EchoServer server(options, 2, port);
    if (!server.is_there()) std::exit(1);
    std::printf("ready\n");
    (void)std::fflush(stdout);
    for (std::size_t seen = 0;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const std::size_t held = server.held();
        for (; seen < held; ++seen) {
            std::printf("held\n");
            (void)std::fflush(stdout);
        }
    }
}

void call(std::uint16_t port, int calls) {
    const EchoClient client(server_address(port));
    if (client.error() != 0) {
        std::fprintf(stderr, "%s\n", rpcrdma_last_error());
        std::exit(1);
    }
    (void)client.echo(octets_of(64, 1));
    std::vector<std::thread> threads;
    for (int i = 0; i < calls; ++i) {
        threads.emplace_back(
            [&client] { (void)client.echo(octets_of(kHeldOctets, 1), {.procedure = Procedure::kHold}); });
    }
    std::printf("calls\n");
    (void)std::fflush(stdout);
    for (std::thread& thread : threads) {
        thread.join();
    }
}

}  // namespace

bool comes(const std::function<bool()>& there) {
    static bool s_has_failed = false;
    const auto until =
        std::chrono::steady_clock::now() + (s_has_failed ? std::chrono::seconds(1) : kPatience);
    while (!there()) {
        if (std::chrono::steady_clock::now() > until) {
            s_has_failed = true;
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

bool run_as_peer(int argc, char** argv) {
    if (argc != 4) return false;
    const auto port = static_cast<std::uint16_t>(std::strtoul(argv[2], nullptr, 10));
    const unsigned long number = std::strtoul(argv[3], nullptr, 10);
    if (std::strcmp(argv[1], "--serve") == 0) {
        serve(port, static_cast<std::uint32_t>(number));
        return true;
    }
    if (std::strcmp(argv[1], "--call") == 0) {
        call(port, static_cast<int>(number));
        return true;
    }
    return false;
}

PeerProcess PeerProcess::server(std::uint16_t port, const std::string& versions) {
    return {"--serve", std::to_string(port), versions};
}

PeerProcess PeerProcess::client(std::uint16_t port, int calls) {
    return {"--call", std::to_string(port), std::to_string(calls)};
}

PeerProcess::PeerProcess(const std::string& role, const std::string& first, const std::string& second) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(pipe[1], STDOUT_FILENO);
        (void)execl("/proc/self/exe", "peer", role.c_str(), first.c_str(), second.c_str(), nullptr);
        _exit(127);
    }
    (void)close(pipe[1]);
    output_ = pipe[0];
}

PeerProcess::PeerProcess(PeerProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_(std::exchange(other.output_, -1)) {}

void PeerProcess::kill() {
    if (pid_ > 0) {
        (void)::kill(pid_, SIGKILL);
        (void)waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
    if (output_ >= 0) (void)close(output_);
    output_ = -1;
}

std::string PeerProcess::line() const {
    std::string line;
    for (char c = 0; read(output_, &c, 1) == 1 && c != '\n';) {
        line.push_back(c);
    }
    return line;
}

}  // namespace urnic::e2e
