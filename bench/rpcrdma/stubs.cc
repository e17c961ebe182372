// By the stubs of rpcgen: the same program over libtirpc's own TCP and over RDMA. They differ in the lines
// that make the CLIENT and the SVCXPRT, and in what these can: a CLIENT of TCP has one call at a time, so
// that each thread needs its own; many threads serve over RDMA, one over TCP.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/rpcrdma/load.h"
#include "bench_service.h"
#include "urnic/rpcrdma_onc.h"

// What rpcgen makes and declares nowhere.
extern "C" void bench_service_1(svc_req* request, SVCXPRT* transport);

namespace urnic::bench {
namespace {

using StubClock = std::chrono::steady_clock;

constexpr const char* kRdmaAddress = "198.18.0.1";

std::uint32_t room_of_get(const void* arguments) { return *static_cast<const u_int*>(arguments); }

void add_ddp_items() {
    std::array<rpcrdma_onc_item, 2> items{};
    for (rpcrdma_onc_item& item : items) {
        item.program = BENCH_SERVICE;
        item.version = BENCH_SERVICE_V1;
        item.offset = offsetof(data, data_val);
        item.least_octets = 4096;
    }
    items[0].procedure = BENCH_GET;
    items[0].side = RPCRDMA_ONC_RESULT;
    items[0].room = room_of_get;
    items[1].procedure = BENCH_PUT;
    items[1].side = RPCRDMA_ONC_ARGUMENT_IN_PLACE;
    if (rpcrdma_onc_ddp(items.data(), items.size()) != 0) give_up_on("rpcrdma_onc_ddp");
}

/// Octets that a server of files has in memory.
char* bulk() {
    static char* const s_bulk = [] {
        auto* const memory = static_cast<char*>(rpcrdma_alloc(kBulkOctets));
        std::memset(memory, 1, kBulkOctets);
        return memory;
    }();
    return s_bulk;
}

CLIENT* make_tcp_client(std::uint16_t port) {
    sockaddr_in server{};
    server.sin_family = AF_INET;
    server.sin_port = htons(port);
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int socket = RPC_ANYSOCK;
    CLIENT* const client = clnttcp_create(&server, BENCH_SERVICE, BENCH_SERVICE_V1, &socket, 0, 0);
    const int on = 1;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return client;
}

CLIENT* make_rdma_client(std::uint16_t port) {
    return clnt_rdma_create(kRdmaAddress, std::to_string(port).c_str(), BENCH_SERVICE, BENCH_SERVICE_V1,
                            nullptr);
}

/// A thread that calls, with the arguments and the memory for results of its calls.
class Caller {
  public:
    Caller(CLIENT* client, Procedure procedure) : client_(client), procedure_(procedure) {
        const std::size_t octets = procedure == Procedure::kSmall ? kSmallOctets : kBulkOctets;
        memory_ = static_cast<char*>(rpcrdma_alloc(octets));
        std::memset(memory_, 1, octets);
        own_ = {static_cast<u_int>(octets), memory_};
    }
    ~Caller() { rpcrdma_free(memory_); }
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

    void call() {
        clnt_stat status = RPC_SUCCESS;
        u_int octets = own_.data_len;
        if (procedure_ == Procedure::kSmall) {
            std::array<char, kSmallOctets> room;
            data result{kSmallOctets, room.data()};
            status = bench_small_1(&own_, &result, client_);
            octets = result.data_len;
        } else if (procedure_ == Procedure::kGet) {
            // It goes to where this points.
            data result{0, memory_};
            status = bench_get_1(&octets, &result, client_);
            octets = result.data_len;
        } else {
            status = bench_put_1(&own_, &octets, client_);
        }
        if (status != RPC_SUCCESS || octets != own_.data_len) give_up_on(clnt_sperrno(status));
    }

