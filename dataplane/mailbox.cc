#include "dataplane/mailbox.h"

#include <boost/lockfree/spsc_queue.hpp>
#include <semaphore>

#include "rnic/base/check.h"

namespace urnic::dataplane {

struct Mailbox::Letter {
    FunctionRef function;
    std::binary_semaphore done{0};
};

struct Mailbox::Queue {
    // The producer waits for each answer, so one place is enough.
    boost::lockfree::spsc_queue<Letter*, boost::lockfree::capacity<1>> letters;
};

Mailbox::Mailbox() : queue_(std::make_unique<Queue>()) {}
Mailbox::~Mailbox() = default;

void Mailbox::call(FunctionRef function, FunctionRef wake) {
    Letter letter{function};
    URNIC_CHECK(queue_->letters.push(&letter));
    wake();
    letter.done.acquire();
}

const FunctionRef* Mailbox::next() {
    if (!queue_->letters.pop(current_)) {
        return nullptr;
    }
    return &current_->function;
}

void Mailbox::finish() {
    // The letter dies as soon as its writer sees this.
    Letter* letter = current_;
    current_ = nullptr;
    letter->done.release();
}

}  // namespace urnic::dataplane
