// How the client's calls go to a server: RPC-over-RDMA or TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tests/interop/nfs/rdma.h"
#include "tests/interop/nfs/tcp.h"

namespace urnic::nfs {

struct CallParts {
    std::span<const std::byte> stream;
    std::span<const std::byte> data;      // behind the stream, whose last word is its length; DDP-eligible
    std::span<std::byte> result;          // for data of the reply that is DDP-eligible
    std::size_t max_reply_octets = 1024;  // without it
};

// A reply, as long as it lives.
struct Received {
    std::span<const std::byte> stream;
    std::size_t result_octets = 0;  // in `result`; 0: in the stream
    std::shared_ptr<void> held;
};

// Calls may be made by several threads at once.
class Transport {
  public:
    Transport() = default;
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;
    virtual ~Transport() = default;
    // Throws std::runtime_error without a reply.
    virtual Received call(const CallParts& parts) = 0;
    // "name=value ...", if it counts.
    [[nodiscard]] virtual std::string statistics() const { return ""; }
};

class TcpTransport : public Transport {
  public:
    TcpTransport(const std::string& address, std::uint16_t port) : socket_(Socket::connect(address, port)) {}
    Received call(const CallParts& parts) override;

  private:
    std::mutex mutex_;
    const Socket socket_;
};

class RdmaTransport : public Transport {
  public:
    // `versions`: of RPC-over-RDMA, bit N for version N. Throws std::runtime_error.
    RdmaTransport(const std::string& address, std::uint16_t port, std::uint32_t versions);
    ~RdmaTransport() override { rpcrdma_disconnect(client_); }
    RdmaTransport(const RdmaTransport&) = delete;
    RdmaTransport& operator=(const RdmaTransport&) = delete;
    Received call(const CallParts& parts) override;
    [[nodiscard]] std::string statistics() const override;
    [[nodiscard]] rpcrdma_statistics counted() const;

  private:
    rpcrdma_client* client_ = nullptr;
};

}  // namespace urnic::nfs
