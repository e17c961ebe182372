/// A connection as the program has it: a Connection (the engine) over an Endpoint (the QP), and who polls it.
/// One thread at a time is the poller: a caller that waits, or the worker. Callers that wait beside it sleep;
/// the poller wakes them, and makes one of them the poller when its own call has ended.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "ulp/rpcrdma/verbs/endpoint.h"
#include "ulp/rpcrdma/verbs/pending_call.h"
#include "ulp/rpcrdma/verbs/waiter.h"

/// The C interface's name for it.
struct rpcrdma_connection {};

namespace urnic::rpcrdma {

class Worker;

/// What the worker tells the program: never with the mutex, never as the poller.
struct Deliveries {
    std::vector<PendingCall*> done;
    std::vector<IncomingCall> calls;
    struct Sent {
        rpcrdma_sent sent;
        void* context;
    };
    std::vector<Sent> sent;
    [[nodiscard]] bool is_empty() const { return done.empty() && calls.empty() && sent.empty(); }
};

class Transport : public rpcrdma_connection, public std::enable_shared_from_this<Transport> {
  public:
    /// `is_eager`: the worker always polls when nobody else does. Else it does so when calls without waiting
    /// callers are outstanding, and after a while without calls.
    Transport(std::shared_ptr<Worker> worker, int spin_us, bool is_eager);
    virtual ~Transport();
    Transport(const Transport&) = delete;
    Transport& operator=(const Transport&) = delete;

    // --- for the program's threads
    /// Sends a call and waits for its end.
    void call(PendingCall& call);
    /// Sends a call; its `done` is called by the worker.
    void submit(PendingCall& call);
    /// Answers; the Call's buffer is freed when the Reply has left. ECONNRESET: the connection has ended.
    [[nodiscard]] int reply(const IncomingCall& call, const RpcMessage& message, rpcrdma_sent sent,
                            void* context);
    void drop(std::uint32_t call);
    [[nodiscard]] bool request_receive_size(std::uint32_t octets);
    [[nodiscard]] bool grow_receives(std::uint32_t octets);
    /// Ends the connection; its end comes to who polls.
    void disconnect();
    void statistics(rpcrdma_statistics& to) const;
    void hold();
    void release();

    // --- for the worker's thread
    /// Makes the worker the poller; false: a caller is, and will tell the worker when it has ended (if it is
    /// needed then).
    [[nodiscard]] bool begin_polling();
    enum class Polled : std::uint8_t { kNothing, kSomething, kDeliver, kEnded, kCallersWait };
    /// kDeliver: the worker is not the poller any more, and deliver() is to be called. kEnded: it stays the
    /// poller, and recover() is to be called. kCallersWait: as kSomething, and end_polling() is wanted.
    [[nodiscard]] Polled poll_as_worker();
    /// Hands over to a caller that waits, or to nobody; `is_watched`: the worker waits for completion_fd().
    void end_polling(bool is_watched);
    /// The next completion makes completion_fd() readable.
    void arm();
    void take_events();
    void deliver();
    /// The connection has ended and the worker is its poller. Returns false if it is over for good.
    [[nodiscard]] virtual bool recover() = 0;
    /// Handles the connection's own events of librdmacm.
    virtual void on_cm_events() {}
    [[nodiscard]] Endpoint* endpoint() const { return endpoint_.get(); }
    /// Returns whether the worker has to poll when no caller does.
    [[nodiscard]] bool has_submitted() const { return submitted_.load() != 0; }
    [[nodiscard]] bool is_worker_needed() const { return is_eager_ || submitted_.load() != 0; }
    [[nodiscard]] std::uint64_t calls_started() const { return started_.load(std::memory_order_relaxed); }
    /// 0: none.
    [[nodiscard]] std::int64_t timer_ns() const { return timer_ns_.load(); }
    void run_timer();
    [[nodiscard]] std::int64_t spin_ns() const { return spin_ns_; }
    [[nodiscard]] Worker& worker() const { return *worker_; }
    /// Whether the worker has been told of it and has not looked yet.
    std::atomic<bool> is_notified{false};

  protected:
    using Lock = std::unique_lock<std::mutex>;

