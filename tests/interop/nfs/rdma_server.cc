#include "tests/interop/nfs/rdma_server.h"

#include <memory>
#include <stdexcept>

#include "tests/interop/nfs/rdma.h"

namespace urnic::nfs {

namespace {

// As many calls as a kernel has outstanding at most are not more than these threads can answer soon.
constexpr std::uint32_t kThreads = 4;

// Registered once for each thread that answers.
struct Room {
    RegisteredMemory stream{kReplyStreamOctets};
    RegisteredMemory data{kMaxTransferOctets};
};

}  // namespace

RdmaServer::RdmaServer(const std::string& address, std::uint16_t port, std::span<Program* const> programs)
    : programs_(programs) {
    if (address.empty()) {
        return;
    }
    const sockaddr_storage name = ipv4_address(address, port);
    const int error =
        rpcrdma_listen(reinterpret_cast<const sockaddr*>(&name), nullptr, kThreads, serve, this, &server_);
    if (error != 0) {
        throw_rdma_error("rpcrdma_listen", error);
    }
}

RdmaServer::~RdmaServer() {
    if (server_ != nullptr) {
        rpcrdma_server_stop(server_);
    }
}

void RdmaServer::serve(void* context, rpcrdma_request* request) {
    thread_local Room room;
    std::size_t octets = 0;
    const void* const call = rpcrdma_request_stream(request, &octets);
    const Reply reply = answer(static_cast<const RdmaServer*>(context)->programs_,
                               {static_cast<const std::byte*>(call), octets},
                               {.stream = room.stream.octets(), .data = room.data.octets()});
    if (reply.stream_octets == 0) {
        rpcrdma_request_drop(request);
        return;
    }
    const rpcrdma_item item{
        .at = reply.data_at, .data = room.data.octets().data(), .octets = reply.data_octets};
    const rpcrdma_message message{.stream = room.stream.octets().data(),
                                  .stream_octets = reply.stream_octets,
                                  .items = &item,
                                  .item_count = reply.data_octets == 0 ? 0U : 1U};
    // A connection that has ended meanwhile needs no answer; others show in what the client waits for.
    static_cast<void>(rpcrdma_reply_to(request, &message, nullptr, nullptr));
}

std::string RdmaServer::statistics() const {
    rpcrdma_statistics counted{};
    counted.size = sizeof counted;
    if (server_ == nullptr || rpcrdma_server_statistics(server_, &counted) != 0) {
        return "no statistics";
    }
    return to_text(counted);
}

}  // namespace urnic::nfs
