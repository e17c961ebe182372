// A pair of endpoints in two processes, for tests that kill one of them.
//
//   stream server PORT DEVICE            waits for a client, accepts its writes; prints each completion error
//   it sees stream client PORT DEVICE            writes without end to the server stream watch DEVICE opens
//   the device and waits for its async events
//
// Prints one word a line when something happens: "running", "status N", "event NAME", "done".
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/e2e/verbs/endpoint.h"

namespace {

using urnic::e2e::Endpoint;

/// What the two sides tell each other over TCP.
struct Hello {
    std::uint32_t qp_num;
    std::uint32_t rkey;
    std::uint64_t address;
    ibv_gid gid;
};

constexpr std::size_t kBytes = 64U << 10U;
constexpr std::uint64_t kDepth = 32;

void say(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

[[noreturn]] void give_up(const char* what) {
    std::fprintf(stderr, "stream: %s: %s\n", what, std::strerror(errno));
    std::_Exit(1);
}

int dial(std::uint16_t port, bool listen_side) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (!listen_side) {
        if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) give_up("connect");
        return fd;
    }
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || listen(fd, 1) != 0)
        give_up("listen");
    const int accepted = accept(fd, nullptr, nullptr);
    if (accepted < 0) give_up("accept");
    close(fd);
    return accepted;
}

Hello exchange(int fd, const Endpoint& side) {
    Hello mine{side.qp->qp_num, side.mr->rkey, side.address(0), {}};
    if (ibv_query_gid(side.context.get(), 1, 1, &mine.gid) != 0) give_up("gid");
    Hello theirs{};
    if (write(fd, &mine, sizeof(mine)) != sizeof(mine) ||
        read(fd, &theirs, sizeof(theirs)) != sizeof(theirs)) {
        give_up("exchange");
    }
    return theirs;
}

void connect_qp(const Endpoint& side, const Hello& peer) {
    if (urnic::e2e::to_init(side) != 0) give_up("INIT");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer.qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.sgid_index = 1;
    attr.ah_attr.grh.hop_limit = 1;
    attr.ah_attr.grh.dgid = peer.gid;
    if (ibv_modify_qp(side.qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
        give_up("RTR");
    }
    // 67 ms and three tries: a peer that is gone is noticed within a second.
    if (urnic::e2e::to_rts(side, 0, {.timeout = 14, .retry_cnt = 3}) != 0) give_up("RTS");
}

/// Prints async events until the device is gone.
void watch(ibv_context* context) {
    ibv_async_event event{};
    while (ibv_get_async_event(context, &event) == 0) {
        say(std::string("event ") + ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
        if (event.event_type == IBV_EVENT_DEVICE_FATAL) return;
    }
}

/// Posts a WRITE of the whole buffer; false when it is refused.
bool post_write(const Endpoint& side, const Hello& peer, std::uint64_t wr_id) {
    ibv_sge sge = side.sge(0, kBytes);
    ibv_send_wr wr = urnic::e2e::request(IBV_WR_RDMA_WRITE, wr_id, &sge, 1);
    wr.wr.rdma.remote_addr = peer.address;
    wr.wr.rdma.rkey = peer.rkey;
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(side.qp, &wr, &bad) == 0;
}

/// Writes until an error comes, then takes the flushed rest. Returns the first error's status.
int write_until_error(const Endpoint& side, const Hello& peer) {
    std::uint64_t in_flight = 0;
    std::uint64_t next = 0;
    int first_error = IBV_WC_SUCCESS;
    bool said = false;
    while (first_error == IBV_WC_SUCCESS || in_flight != 0) {
        while (first_error == IBV_WC_SUCCESS && in_flight < kDepth && post_write(side, peer, next))
            ++in_flight, ++next;
        ibv_wc completion{};
        const int got = ibv_poll_cq(side.cq, 1, &completion);
        if (got < 0) give_up("poll");
        if (got == 0) {
            std::this_thread::yield();
            continue;
        }
        --in_flight;
        if (completion.status != IBV_WC_SUCCESS && first_error == IBV_WC_SUCCESS)
            first_error = completion.status;
        if (!said && completion.status == IBV_WC_SUCCESS) {
            said = true;
            say("running");
        }
    }
    return first_error;
}

int serve(std::uint16_t port, const char* device) {
    const Endpoint side(device, {.buffer_bytes = kBytes});
    if (!side.ok()) return 1;
    const int fd = dial(port, true);
    connect_qp(side, exchange(fd, side));
    char byte = 1;
    if (write(fd, &byte, 1) != 1) give_up("go");
    // Until the client has gone, one way or another.
    while (read(fd, &byte, 1) > 0) {
    }
    say("done");
    close(fd);
    return 0;
}

int stream(std::uint16_t port, const char* device) {
    const Endpoint side(device, {.buffer_bytes = kBytes});
    if (!side.ok()) return 1;
    const int fd = dial(port, false);
    const Hello peer = exchange(fd, side);
    connect_qp(side, peer);
    char byte = 0;
    if (read(fd, &byte, 1) != 1) give_up("go");
    std::thread(watch, side.context.get()).detach();
    say("status " + std::to_string(write_until_error(side, peer)));
    say("done");
    // The watching thread holds the context: leave without taking it down.
    std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string mode = argc > 1 ? argv[1] : "";
    if (mode == "server" && argc == 4) return serve(static_cast<std::uint16_t>(std::atoi(argv[2])), argv[3]);
    if (mode == "client" && argc == 4) return stream(static_cast<std::uint16_t>(std::atoi(argv[2])), argv[3]);
    if (mode == "watch" && argc == 3) {
        const urnic::e2e::Context context = urnic::e2e::open_device(argv[2]);
        if (context == nullptr) return 1;
        say("running");
        watch(context.get());
        return 0;
    }
    std::fprintf(stderr, "usage: stream server PORT DEVICE | client PORT DEVICE | watch DEVICE\n");
    return 2;
}
