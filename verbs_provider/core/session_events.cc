// The session's service thread: forwards the daemon's events and notices its death. It sleeps in poll() all
// its life, with every signal blocked.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

/// Grows as contexts are added; a poll set for a handful lies on the stack.
class PollSet {
  public:
    PollSet() = default;
    PollSet(const PollSet&) = delete;
    PollSet& operator=(const PollSet&) = delete;
    ~PollSet() {
        if (fds_ != few_) {
            std::free(fds_);
        }
    }
    void clear() { count_ = 0; }
    void add(int fd, short events) {
        if (count_ == room_ && !grow()) {
            return;  // that context's events wait for the next change of the set
        }
        fds_[count_++] = {fd, events, 0};
    }
    [[nodiscard]] short wait(std::size_t watched, int timeout_ms) {
        while (poll(fds_, count_, timeout_ms) < 0 && (errno == EINTR || errno == EAGAIN)) {
        }
        return fds_[watched].revents;
    }

  private:
    bool grow() {
        const std::size_t wanted = 2 * room_ + kFew;
        auto* more = static_cast<pollfd*>(std::malloc(wanted * sizeof(pollfd)));
        if (more == nullptr) {
            return false;
        }
        std::memcpy(more, fds_, count_ * sizeof(pollfd));
        if (fds_ != few_) {
            std::free(fds_);
        }
        fds_ = more;
        room_ = wanted;
        return true;
    }

    static constexpr std::size_t kFew = 16;
    pollfd few_[kFew];
    pollfd* fds_ = few_;
    std::size_t count_ = 0;
    std::size_t room_ = kFew;
};

/// How often armed CQs get another event once the daemon is dead: a thread may wait for completions because
/// it saw a connection manager's event too late, and nothing else would wake it.
constexpr int kRenotifyMs = 100;

}  // namespace

int Session::start_service() {
    service_wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service_wake_ < 0) {
        return errno;
    }
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&service_thread_, nullptr, service_main, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0) {
        pthread_setname_np(service_thread_, "urnic-events");
    }
    return error;
}

void Session::stop_service() {
    if (state() == SessionState::kForkedChild) {
        return;  // the thread lives in the parent
    }
    stopping_.store(true);
    kick_service();
    pthread_join(service_thread_, nullptr);
}

void Session::kick_service() const {
    const std::uint64_t one = 1;
    // A counter that is full wakes the thread as well.
    [[maybe_unused]] const ssize_t written = write(service_wake_, &one, sizeof one);
}

void* Session::service_main(void* self) {
    static_cast<Session*>(self)->serve();
    return nullptr;
}

void Session::serve() {
    PollSet set;
    constexpr std::size_t kSocket = 1;
    bool was_told = false;
    while (!stopping_.load()) {
        if (!was_told && state() == SessionState::kDead) {
            was_told = true;
            daemon_died();
        }
        set.clear();
        set.add(service_wake_, POLLIN);
        // Replies on the socket belong to whoever asked; only its end is looked for here. A dead session is
        // left out of the set: fd -1.
        set.add(state() == SessionState::kLive ? socket_ : -1, POLLRDHUP);
        {
            Guard guard(contexts_mutex_);
            for (Context* context = contexts_; context != nullptr; context = context->next) {
                const bool wait_for_room = forward_events(*context);
                set.add(wait_for_room ? context->event_out : context->event_in,
                        wait_for_room ? POLLOUT : POLLIN);
            }
        }
        const bool is_dead = state() == SessionState::kDead;
        const short socket_events = set.wait(kSocket, is_dead ? kRenotifyMs : -1);
        if (is_dead) {
            renotify_channels();
        }
        std::uint64_t kicks = 0;
        [[maybe_unused]] const ssize_t got = read(service_wake_, &kicks, sizeof kicks);
        if ((socket_events & (POLLRDHUP | POLLHUP | POLLERR)) != 0) {
            // First the state, then the notifications: who arms a CQ after them sees the state
            // (req_notify_cq).
            state_.store(SessionState::kDead, std::memory_order_seq_cst);
        }
    }
}

void Session::daemon_died() {
    // One that ends by itself says so before; one that was killed, or whose connection was given up, cannot.
    const bool was_stopped = daemon_->alive.load() == 0;
    fprintf(stderr, "urnic: the RNIC daemon %s; outstanding work requests are flushed with errors%s\n",
            was_stopped ? "was stopped" : "is gone",
            was_stopped ? ". Its devices can be opened again when it is back" : "");
    Guard guard(contexts_mutex_);
    for (Context* context = contexts_; context != nullptr; context = context->next) {
        forward_events(*context);
        send_fatal(*context);
    }
    renotify_channels_locked();
}

void Session::renotify_channels() {
    Guard guard(contexts_mutex_);
    renotify_channels_locked();
}

void Session::renotify_channels_locked() {
    for (Context* context = contexts_; context != nullptr; context = context->next) {
        Guard objects(context->objects_mutex);
        for (Cq* cq = context->cqs; cq != nullptr; cq = cq->next) {
            if (cq->channel != nullptr &&
                cq->rings.header().arm.exchange(abi::kCqDisarmed) != abi::kCqDisarmed) {
                (void)notify_channel(*cq);
            }
        }
    }
}

void Session::add_context(Context* context) {
    Guard guard(contexts_mutex_);
    context->next = contexts_;
    contexts_ = context;
    kick_service();
    if (state() == SessionState::kDead) {
        send_fatal(*context);
    }
}

void Session::remove_context(Context* context) {
    if (state() == SessionState::kForkedChild) {
        return;
    }
    Guard guard(contexts_mutex_);
    unlink(contexts_, context);
    kick_service();
}

}  // namespace urnic::provider
