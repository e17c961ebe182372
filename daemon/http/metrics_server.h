// The daemon's page of metrics: HTTP on a thread of its own, which serves texts that the control thread
// makes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "daemon/config/http_address.h"
#include "daemon/http/metrics_text.h"
#include "os/unique_fd.h"

struct MHD_Daemon;

namespace urnic::daemon {

/// Opens a listening socket. Returns 0 or errno.
[[nodiscard]] int listen_http(const HttpAddress& address, UniqueFd& socket);

/// Answers GET /metrics, and GET / with a page that shows it to people, and nothing else. On a loopback
/// address it answers no request for a name of somebody else's (host_header.h). It reads no object of the
/// daemon's: the text of each answer comes by publish(). Connections are few, those beyond wait in the
/// kernel's backlog; one that has not got its answer in time is cut.
class MetricsServer {
  public:
    static constexpr unsigned kMaxConnections = 64;
    static constexpr std::uint64_t kPatienceNs = 5'000'000'000;

    /// Starts the thread. Throws std::runtime_error.
    explicit MetricsServer(UniqueFd listener);
    ~MetricsServer();
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;

    /// Becomes readable when somebody waits for a text: the control thread then calls publish().
    [[nodiscard]] int wanted_fd() const { return wanted_.get(); }
    /// Whoever waits gets this text, in the format that its Accept header prefers (accept_header.h).
    void publish(std::shared_ptr<const MetricsText> text);

  private:
    struct Http;
    friend struct Http;

    UniqueFd wanted_;
    UniqueFd published_;
    UniqueFd stop_;
    std::atomic<std::shared_ptr<const MetricsText>> text_;
    std::unique_ptr<Http> http_;
    std::thread thread_;
};

}  // namespace urnic::daemon
