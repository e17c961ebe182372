#include "verbs_provider/memory/page_mover.h"

#include <emmintrin.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "verbs_provider/memory/mapped_allocator.h"
#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {
namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

/// Moves the pages, leaves an empty mapping behind: at no time are the addresses unmapped.
int move_pages_over(std::uint64_t from, std::uint64_t to, std::uint64_t length) {
    const long at =
        raw_syscall(SYS_mremap, from, length, length, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to);
    return at < 0 ? static_cast<int>(at) : 0;
}

/// How often this thread had to make way for another.
std::uint64_t count_preemptions() {
    rusage usage{};
    raw_syscall(SYS_getrusage, RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nivcsw);
}

/// Other threads may be reading and writing the page: plain loads, hidden from the sanitizers.
__attribute__((no_sanitize("address", "thread", "undefined"))) bool is_zero_page(std::uint64_t page) {
    const auto* at = reinterpret_cast<const volatile __m128i*>(page);  // NOLINT(performance-no-int-to-ptr)
    for (std::size_t i = 0; i < kPageBytes / sizeof(__m128i); i += 4) {
        const __m128i any = _mm_or_si128(_mm_or_si128(at[i], at[i + 1]), _mm_or_si128(at[i + 2], at[i + 3]));
        if (_mm_movemask_epi8(_mm_cmpeq_epi8(any, _mm_setzero_si128())) != 0xffff) {
            return false;
        }
    }
    return true;
}

}  // namespace

Range next_step(std::uint64_t at, std::uint64_t end) {
    return {at, std::min(end, (at / PageMover::kStepBytes + 1) * PageMover::kStepBytes)};
}

void punch_hole(int file, Range offsets) {
    raw_syscall(SYS_fallocate, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offsets.start,
                offsets.end - offsets.start);
}

int PageMover::to_file(Range range, int protection, std::uint64_t& moved_end) {
    moved_end = range.start;
    if (!userfault_.open(support_)) {
        return -EPERM;
    }
    if ((protection & PROT_WRITE) != 0) {
        // Gives the mapping the anon_vma that all its pieces will share; without one the piece that is parked
        // would forget its home address and not merge when it comes back.
        raw_syscall(SYS_madvise, range.start, kPageBytes, MADV_POPULATE_WRITE);
    }
    if (const int error = userfault_.watch_writes(range); error != 0) {
        return error;
    }
    const bool protect = settings_.protect_to_file;
    begin_protecting(range);
    while (moved_end < range.end) {
        const Range step = next_step(moved_end, range.end);
        int error = protect ? protect_ahead(step, range.end, !support_.protects_untouched) : 0;
        error = error != 0 ? error : step_to_file(step, protection);
        if (error != 0) {
            give_up({step.start, range.end});
            return error;
        }
        moved_end = step.end;
    }
    return 0;
}

void PageMover::begin_protecting(Range range) {
    protected_end_ = range.start;
    preemptions_ = range.end - range.start > kStepBytes ? count_preemptions() : 0;
}

/// The step, and more where threads compute beside: those that write to the range would continue to do so in
/// what is not protected yet, and keep this thread from running. They wait instead.
int PageMover::protect_ahead(Range step, std::uint64_t end, bool touch_first) {
    if (step.end <= protected_end_) {
        return 0;
    }
    Range window = step;
    // A system call that writes to what is protected must be able to wait.
    if (step.end < end && support_.can_block_kernel) {
        const std::uint64_t before = preemptions_;
        preemptions_ = count_preemptions();
        if (preemptions_ != before || settings_.always_crowded) {
            window.end = std::min(end, step.start + kCrowdedBytes);
        }
    }
    if (touch_first) {
        raw_syscall(SYS_madvise, window.start, window.end - window.start, MADV_POPULATE_READ);
    }
    protected_end_ = window.end;
    return userfault_.protect(window);
}

/// What has not moved is as before, and nobody waits for it.
void PageMover::give_up(Range rest) {
    const Range window{rest.start, std::max(rest.start, protected_end_)};
    if (!window.empty()) {
        userfault_.unprotect(window);
    }
    userfault_.forget(rest);
    userfault_.wake(rest);
}

