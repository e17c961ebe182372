#include "ulp/rpcrdma/verbs/transport.h"

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "ulp/rpcrdma/verbs/error.h"
#include "ulp/rpcrdma/verbs/pool.h"
#include "ulp/rpcrdma/verbs/worker.h"

namespace urnic::rpcrdma {
namespace {

/// On one processor the peer cannot answer while we spin.
std::int64_t spin_time_ns(int spin_us) {
    constexpr std::int64_t kDefaultSpinNs = 20'000;
    if (spin_us >= 0) return std::int64_t{spin_us} * 1000;
    return std::thread::hardware_concurrency() > 2 ? kDefaultSpinNs : 0;
}

int error_of_reply(ReplyStatus status) {
    switch (status) {
        case ReplyStatus::kSent:
            return 0;
        case ReplyStatus::kNoRoom:
            return fail(EMSGSIZE, "the client gave too little room for the Reply, and was told so");
        case ReplyStatus::kRefused:
            return fail(EINVAL, "the Reply is not valid, or larger than options.max_message_octets");
        case ReplyStatus::kUnknown:
            break;
    }
    return fail(ECONNRESET, "the client's connection has ended");
}

}  // namespace

Transport::Transport(std::shared_ptr<Worker> worker, int spin_us, bool is_eager)
    : worker_(std::move(worker)), spin_ns_(spin_time_ns(spin_us)), is_eager_(is_eager) {}

Transport::~Transport() = default;

void Transport::attach(std::unique_ptr<Endpoint> endpoint) {
    if (connection_ != nullptr) add_counters(connection_->counters(), ended_);
    connection_.reset();
    endpoint_ = std::move(endpoint);
    is_failed_ = false;
    ++connects_;
}

std::unique_ptr<Endpoint> Transport::detach() { return std::move(endpoint_); }

Connection& Transport::connection() {
    if (connection_ == nullptr) connection_ = std::make_unique<Connection>(config(), *endpoint_);
    return *connection_;
}

void Transport::start(PendingCall& call) {
    if (!has_connection()) {
        if (!keep(call, false)) finish(call);
        return;
    }
    connection().call(call.request, now_ns());
}

void Transport::call(PendingCall& call) {
    Lock lock(mutex_);
    started_.fetch_add(1, std::memory_order_relaxed);
    start(call);
    settle();
    const bool is_poller = call.state.load() != Waiter::kDone && !has_poller_ && has_connection();
    has_poller_ = has_poller_ || is_poller;
    unlock(lock);
    wait(call, is_poller);
}

void Transport::submit(PendingCall& call) {
    const std::int64_t deadline_ns = call.deadline_ns;
    Lock lock(mutex_);
    started_.fetch_add(1, std::memory_order_relaxed);
    submitted_.fetch_add(1);
    start(call);
    settle();
    if (!has_poller_ && !is_watched_) must_notify_ = true;
    unlock(lock);
    if (deadline_ns != 0) worker_->wake_before(deadline_ns);
}

int Transport::reply(const IncomingCall& call, const RpcMessage& message, rpcrdma_sent sent, void* context) {
    std::byte* const block = call.call.octets.data();
    Lock lock(mutex_);
    if (!has_connection()) {
        unlock(lock);
        Pool::instance().free(block);
        if (sent != nullptr) sent(context);
        return fail(ECONNRESET, "the client's connection has ended");
    }
    Waiter waiter;
    replies_.push_back({call.id, sent, context, sent == nullptr ? &waiter : nullptr, block});
    endpoint_->forget_held_memory();
    const ReplyStatus status = connection().reply(call.id, message);
    settle();
    bool must_wait = sent == nullptr && waiter.state.load() != Waiter::kDone;
    if (must_wait && !endpoint_->has_held_memory()) {
        // All of it was copied.
        end_reply(call.id);
        must_wait = false;
    }
    const bool is_poller = must_wait && !has_poller_ && has_connection();
    has_poller_ = has_poller_ || is_poller;
    unlock(lock);
    if (must_wait) wait(waiter, is_poller);
    return error_of_reply(status);
}

void Transport::drop(std::uint32_t call) {
    Lock lock(mutex_);
    if (has_connection()) connection().drop(call);
    settle();
    unlock(lock);
}

bool Transport::request_receive_size(std::uint32_t octets) {
    Lock lock(mutex_);
    const bool is_asked = has_connection() && connection().request_receive_size(octets);
    settle();
    unlock(lock);
    return is_asked;
}

bool Transport::grow_receives(std::uint32_t octets) {
    Lock lock(mutex_);
    const bool is_growing = has_connection() && connection().grow_receives(octets);
    settle();
    unlock(lock);
    return is_growing;
}

void Transport::disconnect() {
    Lock lock(mutex_);
    if (has_connection()) endpoint_->disconnect();
    unlock(lock);
}

void Transport::hold() {
    const std::lock_guard lock(mutex_);
    if (holds_++ == 0) held_ = shared_from_this();
}

void Transport::release() {
    std::shared_ptr<Transport> last;
    const std::lock_guard lock(mutex_);
    if (holds_ != 0 && --holds_ == 0) last = std::move(held_);
}

// --- what the engine told

void Transport::settle() {
    if (endpoint_ == nullptr) return;
    endpoint_->flush(connection_.get());
    collect();
    timer_ns_.store(has_connection() && connection_ != nullptr ? connection_->next_timer_ns() : 0);
}

void Transport::collect() {
    Upcalls& upcalls = endpoint_->upcalls();
    for (PendingCall* const call : upcalls.completed) {
        const bool is_lost = call->completion.status == CallStatus::kDisconnected;
        if (!is_lost || !keep(*call, true)) finish(*call);
    }
    upcalls.completed.clear();
    for (const IncomingCall& call : upcalls.calls) {
        deliveries_.calls.push_back(call);
        must_notify_ = true;
    }
    upcalls.calls.clear();
    for (const std::uint32_t call : upcalls.replied) {
        end_reply(call);
    }
    upcalls.replied.clear();
}

void Transport::finish(PendingCall& call) {
    if (call.is_synchronous()) {
        finish_waiter(call);
        return;
    }
    deliveries_.done.push_back(&call);
    must_notify_ = true;
}

void Transport::finish_waiter(Waiter& waiter) {
    followers_.remove(waiter);
    has_followers_.store(followers_.first() != nullptr);
    // From here on it may be destroyed.
    const std::atomic<std::uint32_t>* const word = &waiter.state;
    if (waiter.state.exchange(Waiter::kDone) == Waiter::kSleeping) to_wake_.push_back(word);
}

void Transport::end_reply(std::uint32_t call) {
    const auto reply =
        std::find_if(replies_.begin(), replies_.end(), [call](const Reply& one) { return one.call == call; });
    if (reply == replies_.end()) return;
    Pool::instance().free(reply->block);
    if (reply->waiter != nullptr) {
        finish_waiter(*reply->waiter);
    } else {
        deliveries_.sent.push_back({reply->sent, reply->context});
        must_notify_ = true;
    }
    replies_.erase(reply);
}

void Transport::unlock(Lock& lock) {
    std::array<const std::atomic<std::uint32_t>*, 16> words;
    const std::size_t count = std::min(to_wake_.size(), words.size());
    std::copy_n(to_wake_.begin(), count, words.begin());
    // More than that are woken with the mutex.
    std::for_each(to_wake_.begin() + static_cast<std::ptrdiff_t>(count), to_wake_.end(), futex_wake);
    to_wake_.clear();
    const bool must_notify = std::exchange(must_notify_, false);
    lock.unlock();
    std::for_each_n(words.begin(), count, futex_wake);
    if (must_notify) worker_->notify(*this);
}

// --- the end

void Transport::end_connection() {
    // What arrived before the end counts.
    std::array<ibv_wc, 16> completions;
    for (;;) {
        const int count = endpoint_->poll(completions);
        if (count <= 0) break;
        for (int i = 0; i < count; ++i) {
            (void)endpoint_->handle(completions[static_cast<std::size_t>(i)], connection());
        }
    }
    collect();
    Connection& ended = connection();
    endpoint_->end();
    ended_.closed_connections += endpoint_->close_reason() != CloseReason::kNone ? 1 : 0;
    ended_.failed_connections += endpoint_->has_failed() ? 1 : 0;
    on_ended(ended);
    ended.on_disconnected();
    collect();
    // What a caller still waits for is in nobody's hands any more.
    while (!replies_.empty()) {
        end_reply(replies_.back().call);
    }
    timer_ns_.store(0);
}

void Transport::run_timer() {
    Lock lock(mutex_);
    const std::int64_t now = now_ns();
    if (has_connection()) {
        connection().on_timer(now);
        settle();
    } else {
        expire_kept(now);
    }
    unlock(lock);
}

// --- the worker

bool Transport::begin_polling() {
    const std::lock_guard lock(mutex_);
    is_watched_ = !has_poller_;
    if (has_poller_ || endpoint_ == nullptr) return false;
    has_poller_ = true;
    return true;
}

Transport::Polled Transport::poll_as_worker() {
    if (endpoint_->has_ended()) return Polled::kEnded;
    const Polling polled = poll(nullptr);
    if (polled.has_left) return Polled::kDeliver;
    if (endpoint_->has_ended()) return Polled::kEnded;
    if (has_followers_.load()) return Polled::kCallersWait;
    return polled.count != 0 ? Polled::kSomething : Polled::kNothing;
}

void Transport::end_polling(bool is_watched) {
    Lock lock(mutex_);
    is_watched_ = is_watched;
    leave_polling(is_watched);
    unlock(lock);
}

void Transport::arm() {
    is_armed_ = true;
    endpoint_->arm();
}

void Transport::take_events() {
    if (endpoint_->take_events()) is_armed_ = false;
}

void Transport::deliver() {
    for (;;) {
        Deliveries deliveries;
        {
            const std::lock_guard lock(mutex_);
            std::swap(deliveries, deliveries_);
        }
        if (deliveries.is_empty()) return;
        for (PendingCall* const call : deliveries.done) {
            rpcrdma_reply reply;
            fill_reply(*call, reply);
            call->done(call->context, error_of(*call), &reply);
            delete call;
            submitted_.fetch_sub(1);
        }
        for (const Deliveries::Sent& sent : deliveries.sent) {
            sent.sent(sent.context);
        }
        for (const IncomingCall& call : deliveries.calls) {
            execute(call);
        }
    }
}

void Transport::statistics(rpcrdma_statistics& to) const {
    const std::lock_guard lock(mutex_);
    const std::size_t size = to.size;
    to = ended_;
    to.size = size;
    to.connects = connects_;
    if (connection_ == nullptr) return;
    add_counters(connection_->counters(), to);
    to.version = connection_->version();
    to.send_limit_octets = connection_->send_limit();
    to.receive_limit_octets = connection_->receive_limit();
    to.credits = connection_->credits();
}

}  // namespace urnic::rpcrdma
