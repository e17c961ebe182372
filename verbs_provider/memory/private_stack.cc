#include "verbs_provider/memory/private_stack.h"

#include <signal.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "verbs_provider/memory/mapped_allocator.h"
#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {
namespace {

/// What the call may change is what any call may change, and nothing is written through the old stack pointer
/// until it is back.
void call_on(std::byte* stack_top, void (*function)(PrivateStack*), PrivateStack* argument) {
    register std::byte* stack __asm__("rbx") = stack_top;
    __asm__ volatile(
        "xchgq %%rsp, %%rbx\n\t"
        "callq *%[function]\n\t"
        "movq %%rbx, %%rsp"
        : "+r"(stack), "+D"(argument), [function] "+a"(function)
        :
        : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3",
          "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
          "xmm15");
}

}  // namespace

void PrivateStack::main(PrivateStack* self) { self->result_ = self->function_(self->argument_); }

int PrivateStack::run(int (*function)(void*), void* argument) {
    if (stack_ == nullptr) {
        stack_ = static_cast<std::byte*>(map_anonymous(kStackBytes, PROT_READ | PROT_WRITE, MAP_STACK));
        if (stack_ == nullptr) {
            return -ENOMEM;
        }
        raw_syscall(SYS_mprotect, stack_, kPageBytes, PROT_NONE);  // guard page
    }
    const std::uint64_t all = ~0ULL;
    std::uint64_t before = 0;
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
    function_ = function;
    argument_ = argument;
    call_on(stack_ + kStackBytes, &PrivateStack::main, this);
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
    return result_;
}

}  // namespace urnic::memory
