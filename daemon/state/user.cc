#include "daemon/state/user.h"

#include <unistd.h>

#include <algorithm>

#include "os/log.h"

namespace urnic::daemon {

namespace {

struct DescriptorCost {
    Resource resource;
    std::uint32_t descriptors;  // of each, at most
};
constexpr DescriptorCost kDescriptorCosts[] = {
    // Socket, process, its memory, doorbells, memory file, rings, an eventfd of each of four workers, and
    // what a request brings.
    {Resource::kConnections, 16}, {Resource::kContexts, 2},  // event socket, command fd
    {Resource::kChannels, 1},     {Resource::kXrcds, 1},    {Resource::kDms, 1}, {Resource::kCmChannels, 2},
};

std::uint32_t descriptors_of(Resource resource) {
    const auto* const cost =
        std::find_if(std::begin(kDescriptorCosts), std::end(kDescriptorCosts),
                     [&](const DescriptorCost& candidate) { return candidate.resource == resource; });
    return cost == std::end(kDescriptorCosts) ? 0 : cost->descriptors;
}

}  // namespace

bool is_root_or_daemon(uid_t uid) { return uid == 0 || uid == ::geteuid(); }

std::uint32_t User::descriptors() const {
    std::uint32_t sum = 0;
    for (const DescriptorCost& cost : kDescriptorCosts) {
        sum += counts_[static_cast<std::size_t>(cost.resource)] * cost.descriptors;
    }
    return sum;
}

bool User::has_room(Resource resource) {
    if (limits_ == nullptr) {
        return true;
    }
    if (count(resource) >= (*limits_)[resource]) {
        tell(resource);
        return false;
    }
    const std::uint32_t more = descriptors_of(resource);
    const std::uint32_t most = (*limits_)[Resource::kDescriptors];
    if (most != 0 && more != 0 && descriptors() + more > most) {
        tell(Resource::kDescriptors);
        return false;
    }
    return true;
}

std::uint32_t User::at_most(Resource resource, std::uint32_t most) const {
    return limits_ == nullptr ? most : std::min(most, (*limits_)[resource]);
}

void User::tell(Resource resource) {
    const auto index = static_cast<std::size_t>(resource);
    if (!told_[index]) {
        told_[index] = true;
        log_warning(
            "user {} is refused more: its processes have as much as '{}' of [daemon.limits.per_uid] allows, "
            "{}; end "
            "some of them or raise the limit",
            uid_, kUserLimitKeys[index], (*limits_)[resource]);
    }
}

}  // namespace urnic::daemon
