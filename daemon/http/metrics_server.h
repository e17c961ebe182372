// The daemon's pages: HTTP on a thread of its own, which serves texts that the control thread makes, and what
// workers write of the QPs that somebody looks at.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "daemon/config/http_address.h"
#include "daemon/http/metrics_text.h"
#include "daemon/http/qp_traces.h"
#include "daemon/http/running_trace.h"
#include "os/unique_fd.h"

struct MHD_Daemon;

namespace urnic::daemon {

/// Opens a listening socket. Returns 0 or errno.
[[nodiscard]] int listen_http(const HttpAddress& address, UniqueFd& socket);

/// Answers GET /metrics, GET / with a page that shows it to people, and GET /qp/RNIC/QPN with a page of one
/// QP, which asks for /qp/RNIC/QPN/events; nothing else. On a loopback address it answers no request for a
/// name of somebody else's (host_header.h). It reads no object of the daemon's: what it answers with comes by
/// publish(). Connections are few, those beyond wait in the kernel's backlog; one that has not got its answer
/// in time is cut.
class MetricsServer {
  public:
    static constexpr unsigned kMaxConnections = 64;
    static constexpr std::uint64_t kPatienceNs = 5'000'000'000;

    /// Starts the thread. `max_traces`: QPs that are looked at, at once. Throws std::runtime_error.
    MetricsServer(UniqueFd listener, std::size_t max_traces);
    ~MetricsServer();
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;

    /// Becomes readable when somebody waits for an answer, or a QP is looked at no more: the control thread
    /// then calls take_wanted() and publish().
    [[nodiscard]] int wanted_fd() const { return wanted_.get(); }
    /// The QPs that are looked at.
    [[nodiscard]] std::shared_ptr<const WantedTraces> take_wanted();
    /// Whoever waits for a text gets this one, in the format that its Accept header prefers
    /// (accept_header.h).
    void publish(std::shared_ptr<const MetricsText> text, std::shared_ptr<const RunningTraces> traces);

  private:
    struct Http;
    friend struct Http;

    UniqueFd wanted_;
    UniqueFd published_;
    UniqueFd stop_;
    std::atomic<std::shared_ptr<const MetricsText>> text_;
    std::atomic<std::shared_ptr<const WantedTraces>> wanted_traces_;
    std::atomic<std::shared_ptr<const RunningTraces>> running_traces_;
    std::unique_ptr<Http> http_;
    std::thread thread_;
};

}  // namespace urnic::daemon
