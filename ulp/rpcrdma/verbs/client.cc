#include "ulp/rpcrdma/verbs/client.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ulp/rpcrdma/verbs/request.h"
#include "ulp/rpcrdma/verbs/worker.h"

namespace urnic::rpcrdma {
namespace {

constexpr std::int64_t kFirstBackOffMs = 50;
constexpr std::int64_t kMostBackOffMs = 2000;
constexpr int kBackOffSliceMs = 10;

}  // namespace

int Client::connect(const sockaddr_storage& server, const rpcrdma_options& options,
                    std::shared_ptr<Client>& out) {
    Connected connected;
    const int error = connect_to(
        server, options, [] { return true; }, connected);
    if (error != 0) return error;
    std::shared_ptr<Worker> worker = Worker::start();
    if (worker == nullptr) return errno;
    out = std::make_shared<Client>(worker, server, options);
    {
        const std::lock_guard lock(out->mutex_);
        out->use(std::move(connected));
    }
    worker->add(out);
    return 0;
}

Client::Client(std::shared_ptr<Worker> worker, const sockaddr_storage& server, const rpcrdma_options& options)
    : Transport(std::move(worker), options.spin_us, false),
      server_(server),
      options_(options),
      versions_(options.versions) {}

void Client::use(Connected&& connected) {
    peer_ = connected.peer;
    attach(std::move(connected.endpoint));
}

Config Client::config() const {
    rpcrdma_options options = options_;
    options.versions = versions_;
    Config config = config_of(options, Role::kClient, endpoint()->device(), peer_);
    config.backward = handler_.function == nullptr ? BackwardSupport::kNone : BackwardSupport::kGeneral;
    return config;
}

void Client::set_handler(const Handler& handler) {
    const std::lock_guard lock(mutex_);
    handler_ = handler;
}

void Client::execute(const IncomingCall& call) {
    Handler handler;
    {
        const std::lock_guard lock(mutex_);
        handler = handler_;
    }
    deliver_request(shared_from_this(), call, {}, handler.function, handler.context);
}

void Client::enter() {
    const std::lock_guard lock(mutex_);
    ++users_;
}

void Client::leave() {
    const std::lock_guard lock(mutex_);
    --users_;
    if (is_closing_) left_.notify_all();
}

void Client::close() {
    {
        Lock lock(mutex_);
        is_closing_ = true;
        fail_kept(ECANCELED);
        if (has_connection()) endpoint()->disconnect();
        ask_for_worker();
        unlock(lock);
    }
    {
        Lock lock(mutex_);
        left_.wait(lock, [this] { return users_ == 0 && is_over_; });
    }
    worker_->stop();
}

// --- lost connections

bool Client::keep(PendingCall& call, bool was_sent) {
    if (is_closing_) {
        call.error = ECANCELED;
        return false;
    }
    // What was not sent is not lost.
    if (was_sent && options_.lost_calls == RPCRDMA_LOST_FAIL) return false;
    kept_.push_back(&call);
    ask_for_worker();
    return true;
}

void Client::expire_kept(std::int64_t now_ns) {
    const auto late = std::stable_partition(kept_.begin(), kept_.end(), [now_ns](const PendingCall* call) {
        return call->request.deadline_ns == 0 || call->request.deadline_ns > now_ns;
    });
    const std::deque<PendingCall*> ended(late, kept_.end());
    kept_.erase(late, kept_.end());
    for (PendingCall* const call : ended) {
        call->error = ETIMEDOUT;
        finish(*call);
    }
}

void Client::fail_kept(int error) {
    for (PendingCall* const call : std::exchange(kept_, {})) {
        call->error = error;
        finish(*call);
    }
}

void Client::on_ended(const Connection& ended) {
    // A server that knows version 1 alone may have answered the first message by ending the connection
    // (draft, section 8).
    const bool is_unanswered = ended.version() == 0 && ended.counters().calls_sent != 0;
    if ((is_unanswered || ended.version() == kVersion1) && (options_.versions & 1U << kVersion1) != 0) {
        versions_ = 1U << kVersion1;
    }
}

bool Client::can_continue() {
    run_timer();  // of kept calls
    deliver();
    const std::lock_guard lock(mutex_);
    return !is_closing_ && !kept_.empty();
}

bool Client::back_off(std::uint32_t attempt) {
    if (attempt == 1) return can_continue();
    const std::int64_t pause_ms = std::min(kMostBackOffMs, kFirstBackOffMs << std::min(attempt - 2, 16U));
    const std::int64_t until = now_ns() + pause_ms * 1'000'000;
    while (can_continue()) {
        if (now_ns() >= until) return true;
        (void)::poll(nullptr, 0, kBackOffSliceMs);
    }
    return false;
}

bool Client::recover() {
    const std::uint32_t attempts =
        options_.lost_calls == RPCRDMA_LOST_FAIL ? 1 : std::max(options_.reconnect_attempts, 1U);
    for (std::uint32_t attempt = 1; attempt <= attempts && back_off(attempt); ++attempt) {
        Connected connected;
        if (connect_to(
                server_, options_, [this] { return can_continue(); }, connected) != 0)
            continue;
        // The former one goes only now: librdmacm closes a device without ids.
        Lock lock(mutex_);
        std::unique_ptr<Endpoint> former = detach();
        use(std::move(connected));
        for (PendingCall* const call : std::exchange(kept_, {})) {
            start(*call);
        }
        settle();
        unlock(lock);
        return true;
    }
    Lock lock(mutex_);
    fail_kept(is_closing_ ? ECANCELED : ECONNRESET);
    const bool is_closing = is_closing_;
    std::unique_ptr<Endpoint> former = is_closing ? detach() : nullptr;
    unlock(lock);
    deliver();
    if (!is_closing) return true;
    former.reset();
    lock.lock();
    is_over_ = true;
    left_.notify_all();
    return false;
}

void Client::on_cm_events() {
    if (endpoint() == nullptr) return;
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(endpoint()->event_channel(), &event) == 0) {
        const bool is_end = event->event == RDMA_CM_EVENT_DISCONNECTED ||
                            event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
                            event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT;
        (void)rdma_ack_cm_event(event);
        if (is_end) disconnect();
    }
}

}  // namespace urnic::rpcrdma
