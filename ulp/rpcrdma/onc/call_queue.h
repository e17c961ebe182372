/// Calls that have arrived and wait for a thread of the program's: for svc_run(), which polls a descriptor,
/// or for threads of svc_rdma_run(), which wait here.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "ulp/rpcrdma/include/urnic/rpcrdma.h"

namespace urnic::rpcrdma::onc {

class CallQueue {
  public:
    CallQueue() = default;
    ~CallQueue();
    CallQueue(const CallQueue&) = delete;
    CallQueue& operator=(const CallQueue&) = delete;

    /// `read_end` is readable while Calls wait and nobody is in wait(); octets written to `write_end` arrive
    /// there.
    void set_descriptors(int read_end, int write_end);
    void push(rpcrdma_request* request);
    /// nullptr: none.
    [[nodiscard]] rpcrdma_request* pop();
    [[nodiscard]] bool is_empty();

    /// Threads take Calls by wait() from now on. Returns false if they do already.
    [[nodiscard]] bool begin_waiting();
    /// nullptr: stop_waiting() was called.
    [[nodiscard]] rpcrdma_request* wait();
    void stop_waiting();
    /// All threads have left wait().
    void end_waiting();
    /// Drops what waits and what comes.
    void close();

  private:
    void signal_if_needed();
    [[nodiscard]] rpcrdma_request* pop_locked();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<rpcrdma_request*> requests_;
    int read_end_ = -1;
    int write_end_ = -1;
    bool is_signalled_ = false;
    bool has_waiters_ = false;
    bool is_stopping_ = false;
    bool is_closed_ = false;
};

}  // namespace urnic::rpcrdma::onc
