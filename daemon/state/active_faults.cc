#include "daemon/state/active_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "daemon/config/config.h"
#include "daemon/state/control_state.h"
#include "os/secure_random.h"

namespace urnic::daemon {

namespace {

using PlanPointer = std::shared_ptr<const fault::Plan>;

/// nullptr when none of the rules is for that device, or it takes none.
PlanPointer plan_for(const ActiveFaults::Rules& rules, const dataplane::Device& target) {
    ActiveFaults::Rules chosen;
    if (target.is_infiniband()) {
        return nullptr;  // rules look at Ethernet frames
    }
    const std::string& device = target.name;
    std::copy_if(rules.begin(), rules.end(), std::back_inserter(chosen), [&](const auto& active) {
        return active->rule.device.empty() || active->rule.device == device;
    });
    return chosen.empty() ? nullptr : std::make_shared<const fault::Plan>(std::move(chosen));
}

std::string device_names(const ControlState& control) {
    std::string names;
    for (const auto& entry : control.devices) {
        names += (names.empty() ? "" : ", ") + entry->device->name;
    }
    return names;
}

}  // namespace

ActiveFaults::Rules ActiveFaults::rules_for(const User& user) const {
    Rules known;
    std::copy_if(rules_.begin(), rules_.end(), std::back_inserter(known),
                 [&](const auto& active) { return user.is_privileged() || !active->rule.qpn.has_value(); });
    return known;
}

std::string ActiveFaults::add(const ControlState& control, const std::vector<fault::Rule>& rules) {
    if (rules_.size() + rules.size() > kMaxFaults) {
        return fmt::format("{} faults are in force and {} more would be too many: at most {}", rules_.size(),
                           rules.size(), kMaxFaults);
    }
    for (const fault::Rule& rule : rules) {
        const RnicState* const named = rule.device.empty() ? nullptr : control.find_device(rule.device);
        if (!rule.device.empty() && named == nullptr) {
            return fmt::format("'device' is \"{}\"; there are {}", rule.device, device_names(control));
        }
        const bool is_for_nobody =
            named == nullptr && std::all_of(control.devices.begin(), control.devices.end(),
                                            [](const auto& entry) { return entry->device->is_infiniband(); });
        if (is_for_nobody) {
            return "all RNICs have the link layer InfiniBand: faults are for RNICs on Ethernet";
        }
        if (named != nullptr && named->device->is_infiniband()) {
            return fmt::format(
                "'device' is \"{}\", whose link layer is InfiniBand: faults are for RNICs on Ethernet",
                rule.device);
        }
    }
    for (const fault::Rule& rule : rules) {
        const std::uint64_t seed = rule.seed.value_or(secure_random());
        rules_.push_back(std::make_shared<fault::ActiveRule>(rule, next_id_++, seed));
    }
    if (!rules.empty()) {
        publish(control);
    }
    return "";
}

bool ActiveFaults::remove(const ControlState& control, std::uint32_t id) {
    if (std::erase_if(rules_, [=](const auto& active) { return active->id == id; }) == 0) {
        return false;
    }
    publish(control);
    return true;
}

void ActiveFaults::clear(const ControlState& control) {
    if (!rules_.empty()) {
        rules_.clear();
        publish(control);
    }
}

void ActiveFaults::publish(const ControlState& control) const {
    std::vector<PlanPointer> plans;
    for (const auto& entry : control.devices) {
        plans.push_back(plan_for(rules_, *entry->device));
    }
    for (const auto& worker : control.workers) {
        // The old plans come back in their place and go with it, on this thread.
        std::vector<PlanPointer> exchanged = plans;
        worker->call([&] {
            for (std::uint32_t i = 0; i < exchanged.size(); ++i) {
                worker->swap_faults(control.devices[i]->device->index, exchanged[i]);
            }
        });
    }
}

}  // namespace urnic::daemon
