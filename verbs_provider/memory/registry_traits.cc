// What the program has asked of its mappings goes with the pages, to the memory file and back.
#include <sys/mman.h>

#include "verbs_provider/memory/raw_syscall.h"
#include "verbs_provider/memory/registry.h"

namespace urnic::memory {

/// Of the parts that are about to be converted; each is of one mapping.
void Registry::read_traits() {
    advised_.clear();
    for (Part& part : parts_) {
        part.is_locked = has_locked(part.range);
        part.policy = read_numa_policy(part.range.start);
        if (may_be_advised(part.range)) {
            static_cast<void>(reader_.read_advice(part.range, advised_));
        }
    }
}

/// The file has the policy before pages are written to it. The lock is taken off before the mapping is
/// parked: the kernel counts locked memory twice that moves and leaves its mapping behind (MREMAP_DONTUNMAP).
void Registry::prepare_traits() const {
    for (const Part& part : parts_) {
        if (!part.policy.is_default()) {
            set_numa_policy_of_file(file_, part.range, part.policy);
        }
        if (part.is_locked) {
            unlock(part.range);
        }
    }
}

/// Nothing has been converted after all.
void Registry::restore_traits() const {
    for (const Part& part : parts_) {
        if (!part.policy.is_default()) {
            set_numa_policy_of_file(file_, part.range, {});
        }
        if (part.is_locked) {
            lock_in_memory(part.range);
        }
    }
}

/// The original mapping, which is parked, keeps its own but for the lock.
void Registry::give_traits() {
    for (const Part& part : parts_) {
        if (!part.policy.is_default()) {
            // As long as this mapping has the policy too, it is not merged with neighbours without one.
            set_numa_policy(part.range, part.policy);
            mapped_is_short_ = !placed_.insert(part.range) || mapped_is_short_;
        }
        if (part.is_locked) {
            lock_in_memory(part.range);
        }
        for (const AdvisedArea& area : advised_) {
            const Range here = intersection(area.range, part.range);
            if (here.empty()) {
                continue;
            }
            if (area.is_undumped) {
                raw_syscall(SYS_madvise, here.start, here.end - here.start, MADV_DONTDUMP);
            }
            if (area.is_wiped_on_fork) {
                mapped_is_short_ = !wiped_.insert(here) || mapped_is_short_;
            }
        }
    }
}

/// The private mapping is what the file's was in the end: the program may have changed it meanwhile.
bool Registry::move_to_private(Range range, std::uint64_t file_offset, int protection) {
    const bool is_locked = has_locked(range);
    const NumaPolicy policy = read_numa_policy(range.start);
    const bool had_policy = !placed_.first(range, true).empty();
    if (!move_pages_to_private(range, file_offset, protection)) {
        return false;
    }
    if (!policy.is_default()) {
        set_numa_policy_of_file(file_, {file_offset, file_offset + (range.end - range.start)}, {});
    }
    if (had_policy || !policy.is_default()) {
        set_numa_policy(range, policy);
    }
    if (is_locked) {
        lock_in_memory(range);
    }
    return true;
}

}  // namespace urnic::memory