  private:
    CLIENT* client_;
    Procedure procedure_;
    char* memory_ = nullptr;
    data own_{};
};

using MakeClient = CLIENT* (*)(std::uint16_t port);

Done call_stubs(std::uint16_t port, const Load& load, MakeClient make_client, bool is_shared) {
    CLIENT* const shared = is_shared ? make_client(port) : nullptr;
    if (is_shared && shared == nullptr) give_up_on(clnt_spcreateerror("no client"));
    std::atomic<std::uint64_t> calls{0};
    std::atomic<bool> is_over{false};
    std::barrier all_there(static_cast<std::ptrdiff_t>(load.outstanding) + 1);
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < load.outstanding; ++i) {
        threads.emplace_back([&] {
            CLIENT* const client = is_shared ? shared : make_client(port);
            if (client == nullptr) give_up_on(clnt_spcreateerror("no client"));
            Caller caller(client, load.procedure);
            caller.call();  // connects, settles the version, touches the memory
            all_there.arrive_and_wait();
            std::uint64_t made = 0;
            for (; !is_over.load(std::memory_order_relaxed); ++made) {
                caller.call();
            }
            calls += made;
            if (!is_shared) clnt_destroy(client);
        });
    }
    all_there.arrive_and_wait();
    const StubClock::time_point begin = StubClock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(load.seconds));
    is_over = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
    const Done done{calls.load(), std::chrono::duration<double>(StubClock::now() - begin).count()};
    if (is_shared) clnt_destroy(shared);
    return done;
}

void register_service(SVCXPRT* transport, const Tell& tell) {
    if (transport == nullptr ||
        !svc_reg(transport, BENCH_SERVICE, BENCH_SERVICE_V1, bench_service_1, nullptr)) {
        give_up_on(rpcrdma_last_error());
    }
    tell(transport->xp_port);
}

}  // namespace

void serve_stubs_rdma(const Tell& tell) {
    add_ddp_items();
    SVCXPRT* const transport = svc_rdma_create(kRdmaAddress, "0", nullptr);
    register_service(transport, tell);
    (void)svc_rdma_run(transport, 1);
    give_up_on("svc_rdma_run");
}

void serve_stubs_tcp(const Tell& tell) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(own);
    const int on = 1;
    // Connections have it from the listener.
    if (bind(listener, reinterpret_cast<const sockaddr*>(&own), size) != 0 || listen(listener, 64) != 0 ||
        setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) != 0) {
        give_up_on("listen");
    }
    SVCXPRT* const transport = svctcp_create(listener, 0, 0);
    if (transport != nullptr) transport->xp_port = ntohs(own.sin_port);
    register_service(transport, tell);
    svc_run();
    give_up_on("svc_run");
}

Done call_stubs_rdma(std::uint16_t port, const Load& load) {
    add_ddp_items();
    return call_stubs(port, load, make_rdma_client, true);
}

Done call_stubs_tcp(std::uint16_t port, const Load& load) {
    return call_stubs(port, load, make_tcp_client, false);
}

}  // namespace urnic::bench

// The procedures, as rpcgen -M declares them.
bool_t bench_small_1_svc(data* arguments, data* result, svc_req* /*request*/) {
    // The arguments' memory is the result's then.
    *result = *arguments;
    *arguments = {};
    return TRUE;
}

bool_t bench_get_1_svc(u_int* arguments, data* result, svc_req* /*request*/) {
    if (*arguments > urnic::bench::kBulkOctets) return FALSE;
    *result = {*arguments, urnic::bench::bulk()};
    return TRUE;
}

bool_t bench_put_1_svc(data* arguments, u_int* result, svc_req* /*request*/) {
    *result = arguments->data_len;
    return TRUE;
}

int bench_service_1_freeresult(SVCXPRT* /*transport*/, xdrproc_t encode, caddr_t result) {
    const bool is_bulk = encode == reinterpret_cast<xdrproc_t>(xdr_data) &&
                         reinterpret_cast<const data*>(result)->data_val == urnic::bench::bulk();
    if (!is_bulk) xdr_free(encode, result);
    return TRUE;
}
