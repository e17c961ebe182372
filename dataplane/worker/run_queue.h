// The QPs of a worker that have something to do, in the order in which they will do it.
#pragma once

#include <cstdint>

#include "dataplane/worker/qp_slot.h"

namespace urnic::dataplane {

/// First in, first out; a QP is in it at most once. Intrusive.
class RunQueue {
  public:
    RunQueue() = default;
    RunQueue(const RunQueue&) = delete;
    RunQueue& operator=(const RunQueue&) = delete;

    [[nodiscard]] bool empty() const { return first_ == nullptr; }
    [[nodiscard]] std::uint32_t size() const { return size_; }

    void push(QpSlot& slot) {
        if (slot.is_queued) {
            return;
        }
        slot.is_queued = true;
        slot.next_queued = nullptr;
        *end_ = &slot;
        end_ = &slot.next_queued;
        ++size_;
    }

    /// The queue is not empty.
    [[nodiscard]] QpSlot& pop() {
        QpSlot& slot = *first_;
        first_ = slot.next_queued;
        end_ = first_ == nullptr ? &first_ : end_;
        slot.is_queued = false;
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
    QpSlot** end_ = &first_;  // where the next one is linked
    std::uint32_t size_ = 0;
};

}  // namespace urnic::dataplane
