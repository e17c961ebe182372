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

std::shared_ptr<std::vector<dataplane::UserShare>> ControlState::shares_of(uid_t uid) {
    std::erase_if(user_shares, [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<std::vector<dataplane::UserShare>>& known = user_shares[uid];
    std::shared_ptr<std::vector<dataplane::UserShare>> shares = known.lock();
    if (shares == nullptr) {
        shares = std::make_shared<std::vector<dataplane::UserShare>>(workers.size());
        known = shares;
    }
    return shares;
}

User& ControlState::user(uid_t uid) {
    return users.try_emplace(uid, uid, is_privileged(uid) ? nullptr : &limits.per_uid).first->second;
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
