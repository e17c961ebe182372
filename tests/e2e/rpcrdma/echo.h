// An echo service on the C interface of RPC-over-RDMA, and its client.
#pragma once

#include <netinet/in.h>
#include <urnic/rpcrdma.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace urnic::e2e {

/// urnic0's, or RPCRDMA_CHECK_ADDRESS of the environment: of another RNIC.
[[nodiscard]] inline const char* server_host() {
    const char* const other = std::getenv("RPCRDMA_CHECK_ADDRESS");
    return other != nullptr ? other : "198.18.0.1";
}

using Octets = std::vector<std::uint8_t>;

/// Octets that differ from place to place and from seed to seed.
[[nodiscard]] Octets octets_of(std::size_t count, std::uint32_t seed);
[[nodiscard]] sockaddr_in server_address(std::uint16_t port = 0);
[[nodiscard]] rpcrdma_options default_options();

/// RPC header of a Call (RFC 5531), of the echo program; procedures are the program's own.
enum class Procedure : std::uint32_t {
    kNull = 0,
    kEcho = 1,      ///< opaque<>: the result is the argument
    kHold = 2,      ///< answered when the server is told to
    kCallBack = 3,  ///< the server calls the client with the argument, and answers with what came back
};

struct EchoOptions {
    Procedure procedure = Procedure::kEcho;
    bool has_item = true;    ///< the argument is an item
    bool has_result = true;  ///< memory is given for the result
    bool is_pooled = true;   ///< argument and result lie in memory of rpcrdma_alloc()
    std::uint32_t timeout_ms = 60'000;
    std::uint64_t max_reply_octets = 0;  ///< 0: what the argument needs
};

struct Echoed {
    int error = 0;
    std::string text;
    Octets octets;
    bool was_in_stream = false;
    std::uint32_t error_code = 0;
};

/// A Call of the echo program as it is given to the library, with the memory that it names.
class EchoCall {
  public:
    EchoCall(std::uint32_t xid, const Octets& argument, const EchoOptions& options);
    ~EchoCall();
    EchoCall(const EchoCall&) = delete;
    EchoCall& operator=(const EchoCall&) = delete;
    [[nodiscard]] const struct rpcrdma_call& call() const { return call_; }
    /// What came back; releases the reply.
    [[nodiscard]] Echoed take(int error, rpcrdma_reply& reply) const;

  private:
    [[nodiscard]] std::uint8_t* memory(std::size_t octets);

    const EchoOptions options_;
    Octets stream_;
    rpcrdma_item item_{};
    iovec result_{};
    struct rpcrdma_call call_ {};
    std::vector<void*> pooled_;
    std::vector<std::unique_ptr<Octets>> plain_;
};

[[nodiscard]] std::uint32_t next_xid();
/// One call, waited for.
[[nodiscard]] Echoed echo(rpcrdma_client* client, const Octets& argument, const EchoOptions& options = {});
/// The same of a server to its client.
[[nodiscard]] Echoed echo_back(rpcrdma_connection* connection, const Octets& argument,
                               const EchoOptions& options = {});

/// Answers a request of the echo program.
void answer(rpcrdma_request* request);

class EchoServer {
  public:
    explicit EchoServer(const rpcrdma_options& options = default_options(), std::uint32_t threads = 2,
                        std::uint16_t port = 0);
    ~EchoServer();
    EchoServer(const EchoServer&) = delete;
    EchoServer& operator=(const EchoServer&) = delete;

    [[nodiscard]] bool is_there() const { return server_ != nullptr; }
    [[nodiscard]] sockaddr_in address() const { return address_; }
    [[nodiscard]] rpcrdma_statistics statistics() const;
    void stop();
    /// Answers what kHold keeps.
    void answer_held();
    [[nodiscard]] std::size_t held() const;

  private:
    static void handle(void* context, rpcrdma_request* request);

    struct Held;
    std::unique_ptr<Held> held_;
    rpcrdma_server* server_ = nullptr;
    sockaddr_in address_{};
};

/// A client that disconnects at its end.
class EchoClient {
  public:
    explicit EchoClient(const sockaddr_in& address, const rpcrdma_options& options = default_options());
    ~EchoClient();
    EchoClient(const EchoClient&) = delete;
    EchoClient& operator=(const EchoClient&) = delete;
    [[nodiscard]] rpcrdma_client* get() const { return client_; }
    [[nodiscard]] int error() const { return error_; }
    [[nodiscard]] rpcrdma_statistics statistics() const;
    [[nodiscard]] Echoed echo(const Octets& argument, const EchoOptions& options = {}) const {
        return e2e::echo(client_, argument, options);
    }
    void disconnect();

  private:
    rpcrdma_client* client_ = nullptr;
    int error_ = 0;
};

}  // namespace urnic::e2e
