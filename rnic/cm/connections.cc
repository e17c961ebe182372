#include "rnic/cm/connections.h"

#include <algorithm>
#include <new>

namespace urnic::cm {

bool Connections::may_half_open(const wire::Gid& source) const {
    const std::uint32_t free = limits_.max_half_open - std::min(half_open_, limits_.max_half_open);
    const auto found = sources_.find(source);
    const std::uint32_t held = found == sources_.end() ? 0 : found->second;
    return free != 0 && held < std::uint64_t{kShareOfFree} * free;
}

Connections::Made Connections::make(RandomIds& ids, const wire::Gid* source) {
    if (is_full()) {
        return {Refused::kFull, nullptr};
    }
    if (source != nullptr && !may_half_open(*source)) {
        return {Refused::kHalfOpen, nullptr};
    }
    Handle id = 0;
    while (id == 0 || all_.contains(id)) {
        id = static_cast<Handle>(ids.next());
    }
    try {
        auto connection = std::make_unique<Connection>();
        connection->id = id;
        Connection* made = connection.get();
        all_.emplace(id, std::move(connection));
        if (source != nullptr) {
            made->info.route.remote_gid = *source;
            try {
                ++sources_[*source];
            } catch (const std::bad_alloc&) {
                all_.erase(id);
                throw;
            }
            made->is_half_open = true;
            ++half_open_;
        }
        return {Refused::kNot, made};
    } catch (const std::bad_alloc&) {
        return {Refused::kNoMemory, nullptr};
    }
}

void Connections::erase(Connection& connection) {
    timers_.remove(connection.timer);
    clear_remote(connection);
    clear_qp(connection);
    forget(connection);
    end_half_open(connection);
    all_.erase(connection.id);
}

Connection* Connections::find(Handle id) const {
    const auto found = all_.find(id);
    return found == all_.end() ? nullptr : found->second.get();
}

void Connections::set_timer(Connection& connection, TimeNs due) {
    if (due == kNever) {
        timers_.remove(connection.timer);
    } else {
        timers_.put(connection.timer, {due, connection.id}, connection.id);
    }
}

Connection* Connections::take_due(TimeNs now) {
    if (next_due() > now || timers_.empty()) {
        return nullptr;
    }
    Connection* connection = find(timers_.first());
    timers_.remove(connection->timer);
    return connection;
}

void Connections::end_half_open(Connection& connection) {
    if (!connection.is_half_open) {
        return;
    }
    connection.is_half_open = false;
    --half_open_;
    const auto source = sources_.find(connection.info.route.remote_gid);
    if (--source->second == 0) {
        sources_.erase(source);
    }
}

}  // namespace urnic::cm
