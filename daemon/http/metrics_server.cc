#include "daemon/http/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/http/accept_header.h"
#include "daemon/http/host_header.h"
#include "daemon/http/live_page_parts.h"
#include "daemon/http/qp_page_parts.h"
#include "daemon/http/qp_path.h"
#include "os/monotonic_clock.h"
#include "os/thread.h"

namespace urnic::daemon {

namespace {

constexpr int kBacklog = 128;
constexpr int kLookMs = 500;
constexpr std::size_t kConnectionBytes = 16384;  // for what a client sends
/// As Prometheus asks for it.
constexpr const char* kTextFormat = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kOpenMetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr const char* kWhatThereIs = "GET /, GET /metrics and GET /qp/RNIC/QPN are all there is\n";
constexpr const char* kNoTraces =
    "No QP is traced for this page: http_traces in [daemon] of urnicd's configuration is not set\n";
constexpr const char* kForeignPage = "Another site's page asks for the events of a QP\n";
constexpr const char* kBusy = "urnicd is busy: ask again\n";
constexpr const char* kForeignName =
    "This server of the loopback address is asked by address or as localhost, not by another name\n";

void ring(const UniqueFd& event) {
    constexpr std::uint64_t kOne = 1;
    (void)!::write(event.get(), &kOne, sizeof kOne);
}

void quiet(const UniqueFd& event) {
    std::uint64_t count = 0;
    (void)!::read(event.get(), &count, sizeof count);
}

/// A browser says which page asks (Fetch Metadata): what begins a trace is not for the pages of others.
bool is_foreign_page(MHD_Connection* connection) {
    const char* const site = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Sec-Fetch-Site");
    return site != nullptr && std::string_view(site) != "same-origin" && std::string_view(site) != "none";
}

bool is_loopback(const UniqueFd& listener) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        return true;
    }
    if (address.ss_family == AF_INET6) {
        return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
    }
    constexpr std::uint32_t kLoopbackByte = 127;
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24U == kLoopbackByte;
}

}  // namespace

int listen_http(const HttpAddress& address, UniqueFd& socket) {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    const bool is_v4 = ::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1;
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    if (!is_v4 && ::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) != 1) {
        return EINVAL;
    }
    UniqueFd made(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (!made || ::setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
        return errno;
    }
    const auto* const to =
        is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
    const socklen_t length = is_v4 ? sizeof v4 : sizeof v6;
    if (::bind(made.get(), to, length) != 0 || ::listen(made.get(), kBacklog) != 0) {
        return errno;
    }
    socket = std::move(made);
    return 0;
}

/// What the thread has; nobody else touches it once that runs.
struct MetricsServer::Http {
    struct Connection {
        MHD_Connection* connection = nullptr;
        TimeNs since = 0;  // when it began
    };
    /// Of one request.
    struct Asked {
        int waits = 0;
    };
    /// Answers of the control thread that may be to questions before this one.
    static constexpr int kMostWaits = 3;

    Http(MetricsServer& its_owner, std::size_t max_traces) : owner(its_owner), traces(max_traces) {}

    static MHD_Result answer(void* self, MHD_Connection* connection, const char* url, const char* method,
                             const char* version, const char* data, std::size_t* data_bytes, void** request);
    static void on_connection(void* self, MHD_Connection* connection, void** /*context*/,
                              MHD_ConnectionNotificationCode code);
    static void on_completed(void* self, MHD_Connection* connection, void** request,
                             MHD_RequestTerminationCode code);
    [[nodiscard]] static MHD_Result respond(MHD_Connection* connection, unsigned code, const char* type,
                                            std::shared_ptr<const std::string> text);
    [[nodiscard]] static MHD_Result respond(MHD_Connection* connection, unsigned code, const char* text) {
        return respond(connection, code, kTextFormat, std::make_shared<const std::string>(text));
    }
    [[nodiscard]] static MHD_Result respond_metrics(MHD_Connection* connection,
                                                    const std::shared_ptr<const MetricsText>& text);
    [[nodiscard]] static MHD_Result respond_page(MHD_Connection* connection, std::string_view page);
    [[nodiscard]] MHD_Result answer_metrics(MHD_Connection* connection, Asked& asked);
    [[nodiscard]] MHD_Result answer_qp(MHD_Connection* connection, const QpPath& path, Asked& asked);
    [[nodiscard]] MHD_Result answer_events(MHD_Connection* connection, const TracedQp& qp, Asked& asked);
    /// It is answered again when the control thread has published something.
    [[nodiscard]] MHD_Result wait(MHD_Connection* connection, Asked& asked);
    void want_traces();
    [[nodiscard]] static MHD_Result finish(MHD_Connection* connection, unsigned code, const char* type,
                                           MHD_Response* response);
    void resume_waiting();
    void forget_late_traces();
    void cut_late();
    void loop();

