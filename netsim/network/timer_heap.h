// Timers by number, each set or not: the earliest first, those of one time in the order in which they were
// set. No allocation after the start.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace urnic::netsim {

class TimerHeap {
  public:
    using Timer = std::uint32_t;

    explicit TimerHeap(std::uint32_t timers = 0) { resize(timers); }
    /// More timers; those that there are stay as they are.
    void resize(std::uint32_t timers) {
        places_.resize(timers, kNone);
        heap_.reserve(timers);
    }

    /// When the first one is due; kNever: none is set.
    [[nodiscard]] TimeNs first_time() const { return heap_.empty() ? kNever : heap_[0].time; }
    /// Which one that is; one is set.
    [[nodiscard]] Timer first() const { return heap_[0].timer; }

    /// kNever takes it back. Setting it to the time that it has changes nothing.
    void set(Timer timer, TimeNs time) {
        const std::uint32_t place = places_[timer];
        if (place == kNone) {
            if (time != kNever) {
                heap_.push_back({time, next_order_++, timer});
                rise(static_cast<std::uint32_t>(heap_.size() - 1));
            }
            return;
        }
        if (heap_[place].time == time) {
            return;
        }
        if (time == kNever) {
            remove(place);
            return;
        }
        const bool earlier = time < heap_[place].time;
        heap_[place].time = time;
        heap_[place].order = next_order_++;
        earlier ? rise(place) : sink(place);
    }

  private:
    static constexpr std::uint32_t kNone = ~0U;
    static constexpr std::uint32_t kBranches = 4;  // of one node lie in one or two cache lines
    struct Entry {
        TimeNs time;
        std::uint64_t order;
        Timer timer;
        [[nodiscard]] bool before(const Entry& other) const {
            return time != other.time ? time < other.time : order < other.order;
        }
    };

    void put(std::uint32_t place, const Entry& entry) {
        heap_[place] = entry;
        places_[entry.timer] = place;
    }
    void rise(std::uint32_t place) {
        const Entry entry = heap_[place];
        while (place != 0) {
            const std::uint32_t above = (place - 1) / kBranches;
            if (!entry.before(heap_[above])) {
                break;
            }
            put(place, heap_[above]);
            place = above;
        }
        put(place, entry);
    }
    void sink(std::uint32_t place) {
        const Entry entry = heap_[place];
        const auto size = static_cast<std::uint32_t>(heap_.size());
        for (;;) {
            const std::uint32_t begin = place * kBranches + 1;
            if (begin >= size) {
                break;
            }
            std::uint32_t best = begin;
            for (std::uint32_t below = begin + 1; below < size && below < begin + kBranches; ++below) {
                best = heap_[below].before(heap_[best]) ? below : best;
            }
            if (!heap_[best].before(entry)) {
                break;
            }
            put(place, heap_[best]);
            place = best;
        }
        put(place, entry);
    }
    void remove(std::uint32_t place) {
        places_[heap_[place].timer] = kNone;
        const Entry last = heap_.back();
        heap_.pop_back();
        if (place == heap_.size()) {
            return;
        }
        put(place, last);
        rise(place);
        sink(places_[last.timer]);
    }

    std::vector<Entry> heap_;
    std::vector<std::uint32_t> places_;
    std::uint64_t next_order_ = 0;
};

}  // namespace urnic::netsim
