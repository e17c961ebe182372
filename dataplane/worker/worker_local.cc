// When packets between a worker's own QPs are frames, and when they need not be (docs/adr/0035).
#include "dataplane/worker/worker_impl.h"

namespace urnic::dataplane {

namespace {

/// A round handles half of the deepest ring; what lies before it in an outbox may wait for another worker.
constexpr int kSettleRounds = 64;

}  // namespace

std::uint32_t Worker::Impl::num_local(const QpSlot* of) const {
    std::uint32_t count = 0;
    for (const auto& worker_device : worker_devices) {
        if (worker_device->outbox.offloads()) {
            count +=
                worker_device->outbox.num_local(of) + worker_device->device_port.local_waiting(config.index);
        }
    }
    return count;
}

// Handling them sends nothing, so there are fewer after each round, until what is left waits behind frames
// for another worker.
void Worker::Impl::settle_local(const QpSlot* of) {
    std::uint32_t before = ~0U;
    for (int round = 0; round < kSettleRounds && num_local(of) != 0; ++round) {
        (void)flush_ports();
        (void)receive();
        const std::uint32_t left = num_local(nullptr);
        if (left >= before) {
            break;
        }
        before = left;
    }
    for (const auto& worker_device : worker_devices) {
        worker_device->outbox.drop_local(of);
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
        settle_local(nullptr);
        apply_offload();
    }
}

void Worker::Impl::end_observation() {
    if (observers.fetch_sub(1, std::memory_order_relaxed) == 1) {
        apply_offload();
    }
}

}  // namespace urnic::dataplane
