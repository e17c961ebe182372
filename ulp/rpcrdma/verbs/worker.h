/// A thread that polls what no caller polls, and calls the program: handlers, the ends of submitted calls and
/// of replies. A server has several, a client one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

namespace urnic::rpcrdma {

class Transport;

class Worker {
  public:
    /// Null with errno and last_error(): no descriptor or thread is left.
    [[nodiscard]] static std::shared_ptr<Worker> start();
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// Any thread: the worker keeps it until Transport::recover() returns false.
    void add(const std::shared_ptr<Transport>& transport);
    /// Any thread: there is something to do for it.
    void notify(Transport& transport);
    /// Any thread: the worker sleeps no longer than this.
    void wake_before(std::int64_t deadline_ns);
    void wake();
    /// Ends the thread; what it has is let go. Not by the thread itself.
    void stop();
    [[nodiscard]] bool is_this_thread() const;
    /// Transports that were added.
    [[nodiscard]] std::uint32_t load() const { return load_.load(); }

  private:
    struct Entry {
        std::shared_ptr<Transport> transport;
        int completion_fd = -1;  ///< as registered with epoll; -1: it is not
        int cm_fd = -1;
        bool is_polled = false;  ///< the worker is its poller
        bool is_hot = false;
        bool is_over = false;
        std::int64_t last_active_ns = 0;
        std::uint64_t calls_seen = 0;
    };

    Worker() = default;
    void run();
    void take_notified();
    void service(Entry& entry);
    /// Returns whether the worker polls it, and it is connected.
    [[nodiscard]] static bool is_live(const Entry& entry);
    [[nodiscard]] bool begin(Entry& entry);
    /// Polls until nothing is left, or others have their turn. Returns whether there was anything.
    bool drain(Entry& entry);
    void recover(Entry& entry);
    void cool(Entry& entry);
    void watch(Entry& entry);
    void unwatch(Entry& entry);
    void watch_cm(Entry& entry);
    void unwatch_cm(Entry& entry);
    void poll_hot();
    void look_at_idle();
    void run_timers();
    [[nodiscard]] int timeout_ms();
    void take_events(int timeout_ms);

    int epoll_ = -1;
    int wake_ = -1;
    std::thread thread_;
    std::atomic<bool> is_stopping_{false};
    std::atomic<std::uint32_t> load_{0};
    std::atomic<std::int64_t> sleeps_until_ns_{0};
    std::mutex mutex_;
    std::vector<std::shared_ptr<Transport>> added_;
    std::vector<std::weak_ptr<Transport>> notified_;
    // The thread's own:
    std::unordered_map<Transport*, std::unique_ptr<Entry>> entries_;
    std::vector<std::unique_ptr<Entry>> over_;  ///< events may still name them
    std::vector<Entry*> hot_;
    std::vector<Entry*> idle_;  ///< unwatched, polled by callers; no need to tell us when they end
    unsigned rounds_ = 0;
};

}  // namespace urnic::rpcrdma