    /// With the mutex; the caller is the poller, or nobody polls yet.
    void attach(std::unique_ptr<Endpoint> endpoint);
    /// The engine's configuration, when the engine is made: with the first call or message.
    [[nodiscard]] virtual Config config() const = 0;
    /// With the mutex: a call ended with the connection (`was_sent`), or was made without one. Returns
    /// whether it is kept for the next connection; else it ends, with PendingCall::error if that is set.
    [[nodiscard]] virtual bool keep(PendingCall& /*call*/, bool /*was_sent*/) { return false; }
    /// With the mutex: ends kept calls whose deadline has come.
    virtual void expire_kept(std::int64_t /*now_ns*/) {}
    /// With the mutex: the connection has ended.
    virtual void on_ended(const Connection& /*ended*/) {}
    /// By the worker.
    virtual void execute(const IncomingCall& call) = 0;

    [[nodiscard]] Connection& connection();
    [[nodiscard]] bool has_connection() const { return endpoint_ != nullptr && !endpoint_->has_ended(); }
    /// With the mutex: ends a call; its thread or the worker continues with it.
    void finish(PendingCall& call);
    /// With the mutex: a call goes to the engine, again perhaps.
    void start(PendingCall& call);
    /// With the mutex, after calls of the engine: posts, and sorts what it told.
    void settle();
    /// Unlocks, and wakes those whom it concerns.
    void unlock(Lock& lock);
    void ask_for_worker() { must_notify_ = true; }
    /// With the mutex: gives QP and id back.
    [[nodiscard]] std::unique_ptr<Endpoint> detach();
    [[nodiscard]] std::uint32_t submitted() const { return submitted_.load(); }

    mutable std::mutex mutex_;
    const std::shared_ptr<Worker> worker_;
    std::uint32_t connects_ = 0;

  private:
    struct Reply {
        std::uint32_t call;
        rpcrdma_sent sent;
        void* context;
        Waiter* waiter;
        std::byte* block;  ///< of the Call
    };
    struct Polling {
        int count = 0;
        bool has_left = false;  ///< is not the poller any more
    };

    void wait(Waiter& waiter, bool is_poller);
    void poll_until_done(Waiter& waiter);
    [[nodiscard]] Polling poll(Waiter* waiter);
    void sleep_as_poller(Waiter& waiter);
    /// Returns whether this thread is the poller now.
    [[nodiscard]] bool sleep_as_follower(Waiter& waiter);
    void end_connection();
    void collect();
    void finish_waiter(Waiter& waiter);
    void end_reply(std::uint32_t call);
    /// `is_worker`: it looks again soon.
    void leave_polling(bool is_worker);

    std::unique_ptr<Endpoint> endpoint_;
    std::unique_ptr<Connection> connection_;
    const std::int64_t spin_ns_;
    const bool is_eager_;
    bool has_poller_ = false;
    bool is_watched_ = false;  ///< the worker waits for completion_fd()
    bool is_armed_ = false;    ///< the poller's: an event comes, or is there
    bool is_failed_ = false;
    bool must_notify_ = false;
    Followers followers_;
    std::atomic<bool> has_followers_{false};
    std::vector<Reply> replies_;
    Deliveries deliveries_;
    std::vector<const std::atomic<std::uint32_t>*> to_wake_;
    std::atomic<std::uint32_t> submitted_{0};
    std::atomic<std::uint64_t> started_{0};
    std::atomic<std::int64_t> timer_ns_{0};
    rpcrdma_statistics ended_{};  ///< of former connections
    std::uint32_t holds_ = 0;
    std::shared_ptr<Transport> held_;
};

/// Adds the counters of a connection, of the engine or summed already, to those of the C structure.
template <class From>
void add_counters(const From& counters, rpcrdma_statistics& to) {
    to.calls_sent += counters.calls_sent;
    to.replies_received += counters.replies_received;
    to.calls_received += counters.calls_received;
    to.replies_sent += counters.replies_sent;
    to.calls_resent += counters.calls_resent;
    to.errors_received += counters.errors_received;
    to.errors_sent += counters.errors_sent;
    to.unknown_xids += counters.unknown_xids;
    to.bad_messages += counters.bad_messages;
    to.bad_replies += counters.bad_replies;
    to.timeouts += counters.timeouts;
    to.remote_invalidations += counters.remote_invalidations;
    to.local_invalidations += counters.local_invalidations;
    to.read_chunk_octets += counters.read_chunk_octets;
    to.write_chunk_octets += counters.write_chunk_octets;
    to.dropped_messages += counters.dropped_messages;
}

/// Adds how the connections of `from` ended.
inline void add_ends(const rpcrdma_statistics& from, rpcrdma_statistics& to) {
    to.failed_connections += from.failed_connections;
    to.closed_connections += from.closed_connections;
}

}  // namespace urnic::rpcrdma
