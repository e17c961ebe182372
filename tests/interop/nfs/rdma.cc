#include "tests/interop/nfs/rdma.h"

#include <arpa/inet.h>

#include <cstring>
#include <new>
#include <stdexcept>

namespace urnic::nfs {

sockaddr_storage ipv4_address(const std::string& address, std::uint16_t port) {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    if (inet_pton(AF_INET, address.c_str(), &name.sin_addr) != 1) {
        throw std::invalid_argument("no IPv4 address: " + address);
    }
    sockaddr_storage storage{};
    std::memcpy(&storage, &name, sizeof name);
    return storage;
}

void throw_rdma_error(const std::string& what, int error) {
    throw std::runtime_error(what + ": " + std::strerror(error) + ": " + rpcrdma_last_error());
}

std::string to_text(const rpcrdma_statistics& counted) {
    std::string text = "version=" + std::to_string(counted.version);
    const auto add = [&text](const char* name, std::uint64_t value) {
        if (value != 0) {
            text += std::string(" ") + name + "=" + std::to_string(value);
        }
    };
    add("connects", counted.connects);
    add("credits", counted.credits);
    add("calls_sent", counted.calls_sent);
    add("replies_received", counted.replies_received);
    add("calls_received", counted.calls_received);
    add("replies_sent", counted.replies_sent);
    add("calls_resent", counted.calls_resent);
    add("errors_received", counted.errors_received);
    add("errors_sent", counted.errors_sent);
    add("unknown_xids", counted.unknown_xids);
    add("bad_messages", counted.bad_messages);
    add("bad_replies", counted.bad_replies);
    add("timeouts", counted.timeouts);
    add("remote_invalidations", counted.remote_invalidations);
    add("local_invalidations", counted.local_invalidations);
    add("read_chunk_octets", counted.read_chunk_octets);
    add("write_chunk_octets", counted.write_chunk_octets);
    add("dropped_messages", counted.dropped_messages);
    return text;
}

RegisteredMemory::RegisteredMemory(std::size_t octets) {
    auto* const memory = static_cast<std::byte*>(rpcrdma_alloc(octets));
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    memory_ = {memory, octets};
}

}  // namespace urnic::nfs
