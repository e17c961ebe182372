// Calls on memory that may be converted: once the provider has registered memory it is asked first. Before,
// they cost a load and a jump.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "verbs_provider/memory/advised_memory.h"
#include "verbs_provider/memory/calls.h"
#include "verbs_provider/memory/raw_syscall.h"
#include "verbs_provider/shim/functions.h"

// NOLINTBEGIN(performance-no-int-to-ptr): system calls take and answer numbers

extern "C" {
/// See calls.h.
__attribute__((visibility("default"))) std::atomic<const urnic::memory::Calls*> urnic_memory_calls{nullptr};
/// See advised_memory.h.
__attribute__((visibility("default"))) urnic::memory::AdvisedMemory urnic_advised_memory{};
/// Where syscall() continues; null until the constructor has run.
__attribute__((visibility("hidden"))) void* urnic_shim_real_syscall = nullptr;
}

namespace urnic::shim {
namespace {

using memory::raw_syscall;

template <typename Result>
Result answer(long result) {
    if (result < 0 && result > -4096) {
        errno = static_cast<int>(-result);
        result = -1;
    }
    return (Result)result;  // NOLINT(google-readability-casting): a number or a pointer
}

// By the kernel itself, for those who called it themselves and for an allocator that starts before this
// library has: looking a function up allocates memory.
int raw_madvise(void* addr, std::size_t length, int advice) {
    return answer<int>(raw_syscall(SYS_madvise, addr, length, advice));
}
ssize_t raw_process_madvise(int pidfd, const iovec* ranges, std::size_t count, int advice, unsigned flags) {
    return answer<ssize_t>(raw_syscall(SYS_process_madvise, pidfd, ranges, count, advice, flags));
}
void* raw_mremap(void* old_addr, std::size_t old_length, std::size_t new_length, int flags, void* new_addr) {
    return answer<void*>(raw_syscall(SYS_mremap, old_addr, old_length, new_length, flags, new_addr));
}

/// The C library's function, or `raw` where it has none or is not known yet.
template <typename Type>
Type next(Function function, Type raw) {
    void* known = known_function(function);
    return known != nullptr ? reinterpret_cast<Type>(known) : raw;
}

int do_madvise(void* addr, std::size_t length, int advice, memory::RealMadvise real) {
    if (advice == MADV_DONTDUMP || advice == MADV_WIPEONFORK) {
        urnic_advised_memory.note(reinterpret_cast<std::uint64_t>(addr), length);
    }
    const memory::Calls* calls = urnic_memory_calls.load(std::memory_order_acquire);
    return calls == nullptr ? real(addr, length, advice) : calls->advise(addr, length, advice, real);
}
ssize_t do_process_madvise(int pidfd, const iovec* ranges, std::size_t count, int advice, unsigned flags,
                           memory::RealProcessMadvise real) {
    const memory::Calls* calls = urnic_memory_calls.load(std::memory_order_acquire);
    return calls == nullptr ? real(pidfd, ranges, count, advice, flags)
                            : calls->process_advise(pidfd, ranges, count, advice, flags, real);
}
void* do_mremap(void* old_addr, std::size_t old_length, std::size_t new_length, int flags, void* new_addr,
                memory::RealMremap real) {
    const memory::Calls* calls = urnic_memory_calls.load(std::memory_order_acquire);
    void* const moved = calls == nullptr
                            ? real(old_addr, old_length, new_length, flags, new_addr)
                            : calls->remap(old_addr, old_length, new_length, flags, new_addr, real);
    // Advice goes with the pages.
    const auto old_start = reinterpret_cast<std::uint64_t>(old_addr);
    if (moved != MAP_FAILED && urnic_advised_memory.may_be_in(old_start, old_start + old_length)) {
        urnic_advised_memory.note(reinterpret_cast<std::uint64_t>(moved), new_length);
    }
    return moved;
}

void* call_realloc(void* block, std::size_t bytes) {
    void* real = real_function(Function::k_realloc);
    if (real == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    return reinterpret_cast<void* (*)(void*, std::size_t)>(real)(block, bytes);
}

__attribute__((constructor)) void find_syscall() {
    urnic_shim_real_syscall = real_function(Function::k_syscall);
}

}  // namespace
}  // namespace urnic::shim

using urnic::shim::Function;

#define URNIC_EXPORT extern "C" __attribute__((visibility("default")))

URNIC_EXPORT int urnic_shim_madvise(void* addr, std::size_t length, int advice) asm("madvise");
int urnic_shim_madvise(void* addr, std::size_t length, int advice) {
    return urnic::shim::do_madvise(addr, length, advice,
                                   urnic::shim::next(Function::k_madvise, &urnic::shim::raw_madvise));
}

URNIC_EXPORT ssize_t urnic_shim_process_madvise(int pidfd, const iovec* ranges, std::size_t count, int advice,
                                                unsigned flags) asm("process_madvise");
ssize_t urnic_shim_process_madvise(int pidfd, const iovec* ranges, std::size_t count, int advice,
                                   unsigned flags) {
    return urnic::shim::do_process_madvise(
        pidfd, ranges, count, advice, flags,
        urnic::shim::next(Function::k_process_madvise, &urnic::shim::raw_process_madvise));
}

// mremap() is variadic; its fifth parameter travels like a fixed one (see hooks.cc).
URNIC_EXPORT void* urnic_shim_mremap(void* old_addr, std::size_t old_length, std::size_t new_length,
                                     int flags, void* new_addr) asm("mremap");
void* urnic_shim_mremap(void* old_addr, std::size_t old_length, std::size_t new_length, int flags,
                        void* new_addr) {
    return urnic::shim::do_mremap(old_addr, old_length, new_length, flags, new_addr,
                                  urnic::shim::next(Function::k_mremap, &urnic::shim::raw_mremap));
}

// Where the memory is a mapping that must not grow unseen, as glibc itself does when mremap() fails.
URNIC_EXPORT void* urnic_shim_realloc(void* block, std::size_t bytes) asm("realloc");
void* urnic_shim_realloc(void* block, std::size_t bytes) {
    const urnic::memory::Calls* calls = urnic_memory_calls.load(std::memory_order_acquire);
    if (calls == nullptr || block == nullptr || bytes == 0 || !calls->is_mapped_block(block)) {
        return urnic::shim::call_realloc(block, bytes);
    }
    void* copy = std::malloc(bytes);
    if (copy != nullptr) {
        const std::size_t held = malloc_usable_size(block);
        std::memcpy(copy, block, held < bytes ? held : bytes);
        std::free(block);
    }
    return copy;
}

/// syscall() with one of the numbers above, or before the constructor has run.
extern "C" __attribute__((visibility("hidden"), used)) long urnic_shim_serve_syscall(long number, long a,
                                                                                     long b, long c, long d,
                                                                                     long e, long f) {
    using namespace urnic::shim;
    switch (number) {
        case SYS_madvise:
            return do_madvise((void*)a, static_cast<std::size_t>(b), static_cast<int>(c), &raw_madvise);
        case SYS_process_madvise:
            return do_process_madvise(static_cast<int>(a), (const iovec*)b, static_cast<std::size_t>(c),
                                      static_cast<int>(d), static_cast<unsigned>(e), &raw_process_madvise);
        case SYS_mremap:
            return (long)do_mremap((void*)a, static_cast<std::size_t>(b), static_cast<std::size_t>(c),
                                   static_cast<int>(d), (void*)e, &raw_mremap);
        default:
            return answer<long>(raw_syscall(number, a, b, c, d, e, f));
    }
}

// Every other call continues as it came, stack and all: a new process may return from it twice.
static_assert(SYS_madvise == 28 && SYS_mremap == 25 && SYS_process_madvise == 440);
__asm__(
    ".text\n\t"
    ".p2align 4\n\t"
    ".globl syscall\n\t"
    ".type syscall, @function\n"
    "syscall:\n\t"
    "endbr64\n\t"
    "cmpq $28, %rdi\n\t"
    "je urnic_shim_serve_syscall\n\t"
    "cmpq $25, %rdi\n\t"
    "je urnic_shim_serve_syscall\n\t"
    "cmpq $440, %rdi\n\t"
    "je urnic_shim_serve_syscall\n\t"
    "movq urnic_shim_real_syscall(%rip), %rax\n\t"
    "testq %rax, %rax\n\t"
    "je urnic_shim_serve_syscall\n\t"
    "jmpq *%rax\n\t"
    ".size syscall, . - syscall\n");

// NOLINTEND(performance-no-int-to-ptr)
