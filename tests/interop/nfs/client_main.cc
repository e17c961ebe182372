// nfs_client: runs tests against a server of NFS version 3. Prints "NAME passed TEXT" or "NAME FAILED TEXT"
// for each, then what the transport counted. Exit status 0: all passed.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "tests/interop/nfs/client_tests.h"
#include "tests/interop/nfs/options.h"
#include "tests/interop/nfs/transport.h"

namespace urnic::nfs {
namespace {

bool run_one(const ClientTest& test, Bench& bench) {
    try {
        const std::string text = test.run(bench);
        std::printf("%s passed %s\n", test.name, text.c_str());
    } catch (const std::exception& error) {
        std::printf("%s FAILED %s\n", test.name, error.what());
        return false;
    }
    std::fflush(stdout);
    return true;
}

std::unique_ptr<Transport> connect(const Options& options) {
    const std::string server = options.text("server", "127.0.0.1");
    if (options.text("rdma", "yes") != "yes") {
        return std::make_unique<TcpTransport>(server, options.port("port", 2049));
    }
    constexpr unsigned kBothVersions = 0x6;
    return std::make_unique<RdmaTransport>(
        server, options.port("port", RPCRDMA_NFS_PORT),
        static_cast<std::uint32_t>(options.number("versions", kBothVersions)));
}

int run(const Options& options) {
    const Wanted wanted{.data_path = options.text("data", ""),
                        .back_path = options.text("back", ""),
                        .files = static_cast<unsigned>(options.number("files", 10000)),
                        .threads = static_cast<unsigned>(options.number("threads", 4))};
    const std::unique_ptr<Transport> transport = connect(options);
    NfsClient client(*transport);
    TcpTransport mounting(options.text("mount-server", options.text("server", "127.0.0.1")),
                          options.port("mount-port", 20048));
    const Looked root = client.mount(mounting, options.text("export", "/export"));
    if (root.status != Status::kOk) {
        std::fprintf(stderr, "nfs_client: MNT: status %u\n", static_cast<unsigned>(root.status));
        return 1;
    }
    Bench bench{.client = client, .root = root.handle, .wanted = wanted};
    bool has_failed = false;
    const std::string only = options.text("only", "");
    for (const ClientTest& test : client_tests()) {
        if (only.empty() || only == test.name) {
            has_failed = !run_one(test, bench) || has_failed;
        }
    }
    std::printf("transport: %s\n", transport->statistics().c_str());
    return has_failed ? 1 : 0;
}

}  // namespace
}  // namespace urnic::nfs

int main(int argc, char** argv) {
    try {
        return urnic::nfs::run(urnic::nfs::Options(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "nfs_client: %s\n", error.what());
        return 1;
    }
}
