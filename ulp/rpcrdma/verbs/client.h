/// A client: a connection that is made again when it is lost and calls want it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "ulp/rpcrdma/verbs/connect.h"
#include "ulp/rpcrdma/verbs/transport.h"

namespace urnic::rpcrdma {

/// Who takes the Calls that arrive.
struct Handler {
    rpcrdma_handler function = nullptr;
    void* context = nullptr;
};

class Client final : public Transport {
  public:
    /// An errno value, with the text of last_error().
    [[nodiscard]] static int connect(const sockaddr_storage& server, const rpcrdma_options& options,
                                     std::shared_ptr<Client>& out);
    Client(std::shared_ptr<Worker> worker, const sockaddr_storage& server, const rpcrdma_options& options);

    /// Those who call or submit are counted, so that close() can wait for them.
    void enter();
    void leave();
    /// Ends all calls with ECANCELED, waits for their threads, and ends the worker.
    void close();
    void set_handler(const Handler& handler);

    [[nodiscard]] bool recover() override;
    void on_cm_events() override;

  protected:
    [[nodiscard]] Config config() const override;
    [[nodiscard]] bool keep(PendingCall& call, bool was_sent) override;
    void expire_kept(std::int64_t now_ns) override;
    void on_ended(const Connection& ended) override;
    void execute(const IncomingCall& call) override;

  private:
    void use(Connected&& connected);
    /// Waits before attempt number `attempt` (from 1); false: the client is closed.
    [[nodiscard]] bool back_off(std::uint32_t attempt);
    /// Asked while a connection is made.
    [[nodiscard]] bool can_continue();
    void fail_kept(int error);

    const sockaddr_storage server_;
    const rpcrdma_options options_;
    std::optional<PrivateData> peer_;
    Handler handler_;
    std::uint32_t versions_;  ///< of the next connection
    std::deque<PendingCall*> kept_;
    bool is_closing_ = false;
    bool is_over_ = false;
    std::uint32_t users_ = 0;
    std::condition_variable left_;
};

}  // namespace urnic::rpcrdma
