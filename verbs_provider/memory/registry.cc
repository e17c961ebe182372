#include "verbs_provider/memory/registry.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <numeric>

#include "abi/control.h"
#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {
namespace {

/// A stretch of converted pages takes two mappings more than the memory had before, and two where its
/// original is parked. Half of what the kernel allows a process stays the application's.
constexpr std::uint64_t kMappingsPerStretch = 4;
constexpr std::uint64_t kDefaultMaxMapCount = 65530;

/// glibc's thread arenas begin at a multiple of this with a header (HEAP_MAX_SIZE).
constexpr std::uint64_t kArenaBytes = 64ULL << 20U;

// How far from its stack pointer the caller's stack is taken to reach where it is not recognised otherwise.
constexpr std::uint64_t kStackBelowBytes = 64UL * 1024;
constexpr std::uint64_t kStackAboveBytes = 256UL * 1024;

// Bounds of struct pthread around the address that the kernel knows: glibc's is 2.3 KiB long and the address
// 736 bytes from its start.
constexpr std::uint64_t kThreadBlockBelowBytes = 1024;
constexpr std::uint64_t kThreadBlockAboveBytes = 2048;

std::uint64_t read_max_map_count() {
    std::array<char, 32> text{};
    const long fd = raw_syscall(SYS_openat, AT_FDCWD, "/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        raw_syscall(SYS_read, fd, text.data(), text.size() - 1);
        raw_syscall(SYS_close, fd);
    }
    const std::uint64_t count = std::strtoull(text.data(), nullptr, 10);
    return count != 0 ? count : kDefaultMaxMapCount;
}

/// What can have content at one time: memory and swap.
std::uint64_t machine_bytes() {
    struct sysinfo info {};
    raw_syscall(SYS_sysinfo, &info);
    return (std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
}

/// How often memory is looked at that changes while it is given back.
constexpr int kAttempts = 3;

/// A limit on file sizes (ulimit -f) would make a write to the memory file, far behind that limit, raise
/// SIGXFSZ.
bool file_size_is_limited() {
    rlimit limit{};
    raw_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, nullptr, &limit);
    return limit.rlim_cur != RLIM_INFINITY;
}

}  // namespace

Registry::Registry() : mover_(parking_) { apply(RegistrySettings{}); }

void Registry::apply(const RegistrySettings& settings) {
    settings_ = settings;
    reader_.set_text_only(settings.text_maps_only);
    support_ = probe_userfault();
    support_.available = support_.available && settings.userfault_available;
    support_.protects_untouched = support_.protects_untouched && settings.protects_untouched;
    max_stretches_ =
        settings.max_stretches != 0 ? settings.max_stretches : read_max_map_count() / 2 / kMappingsPerStretch;
    max_bytes_ = machine_bytes();
}

