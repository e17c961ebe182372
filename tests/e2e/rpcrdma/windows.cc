#include "tests/e2e/rpcrdma/windows.h"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdlib>

namespace urnic::e2e {

bool has_windows() {
    static const bool s_has_windows = std::getenv("RPCRDMA_CHECK_WITHOUT_WINDOWS") == nullptr;
    return s_has_windows;
}

}  // namespace urnic::e2e

/// In front of that of libibverbs, for the library too.
extern "C" __attribute__((visibility("default"))) int ibv_query_device(ibv_context* context,
                                                                       ibv_device_attr* attributes) {
    static const auto s_query =
        reinterpret_cast<int (*)(ibv_context*, ibv_device_attr*)>(dlsym(RTLD_NEXT, "ibv_query_device"));
    if (s_query == nullptr) return ENOSYS;
    const int error = s_query(context, attributes);
    if (error == 0 && !urnic::e2e::has_windows()) {
        attributes->device_cap_flags &= ~static_cast<unsigned>(
            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
        attributes->max_mw = 0;
    }
    return error;
}