    MetricsServer& owner;
    MHD_Daemon* daemon = nullptr;
    UniqueFd listener;
    bool only_loopback = true;
    std::vector<Connection> connections;
    // One began or ended in the last run: a full table takes the listener out of the epoll set, and only a
    // run that begins with room puts it back.
    bool has_changed = false;
    std::vector<MHD_Connection*> waiting;  // for the control thread
    TimeNs waiting_since = 0;
    QpTraces traces;
};

MHD_Result MetricsServer::Http::respond(MHD_Connection* connection, unsigned code, const char* type,
                                        std::shared_ptr<const std::string> text) {
    // One text for all who read it, however slowly.
    auto* const kept = new (std::nothrow) std::shared_ptr<const std::string>(std::move(text));
    if (kept == nullptr) {
        return MHD_NO;
    }
    const auto release = [](void* shared) {
        delete static_cast<std::shared_ptr<const std::string>*>(shared);
    };
    MHD_Response* const response = MHD_create_response_from_buffer_with_free_callback_cls(
        (*kept)->size(), const_cast<char*>((*kept)->data()), release, kept);
    if (response == nullptr) {
        release(kept);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT);
    return finish(connection, code, type, response);
}

MHD_Result MetricsServer::Http::respond_metrics(MHD_Connection* connection,
                                                const std::shared_ptr<const MetricsText>& text) {
    const char* const accept =
        MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
    const bool is_openmetrics = accept != nullptr && is_openmetrics_preferred(accept);
    const std::string& chosen = is_openmetrics ? text->openmetrics : text->prometheus;
    return respond(connection, MHD_HTTP_OK, is_openmetrics ? kOpenMetrics : kTextFormat,
                   std::shared_ptr<const std::string>(text, &chosen));
}

/// It asks each second for what it shows.
MHD_Result MetricsServer::Http::respond_page(MHD_Connection* connection, std::string_view page) {
    MHD_Response* const response =
        MHD_create_response_from_buffer(page.size(), const_cast<char*>(page.data()), MHD_RESPMEM_PERSISTENT);
    if (response == nullptr) {
        return MHD_NO;
    }
    // Its own policy is in it, except for this, which must be a header.
    (void)MHD_add_response_header(response, "Content-Security-Policy", "frame-ancestors 'none'");
    return finish(connection, MHD_HTTP_OK, kHtml, response);
}

MHD_Result MetricsServer::Http::finish(MHD_Connection* connection, unsigned code, const char* type,
                                       MHD_Response* response) {
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    // Whoever asks again waits for a place like everybody else.
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    const MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

MHD_Result MetricsServer::Http::answer(void* self, MHD_Connection* connection, const char* url,
                                       const char* method, const char* /*version*/, const char* /*data*/,
                                       std::size_t* data_bytes, void** request) {
    auto& http = *static_cast<Http*>(self);
    if (*request == nullptr) {
        *request = new (std::nothrow) Asked;
        return *request != nullptr ? MHD_YES : MHD_NO;
    }
    *data_bytes = 0;  // a body is not looked at
    if (std::string_view(method) != MHD_HTTP_METHOD_GET && std::string_view(method) != MHD_HTTP_METHOD_HEAD) {
        return respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, kWhatThereIs);
    }
    const char* const host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    if (http.only_loopback && host != nullptr && !is_numeric_or_localhost(host)) {
        return respond(connection, MHD_HTTP_MISDIRECTED_REQUEST, kForeignName);
    }
    auto& asked = *static_cast<Asked*>(*request);
    if (std::string_view(url) == "/") {
        return respond_page(connection, kPage);
    }
    if (std::string_view(url) == "/metrics") {
        return http.answer_metrics(connection, asked);
    }
    if (const std::optional<QpPath> path = parse_qp_path(url)) {
        return http.answer_qp(connection, *path, asked);
    }
    return respond(connection, MHD_HTTP_NOT_FOUND, kWhatThereIs);
}