int Registry::make_file() {
    if (file_size_is_limited()) {
        return -EFBIG;
    }
    const long fd = raw_syscall(SYS_memfd_create, "urnic-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        return static_cast<int>(fd);
    }
    struct stat status {};
    long error = raw_syscall(SYS_ftruncate, fd, abi::kMemoryFileBytes);
    // The daemon demands the seals: a file that shrinks under its mapping would kill it.
    error = error != 0 ? error
                       : raw_syscall(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    error = error != 0 ? error : raw_syscall(SYS_fstat, fd, &status);
    if (error != 0) {
        raw_syscall(SYS_close, fd);
        return static_cast<int>(error);
    }
    file_ = static_cast<int>(fd);
    inode_ = status.st_ino;
    device_major_ = major(status.st_dev);
    device_minor_ = minor(status.st_dev);
    return 0;
}

int Registry::file() {
    if (file_ < 0) {
        const int error = make_file();
        return error != 0 ? error : file_;
    }
    return file_is_usable() ? file_ : -EBADF;
}

/// Programs that close every descriptor close ours too, and then the number may be anybody's.
bool Registry::file_is_usable() const {
    struct stat status {};
    return file_ >= 0 && raw_syscall(SYS_fstat, file_, &status) == 0 && status.st_ino == inode_ &&
           major(status.st_dev) == device_major_ && minor(status.st_dev) == device_minor_;
}

bool Registry::is_ours(const VmArea& mapping) const {
    return mapping.shared && mapping.inode == inode_ && mapping.device_major == device_major_ &&
           mapping.device_minor == device_minor_ && file_ >= 0;
}

/// Not so when the application has moved the mapping (mremap).
bool Registry::is_at_home(const VmArea& mapping) const {
    return is_ours(mapping) && mapping.file_offset == mapping.range.start;
}

Registry::Verdict Registry::examine(Range range, bool writable) {
    mappings_.clear();
    parts_.clear();
    if (reader_.read_mappings(range, mappings_) != 0) {
        return Verdict::kCopy;
    }
    const int needed = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    std::uint64_t at = range.start;
    bool convertible = true;
    for (const VmArea& mapping : mappings_) {
        if (mapping.range.start > at || (mapping.protection & needed) != needed) {
            return Verdict::kFault;
        }
        at = mapping.range.end;
        if (is_at_home(mapping)) {
            continue;
        }
        if (mapping.shared || mapping.inode != 0 || mapping.is_special || mapping.is_stack) {
            convertible = false;
            continue;
        }
        parts_.push_back({intersection(mapping.range, range), mapping.protection});
    }
    if (at < range.end) {
        return Verdict::kFault;
    }
    return convertible ? Verdict::kConvert : Verdict::kCopy;
}

/// Stacks stay what they are: a child that runs on one must not share it with its parent for even a moment,
/// and the kernel writes to thread control blocks where it cannot wait.
bool Registry::is_at_stack(std::uint64_t addr) {
    thread_blocks_.clear();
    if (AddressSpaceReader::read_thread_blocks(thread_blocks_) != 0) {
        return true;
    }
    // The header of a thread arena: in a child, glibc resets the lock in it before any fork handler runs,
    // which must not reach the parent's. Whoever registers memory there does not begin at the page's first
    // byte.
    if (page_floor(addr) % kArenaBytes == 0 && addr % kPageBytes != 0) {
        return true;
    }
    const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    for (const VmArea& mapping : mappings_) {
        if (mapping.inode != 0) {
            continue;
        }
        // A stack may be one mapping with memory above it that is nobody's stack.
        bool caller_is_known = false;
        for (const ThreadBlock& block : thread_blocks_) {
            const Range stack = block.is_main ? Range{page_floor(block.inside - kThreadBlockBelowBytes),
                                                      page_ceiling(block.inside + kThreadBlockAboveBytes)}
                                              : Range{mapping.range.start, page_ceiling(block.inside + 1)};
            if (!contains(mapping.range, block.inside)) {
                continue;
            }
            if (is_to_be_converted(stack)) {
                return true;
            }
            caller_is_known = caller_is_known || contains(stack, here);
        }
        // A stack that is not a thread's, as coroutines have.
        const Range near{here - kStackBelowBytes, here + kStackAboveBytes};
        if (!caller_is_known && contains(mapping.range, here) &&
            is_to_be_converted(intersection(near, mapping.range))) {
            return true;
        }
    }
    return false;
}

bool Registry::is_to_be_converted(Range range) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const Part& part) { return overlap(part.range, range); });
}

