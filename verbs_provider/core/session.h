// The process's connection to the daemon: one for all its contexts, made with the first and ended with the
// last.
#pragma once

#include <errno.h>
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "abi/control.h"
#include "base/spin_wait.h"
#include "verbs_provider/core/lock.h"

namespace urnic::provider {

struct Context;

/// File descriptors that came with a reply. Those not taken are closed.
class ReplyFds {
  public:
    ReplyFds() = default;
    ReplyFds(const ReplyFds&) = delete;
    ReplyFds& operator=(const ReplyFds&) = delete;
    ~ReplyFds() { clear(); }
    [[nodiscard]] std::uint32_t count() const { return count_; }
    [[nodiscard]] int peek(std::uint32_t i) const { return i < count_ ? fds_[i] : -1; }
    /// The fd becomes the caller's; -1 if there is none.
    int take(std::uint32_t i);
    void clear();
    void add(int fd);

  private:
    int fds_[abi::kMaxMessageFds];
    std::uint32_t count_ = 0;
};

/// File descriptors that go with a request; they stay the caller's.
struct SentFds {
    SentFds() = default;
    /// None if it is negative.
    SentFds(int fd) : fds{fd, -1}, count(fd >= 0 ? 1 : 0) {}  // NOLINT(google-explicit-constructor)
    SentFds(int first, int second) : fds{first, second}, count(2) {}

    int fds[2] = {-1, -1};
    std::uint32_t count = 0;
};

enum class SessionState : std::uint32_t {
    kLive,
    kDead,  // the daemon has ended: work flushes, control calls answer EIO, destruction succeeds here alone
    kForkedChild,  // this process is the child of a fork: the session and its objects are the parent's
};

class Session {
  public:
    /// The process's session with one reference more, connecting if there is none. nullptr with errno set and
    /// the reason printed.
    static Session* acquire();
    /// Gives a reference back; the last one disconnects.
    static void release(Session* session);
    /// Once, when the provider is loaded.
    static void install_fork_handlers();

    /// One exchange with the daemon. `request` begins with a RequestHeader, which is filled here. Returns 0
    /// or errno: the daemon's answer, or EIO when it has ended. A daemon that does not answer for
    /// kAnswerTimeoutNs, or answers what is no answer, counts as dead from then on.
    template <class Request, class Reply>
    int call(abi::Op op, Request& request, Reply& reply, ReplyFds* fds = nullptr, const SentFds& sent = {}) {
        static_assert(sizeof(Request) <= abi::kMaxMessageBytes && sizeof(Reply) <= abi::kMaxMessageBytes);
        return exchange(op, &request.header, sizeof request, &reply.header, sizeof reply, fds, sent);
    }
    /// For requests that name one object and replies without content.
    int call_handle(abi::Op op, std::uint32_t handle);
    /// Gives back a CQ, QP or SRQ whose memory cannot be used.
    void give_back(abi::Op op, std::uint32_t handle);

    /// Gives the daemon this process's memory file, once. Returns false if there is none: then no range
    /// counts as converted.
    bool attach_memory();

    /// Lets the daemon copy to and from this process's memory, once. 0, or why it cannot, which is printed.
    int attach_process();

    /// Returns whether the daemon refused to destroy an object, which therefore lives on. When the daemon is
    /// dead, or is not this process's, only this side of the object is left to destroy.
    [[nodiscard]] bool is_refusal(int error) const {
        return error != 0 && error != EIO && state() == SessionState::kLive;
    }

    [[nodiscard]] SessionState state() const { return state_.load(std::memory_order_seq_cst); }
    /// The same, for the fast path: one relaxed load.
    [[nodiscard]] SessionState state_relaxed() const { return state_.load(std::memory_order_relaxed); }
    [[nodiscard]] std::uint32_t num_workers() const { return num_workers_; }
    [[nodiscard]] abi::WorkerDoorbell& doorbell(std::uint32_t worker) const { return doorbells_[worker]; }
    [[nodiscard]] const abi::DaemonState& daemon() const { return *daemon_; }
    /// What threads of this process that poll sleep on (abi::DaemonState::wake_words).
    [[nodiscard]] const std::atomic<std::uint32_t>& wake_word() const {
        return daemon_->wake_words[client_id_ % abi::kWakeWords];
    }
    [[nodiscard]] int wake_fd(std::uint32_t worker) const { return wake_fds_[worker]; }

    /// Contexts whose events the service thread forwards.
    void add_context(Context* context);
    void remove_context(Context* context);

    Session* next = nullptr;  // in the list of the process's sessions

  private:
    Session() = default;
    int connect_daemon(const char* path);
    int hello();
    int exchange(abi::Op op, abi::RequestHeader* request, std::size_t request_bytes, abi::ReplyHeader* reply,
                 std::size_t reply_bytes, ReplyFds* fds, const SentFds& sent);
    int receive(abi::ReplyHeader* reply, std::size_t reply_bytes, ReplyFds& fds);
    ssize_t receive_message(msghdr& message);
    /// The connection ends, for what the daemon does if that is to be reported; EIO. Under request_mutex_.
    int abandon(const char* what_it_does);
    int start_service();
    void stop_service();
    void kick_service() const;
    static void* service_main(void* self);
    void serve();
    void daemon_died();
    /// Raises the completion event of every armed CQ.
    void renotify_channels();
    void renotify_channels_locked();  // the same, under contexts_mutex_
    void close_all();
    static void before_fork();
    static void after_fork_in_parent();
    static void after_fork_in_child();
    void disown_after_fork();

    std::atomic<SessionState> state_{SessionState::kLive};
    std::uint32_t references_ = 0;
    int socket_ = -1;
    Mutex request_mutex_;
    SpinWait spin_;  // under request_mutex_
    std::uint32_t cookie_ = 0;
    Mutex memory_mutex_;
    bool memory_attached_ = false;
    bool process_attached_ = false;
    std::uint32_t num_workers_ = 0;
    std::uint32_t client_id_ = 0;
    const abi::DaemonState* daemon_ = nullptr;
    abi::WorkerDoorbell* doorbells_ = nullptr;
    int wake_fds_[abi::kMaxWorkers];
    // Service thread.
    Mutex contexts_mutex_;
    Context* contexts_ = nullptr;
    pthread_t service_thread_{};
    int service_wake_ = -1;
    std::atomic<bool> stopping_{false};
};

/// Maps `bytes` at `offset` of a shared memory fd; nullptr with errno set. EPROTO: it is no memfd, is
/// shorter, or could become so.
void* map_shared(int fd, std::size_t bytes, std::uint64_t offset, bool writable);

}  // namespace urnic::provider
