#include "ulp/rpcrdma/verbs/device.h"

#include <cerrno>
#include <map>
#include <mutex>

#include "ulp/rpcrdma/verbs/pool.h"

namespace urnic::rpcrdma {
namespace {

/// Of software devices, rxe among them, which have no IEEE OUI.
constexpr std::uint32_t kNoVendor = 0xffffff;

/// rxe hands out the kernel's flag of an Invalidate, which has another name in libibverbs; completions of RC
/// have no use for that one.
unsigned invalidation_flags(const ibv_device_attr& attributes) {
    return attributes.vendor_id == kNoVendor ? IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK : IBV_WC_WITH_INV;
}

struct Devices {
    std::mutex mutex;
    std::map<ibv_context*, std::weak_ptr<Device>> of_context;
};

Devices& devices() {
    static auto* const all = new Devices;  // as long as the pool
    return *all;
}

}  // namespace

std::shared_ptr<Device> Device::of(ibv_context* context) {
    Devices& all = devices();
    const std::lock_guard lock(all.mutex);
    std::weak_ptr<Device>& known = all.of_context[context];
    std::shared_ptr<Device> device = known.lock();
    if (device != nullptr) return device;
    ibv_device_attr attributes{};
    const int error = ibv_query_device(context, &attributes);
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    const std::size_t place = Pool::instance().add_device();
    if (place == Pool::kMaxDevices) {
        errno = ENOSPC;
        return nullptr;
    }
    ibv_pd* const pd = ibv_alloc_pd(context);
    if (pd == nullptr) {
        const int pd_error = errno;
        Pool::instance().remove_device(place);
        errno = pd_error;
        return nullptr;
    }
    device.reset(new Device(context, pd, attributes, place));
    known = device;
    return device;
}

Device::Device(ibv_context* context, ibv_pd* pd, const ibv_device_attr& attributes, std::size_t pool_place)
    : context_(context),
      pd_(pd),
      attributes_(attributes),
      pool_place_(pool_place),
      has_windows_((attributes.device_cap_flags &
                    (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0 &&
                   attributes.max_mw > 0),
      has_invalidation_((attributes.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0),
      invalidation_flags_(invalidation_flags(attributes)) {}

Device::~Device() {
    Pool::instance().remove_device(pool_place_);
    (void)ibv_dealloc_pd(pd_);
}

}  // namespace urnic::rpcrdma
