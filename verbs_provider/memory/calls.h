// System calls of the program's own on memory that may be converted: what would act otherwise on the memory
// file's pages than on the private anonymous memory that the program takes them for. The preloaded library
// (verbs_provider/shim) asks here instead of the C library. docs/memory.md has the table.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>

namespace urnic::memory {

// The calls as they would have been made: -1 (MAP_FAILED) and errno on failure.
using RealMadvise = int (*)(void* addr, std::size_t length, int advice);
using RealProcessMadvise = ssize_t (*)(int pidfd, const iovec* ranges, std::size_t count, int advice,
                                       unsigned flags);
using RealMremap = void* (*)(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                             void* new_addr);

// Each answers what the call answers on private anonymous memory, errno included, and makes the real one for
// whatever is not converted. They take no lock while they call `real`, or one that lets convert() and
// release() in: other libraries hook these calls too and deregister memory in them.
int advise(void* addr, std::size_t length, int advice, RealMadvise real);
ssize_t process_advise(int pidfd, const iovec* ranges, std::size_t count, int advice, unsigned flags,
                       RealProcessMadvise real);
void* remap(void* old_addr, std::size_t old_length, std::size_t new_length, int flags, void* new_addr,
            RealMremap real);

/// Whether `block` is one of glibc's malloc that has a mapping of its own with converted pages in it.
/// realloc() would call mremap() on it within the C library, where remap() is not asked: it must be copied
/// instead.
[[nodiscard]] bool is_mapped_block(const void* block);

/// How the preloaded library finds them: it defines `urnic_memory_calls`, a pointer to this (null until
/// memory is registered for the first time) under that C name, and whoever registers memory sets it.
struct Calls {
    int (*advise)(void*, std::size_t, int, RealMadvise) = &memory::advise;
    ssize_t (*process_advise)(int, const iovec*, std::size_t, int, unsigned,
                              RealProcessMadvise) = &memory::process_advise;
    void* (*remap)(void*, std::size_t, std::size_t, int, void*, RealMremap) = &memory::remap;
    bool (*is_mapped_block)(const void*) = &memory::is_mapped_block;
};
inline constexpr const char* kCallsSymbol = "urnic_memory_calls";

}  // namespace urnic::memory
