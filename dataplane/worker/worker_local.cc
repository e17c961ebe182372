// When packets between a worker's own QPs are frames, and when they need not be (docs/adr/0035).
#include <algorithm>

#include "dataplane/worker/worker_impl.h"

namespace urnic::dataplane {

namespace {

/// A round handles half of the deepest ring; what lies before it in an outbox may wait for another worker.
constexpr int kSettleRounds = 64;

}  // namespace

bool Worker::Impl::has_local() const {
    return std::any_of(worker_devices.begin(), worker_devices.end(), [this](const auto& worker_device) {
        return worker_device->outbox.offloads() &&
               (worker_device->outbox.has_local() ||
                worker_device->device_port.local_waiting(config.index) != 0);
    });
}

// Handling them sends nothing, so there are fewer after each round.
void Worker::Impl::settle_local() {
    for (int round = 0; round < kSettleRounds && has_local(); ++round) {
        (void)flush_ports();
        (void)receive();
    }
    for (const auto& worker_device : worker_devices) {
        worker_device->outbox.drop_local();
    }
}

void Worker::Impl::apply_offload() {
    const bool is_observed = observers.load(std::memory_order_relaxed) != 0;
    for (const auto& worker_device : worker_devices) {
        worker_device->outbox.set_offload(!is_observed &&
                                          worker_device->device.local_offload == LocalOffload::kOn);
    }
}

void Worker::Impl::begin_observation() {
    if (observers.fetch_add(1, std::memory_order_relaxed) == 0) {
        settle_local();
        apply_offload();
    }
}

void Worker::Impl::end_observation() {
    if (observers.fetch_sub(1, std::memory_order_relaxed) == 1) {
        apply_offload();
    }
}

}  // namespace urnic::dataplane
