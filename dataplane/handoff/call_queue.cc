#include "dataplane/handoff/call_queue.h"
#include "os/monotonic_clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>

#include "base/check.h"
#include "base/spin_wait.h"

namespace urnic::dataplane {

namespace {

enum Progress : std::uint32_t { kAsked, kCallerSleeps, kDone };

}  // namespace

struct CallQueue::Call {
    FunctionRef function;
    std::atomic<std::uint32_t> progress{kAsked};
};

struct CallQueue::Queue {
    // The producer waits for each answer, so one place is enough.
    boost::lockfree::spsc_queue<Call*, boost::lockfree::capacity<1>> calls;
    SpinWait spin;
};

CallQueue::CallQueue() : queue_(std::make_unique<Queue>()) {}
CallQueue::~CallQueue() = default;

// A std::semaphore would yield before it sleeps, which takes milliseconds where others compute.
void CallQueue::call(FunctionRef function, FunctionRef wake) {
    Call call{function};
    URNIC_CHECK(queue_->calls.push(&call));
    wake();
    SpinWait& spin = queue_->spin;
    spin.begin(clock_now());
    while (call.progress.load(std::memory_order_acquire) != kDone) {
        std::uint32_t expected = kAsked;
        if (spin.should_poll(clock_now()) ||
            (!call.progress.compare_exchange_strong(expected, kCallerSleeps) && expected == kDone)) {
            continue;
        }
        ::syscall(SYS_futex, &call.progress, FUTEX_WAIT_PRIVATE, kCallerSleeps, nullptr, nullptr, 0);
    }
    spin.on_progress();
}

const FunctionRef* CallQueue::next() {
    if (!queue_->calls.pop(current_)) {
        return nullptr;
    }
    return &current_->function;
}

void CallQueue::finish() {
    // The caller destroys the call as soon as it sees this; a later wake-up wakes no thread.
    std::atomic<std::uint32_t>* const progress = &current_->progress;
    current_ = nullptr;
    if (progress->exchange(kDone, std::memory_order_acq_rel) == kCallerSleeps) {
        ::syscall(SYS_futex, progress, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
}

}  // namespace urnic::dataplane
