#include "ulp/rpcrdma/onc/call_queue.h"

#include <unistd.h>

#include <new>

namespace urnic::rpcrdma::onc {

CallQueue::~CallQueue() { close(); }

void CallQueue::set_descriptors(int read_end, int write_end) {
    const std::scoped_lock lock(mutex_);
    read_end_ = read_end;
    write_end_ = write_end;
    signal_if_needed();
}

void CallQueue::signal_if_needed() {
    const bool is_wanted = !requests_.empty() && !has_waiters_ && read_end_ >= 0;
    char octet = 0;
    // One octet at most is under way, so neither blocks.
    if (is_wanted && !is_signalled_) {
        is_signalled_ = ::write(write_end_, &octet, 1) == 1;
    } else if (!is_wanted && is_signalled_) {
        is_signalled_ = ::read(read_end_, &octet, 1) != 1;
    }
}

void CallQueue::push(rpcrdma_request* request) {
    {
        const std::scoped_lock lock(mutex_);
        if (!is_closed_) {
            requests_.push_back(request);
            signal_if_needed();
            request = nullptr;
        }
    }
    if (request != nullptr) {
        rpcrdma_request_drop(request);
        return;
    }
    changed_.notify_one();
}

rpcrdma_request* CallQueue::pop_locked() {
    if (requests_.empty()) {
        return nullptr;
    }
    rpcrdma_request* const request = requests_.front();
    requests_.pop_front();
    signal_if_needed();
    return request;
}

rpcrdma_request* CallQueue::pop() {
    const std::scoped_lock lock(mutex_);
    return pop_locked();
}

bool CallQueue::is_empty() {
    const std::scoped_lock lock(mutex_);
    return requests_.empty();
}

bool CallQueue::begin_waiting() {
    const std::scoped_lock lock(mutex_);
    if (has_waiters_ || is_closed_) {
        return false;
    }
    has_waiters_ = true;
    signal_if_needed();
    return true;
}

rpcrdma_request* CallQueue::wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_stopping_ || is_closed_ || !requests_.empty(); });
    return is_stopping_ || is_closed_ ? nullptr : pop_locked();
}

void CallQueue::stop_waiting() {
    {
        const std::scoped_lock lock(mutex_);
        is_stopping_ = true;
    }
    changed_.notify_all();
}

void CallQueue::end_waiting() {
    const std::scoped_lock lock(mutex_);
    has_waiters_ = false;
    is_stopping_ = false;
    signal_if_needed();
}

void CallQueue::close() {
    std::deque<rpcrdma_request*> dropped;
    {
        const std::scoped_lock lock(mutex_);
        is_closed_ = true;
        dropped.swap(requests_);
        signal_if_needed();
    }
    changed_.notify_all();
    for (rpcrdma_request* const request : dropped) {
        rpcrdma_request_drop(request);
    }
}

}  // namespace urnic::rpcrdma::onc
