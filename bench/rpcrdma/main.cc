// rpcrdma_bench rdma|tcp|stubs-rdma|stubs-tcp small|get|put OUTSTANDING SECONDS: a server in a process of its
// own, calls, one line of JSON. Those of RDMA run under `urnic run`, or on a machine with an RDMA device of
// that address.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/rpcrdma/load.h"

namespace urnic::bench {
namespace {

double cpu_seconds(const rusage& usage) {
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Transport {
    std::string_view name;
    void (*serve)(const Tell& tell);
    Done (*call)(std::uint16_t port, const Load& load);
};
constexpr std::array kTransports{
    Transport{"rdma", serve_rdma, call_rdma},
    Transport{"tcp", serve_tcp, call_tcp},
    Transport{"stubs-rdma", serve_stubs_rdma, call_stubs_rdma},
    Transport{"stubs-tcp", serve_stubs_tcp, call_stubs_tcp},
};

const Transport& transport_named(std::string_view name) {
    const auto* const found =
        std::find_if(kTransports.begin(), kTransports.end(),
                     [name](const Transport& transport) { return transport.name == name; });
    if (found == kTransports.end()) give_up_on("the transport is one of rdma, tcp, stubs-rdma, stubs-tcp");
    return *found;
}

struct ServerProcess {
    pid_t pid = -1;
    std::uint16_t port = 0;
};

/// This program again: nothing of libibverbs is shared with a child.
ServerProcess start_server(const char* transport) {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) give_up_on("pipe");
    ServerProcess server;
    server.pid = fork();
    if (server.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execl("/proc/self/exe", "server", transport, "serve", nullptr);
        _exit(127);
    }
    (void)close(ends[1]);
    if (read(ends[0], &server.port, sizeof(server.port)) != sizeof(server.port)) give_up_on("no server");
    (void)close(ends[0]);
    return server;
}

int run(int argc, char** argv) {
    if (argc != 3 && argc != 5) give_up_on("TRANSPORT small|get|put OUTSTANDING SECONDS");
    const Transport& transport = transport_named(argv[1]);
    if (argc == 3 && std::strcmp(argv[2], "serve") == 0) {
        const Tell tell = [](std::uint16_t port) {
            if (write(STDOUT_FILENO, &port, sizeof(port)) != sizeof(port)) give_up_on("write");
        };
        transport.serve(tell);
    }
    if (argc != 5) give_up_on("TRANSPORT small|get|put OUTSTANDING SECONDS");
    Load load;
    load.procedure = std::strcmp(argv[2], "get") == 0   ? Procedure::kGet
                     : std::strcmp(argv[2], "put") == 0 ? Procedure::kPut
                                                        : Procedure::kSmall;
    load.outstanding = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
    load.seconds = std::strtod(argv[4], nullptr);
    if (load.outstanding == 0 || load.outstanding > 64) give_up_on("1 to 64 calls outstanding");
    const ServerProcess server = start_server(argv[1]);
    const Done done = transport.call(server.port, load);
    (void)kill(server.pid, SIGKILL);
    rusage of_server{};
    (void)wait4(server.pid, nullptr, 0, &of_server);
    rusage of_client{};
    (void)getrusage(RUSAGE_SELF, &of_client);
    const auto calls = static_cast<double>(done.calls);
    const double octets = load.procedure == Procedure::kSmall ? 0 : static_cast<double>(kBulkOctets);
    std::printf(
        "{\"calls_per_s\": %.0f, \"gb_per_s\": %.3f, \"us_per_call\": %.2f, \"client_cpu_ns\": %.0f, "
        "\"server_cpu_ns\": %.0f}\n",
        calls / done.seconds, calls * octets / done.seconds * 1e-9, done.seconds / calls * 1e6,
        cpu_seconds(of_client) / calls * 1e9, cpu_seconds(of_server) / calls * 1e9);
    return 0;
}

}  // namespace

void give_up_on(const char* what) {
    (void)std::fprintf(stderr, "rpcrdma_bench: %s\n", what);
    std::exit(1);
}

}  // namespace urnic::bench

int main(int argc, char** argv) { return urnic::bench::run(argc, argv); }
