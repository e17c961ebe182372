#include "daemon/host/publish_addresses.h"

namespace urnic::dataplane {

void publish_addresses(Host& host, HostDevice& device) {
    for (const auto& worker : host.workers) {
        worker->call([&] { worker->refresh_addresses(device.device->index); });
    }
    if (host.addresses_changed) {
        host.addresses_changed(*device.device);
    }
    if (host.raise) {
        host.raise(device, AsyncEventType::kGidChange);
    }
}

}  // namespace urnic::dataplane
