#include "daemon/verbs/doorbell_slots.h"

#include "abi/queues.h"

namespace urnic::daemon {

std::optional<std::uint32_t> DoorbellSlots::allocate() {
    if (!free_.empty()) {
        const std::uint32_t slot = free_.back();
        free_.pop_back();
        return slot;
    }
    if (next_ == abi::kDoorbellSlots) {
        return std::nullopt;
    }
    if (free_.capacity() == next_) {
        free_.reserve(std::size_t{2} * next_ + 16);
    }
    return next_++;
}

}  // namespace urnic::daemon
