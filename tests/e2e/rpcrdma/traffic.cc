// Calls of all forms between two hosts, to be captured.
//
// usage: rpcrdma_traffic server PORT VERSIONS: serves until SIGTERM
//        rpcrdma_traffic client PORT VERSIONS: calls, and prints how many Calls it sent
// VERSIONS: bit N stands for version N.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/e2e/rpcrdma/echo.h"

namespace urnic::e2e {
namespace {

int serve(std::uint16_t port, const rpcrdma_options& options) {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // of all threads that follow
    const EchoServer server(options, 2, port);
    if (!server.is_there()) {
        return 1;
    }
    std::printf("ready\n");
    std::fflush(stdout);
    int signal = 0;
    return sigwait(&signals, &signal);
}

int call(std::uint16_t port, const rpcrdma_options& options) {
    const EchoClient client(server_address(port), options);
    if (client.error() != 0) {
        std::fprintf(stderr, "rpcrdma_traffic: %s\n", rpcrdma_last_error());
        return 1;
    }
    for (const std::size_t octets : {0U, 3U, 900U, 1024U, 3900U, 5000U, 65537U}) {
        for (unsigned form = 0; form < 4; ++form) {
            const Octets argument = octets_of(octets, form);
            const Echoed echoed =
                client.echo(argument, {.has_item = (form & 1U) != 0, .has_result = (form & 2U) != 0});
            if (echoed.error != 0 || echoed.octets != argument) {
                std::fprintf(stderr, "rpcrdma_traffic: %zu octets, form %u: %s\n", octets, form,
                             echoed.text.c_str());
                return 1;
            }
        }
    }
    std::printf("%llu\n", static_cast<unsigned long long>(client.statistics().calls_sent));
    return 0;
}

}  // namespace
}  // namespace urnic::e2e

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    if (argc != 4) {
        std::fprintf(stderr, "usage: rpcrdma_traffic server|client PORT VERSIONS\n");
        return 2;
    }
    rpcrdma_options options = urnic::e2e::default_options();
    options.versions = static_cast<std::uint32_t>(std::atoi(argv[3]));
    const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
    return std::string(argv[1]) == "server" ? urnic::e2e::serve(port, options)
                                            : urnic::e2e::call(port, options);
}
