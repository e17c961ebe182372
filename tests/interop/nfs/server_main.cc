// nfs_server: serves an empty file system in memory by NFS version 3, over RPC-over-RDMA and TCP, and MOUNT
// over TCP, until SIGTERM or SIGINT.
#include <signal.h>

#include <array>
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "tests/interop/nfs/nfs_program.h"
#include "tests/interop/nfs/options.h"
#include "tests/interop/nfs/rdma_server.h"
#include "tests/interop/nfs/tcp.h"

namespace urnic::nfs {
namespace {

// A call with a WRITE's data, and what is around it.
constexpr std::size_t kMaxCallOctets = kMaxTransferOctets + 4096;

void serve_record(std::span<Program* const> programs, const Socket& connection,
                  std::span<const std::byte> call) {
    thread_local std::vector<std::byte> stream(kReplyStreamOctets);
    thread_local std::vector<std::byte> data(kMaxTransferOctets);
    const Reply reply = answer(programs, call, {.stream = stream, .data = data});
    if (reply.stream_octets == 0) {
        return;
    }
    constexpr std::array<std::byte, 3> kPadding{};
    const std::span<const std::byte> sent(stream.data(), reply.stream_octets);
    const std::size_t padding = rpcrdma::xdr_padded(reply.data_octets) - reply.data_octets;
    connection.send_record(std::array<std::span<const std::byte>, 4>{
        sent.first(reply.data_at), std::span<const std::byte>(data).first(reply.data_octets),
        std::span(kPadding).first(padding), sent.subspan(reply.data_at)});
}

int serve(const Options& options) {
    // Threads inherit the mask.
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, nullptr);

    std::random_device random;
    NfsProgram nfs(std::uint64_t{random()} << 32U | random());
    MountProgram mount(options.text("export", "/export"), nfs.root());
    std::array<Program*, 2> programs{&nfs, &mount};
    const auto by_tcp = [&programs](const Socket& connection, std::span<const std::byte> call) {
        serve_record(programs, connection, call);
    };
    const std::string address = options.text("address", "127.0.0.1");
    const TcpServer tcp(options.text("tcp-address", address), options.port("tcp-port", 2049), kMaxCallOctets,
                        by_tcp);
    const bool has_rdma = options.text("rdma", "yes") == "yes";
    const RdmaServer rdma(has_rdma ? address : "", options.port("port", 20049), programs);
    std::printf("ready\n");
    std::fflush(stdout);
    int which = 0;
    sigwait(&ending, &which);
    std::printf("%s\n", rdma.statistics().c_str());
    return 0;
}

}  // namespace
}  // namespace urnic::nfs

int main(int argc, char** argv) {
    try {
        return urnic::nfs::serve(urnic::nfs::Options(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "nfs_server: %s\n", error.what());
        return 1;
    }
}
