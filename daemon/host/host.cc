#include "daemon/host/host.h"

#include <sys/random.h>

#include <algorithm>

#include "base/check.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kQpNumberMask = 0xff'ffff;

/// QP0 and QP1 are the management QPs, 0xffffff means multicast (IBA 9.2.5, 10.5).
bool is_reserved(std::uint32_t qp_num) { return qp_num < 2 || qp_num == kQpNumberMask; }

}  // namespace

QpNumbers::QpNumbers(std::uint32_t num_workers)
    : num_workers_(num_workers), next_(secure_random() & kQpNumberMask) {}

std::optional<std::uint32_t> QpNumbers::allocate(std::uint32_t worker) {
    std::uint32_t candidate = next_;
    for (std::uint32_t tried = 0; tried <= kQpNumberMask; ++tried) {
        candidate = (candidate + 1) & kQpNumberMask;
        if (candidate % num_workers_ == worker && !is_reserved(candidate) && used_.insert(candidate).second) {
            next_ = candidate;
            return candidate;
        }
    }
    return std::nullopt;
}

void Host::listen_for_mads(std::function<void(HostDevice&, const ReceivedMad&)> hook) {
    on_mad = std::move(hook);
    for (const auto& entry : devices) {
        entry->mads = std::make_unique<MadInbox>();
        entry->device->mads = entry->mads.get();
    }
}

void Host::barrier() const {
    for (const auto& worker : workers) {
        worker->call([] {});
    }
}

HostDevice* Host::find_device(const std::string& name) const {
    const auto found = std::find_if(devices.begin(), devices.end(),
                                    [&](const auto& candidate) { return candidate->device->name == name; });
    return found == devices.end() ? nullptr : found->get();
}

std::uint32_t Host::emptiest_worker() const {
    return static_cast<std::uint32_t>(
        std::distance(worker_qps.begin(), std::min_element(worker_qps.begin(), worker_qps.end())));
}

std::uint32_t secure_random() {
    std::uint32_t number = 0;
    URNIC_CHECK(::getrandom(&number, sizeof number, 0) == sizeof number);
    return number;
}

}  // namespace urnic::dataplane
