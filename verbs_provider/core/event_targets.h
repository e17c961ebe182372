// What the daemon's events may name: the queues of a context, found by the address that the daemon was told
// of as their user_handle. libibverbs and the application use that address as a pointer, so no event passes
// with one that is not here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace urnic::provider {

/// Part of each queue that events name. What was handed to the application is counted here: it is what
/// destruction waits to see acknowledged, whatever the daemon says.
struct EventTarget {
    enum class Kind : std::uint8_t { kCq, kQp, kSrq };

    std::uint64_t element = 0;  // the queue's address
    EventTarget* next = nullptr;
    Kind kind = Kind::kCq;
    std::uint32_t async_events = 0;
    std::uint32_t completion_events = 0;  // of a CQ
};

/// A hash table of the targets themselves: it allocates nothing. Under the context's objects mutex.
class EventTargets {
  public:
    void insert(EventTarget& target, EventTarget::Kind kind, const void* queue) {
        target.element = reinterpret_cast<std::uintptr_t>(queue);
        target.kind = kind;
        EventTarget*& head = bucket(target.element);
        target.next = head;
        head = &target;
    }
    /// Does nothing for one that is not here.
    void remove(const EventTarget& target) {
        for (EventTarget** at = &bucket(target.element); *at != nullptr; at = &(*at)->next) {
            if (*at == &target) {
                *at = target.next;
                return;
            }
        }
    }
    [[nodiscard]] EventTarget* find(std::uint64_t element, EventTarget::Kind kind) {
        EventTarget* target = bucket(element);
        while (target != nullptr && (target->element != element || target->kind != kind)) {
            target = target->next;
        }
        return target;
    }

  private:
    static constexpr std::size_t kBuckets = 1024;
    /// Queues lie on the heap, 64 bytes or more apart.
    EventTarget*& bucket(std::uint64_t element) {
        return buckets_[(element >> 6U ^ element >> 16U) % kBuckets];
    }

    EventTarget* buckets_[kBuckets];
};

}  // namespace urnic::provider
