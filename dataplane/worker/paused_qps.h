// The QPs of a worker that wait for the end of a pause.
#pragma once

#include <utility>

#include "dataplane/worker/worker.h"

namespace urnic::dataplane {

/// Of one device, in no particular order; a QP is in it at most once. Intrusive.
class HeldQps {
  public:
    [[nodiscard]] bool empty() const { return first_ == nullptr; }

    void push(QpSlot& slot) {
        if (!slot.held) {
            slot.held = true;
            slot.next_held = std::exchange(first_, &slot);
        }
    }

    /// Takes all of them out and calls `go_on(slot)` for each.
    template <typename GoOn>
    void take_all(GoOn&& go_on) {
        for (QpSlot* slot = std::exchange(first_, nullptr); slot != nullptr;) {
            QpSlot* const next = slot->next_held;
            slot->held = false;
            go_on(*slot);
            slot = next;
        }
    }

    /// Off the packet path: walks the list.
    void remove(QpSlot& gone) {
        for (QpSlot** at = &first_; gone.held && *at != nullptr; at = &(*at)->next_held) {
            if (*at == &gone) {
                *at = gone.next_held;
                gone.held = false;
                return;
            }
        }
    }

  private:
    QpSlot* first_ = nullptr;
};

}  // namespace urnic::dataplane
