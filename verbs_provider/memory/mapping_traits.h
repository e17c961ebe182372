// What a program has asked of a mapping beyond its protection: another mapping that takes its place does not
// have it by itself.
#pragma once

#include <linux/mempolicy.h>

#include <array>
#include <cstdint>

#include "verbs_provider/memory/range_counts.h"

namespace urnic::memory {

/// Of mbind(2). A process that may not ask has the default one.
struct NumaPolicy {
    static constexpr unsigned long kMaxNodes = 1024;
    int mode = MPOL_DEFAULT;
    std::array<unsigned long, kMaxNodes / (8 * sizeof(unsigned long))> nodes{};
    [[nodiscard]] bool is_default() const { return mode == MPOL_DEFAULT; }
    bool operator==(const NumaPolicy&) const = default;
};

[[nodiscard]] NumaPolicy read_numa_policy(std::uint64_t addr);
/// Of the mappings in the range; of a file's the policy is the file's, for all who map it.
void set_numa_policy(Range range, const NumaPolicy& policy);
/// Of the file's pages of the range, mapped or not.
void set_numa_policy_of_file(int file, Range offsets, const NumaPolicy& policy);

/// Returns whether a mapping in the range is locked (mlock).
[[nodiscard]] bool has_locked(Range range);
/// Locks what is there and what comes; nothing is made present for it.
void lock_in_memory(Range range);
void unlock(Range range);

/// Returns whether advice that nothing but smaps tells of may have been given in the range
/// (advised_memory.h).
[[nodiscard]] bool may_be_advised(Range range);

}  // namespace urnic::memory
