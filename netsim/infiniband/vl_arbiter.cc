#include "netsim/infiniband/vl_arbiter.h"

#include "netsim/infiniband/credits.h"

namespace urnic::netsim {

namespace {
constexpr std::uint8_t kUnlimited = 255;
constexpr std::uint8_t kDefaultWeight = 64;
}  // namespace

VlArbiter::VlArbiter() {
    Table low{};
    for (std::uint8_t vl = 0; vl < kDataVls; ++vl) {
        low[vl] = {vl, kDefaultWeight};
    }
    set_table(Priority::kLow, low);
}

void VlArbiter::set_table(Priority priority, const Table& table) {
    List& list = lists_[index(priority)];
    list = {};
    list.entries = table;
    list.left = table[0].weight;
    served_ = 1U << kManagementVl;
    for (std::uint32_t i = 0; i < kEntries; ++i) {
        list.count = table[i].weight != 0 ? i + 1 : list.count;
    }
    for (const List& each : lists_) {
        for (const VlArbitrationEntry& entry : each.entries) {
            served_ |= entry.weight != 0 && entry.vl < kDataVls ? 1U << entry.vl : 0;
        }
    }
}

void VlArbiter::set_high_limit(std::uint8_t limit) {
    high_limit_ = limit;
    reload_high();
}

bool VlArbiter::turn(List& list, std::span<const std::uint32_t, kVls> ready) {
    std::uint32_t at = list.current;
    std::int32_t left = list.left;
    // Once round, and the entry where it began once more, with its whole weight.
    for (std::uint32_t tried = 0; list.count != 0 && tried <= list.count; ++tried) {
        const std::uint8_t vl = list.entries[at].vl;
        if (left > 0 && vl < kDataVls && ready[vl] != 0) {
            list.current = at;
            list.left = left;
            return true;
        }
        at = at + 1 < list.count ? at + 1 : 0;
        left = list.entries[at].weight;
    }
    return false;
}

// The packet that exhausts a weight goes as a whole.
std::uint8_t VlArbiter::take(List& list, std::span<const std::uint32_t, kVls> ready) {
    const std::uint8_t vl = list.entries[list.current].vl;
    list.left -= static_cast<std::int32_t>(credit_blocks(ready[vl]));
    return vl;
}

std::uint8_t VlArbiter::choose(std::span<const std::uint32_t, kVls> ready) {
    if (ready[kManagementVl] != 0) {
        return kManagementVl;
    }
    List& high = lists_[index(Priority::kHigh)];
    List& low = lists_[index(Priority::kLow)];
    const bool high_ready = turn(high, ready);
    const bool exhausted = high_limit_ == 0 ? high_sent_ : high_bytes_left_ <= 0;
    const bool low_has_its_chance = !high_ready || (exhausted && high_limit_ != kUnlimited);
    if (low_has_its_chance) {
        high_sent_ = false;
        reload_high();
        if (turn(low, ready)) {
            return take(low, ready);
        }
    }
    if (!high_ready) {
        return kVls;
    }
    const std::uint8_t vl = take(high, ready);
    high_sent_ = true;
    high_bytes_left_ -= ready[vl];
    return vl;
}

}  // namespace urnic::netsim
