// The QPs of a worker that have something to do, in the order in which they will do it.
#pragma once

#include "dataplane/worker/worker.h"

namespace urnic::dataplane {

/// First in, first out; a QP is in it at most once. Intrusive.
class RunQueue {
  public:
    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    [[nodiscard]] std::uint32_t size() const { return size_; }

    void push(QpSlot& slot) {
        if (slot.queued) {
            return;
        }
        slot.queued = true;
        slot.next_queued = nullptr;
        (last_ == nullptr ? first_ : last_->next_queued) = &slot;
        last_ = &slot;
        ++size_;
    }

    [[nodiscard]] QpSlot& pop() {
        QpSlot& slot = *first_;
        first_ = slot.next_queued;
        last_ = first_ == nullptr ? nullptr : last_;
        slot.queued = false;
        --size_;
        return slot;
    }

    /// Off the packet path: walks the queue.
    void remove(QpSlot& slot) {
        for (std::uint32_t left = size_; left != 0; --left) {
            QpSlot& next = pop();
            if (&next != &slot) {
                push(next);
            }
        }
    }

  private:
    QpSlot* first_ = nullptr;
    QpSlot* last_ = nullptr;
    std::uint32_t size_ = 0;
};

}  // namespace urnic::dataplane