Registration Registry::convert(std::uint64_t addr, std::uint64_t length_bytes, bool writable) {
    Registration registration{addr, length_bytes, 0, false, generation_, false};
    if (length_bytes == 0 || addr + length_bytes < addr || addr + length_bytes > abi::kMemoryFileBytes) {
        registration.error = EINVAL;
        return registration;
    }
    const Range range{page_floor(addr), page_ceiling(addr + length_bytes)};
    if (!counts_.reserve() || !copied_.reserve()) {
        registration.error = ENOMEM;
        return registration;
    }
    const Verdict verdict = examine(range, writable);
    if (verdict == Verdict::kFault) {
        registration.error = EFAULT;
        return registration;
    }
    registration.converted =
        verdict == Verdict::kConvert && (parts_.empty() || (may_convert(range, addr) && convert_parts()));
    registration.moved = registration.converted && !parts_.empty();
    (registration.converted ? counts_ : copied_).add(range);
    return registration;
}

bool Registry::may_convert(Range range, std::uint64_t addr) {
    // Each step of the conversion takes its time, content or not: terabytes of reserved addresses would take
    // hours.
    const std::uint64_t bytes = std::accumulate(
        parts_.begin(), parts_.end(), std::uint64_t{0},
        [](std::uint64_t sum, const Part& part) { return sum + part.range.end - part.range.start; });
    return support_.available && bytes <= max_bytes_ && counts_.stretches() < max_stretches_ && file() >= 0 &&
           !file_size_is_limited() &&
           std::none_of(parts_.begin(), parts_.end(),
                        [&](const Part& part) {
                            return !copied_.first(part.range, true).empty() || grows_down(part);
                        }) &&
           !is_at_stack(addr) && parking_.reserve(range);
}

/// A mapping that grows when the program touches what is below it (MAP_GROWSDOWN) would end at the memory
/// file's. The kernel tells by PROT_GROWSDOWN, which it refuses to all others; the protection stays as it is.
bool Registry::grows_down(const Part& part) {
    return raw_syscall(SYS_mprotect, part.range.start, kPageBytes, part.protection | PROT_GROWSDOWN) == 0;
}

bool Registry::convert_parts() {
    for (const Part& part : parts_) {
        note_mapped(part.range);
        // The application has unmapped converted memory and mapped new memory in its place: what the file
        // holds there is stale.
        if (has_file_data(part.range)) {
            reclaim(part.range);
        }
    }
    read_traits();
    prepare_traits();
    mover_.configure(file_, support_, settings_.mover);
    if (run_on_private_stack(&Registry::job_to_file) != 0) {
        restore_traits();
        return false;
    }
    give_traits();
    return true;
}

int Registry::job_to_file() {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        std::uint64_t moved_end = 0;
        const int error = mover_.to_file(parts_[i].range, parts_[i].protection, moved_end);
        if (error == 0) {
            continue;
        }
        // All or nothing.
        const std::uint64_t last_end = moved_end;
        for (std::size_t j = 0; j <= i; ++j) {
            const Range moved{parts_[j].range.start, j == i ? last_end : parts_[j].range.end};
            if (!moved.empty()) {
                mover_.to_private(moved, moved.start, parts_[j].protection, moved_end);
            }
        }
        return error;
    }
    return 0;
}

int Registry::job_to_private() {
    std::uint64_t moved_end = 0;
    return mover_.to_private(job_part_.range, job_offset_, job_part_.protection, moved_end);
}

int Registry::run_on_private_stack(int (Registry::*job)()) {
    job_ = job;
    ++moves_;
    return stack_.run(
        [](void* self) {
            auto* registry = static_cast<Registry*>(self);
            return (registry->*registry->job_)();
        },
        this);
}

bool Registry::has_file_data(Range range) const {
    const long data = raw_syscall(SYS_lseek, file_, range.start, SEEK_DATA);
    return data >= 0 && static_cast<std::uint64_t>(data) < range.end;
}

void Registry::release(const Registration& registration) {
    if (registration.error != 0 || registration.length_bytes == 0 || registration.generation != generation_ ||
        !counts_.reserve() || !copied_.reserve()) {
        return;
    }
    const Range range{page_floor(registration.addr),
                      page_ceiling(registration.addr + registration.length_bytes)};
    RangeCounts& references = registration.converted ? counts_ : copied_;
    if (!references.is_covered(range)) {
        return;
    }
    references.subtract(range);
    // Pages that were copied are given back too: another registration may have left them converted for our
    // sake.
    if (file_is_usable()) {
        make_unused_private(range);
    }
}