MHD_Result MetricsServer::Http::wait(MHD_Connection* connection, Asked& asked) {
    ++asked.waits;
    if (waiting.empty()) {
        waiting_since = clock_now();
    }
    waiting.push_back(connection);
    MHD_suspend_connection(connection);
    ring(owner.wanted_);
    return MHD_YES;
}

MHD_Result MetricsServer::Http::answer_metrics(MHD_Connection* connection, Asked& asked) {
    if (asked.waits == 0) {
        return wait(connection, asked);
    }
    const std::shared_ptr<const MetricsText> text = owner.text_.load();
    return text == nullptr ? respond(connection, MHD_HTTP_SERVICE_UNAVAILABLE, kBusy)
                           : respond_metrics(connection, text);
}

MHD_Result MetricsServer::Http::answer_qp(MHD_Connection* connection, const QpPath& path, Asked& asked) {
    if (traces.most() == 0) {
        return respond(connection, MHD_HTTP_NOT_FOUND, kNoTraces);
    }
    if (!path.is_events) {
        return respond_page(connection, qp_page::kPage);
    }
    if (is_foreign_page(connection)) {
        return respond(connection, MHD_HTTP_FORBIDDEN, kForeignPage);
    }
    try {
        return answer_events(connection, path.qp, asked);
    } catch (const std::bad_alloc&) {
        return respond(connection, MHD_HTTP_SERVICE_UNAVAILABLE, kBusy);
    }
}

MHD_Result MetricsServer::Http::answer_events(MHD_Connection* connection, const TracedQp& qp, Asked& asked) {
    const auto refuse = [&](unsigned code, const std::string& why) {
        return respond(connection, code, kPlainText, std::make_shared<const std::string>(why + "\n"));
    };
    const TimeNs now = clock_now();
    if (asked.waits == 0) {
        if (!traces.ask(qp, now)) {
            return refuse(MHD_HTTP_SERVICE_UNAVAILABLE,
                          fmt::format("{} QPs are looked at, and http_traces allows no more: close the page "
                                      "of another",
                                      traces.most()));
        }
        want_traces();
        return wait(connection, asked);
    }
    const std::shared_ptr<const RunningTraces> running = owner.running_traces_.load();
    const QpTraces::Answer made = running != nullptr ? traces.answer(qp, *running, now) : QpTraces::Answer{};
    if (made.text != nullptr) {
        return respond(connection, MHD_HTTP_OK, kJson, made.text);
    }
    if (!made.problem.empty()) {
        want_traces();
        return refuse(MHD_HTTP_NOT_FOUND, made.problem);
    }
    // It was asked for while the control thread answered others.
    return asked.waits < kMostWaits ? wait(connection, asked)
                                    : respond(connection, MHD_HTTP_SERVICE_UNAVAILABLE, kBusy);
}

void MetricsServer::Http::want_traces() {
    owner.wanted_traces_.store(std::make_shared<const WantedTraces>(traces.wanted()));
}

void MetricsServer::Http::forget_late_traces() {
    if (!traces.forget_late(clock_now())) {
        return;
    }
    try {
        want_traces();
    } catch (const std::bad_alloc&) {
        return;  // the next list of them says so, too
    }
    ring(owner.wanted_);
}

void MetricsServer::Http::on_connection(void* self, MHD_Connection* connection, void** /*context*/,
                                        MHD_ConnectionNotificationCode code) {
    auto& http = *static_cast<Http*>(self);
    http.has_changed = true;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        http.connections.push_back({connection, clock_now()});
    } else {
        std::erase_if(http.connections, [=](const Connection& one) { return one.connection == connection; });
        std::erase(http.waiting, connection);
    }
}

