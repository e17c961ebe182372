#include "rnic/cm/listeners.h"

#include <algorithm>
#include <new>

namespace urnic::cm {

namespace {

bool can_take(const ListenParams& params, const RequestedAddress& requested) {
    if ((params.families == Families::kGid) != requested.is_by_gid) {
        return false;
    }
    if (params.local_gid) {
        return *params.local_gid == requested.address;
    }
    return requested.is_by_gid || params.families == Families::kAny ||
           (params.families == Families::kIpv4) == wire::is_ipv4_mapped(requested.address);
}

bool overlap(const ListenParams& a, const ListenParams& b) {
    if ((a.families == Families::kGid) != (b.families == Families::kGid)) {
        return false;
    }
    if (a.local_gid || b.local_gid) {
        return a.local_gid == b.local_gid;
    }
    return a.families == b.families || a.families == Families::kAny || b.families == Families::kAny;
}

}  // namespace

Status Listeners::add(const ListenParams& params, ListenerId& id) {
    id = 0;
    const auto [first, end] = by_service_.equal_range(params.service_id);
    for (auto it = first; it != end; ++it) {
        if (overlap(it->second.params, params)) {
            return Status::kInUse;
        }
    }
    try {
        Listener listener;
        listener.id = last_id_ + 1;
        listener.params = params;
        listener.backlog = params.backlog;
        const auto added = by_service_.emplace(params.service_id, std::move(listener));
        try {
            by_id_.emplace(added->second.id, added);
        } catch (const std::bad_alloc&) {
            by_service_.erase(added);
            throw;
        }
    } catch (const std::bad_alloc&) {
        return Status::kNoMemory;
    }
    id = ++last_id_;
    return Status::kOk;
}

void Listeners::remove(ListenerId id) {
    const auto found = by_id_.find(id);
    if (found != by_id_.end()) {
        by_service_.erase(found->second);
        by_id_.erase(found);
    }
}

Listener* Listeners::find(std::uint64_t service_id, const RequestedAddress& requested) {
    Listener* best = nullptr;
    const auto [first, end] = by_service_.equal_range(service_id);
    for (auto it = first; it != end; ++it) {
        if (can_take(it->second.params, requested) && (best == nullptr || it->second.params.local_gid)) {
            best = &it->second;
        }
    }
    return best;
}

Listener* Listeners::find(ListenerId id) {
    const auto found = by_id_.find(id);
    return found == by_id_.end() ? nullptr : &found->second->second;
}

bool Listeners::enter(Listener& listener, const wire::Gid& source) {
    const std::uint32_t free = listener.backlog - std::min(listener.waiting, listener.backlog);
    const auto found = listener.sources.find(source);
    const std::uint32_t held = found == listener.sources.end() ? 0 : found->second;
    if (free == 0 || held >= std::uint64_t{kShareOfFree} * free) {
        return false;
    }
    try {
        ++listener.sources[source];
    } catch (const std::bad_alloc&) {
        return false;
    }
    ++listener.waiting;
    return true;
}

void Listeners::leave(ListenerId id, const wire::Gid& source) {
    Listener* listener = find(id);
    if (listener == nullptr) {
        return;
    }
    --listener->waiting;
    const auto found = listener->sources.find(source);
    if (--found->second == 0) {
        listener->sources.erase(found);
    }
}

}  // namespace urnic::cm
