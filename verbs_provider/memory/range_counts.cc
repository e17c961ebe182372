#include "verbs_provider/memory/range_counts.h"

#include <algorithm>
#include <iterator>

namespace urnic::memory {

RangeCounts::RangeCounts() : counts_(PoolAllocator<std::pair<const std::uint64_t, std::uint32_t>>(&pool_)) {}

void RangeCounts::clear() {
    counts_.clear();
    stretches_ = 0;
}

RangeCounts::Map::iterator RangeCounts::split(std::uint64_t addr) {
    const auto after = counts_.upper_bound(addr);
    const std::uint32_t count = after == counts_.begin() ? 0 : std::prev(after)->second;
    return counts_.try_emplace(after, addr, count);
}

void RangeCounts::join(Map::iterator at) {
    const std::uint32_t before = at == counts_.begin() ? 0 : std::prev(at)->second;
    if (at->second == before) {
        counts_.erase(at);
    }
}

void RangeCounts::change(Range range, std::int32_t by) {
    if (range.empty()) {
        return;
    }
    const auto first = split(range.start);
    const auto last = split(range.end);
    bool covered_before = first != counts_.begin() && std::prev(first)->second != 0;
    bool was_covered_before = covered_before;
    for (auto at = first; at != last; ++at) {
        const bool was = at->second != 0;
        at->second = static_cast<std::uint32_t>(static_cast<std::int64_t>(at->second) + by);
        const bool is = at->second != 0;
        // A stretch is counted where it begins.
        stretches_ += static_cast<std::uint64_t>(is && !covered_before);
        stretches_ -= static_cast<std::uint64_t>(was && !was_covered_before);
        covered_before = is;
        was_covered_before = was;
    }
    if (last->second != 0) {
        stretches_ += static_cast<std::uint64_t>(!covered_before);
        stretches_ -= static_cast<std::uint64_t>(!was_covered_before);
    }
    // Within the range all counts changed alike: only its two ends can have become superfluous.
    join(last);
    join(first);
}

void RangeCounts::add(Range range) { change(range, 1); }
void RangeCounts::subtract(Range range) { change(range, -1); }

bool RangeCounts::insert(Range range) {
    for (Range gap = first(range, false); !gap.empty(); gap = first(range, false)) {
        if (!reserve()) {
            return false;
        }
        add(gap);
    }
    return true;
}

bool RangeCounts::erase(Range range) {
    for (Range stretch = first(range, true); !stretch.empty(); stretch = first(range, true)) {
        if (!reserve()) {
            return false;
        }
        subtract(stretch);
    }
    return true;
}

std::uint32_t RangeCounts::count_at(std::uint64_t addr) const {
    const auto after = counts_.upper_bound(addr);
    return after == counts_.begin() ? 0 : std::prev(after)->second;
}

bool RangeCounts::is_covered(Range range) const { return first(range, false).empty(); }

Range RangeCounts::first(Range within, bool covered) const {
    std::uint64_t at = within.start;
    auto next = counts_.upper_bound(at);
    bool here = next != counts_.begin() && std::prev(next)->second != 0;
    while (here != covered) {
        if (next == counts_.end() || next->first >= within.end) {
            return {};
        }
        at = next->first;
        here = next->second != 0;
        ++next;
    }
    std::uint64_t end = within.end;
    for (; next != counts_.end() && next->first < within.end; ++next) {
        if ((next->second != 0) != covered) {
            end = next->first;
            break;
        }
    }
    return at < end ? Range{at, end} : Range{};
}

Range RangeCounts::uncovered_around(Range inside) const {
    Range around{0, ~0ULL};
    auto next = counts_.upper_bound(inside.start);
    // The change at or before the start is where the uncovered stretch begins: neighbours never carry the
    // same count.
    if (next != counts_.begin()) {
        around.start = std::prev(next)->first;
    }
    if (next != counts_.end()) {
        around.end = next->first;
    }
    return around;
}

}  // namespace urnic::memory
