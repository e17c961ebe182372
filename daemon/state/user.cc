#include "daemon/state/user.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <string_view>

#include "os/log.h"
#include "os/monotonic_clock.h"

namespace urnic::daemon {

namespace {

/// So long a line needs no memory.
constexpr std::size_t kMostLineBytes = 512;

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
        refuse_more(kUserLimitKeys[static_cast<std::size_t>(resource)], (*limits_)[resource]);
        return false;
    }
    const std::uint32_t more = descriptors_of(resource);
    const std::uint32_t most = (*limits_)[Resource::kDescriptors];
    if (most != 0 && more != 0 && descriptors() + more > most) {
        refuse_more(kUserLimitKeys[static_cast<std::size_t>(Resource::kDescriptors)], most);
        return false;
    }
    return true;
}

bool User::has_room(ByteResource resource, std::uint64_t more) {
    if (more <= room(resource)) {
        return true;
    }
    refuse_more(kUserByteLimitKeys[static_cast<std::size_t>(resource)], (*limits_)[resource]);
    return false;
}

std::uint64_t User::room(ByteResource resource) const {
    return limit(resource) - std::min(limit(resource), bytes(resource));
}

std::uint64_t User::limit(ByteResource resource) const {
    const std::uint64_t most = limits_ == nullptr ? 0 : (*limits_)[resource];
    return most == 0 ? ~std::uint64_t{0} : most;
}

std::uint32_t User::at_most(Resource resource, std::uint32_t most) const {
    return limits_ == nullptr ? most : std::min(most, (*limits_)[resource]);
}

std::uint64_t User::at_most(ByteResource resource, std::uint64_t most) const {
    return std::min(most, limit(resource));
}

void User::refuse_more(const char* key, std::uint64_t most) {
    refuse("more than {} = {} of [daemon.limits.per_uid]: end some of its programs, or raise the limit", key,
           most);
}

void User::note_refusal(fmt::string_view what, fmt::format_args args) {
    const auto suppressed = refusals_.add(clock_now());
    if (!suppressed) {
        return;
    }
    fmt::basic_memory_buffer<char, kMostLineBytes> line;
    const auto append = [&line](fmt::string_view format, const auto&... values) {
        fmt::format_to(std::back_inserter(line), fmt::runtime(format), values...);
    };
    try {
        append("user {}", uid_);
        if (served_pid_ != 0) {
            append(", process {}", served_pid_);
        }
        append(" is refused ");
        fmt::vformat_to(std::back_inserter(line), what, args);
        if (*suppressed != 0) {
            append(" ({} refusals since the last line are not logged)", *suppressed);
        }
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): as much as there is room for
    }
    log_warning("{}", std::string_view(line.data(), line.size()));
}

}  // namespace urnic::daemon
