#include "verbs_provider/memory/mapping_traits.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>

#include "verbs_provider/memory/advised_memory.h"
#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {
namespace {

std::atomic<const AdvisedMemory*> advised_memory{nullptr};

}  // namespace

NumaPolicy read_numa_policy(std::uint64_t addr) {
    NumaPolicy policy;
    if (raw_syscall(SYS_get_mempolicy, &policy.mode, policy.nodes.data(), NumaPolicy::kMaxNodes, addr,
                    MPOL_F_ADDR) != 0) {
        return {};
    }
    return policy;
}

void set_numa_policy(Range range, const NumaPolicy& policy) {
    raw_syscall(SYS_mbind, range.start, range.end - range.start, policy.mode,
                policy.is_default() ? nullptr : policy.nodes.data(),
                policy.is_default() ? 0 : NumaPolicy::kMaxNodes, 0);
}

void set_numa_policy_of_file(int file, Range offsets, const NumaPolicy& policy) {
    const std::uint64_t length = offsets.end - offsets.start;
    const long at =
        raw_syscall(SYS_mmap, nullptr, length, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, offsets.start);
    if (at >= 0) {
        const auto start = static_cast<std::uint64_t>(at);
        const Range mapped{start, start + length};
        if (policy.is_default()) {
            // The kernel passes over mappings that have the policy already, whatever their file has.
            NumaPolicy other;
            other.mode = MPOL_LOCAL;
            set_numa_policy(mapped, other);
        }
        set_numa_policy(mapped, policy);
        raw_syscall(SYS_munmap, start, length);
    }
}

/// MS_INVALIDATE alone does nothing but refuse locked memory.
bool has_locked(Range range) {
    return raw_syscall(SYS_msync, range.start, range.end - range.start, MS_INVALIDATE) == -EBUSY;
}

void lock_in_memory(Range range) {
    raw_syscall(SYS_mlock2, range.start, range.end - range.start, MLOCK_ONFAULT);
}

void unlock(Range range) { raw_syscall(SYS_munlock, range.start, range.end - range.start); }

void use_advised_memory(const AdvisedMemory* advised) {
    advised_memory.store(advised, std::memory_order_release);
}

bool may_be_advised(Range range) {
    const AdvisedMemory* advised = advised_memory.load(std::memory_order_acquire);
    return advised != nullptr && advised->may_be_in(range.start, range.end);
}

}  // namespace urnic::memory
