#include "daemon/host/active_faults.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/config/config.h"
#include "daemon/host/host.h"

namespace urnic::dataplane {

namespace {

using PlanPointer = std::shared_ptr<const fault::Plan>;

/// nullptr when none of the rules is for that device.
PlanPointer plan_for(const FaultSet::Rules& rules, const std::string& device) {
    FaultSet::Rules chosen;
    std::copy_if(rules.begin(), rules.end(), std::back_inserter(chosen), [&](const auto& active) {
        return active->rule.device.empty() || active->rule.device == device;
    });
    return chosen.empty() ? nullptr : std::make_shared<const fault::Plan>(std::move(chosen));
}

std::string device_names(const Host& host) {
    std::string names;
    for (const auto& entry : host.devices) {
        names += (names.empty() ? "" : ", ") + entry->device->name;
    }
    return names;
}

}  // namespace

std::string FaultSet::add(const Host& host, const std::vector<fault::Rule>& rules) {
    if (rules_.size() + rules.size() > kMaxFaults) {
        return fmt::format("{} faults are in force and {} more would be too many: at most {}", rules_.size(),
                           rules.size(), kMaxFaults);
    }
    for (const fault::Rule& rule : rules) {
        if (!rule.device.empty() && host.find_device(rule.device) == nullptr) {
            return fmt::format("'device' is \"{}\"; there are {}", rule.device, device_names(host));
        }
    }
    for (const fault::Rule& rule : rules) {
        const std::uint64_t seed = rule.seed.value_or(secure_random());
        rules_.push_back(std::make_shared<fault::ActiveRule>(rule, next_id_++, seed));
    }
    if (!rules.empty()) {
        publish(host);
    }
    return "";
}

bool FaultSet::remove(const Host& host, std::uint32_t id) {
    if (std::erase_if(rules_, [=](const auto& active) { return active->id == id; }) == 0) {
        return false;
    }
    publish(host);
    return true;
}

void FaultSet::clear(const Host& host) {
    if (!rules_.empty()) {
        rules_.clear();
        publish(host);
    }
}

void FaultSet::publish(const Host& host) const {
    std::vector<PlanPointer> plans;
    for (const auto& entry : host.devices) {
        plans.push_back(plan_for(rules_, entry->device->name));
    }
    for (const auto& worker : host.workers) {
        // The old plans come back in their place and go with it, on this thread.
        std::vector<PlanPointer> exchanged = plans;
        worker->call([&] {
            for (std::uint32_t i = 0; i < exchanged.size(); ++i) {
                worker->swap_faults(host.devices[i]->device->index, exchanged[i]);
            }
        });
    }
}

}  // namespace urnic::dataplane
