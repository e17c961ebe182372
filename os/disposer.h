// Ends what takes long to end, on a thread of its own: mappings of gigabytes, the last descriptor of a large
// memory file, sockets with many watchers. Nothing here waits for another process; what may, is not for this
// thread (daemon/ipc/fd_closer.h).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "base/function_ref.h"

namespace urnic {

/// What can end on that thread: it has its place in the queue with it, so that ending needs no memory.
class Disposable {
  public:
    Disposable() = default;
    Disposable(const Disposable&) = delete;
    Disposable& operator=(const Disposable&) = delete;
    virtual ~Disposable() = default;

  private:
    friend class Disposer;
    std::unique_ptr<Disposable> next_;
};

class Disposer {
  public:
    /// Throws std::system_error.
    Disposer();
    Disposer(const Disposer&) = delete;
    Disposer& operator=(const Disposer&) = delete;
    /// Waits until everything has ended.
    ~Disposer();

    /// Runs `function` on that thread, after what was taken before, and waits for its end.
    void call(FunctionRef function);
    /// Ends `value` soon, in the order of the calls. nullptr is nothing to end.
    void take(std::unique_ptr<Disposable> value);

  private:
    void run();

    std::mutex mutex_;
    std::condition_variable wake_;
    std::unique_ptr<Disposable> first_;
    Disposable* last_ = nullptr;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace urnic
