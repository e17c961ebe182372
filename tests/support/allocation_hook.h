// Replaces operator new in the test program that includes this in one of its files, so that memory can run
// out where a test wants it to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace urnic {

/// Asked for each allocation of the program; true: it fails. Must not allocate.
inline std::atomic<bool (*)()> allocation_fails{nullptr};

}  // namespace urnic

// GCC takes what is inlined here for a mismatched pair.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
    const auto fails = urnic::allocation_fails.load();
    void* at = fails != nullptr && fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
    if (at == nullptr) {
        throw std::bad_alloc();
    }
    return at;
}
__attribute__((noinline)) void* operator new(std::size_t bytes, std::align_val_t alignment) {
    const auto fails = urnic::allocation_fails.load();
    const auto unit = static_cast<std::size_t>(alignment);
    void* at =
        fails != nullptr && fails() ? nullptr : std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
    if (at == nullptr) {
        throw std::bad_alloc();
    }
    return at;
}
__attribute__((noinline)) void operator delete(void* at) noexcept { std::free(at); }
__attribute__((noinline)) void operator delete(void* at, std::size_t) noexcept { std::free(at); }
__attribute__((noinline)) void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
__attribute__((noinline)) void operator delete(void* at, std::size_t, std::align_val_t) noexcept {
    std::free(at);
}
