// file_server TRANSPORT HOST PORT THREADS: the file service; THREADS 0: by svc_run(). Prints "listening
// PORT"; ends when its standard input does, with "statistics CALLS REPLIES READ_OCTETS WRITTEN_OCTETS".
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/e2e/rpcrdma_rpcgen/connect.h"
#include "tests/support/file_service/service.h"

namespace {

void guarded(svc_req* request, SVCXPRT* transport) {
    if (request->rq_cred.oa_flavor != AUTH_SYS) {
        svcerr_weakauth(transport);
        return;
    }
    u_int uid = static_cast<authunix_parms*>(request->rq_clntcred)->aup_uid;
    svc_sendreply(transport, reinterpret_cast<xdrproc_t>(xdr_u_int), &uid);
}

void print_statistics(SVCXPRT* transport) {
    rpcrdma_statistics statistics{};
    statistics.size = sizeof statistics;
    if (rpcrdma_server_statistics(svc_rdma_server(transport), &statistics) == 0) {
        std::printf("statistics %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", statistics.calls_received,
                    statistics.replies_sent, statistics.read_chunk_octets, statistics.write_chunk_octets);
    }
    std::fflush(stdout);
}

void wait_for_end_of_input() {
    char octet = 0;
    while (read(STDIN_FILENO, &octet, 1) > 0) {
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 5) {
        return 2;
    }
    urnic::e2e::Address address{.host = argv[2], .port = argv[3]};
    address.set_transport(argv[1]);
    const unsigned threads = static_cast<unsigned>(std::atoi(argv[4]));
    urnic::e2e::add_ddp_items();
    SVCXPRT* const transport = urnic::e2e::make_transport(address);
    if (transport == nullptr) {
        std::fprintf(stderr, "no transport: %s: %s\n", std::strerror(errno), rpcrdma_last_error());
        return 1;
    }
    if (!svc_reg(transport, FILE_SERVICE, FILE_SERVICE_V1, file_service_1, nullptr) ||
        !svc_reg(transport, urnic::e2e::kGuardedProgram, 1, guarded, nullptr)) {
        return 1;
    }
    std::printf("listening %u\n", transport->xp_port);
    std::fflush(stdout);
    if (threads == 0) {
        std::thread(svc_run).detach();
        wait_for_end_of_input();
        if (address.is_rdma) {
            print_statistics(transport);
        }
        _exit(0);  // svc_run() has no end
    }
    std::thread waiting([transport] {
        wait_for_end_of_input();
        svc_rdma_exit(transport);
    });
    const int error = svc_rdma_run(transport, threads);
    waiting.join();
    print_statistics(transport);
    SVC_DESTROY(transport);
    return error == 0 ? 0 : 1;
}