void MetricsServer::Http::on_completed(void* /*self*/, MHD_Connection* /*connection*/, void** request,
                                       MHD_RequestTerminationCode /*code*/) {
    delete static_cast<Asked*>(*request);
    *request = nullptr;
}

void MetricsServer::Http::resume_waiting() {
    for (MHD_Connection* const connection : std::exchange(waiting, {})) {
        MHD_resume_connection(connection);
    }
}

/// Also those that send or take a byte now and then.
void MetricsServer::Http::cut_late() {
    const TimeNs now = clock_now();
    for (const Connection& one : connections) {
        if (now - one.since > kPatienceNs) {
            const MHD_ConnectionInfo* const info =
                MHD_get_connection_info(one.connection, MHD_CONNECTION_INFO_CONNECTION_FD);
            if (info != nullptr) {
                (void)::shutdown(info->connect_fd, SHUT_RDWR);
            }
        }
    }
}

void MetricsServer::Http::loop() {
    const MHD_DaemonInfo* const info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    std::array<pollfd, 3> ready{
        {{info->epoll_fd, POLLIN, 0}, {owner.published_.get(), POLLIN, 0}, {owner.stop_.get(), POLLIN, 0}}};
    while (true) {
        MHD_UNSIGNED_LONG_LONG timeout_ms = kLookMs;
        if (MHD_get_timeout(daemon, &timeout_ms) != MHD_YES) {
            timeout_ms = kLookMs;
        }
        // Without a connection and a trace there is nothing to look at.
        const bool is_idle = connections.empty() && waiting.empty() && traces.is_empty();
        const auto look_ms = static_cast<int>(std::min<MHD_UNSIGNED_LONG_LONG>(timeout_ms, kLookMs));
        const int idle_ms = has_changed ? 0 : -1;
        (void)::poll(ready.data(), ready.size(), is_idle ? idle_ms : look_ms);
        if (ready[2].revents != 0) {
            break;
        }
        if (ready[1].revents != 0) {
            quiet(owner.published_);
            resume_waiting();
        } else if (!waiting.empty() && clock_now() - waiting_since > kPatienceNs / 4) {
            resume_waiting();  // the control thread is busy: the last text will do
        }
        has_changed = false;
        (void)MHD_run(daemon);
        cut_late();
        forget_late_traces();
    }
    resume_waiting();
    (void)MHD_run(daemon);
}

MetricsServer::MetricsServer(UniqueFd listener, std::size_t max_traces)
    : wanted_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      published_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      http_(std::make_unique<Http>(*this, max_traces)) {
    http_->connections.reserve(kMaxConnections);
    http_->listener = std::move(listener);
    http_->only_loopback = is_loopback(http_->listener);
    if (wanted_ && published_ && stop_) {
        http_->daemon =
            MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, nullptr, nullptr, Http::answer,
                             http_.get(), MHD_OPTION_LISTEN_SOCKET, http_->listener.get(),
                             MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                             kConnectionBytes, MHD_OPTION_NOTIFY_CONNECTION, Http::on_connection, http_.get(),
                             MHD_OPTION_NOTIFY_COMPLETED, Http::on_completed, http_.get(), MHD_OPTION_END);
    }
    if (http_->daemon == nullptr) {
        throw std::runtime_error("HTTP cannot be served: " + std::string(std::strerror(errno)));
    }
    thread_ = start_thread([this] { http_->loop(); });
    (void)pthread_setname_np(thread_.native_handle(), "urnic-http");
}

MetricsServer::~MetricsServer() {
    ring(stop_);
    thread_.join();
    MHD_stop_daemon(http_->daemon);
}

std::shared_ptr<const WantedTraces> MetricsServer::take_wanted() {
    quiet(wanted_);
    std::shared_ptr<const WantedTraces> wanted = wanted_traces_.load();
    return wanted != nullptr ? wanted : std::make_shared<const WantedTraces>();
}

void MetricsServer::publish(std::shared_ptr<const MetricsText> text,
                            std::shared_ptr<const RunningTraces> traces) {
    text_.store(std::move(text));
    running_traces_.store(std::move(traces));
    ring(published_);
}

}  // namespace urnic::daemon
