#include "daemon/state/publish_addresses.h"

namespace urnic::daemon {

void publish_addresses(ControlState& control, RnicState& device) {
    for (const auto& worker : control.workers) {
        worker->call([&] { worker->refresh_addresses(device.device->index); });
    }
    if (control.addresses_changed) {
        control.addresses_changed(*device.device);
    }
    if (control.raise) {
        control.raise(device, AsyncEventType::kGidChange);
    }
}

}  // namespace urnic::daemon
