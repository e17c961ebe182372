/// A server: a thread that takes connections, and workers that have them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "ulp/rpcrdma/verbs/options.h"
#include "ulp/rpcrdma/verbs/transport.h"

namespace urnic::rpcrdma {

class Server;

class ServerConnection final : public Transport {
  public:
    ServerConnection(std::shared_ptr<Worker> worker, Server& server, std::uint64_t key,
                     std::unique_ptr<Endpoint> endpoint, const std::optional<PrivateData>& peer);
    [[nodiscard]] bool recover() override;

  protected:
    [[nodiscard]] Config config() const override;
    void execute(const IncomingCall& call) override;

  private:
    /// Used until recover(): the server waits for that.
    Server& server_;
    const std::uint64_t key_;
    const rpcrdma_options options_;
    const rpcrdma_handler handler_;
    void* const context_;
    const std::optional<PrivateData> peer_;
    sockaddr_storage address_{};
};

class Server {
  public:
    /// An errno value, with the text of last_error().
    [[nodiscard]] static int listen(const sockaddr_storage& address, const rpcrdma_options& options,
                                    std::uint32_t threads, rpcrdma_handler handler, void* context,
                                    std::unique_ptr<Server>& out);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    void address(sockaddr_storage& to) const;
    void statistics(rpcrdma_statistics& to) const;
    [[nodiscard]] const rpcrdma_options& options() const { return options_; }
    [[nodiscard]] rpcrdma_handler handler() const { return handler_; }
    [[nodiscard]] void* context() const { return context_; }
    /// A connection is over.
    void remove(std::uint64_t key);

  private:
    Server(const rpcrdma_options& options, rpcrdma_handler handler, void* context)
        : options_(options), handler_(handler), context_(context) {}
    [[nodiscard]] int bind(const sockaddr_storage& address);
    [[nodiscard]] int start(std::uint32_t threads);
    void run();
    void on_event(std::uint64_t key, const rdma_cm_event& event, const std::optional<PrivateData>& peer);
    void on_request(rdma_cm_id* id, const rdma_conn_param& param, const std::optional<PrivateData>& peer);
    [[nodiscard]] std::shared_ptr<Worker> least_loaded() const;

    const rpcrdma_options options_;
    const rpcrdma_handler handler_;
    void* const context_;
    CmId listener_;
    int wake_ = -1;
    std::vector<std::shared_ptr<Worker>> workers_;
    std::thread acceptor_;
    mutable std::mutex mutex_;
    bool is_stopping_ = false;
    std::uint64_t next_key_ = 1;
    std::unordered_map<std::uint64_t, std::shared_ptr<ServerConnection>> connections_;
    std::condition_variable removed_;
    rpcrdma_statistics ended_{};
    std::uint32_t accepted_ = 0;
};

}  // namespace urnic::rpcrdma
