#include "verbs_provider/shim/functions.h"

#include <dlfcn.h>

#include <atomic>
#include <cerrno>

namespace urnic::shim {
namespace {

constexpr int kCount = static_cast<int>(Function::kCount);
constexpr const char* kNames[kCount] = {
#define URNIC_SHIM_NAME(name) #name,
    URNIC_SHIM_FUNCTIONS(URNIC_SHIM_NAME) URNIC_SHIM_LIBMNL_FUNCTIONS(URNIC_SHIM_NAME)
#undef URNIC_SHIM_NAME
};
constinit std::atomic<void*> addresses[kCount] = {};

void* look_up(int index) {
    void* address = dlsym(RTLD_NEXT, kNames[index]);
    // glibc 2.33 and later keep the __*xstat* family for old binaries only, under their first version.
    if (address == nullptr) address = dlvsym(RTLD_NEXT, kNames[index], "GLIBC_2.2.5");
    if (address == nullptr) address = dlvsym(RTLD_NEXT, kNames[index], "GLIBC_2.4");
    addresses[index].store(address, std::memory_order_release);
    return address;
}

}  // namespace

void* real_function(Function function) {
    const int index = static_cast<int>(function);
    void* address = addresses[index].load(std::memory_order_acquire);
    // Null before the constructor has run: a library that the loader initialises earlier opens a file.
    if (address == nullptr) {
        const int saved = errno;
        address = look_up(index);
        errno = address == nullptr ? ENOSYS : saved;
    }
    return address;
}

void* known_function(Function function) {
    return addresses[static_cast<int>(function)].load(std::memory_order_acquire);
}

void resolve_all() {
    for (int i = 0; i < static_cast<int>(Function::k_mnl_socket_open); ++i) look_up(i);
}

}  // namespace urnic::shim
