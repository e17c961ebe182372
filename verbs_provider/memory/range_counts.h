// How many registrations cover each page: an ordered map of the places where the count changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

#include "verbs_provider/memory/mapped_allocator.h"

namespace urnic::memory {

/// A half-open range of addresses.
struct Range {
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    [[nodiscard]] bool empty() const { return start >= end; }
    bool operator==(const Range&) const = default;
};

constexpr bool contains(Range range, std::uint64_t addr) { return range.start <= addr && addr < range.end; }
constexpr bool overlap(Range a, Range b) { return a.start < b.end && b.start < a.end; }
constexpr Range intersection(Range a, Range b) {
    return {std::max(a.start, b.start), std::min(a.end, b.end)};
}

class RangeCounts {
  public:
    RangeCounts();
    RangeCounts(const RangeCounts&) = delete;
    RangeCounts& operator=(const RangeCounts&) = delete;

    /// Makes the next add() or subtract() unable to fail for want of memory.
    [[nodiscard]] bool reserve() { return pool_.reserve(4); }
    void add(Range range);
    /// The range must be covered throughout.
    void subtract(Range range);
    void clear();
    // The counts as a set: 1 where it was 0, and 0 again. Both return false when they ran out of memory and
    // did only a part.
    [[nodiscard]] bool insert(Range range);
    [[nodiscard]] bool erase(Range range);

    [[nodiscard]] std::uint32_t count_at(std::uint64_t addr) const;
    [[nodiscard]] bool is_covered(Range range) const;
    /// The first stretch in `within` that nothing covers (`covered` false) or that something covers (true).
    /// Empty when there is none.
    [[nodiscard]] Range first(Range within, bool covered) const;
    /// The largest uncovered range that contains the uncovered `inside`.
    [[nodiscard]] Range uncovered_around(Range inside) const;
    /// Number of maximal covered stretches: each is a mapping of its own.
    [[nodiscard]] std::uint64_t stretches() const { return stretches_; }
    [[nodiscard]] bool empty() const { return stretches_ == 0; }

  private:
    using Map = std::map<std::uint64_t, std::uint32_t, std::less<>,
                         PoolAllocator<std::pair<const std::uint64_t, std::uint32_t>>>;

    Map::iterator split(std::uint64_t addr);
    void join(Map::iterator at);
    void change(Range range, std::int32_t by);

    NodePool pool_;
    Map counts_;  // key: where the count becomes the value; the last value is 0
    std::uint64_t stretches_ = 0;
};

}  // namespace urnic::memory
