#include "daemon/state/control_state.h"

#include <algorithm>
#include <iterator>
#include <memory>

namespace urnic::daemon {

void ControlState::barrier() const {
    for (const auto& worker : workers) {
        worker->call([] {});
    }
}

User& ControlState::user(uid_t uid) {
    const auto found = users.find(uid);
    return found != users.end()
               ? found->second
               : users.try_emplace(uid, uid, is_privileged(uid), limits.per_uid, workers.size())
                     .first->second;
}

RnicState* ControlState::find_device(const std::string& name) const {
    const auto found = std::find_if(devices.begin(), devices.end(),
                                    [&](const auto& candidate) { return candidate->device->name == name; });
    return found == devices.end() ? nullptr : found->get();
}

std::uint32_t ControlState::least_loaded_worker() const {
    return static_cast<std::uint32_t>(
        std::distance(worker_qps.begin(), std::min_element(worker_qps.begin(), worker_qps.end())));
}

}  // namespace urnic::daemon
