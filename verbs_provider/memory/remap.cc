// mremap() on memory that may be converted.
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "verbs_provider/memory/calls.h"
#include "verbs_provider/memory/process.h"

namespace urnic::memory {
namespace {

using RemapStretch = Registry::Stretch;
constexpr int kKnownFlags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;

void* at(std::uint64_t addr) {
    return reinterpret_cast<void*>(addr);  // NOLINT(performance-no-int-to-ptr)
}

void* refuse(int error) {
    errno = error;
    return MAP_FAILED;
}

/// What malloc keeps before each block: what there is before that in its mapping, and its size with three
/// flags.
struct BlockHeader {
    std::uint64_t before, size;
};
constexpr std::uint64_t kHeaderFlags = 7, kIsMapped = 2;

/// Other allocators keep nothing there, and the page before a block may not be there at all.
__attribute__((no_sanitize("address", "thread", "undefined"))) bool read_header(std::uint64_t addr,
                                                                                BlockHeader& header) {
    if ((addr + sizeof(header)) % kPageBytes != 0) {
        // In the block's own page.
        const auto* words =
            reinterpret_cast<const volatile std::uint64_t*>(addr);  // NOLINT(performance-no-int-to-ptr)
        header = {words[0], words[1]};
        return true;
    }
    const iovec to{&header, sizeof(header)}, from{at(addr), sizeof(header)};
    return raw_syscall(SYS_process_vm_readv, raw_syscall(SYS_getpid), &to, 1, &from, 1, 0) == sizeof(header);
}

/// What is one mapping to the program, and may be several: converted pieces and private ones. The pieces move
/// one by one. What it grows by is private memory: a piece of the file that grew would show what the file has
/// behind it, which is other registered memory.
class Remapping {
  public:
    Remapping(Process& process, const Registry::Stretches& pieces, Range from, std::uint64_t length,
              int flags, RealMremap real)
        : process_(process),
          pieces_(pieces),
          from_(from),
          length_(length),
          flags_(flags),
          protection_(pieces.front().protection),
          real_(real) {}

