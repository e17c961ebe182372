// What the kernel says about this process's address space: its mappings, and where threads have their stacks.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <vector>

#include "verbs_provider/memory/mapped_allocator.h"
#include "verbs_provider/memory/range_counts.h"

namespace urnic::memory {

/// One mapping (VMA), not clipped to what was asked for.
struct VmArea {
    Range range;
    std::uint64_t file_offset = 0;
    std::uint64_t inode = 0;  // 0: no file behind it
    std::uint32_t device_major = 0;
    std::uint32_t device_minor = 0;
    int protection = PROT_NONE;  // PROT_*
    bool shared = false;
    bool is_stack = false;    // the main thread's
    bool is_special = false;  // the kernel's own ([vdso], ...)
};
using Mappings = std::vector<VmArea, MappedAllocator<VmArea>>;

/// Advice of the program's own on a mapping that nothing but /proc/self/smaps tells of.
struct AdvisedArea {
    Range range;
    bool is_undumped = false;       // MADV_DONTDUMP
    bool is_wiped_on_fork = false;  // MADV_WIPEONFORK
};
using AdvisedAreas = std::vector<AdvisedArea, MappedAllocator<AdvisedArea>>;

/// An address inside a thread's control block (struct pthread), where the kernel writes on its own account:
/// rseq, robust list, tid. Unless it is the main thread's, the block ends the stack's last page.
struct ThreadBlock {
    std::uint64_t inside = 0;
    bool is_main = false;
};
using ThreadBlocks = std::vector<ThreadBlock, MappedAllocator<ThreadBlock>>;

/// Reads without malloc and stdio. Not thread-safe: the caller serialises.
class AddressSpaceReader {
  public:
    /// Appends every mapping that overlaps `range`, in order. 0 or a negative errno value.
    int read_mappings(Range range, Mappings& to);
    /// Appends every mapping that overlaps `range` and has such advice, in order. 0 or a negative errno
    /// value. Takes the longer the more memory the process has in all.
    int read_advice(Range range, AdvisedAreas& to);
    /// Appends one block for each thread that libc has made. 0 or a negative errno value.
    static int read_thread_blocks(ThreadBlocks& to);
    /// For tests: PROCMAP_QUERY (Linux 6.11) is not used.
    void set_text_only(bool text_only) { query_works_ = !text_only; }
    [[nodiscard]] bool is_text_only() const { return !query_works_; }

  private:
    int query_mappings(int fd, Range range, Mappings& to);
    int parse_mappings(int fd, Range range, Mappings& to);
    long read_lines(int fd, Range range, AdvisedAreas& to);

    bool query_works_ = true;
    std::vector<char, MappedAllocator<char>> text_;
};

}  // namespace urnic::memory