int PageMover::step_to_file(Range step, int protection) {
    const std::uint64_t length = step.end - step.start;
    const std::uint64_t place = parking_.place_of(step.start);
    int error = write_to_file(step);
    // Between the next two calls the pages are absent here: readers must wait as well, or they would see
    // zeros.
    error = error != 0 ? error : userfault_.watch_everything(step);
    error = error != 0 ? error : move_pages_over(step.start, place, length);
    if (error == 0) {
        const long at =
            raw_syscall(SYS_mmap, step.start, length, protection, MAP_SHARED | MAP_FIXED, file_, step.start);
        if (at < 0) {
            error = static_cast<int>(at);
            move_pages_over(place, step.start, length);
            Parking::restore(place, length);
        }
    }
    if (error != 0) {
        userfault_.unprotect(step);
        userfault_.wake(step);
        punch_hole(file_, step);
        return error;
    }
    userfault_.wake(step);
    // Frees mlock()ed pages too (Linux 5.18).
    raw_syscall(SYS_madvise, place, length, MADV_DONTNEED_LOCKED);
    // Parked pieces of memory that libibverbs keeps out of children would be holes in the child's windows.
    raw_syscall(SYS_madvise, place, length, MADV_DOFORK);
    // Stray accesses are caught, and the change of protection is what merges the piece with parked
    // neighbours.
    raw_syscall(SYS_mprotect, place, length, PROT_NONE);
    populate(protection);
    return 0;
}

/// Pages of zeros stay holes in the file.
int PageMover::write_to_file(Range step) {
    num_stretches_ = 0;
    for (std::uint64_t page = step.start; page < step.end; page += kPageBytes) {
        if (is_zero_page(page)) {
            continue;
        }
        if (num_stretches_ > 0 && stretches_[num_stretches_ - 1].end == page) {
            stretches_[num_stretches_ - 1].end = page + kPageBytes;
        } else {
            stretches_[num_stretches_++] = {page, page + kPageBytes};
        }
    }
    for (std::uint32_t i = 0; i < num_stretches_; ++i) {
        std::uint64_t at = stretches_[i].start;
        while (at < stretches_[i].end) {
            const long written = raw_syscall(SYS_pwrite64, file_, at, stretches_[i].end - at, at);
            if (written <= 0) {
                return written == 0 ? -ENOSPC : static_cast<int>(written);
            }
            at += static_cast<std::uint64_t>(written);
        }
    }
    return 0;
}

/// Registered memory is expected to be there: spare the application the faults.
void PageMover::populate(int protection) const {
    const int advice = (protection & PROT_WRITE) != 0 ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
    for (std::uint32_t i = 0; i < num_stretches_; ++i) {
        raw_syscall(SYS_madvise, stretches_[i].start, stretches_[i].end - stretches_[i].start, advice);
    }
}

int PageMover::to_private(Range range, std::uint64_t file_offset, int protection, std::uint64_t& moved_end) {
    moved_end = range.start;
    if (!userfault_.open(support_)) {
        return -EPERM;
    }
    if (const int error = userfault_.watch_writes(range); error != 0) {
        return error;
    }
    begin_protecting(range);
    while (moved_end < range.end) {
        const Range step = next_step(moved_end, range.end);
        const std::uint64_t offset = file_offset + (step.start - range.start);
        int error = settings_.protect_to_private ? protect_ahead(step, range.end, false) : 0;
        error = error != 0 ? error : step_to_private(step, offset, protection);
        if (error != 0) {
            give_up({step.start, range.end});
            return error;
        }
        moved_end = step.end;
    }
    return 0;
}