    void* run(std::uint64_t wanted) {
        const std::uint64_t old_length = from_.end - from_.start;
        const bool may_stay = (flags_ & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0;
        if (may_stay && length_ <= old_length) {
            unmap({from_.start + length_, from_.end});
            return at(from_.start);
        }
        if (may_stay && grow_in_place()) {
            return at(from_.start);
        }
        if ((flags_ & MREMAP_MAYMOVE) == 0) {
            return refuse(ENOMEM);
        }
        const int fixed = (flags_ & MREMAP_FIXED) != 0 ? MAP_FIXED : 0;
        void* target = ::mmap(at(wanted), length_, protection_, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
        if (target == MAP_FAILED) {
            return MAP_FAILED;
        }
        return move_to(reinterpret_cast<std::uint64_t>(target)) ? target : MAP_FAILED;
    }

  private:
    static void unmap(Range range) {
        if (!range.empty()) {
            ::munmap(at(range.start), range.end - range.start);
        }
    }

    bool grow_in_place() const {
        const std::uint64_t more = length_ - (from_.end - from_.start);
        void* tail = ::mmap(at(from_.end), more, protection_,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (tail == at(from_.end)) {
            return true;
        }
        if (tail != MAP_FAILED) {
            ::munmap(tail, more);
        }
        return false;
    }

    bool move_to(std::uint64_t target) {
        const std::uint64_t end = from_.start + std::min(length_, from_.end - from_.start);
        for (const RemapStretch& piece : pieces_) {
            const Range moved = intersection(piece.range, {from_.start, end});
            if (moved.empty()) {
                break;
            }
            if (!move_piece(piece, moved, target + (moved.start - from_.start))) {
                const int error = errno;
                move_back({from_.start, moved.start}, target);
                ::munmap(at(target), length_);
                errno = error;
                return false;
            }
        }
        unmap({end, from_.end});
        return true;
    }

    bool move_piece(const RemapStretch& piece, Range moved, std::uint64_t target) {
        const std::uint64_t length = moved.end - moved.start;
        const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | (flags_ & MREMAP_DONTUNMAP);
        if (real_(at(moved.start), length, length, flags, at(target)) == MAP_FAILED) {
            return false;
        }
        if (piece.kind == RemapStretch::Kind::kConverted) {
            process_.registry.note_moved({target, target + length});
            if ((flags_ & MREMAP_DONTUNMAP) != 0) {
                // What stays behind would show the file's pages still.
                static_cast<void>(::mmap(at(moved.start), length, protection_,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
            }
        }
        return true;
    }

    void move_back(Range moved, std::uint64_t target) {
        for (const RemapStretch& piece : pieces_) {
            const Range back = intersection(piece.range, moved);
            const std::uint64_t length = back.end - back.start;
            if (!back.empty()) {
                real_(at(target + (back.start - from_.start)), length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
                      at(back.start));
            }
        }
    }

    Process& process_;
    const Registry::Stretches& pieces_;
    const Range from_;
    const std::uint64_t length_;
    const int flags_, protection_;
    const RealMremap real_;
};

/// Whether the kernel would take the call, were all of it private memory.
bool is_sound(const Registry::Stretches& pieces, Range from, std::uint64_t new_length, int flags,
              std::uint64_t target) {
    const bool moves = (flags & MREMAP_MAYMOVE) != 0, is_fixed = (flags & MREMAP_FIXED) != 0;
    const bool leaves = (flags & MREMAP_DONTUNMAP) != 0;
    const Range to{target, target + new_length};
    return (flags & ~kKnownFlags) == 0 && (moves || (!is_fixed && !leaves)) && new_length > 0 &&
           (!leaves || new_length == from.end - from.start) &&
           (!is_fixed || (target % kPageBytes == 0 && to.start < to.end && !overlap(to, from))) &&
           std::all_of(pieces.begin(), pieces.end(), [&](const RemapStretch& piece) {
               return piece.protection == pieces.front().protection &&
                      piece.kind != RemapStretch::Kind::kHole && piece.kind != RemapStretch::Kind::kOther;
           });
}

}  // namespace

void* remap(void* old_addr, std::size_t old_length, std::size_t new_length, int flags, void* new_addr,
            RealMremap real) {
    Process* process = existing_process();
    const auto start = reinterpret_cast<std::uint64_t>(old_addr);
    // A length of 0 makes a second mapping of shared memory, and is refused for private memory.
    const Range from{start, page_ceiling(start + std::max<std::size_t>(old_length, 1))};
    if (process == nullptr || start % kPageBytes != 0 || from.empty() ||
        page_ceiling(new_length) < new_length || !process->registry.may_map(from)) {
        return real(old_addr, old_length, new_length, flags, new_addr);
    }
    const std::lock_guard guard(process->lock);
    Registry::Stretches pieces;
    process->registry.list_stretches(from, pieces);
    if (pieces.empty()) {
        return real(old_addr, old_length, new_length, flags, new_addr);
    }
    if (old_length == 0) {
        return refuse(EINVAL);
    }
    const auto target = reinterpret_cast<std::uint64_t>(new_addr);
    if (!is_sound(pieces, from, page_ceiling(new_length), flags, target)) {
        return real(old_addr, old_length, new_length, flags, new_addr);
    }
    const std::uint64_t wanted = (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) != 0 ? target : 0;
    return Remapping(*process, pieces, from, page_ceiling(new_length), flags, real).run(wanted);
}

bool is_mapped_block(const void* block) {
    Process* process = existing_process();
    BlockHeader header{};
    const std::uint64_t start = reinterpret_cast<std::uint64_t>(block) - sizeof(header);
    if (process == nullptr || start % sizeof(header) != 0 ||
        !process->registry.may_map({start, start + kPageBytes}) || !read_header(start, header)) {
        return false;
    }
    const Range mapping{start - header.before, start + (header.size & ~kHeaderFlags)};
    if ((header.size & kHeaderFlags) != kIsMapped || header.before > start || mapping.empty() ||
        mapping.start % kPageBytes != 0 || mapping.end % kPageBytes != 0) {
        return false;
    }
    const bool locked = process->lock.lock_for_advice();
    const bool may_hold = process->registry.may_hold(mapping);
    if (locked) {
        process->lock.unlock_after_advice();
    }
    return may_hold;
}

}  // namespace urnic::memory
