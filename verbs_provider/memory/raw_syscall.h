// System calls without libc: they write no errno and run no interceptor, so they touch no memory but what the
// kernel is told about. While pages are write-protected nothing else is safe: errno may lie in a thread-local
// block of the application that is just being moved.
#pragma once

#include <sys/syscall.h>

#include <cstdint>
#include <type_traits>

namespace urnic::memory {

template <typename T>
long syscall_argument(T value) {
    if constexpr (std::is_null_pointer_v<T>) {
        return 0;
    } else if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<long>(value);
    } else {
        return static_cast<long>(value);
    }
}

/// Returns the kernel's answer: a negative errno value on failure.
template <typename A = long, typename B = long, typename C = long, typename D = long, typename E = long,
          typename F = long>
long raw_syscall(long number, A a = {}, B b = {}, C c = {}, D d = {}, E e = {}, F f = {}) {
    // All conversions before the first register variable: a call in between might use the register.
    const long rdi = syscall_argument(a), rsi = syscall_argument(b), rdx = syscall_argument(c);
    const long fourth = syscall_argument(d), fifth = syscall_argument(e), sixth = syscall_argument(f);
    long result = number;
    register long r10 __asm__("r10") = fourth;
    register long r8 __asm__("r8") = fifth;
    register long r9 __asm__("r9") = sixth;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(rdi), "S"(rsi), "d"(rdx), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

}  // namespace urnic::memory