void Registry::make_unused_private(Range range) {
    while (!range.empty()) {
        Range unused = counts_.first(range, false);
        unused = unused.empty() ? unused : copied_.first(unused, false);
        if (unused.empty()) {
            // Nothing up to the end of the first stretch that is not converted: look behind it.
            const Range free = counts_.first(range, false);
            if (free.empty()) {
                return;
            }
            range.start = free.end;
            continue;
        }
        make_private(unused);
        range.start = unused.end;
    }
}

void Registry::make_private(Range range) {
    // Again where another thread has just unmapped a piece.
    for (int attempt = 0; attempt < kAttempts && !make_private_at_once(range); ++attempt) {
    }
}

/// Returns false if a part of it could not be moved.
bool Registry::make_private_at_once(Range range) {
    mappings_.clear();
    if (reader_.read_mappings(range, mappings_) != 0) {
        return true;
    }
    // A mapping may have grown into pages that were never registered (mremap): they come along.
    const Range around = intersection(counts_.uncovered_around(range), copied_.uncovered_around(range));
    std::uint64_t at = range.start;
    const auto reclaim_up_to = [&](std::uint64_t end) {
        if (at < end && has_file_data({at, end})) {
            reclaim({at, end});
        }
        mapped_is_short_ = (at < end && !mapped_.erase({at, end})) || mapped_is_short_;
    };
    bool all_moved = true;
    for (const VmArea& mapping : mappings_) {
        if (!is_at_home(mapping)) {
            continue;
        }
        reclaim_up_to(mapping.range.start);
        const Range unused = intersection(mapping.range, around);
        all_moved = move_to_private(unused, unused.start, mapping.protection) && all_moved;
        at = mapping.range.end;
    }
    reclaim_up_to(range.end);
    // Others that were moved to where they lie.
    for (const VmArea& mapping : mappings_) {
        if (is_ours(mapping) && !is_at_home(mapping)) {
            note_mapped(mapping.range);
        }
    }
    return all_moved;
}

/// The memory file's pages of a range that the application has unmapped or moved elsewhere.
void Registry::reclaim(Range range) {
    displaced_.clear();
    if (reader_.read_mappings({0, abi::kMemoryFileBytes}, displaced_) != 0) {
        return;
    }
    for (const VmArea& mapping : displaced_) {
        const Range offsets{mapping.file_offset,
                            mapping.file_offset + (mapping.range.end - mapping.range.start)};
        if (!is_ours(mapping) || is_at_home(mapping) || !overlap(offsets, range)) {
            continue;
        }
        const Range wanted = intersection(offsets, range);
        const std::uint64_t start = mapping.range.start + (wanted.start - offsets.start);
        move_to_private({start, start + (wanted.end - wanted.start)}, wanted.start, mapping.protection);
    }
    punch_hole(file_, range);
    for (std::uint64_t at = range.start; at < range.end;) {
        const Range step = next_step(at, range.end);
        if (const std::uint64_t place = parking_.place_of(step.start); place != 0) {
            Parking::restore(place, step.end - step.start);
        }
        at = step.end;
    }
}

/// Should it fail, the pages stay where they are: they work as memory all the same.
bool Registry::move_pages_to_private(Range range, std::uint64_t file_offset, int protection) {
    mover_.configure(file_, support_, settings_.mover);
    job_part_ = {range, protection};
    job_offset_ = file_offset;
    if (run_on_private_stack(&Registry::job_to_private) != 0) {
        return false;
    }
    mapped_is_short_ =
        !mapped_.erase(range) || !wiped_.erase(range) || !placed_.erase(range) || mapped_is_short_;
    return true;
}

}  // namespace urnic::memory
