// The QPs of a worker that wait for the end of a PFC pause.
#pragma once

#include <utility>

#include "dataplane/worker/qp_slot.h"

namespace urnic::dataplane {

/// Of one device, in no particular order; a QP is in it at most once. Intrusive.
class PausedQps {
  public:
    [[nodiscard]] bool empty() const { return first_ == nullptr; }

    void push(QpSlot& slot) {
        if (!slot.is_paused) {
            slot.is_paused = true;
            slot.next_paused = std::exchange(first_, &slot);
        }
    }

    /// Empties the list and calls `resume(slot)` for each QP that was in it.
    template <typename Resume>
    void drain(Resume&& resume) {
        for (QpSlot* slot = std::exchange(first_, nullptr); slot != nullptr;) {
            QpSlot* const next = slot->next_paused;
            slot->is_paused = false;
            resume(*slot);
            slot = next;
        }
    }

    /// Off the packet path: walks the list.
    void remove(QpSlot& slot) {
        for (QpSlot** at = &first_; slot.is_paused && *at != nullptr; at = &(*at)->next_paused) {
            if (*at == &slot) {
                *at = slot.next_paused;
                slot.is_paused = false;
                return;
            }
        }
    }

  private:
    QpSlot* first_ = nullptr;
};

}  // namespace urnic::dataplane
