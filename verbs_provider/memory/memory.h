// Makes registered memory reachable for the daemon without copies: the pages of a registered range move, in
// place, into the process's memory file, a sparse sealed memfd whose offsets are the process's virtual
// addresses. docs/memory.md describes the scheme.
//
// All functions may be called from any thread. None of them calls malloc while a page that may hold the
// allocator's own data is write-protected.
#pragma once

#include <cstdint>

namespace urnic::memory {

/// From here on a forked child gets copies of what is converted; the first registration does this too. In the
/// child fork handlers run in the order in which they were installed, and what one of them writes before
/// these have run, it writes into the parent: install them before others that write to the heap.
void install_fork_handlers();

/// The process's memory file: abi::kMemoryFileBytes long, close-on-exec, sealed against shrinking and
/// growing. Made at the first call and kept; a forked child gets one of its own. The descriptor belongs to
/// this library: do not close it. Negative: an errno value with its sign changed.
[[nodiscard]] int memory_file();

/// What convert() did. Keep it with the MR and hand it to release().
struct Registration {
    std::uint64_t addr = 0;
    std::uint64_t length_bytes = 0;
    /// 0, or why the range cannot be registered at all: EFAULT (a hole, a page without read permission, or
    /// `writable` asked of a read-only page; what the kernel's reg_mr answers too), EINVAL (empty, or
    /// wraps around), ENOMEM.
    int error = 0;
    /// Whether every page of the range is in the memory file (kRegMrConverted). If not, and without an error,
    /// nothing was changed and the daemon must copy.
    bool converted = false;
    /// Which incarnation of the process (a fork starts a new one) the registration belongs to.
    std::uint32_t generation = 0;
    /// Whether pages were moved into the file for it; not so when all of them were there already.
    bool moved = false;
};

/// Registers `length_bytes` bytes at `addr`. `writable`: the MR has local or remote write, or remote atomic
/// access. Counts a reference for each page that is converted. Writers may keep using the range: no update
/// is lost. Blocks until done: some 20 us for a page, 1 ms for a MiB, about 1 us when converted already.
[[nodiscard]] Registration convert(std::uint64_t addr, std::uint64_t length_bytes, bool writable);

/// Gives a registration's pages of zeros memory, which convert() leaves holes of the file: who touches a page
/// first is charged for it, and that is to be this process, not the daemon. Does nothing for what was there
/// already, nor for ranges of more than a quarter of the machine's memory.
void populate(const Registration& registration, bool writable);

/// Gives one reference back; converted pages that nobody references any more become private anonymous memory
/// again and their copy in the memory file is freed. Call it for every registration that had no error,
/// converted or not, when the daemon has answered DeregMr: while the daemon may copy to or from a page, the
/// page stays where it is. Does nothing for a registration of the parent's, made before a fork.
void release(const Registration& registration);

}  // namespace urnic::memory
