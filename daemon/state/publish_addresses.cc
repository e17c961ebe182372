#include "daemon/state/publish_addresses.h"

namespace urnic::daemon {

void publish_addresses(ControlState& control, RnicState& device) {
    for (const auto& worker : control.workers) {
        worker->call([&] { worker->refresh_addresses(device.device->index); });
    }
    for (RnicObserver* observer : control.observers) {
        observer->on_gids(device);
    }
}

}  // namespace urnic::daemon
