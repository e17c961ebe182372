#include "daemon/state/control_state.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

namespace urnic::daemon {

namespace {

constexpr std::uint32_t kMadsPerRound = 256;  // of a device, before requests have their turn

/// At most as many as fit into the inbox: who floods it keeps nobody else waiting.
void take_mads(const ControlState& control, RnicState& device) {
    device.mads->acknowledge();
    ReceivedMad mad;
    for (std::uint32_t taken = 0; taken < kMadsPerRound && device.mads->pop(mad); ++taken) {
        try {
            control.on_mad(device, mad);
        } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): lost, as any datagram may be
        }
    }
    device.mads->wake_for_rest();
}

}  // namespace

void ControlState::listen_for_mads(std::function<void(RnicState&, const ReceivedMad&)> hook) {
    on_mad = std::move(hook);
    for (const auto& entry : devices) {
        entry->mads = std::make_unique<dataplane::MadInbox>();
        entry->device->mads = entry->mads.get();
        event_loop.add(entry->mads->fd(), [this, rnic = entry.get()] { take_mads(*this, *rnic); });
    }
}

void ControlState::barrier() const {
    for (const auto& worker : workers) {
        worker->call([] {});
    }
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