int PageMover::step_to_private(Range step, std::uint64_t file_offset, int protection) {
    const std::uint64_t length = step.end - step.start;
    // A mapping that the application has moved (mremap, as realloc does) has no parked original.
    const bool at_home = file_offset == step.start;
    std::uint64_t place = at_home ? parking_.place_of(step.start) : 0;
    if (place == 0) {
        place = reinterpret_cast<std::uint64_t>(map_anonymous(length));
    }
    if (place == 0) {
        return -ENOMEM;
    }
    long error = raw_syscall(SYS_mprotect, place, length, kReadWrite);
    error = error != 0 ? error : copy_from_file(place, step, file_offset);
    if (error == 0 && protection != kReadWrite) {
        error = raw_syscall(SYS_mprotect, place, length, protection);
    }
    // Another thread may have unmapped the memory meanwhile, and mapped something else there: who gives
    // memory back that is registered still does nothing wrong. The userfaultfd knows its mappings.
    error = error != 0 ? error : userfault_.protect(step);
    error = error != 0 ? error : move_pages_over(place, step.start, length);
    if (error != 0) {
        userfault_.unprotect(step);
    }
    userfault_.wake(step);
    if (at_home) {
        Parking::restore(place, length);
    } else {
        raw_syscall(SYS_munmap, place, length);
    }
    if (error == 0) {
        punch_hole(file_, {file_offset, file_offset + length});
    }
    return static_cast<int>(error);
}

int PageMover::copy_to_private(Range range, std::uint64_t file_offset, int protection) {
    const std::uint64_t length = range.end - range.start;
    const auto copy = reinterpret_cast<std::uint64_t>(map_anonymous(length));
    if (copy == 0) {
        return -ENOMEM;
    }
    long error = copy_from_file(copy, range, file_offset);
    if (error == 0 && protection != kReadWrite) {
        error = raw_syscall(SYS_mprotect, copy, length, protection);
    }
    if (error == 0) {
        error = raw_syscall(SYS_mremap, copy, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, range.start);
    }
    if (error < 0) {
        raw_syscall(SYS_munmap, copy, length);
        return static_cast<int>(error);
    }
    return 0;
}

/// Pages that the file does not have stay untouched at `to`. `mapped` maps the file from `file_offset` on.
int PageMover::copy_from_file(std::uint64_t to, Range mapped, std::uint64_t file_offset) {
    for (std::uint64_t at = mapped.start; at < mapped.end;) {
        const Range step{at, std::min(mapped.end, at + kStepBytes)};
        const std::uint64_t skip = at - mapped.start;
        if (const int error = copy_step_from_file(to + skip, step, file_offset + skip); error != 0) {
            return error;
        }
        at = step.end;
    }
    return 0;
}

/// Not by SEEK_HOLE: the kernel would walk every page of the file up to the next hole, however far it is, and
/// each deregistration would cost as much as all of the registered memory behind it.
int PageMover::copy_step_from_file(std::uint64_t to, Range mapped, std::uint64_t file_offset) {
    const std::uint64_t num_pages = (mapped.end - mapped.start) / kPageBytes;
    if (raw_syscall(SYS_mincore, mapped.start, mapped.end - mapped.start, is_resident_) != 0) {
        std::fill_n(is_resident_, num_pages, 0);
    }
    for (std::uint64_t page = 0; page < num_pages;) {
        const std::uint64_t first = page;
        while (page < num_pages && (is_resident_[page] & 1U) != 0) {
            ++page;
        }
        if (page == first) {
            // A hole, or swapped out.
            const long data = raw_syscall(SYS_lseek, file_, file_offset + page * kPageBytes, SEEK_DATA);
            if (data < 0) {
                return data == -ENXIO ? 0 : static_cast<int>(data);
            }
            const std::uint64_t next = (static_cast<std::uint64_t>(data) - file_offset) / kPageBytes;
            if (next != page) {
                page = next;
                continue;
            }
            ++page;
        }
        const std::uint64_t skip = first * kPageBytes;
        if (const int error = read_file(to + skip, file_offset + skip, (page - first) * kPageBytes);
            error != 0) {
            return error;
        }
    }
    return 0;
}

int PageMover::read_file(std::uint64_t to, std::uint64_t file_offset, std::uint64_t length) const {
    for (std::uint64_t done = 0; done < length;) {
        const long got = raw_syscall(SYS_pread64, file_, to + done, length - done, file_offset + done);
        if (got <= 0) {
            return got == 0 ? -EIO : static_cast<int>(got);
        }
        done += static_cast<std::uint64_t>(got);
    }
    return 0;
}

}  // namespace urnic::memory
