// What the NFS programs share of the library's C interface.
#pragma once

#include <sys/socket.h>
#include <urnic/rpcrdma.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace urnic::nfs {

// Throws std::invalid_argument.
sockaddr_storage ipv4_address(const std::string& address, std::uint16_t port);
[[noreturn]] void throw_rdma_error(const std::string& what, int error);
// "name=value ..." of what is not 0.
std::string to_text(const rpcrdma_statistics& counted);

// Memory that stays registered. Throws std::bad_alloc.
class RegisteredMemory {
  public:
    explicit RegisteredMemory(std::size_t octets);
    RegisteredMemory(const RegisteredMemory&) = delete;
    RegisteredMemory& operator=(const RegisteredMemory&) = delete;
    ~RegisteredMemory() { rpcrdma_free(memory_.data()); }
    [[nodiscard]] std::span<std::byte> octets() const { return memory_; }

  private:
    std::span<std::byte> memory_;
};

}  // namespace urnic::nfs
