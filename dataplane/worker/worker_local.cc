// When packets between a worker's own QPs are frames, and when they need not be (docs/adr/0035).
#include "base/check.h"
#include "dataplane/worker/worker_impl.h"

namespace urnic::dataplane {

namespace {

/// Far more than it takes to empty the rings of all workers, of which each round handles some.
constexpr int kMostSettleRounds = 10'000;

}  // namespace

std::uint32_t Worker::Impl::local_held(const QpSlot* of) const {
    std::uint32_t count = 0;
    for (const auto& worker_device : worker_devices) {
        count += worker_device->outbox.num_local(of);
    }
    return count;
}

std::uint32_t Worker::Impl::local_sent() const {
    std::uint32_t count = 0;
    for (const auto& worker_device : worker_devices) {
        count += worker_device->device_port.local_waiting(config.index);
    }
    return count;
}

// Those that have left are all handled, whatever else comes meanwhile: nothing may refer to a QP that goes.
// Those in an outbox leave it, unless they wait behind frames for another worker.
void Worker::Impl::settle_local(const QpSlot* of) {
    int round = 0;
    bool has_progress = true;
    while (local_sent() != 0 || (has_progress && local_held(of) != 0)) {
        URNIC_CHECK(++round < kMostSettleRounds);
        const std::uint32_t before = local_held(nullptr);
        (void)flush_ports();
        (void)receive();
        has_progress = local_sent() != 0 || local_held(nullptr) < before;
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
