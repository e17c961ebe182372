// What the registry tells of converted memory, and does to it, for the program's own system calls; and what
// becomes of it in a child.
#include <linux/falloc.h>
#include <sys/mman.h>

#include <algorithm>

#include "abi/control.h"
#include "verbs_provider/memory/raw_syscall.h"
#include "verbs_provider/memory/registry.h"

namespace urnic::memory {
namespace {

/// A child gets at most this much copied at fork; what is beyond is mapped so that it is copied on write.
constexpr std::uint64_t kForkCopyBytes = 32ULL << 20U;

/// Mappings that are looked at without asking the kernel for memory twice.
constexpr std::size_t kUsualMappings = kPageBytes / sizeof(VmArea);

void map_zeros(Range range, int protection) {
    raw_syscall(SYS_mmap, range.start, range.end - range.start, protection,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

}  // namespace

void Registry::note_mapped(Range range) {
    lowest_.store(std::min(lowest_.load(std::memory_order_relaxed), range.start), std::memory_order_relaxed);
    highest_.store(std::max(highest_.load(std::memory_order_relaxed), range.end), std::memory_order_relaxed);
    mapped_is_short_ = !mapped_.insert(range) || mapped_is_short_;
}

void Registry::note_moved(Range range) { note_mapped(range); }

bool Registry::wipe_on_fork(Range range, bool wipe) {
    return wipe ? wiped_.insert(range) : wiped_.erase(range);
}

bool Registry::read_mappings_beside(Range range, Mappings& to) const {
    AddressSpaceReader reader;
    reader.set_text_only(reader_.is_text_only());
    to.reserve(kUsualMappings);
    return reader.read_mappings(range, to) == 0;
}

bool Registry::is_inherited(const VmArea& mapping) const {
    return !mapping.shared && mapping.inode != 0 && !inherited_.first(mapping.range, true).empty();
}

Registry::Stretch::Kind Registry::kind_of(const VmArea& mapping) const {
    if (is_ours(mapping)) {
        return Stretch::Kind::kConverted;
    }
    if (is_inherited(mapping)) {
        return Stretch::Kind::kInherited;
    }
    const bool is_anonymous = mapping.inode == 0 && !mapping.shared && !mapping.is_special;
    return is_anonymous ? Stretch::Kind::kAnonymous : Stretch::Kind::kOther;
}

bool Registry::may_hold(Range range) const {
    return mapped_is_short_ || !mapped_.first(range, true).empty() || !inherited_.first(range, true).empty();
}

void Registry::list_stretches(Range range, Stretches& to) const {
    if (!may_hold(range)) {
        return;
    }
    Mappings mappings;
    if (!read_mappings_beside(range, mappings)) {
        return;
    }
    const bool any = std::any_of(mappings.begin(), mappings.end(), [&](const VmArea& mapping) {
        return is_ours(mapping) || is_inherited(mapping);
    });
    if (!any) {
        return;
    }
    to.reserve(2 * mappings.size() + 1);
    std::uint64_t at = range.start;
    for (const VmArea& mapping : mappings) {
        const Range here = intersection(mapping.range, range);
        if (at < here.start) {
            to.push_back({{at, here.start}, PROT_NONE, Stretch::Kind::kHole});
        }
        to.push_back({here, mapping.protection, kind_of(mapping)});
        at = here.end;
    }
    if (at < range.end) {
        to.push_back({{at, range.end}, PROT_NONE, Stretch::Kind::kHole});
    }
}

void Registry::discard(Range range, bool private_too) const {
    Mappings mappings;
    if (!read_mappings_beside(range, mappings)) {
        return;
    }
    for (const VmArea& mapping : mappings) {
        discard_mapping(mapping, range, private_too);
    }
}

void Registry::discard_mapping(const VmArea& mapping, Range within, bool private_too) const {
    const Range here = intersection(mapping.range, within);
    const std::uint64_t length = here.end - here.start;
    if (is_ours(mapping)) {
        const std::uint64_t offset = mapping.file_offset + (here.start - mapping.range.start);
        if (file_is_usable()) {
            punch_hole(file_, {offset, offset + length});
        } else {
            raw_syscall(SYS_madvise, here.start, length, MADV_REMOVE);  // needs no descriptor
        }
    } else if (is_inherited(mapping)) {
        map_zeros(here, mapping.protection);
    } else if (private_too && mapping.inode == 0 && !mapping.shared) {
        raw_syscall(SYS_madvise, here.start, length, MADV_DONTNEED);
    }
}

void Registry::advise_parked(Range range, int advice) const {
    for (std::uint64_t at = range.start; at < range.end;) {
        const Range step = next_step(at, range.end);
        if (const std::uint64_t place = parking_.place_of(step.start); place != 0) {
            raw_syscall(SYS_madvise, place, step.end - step.start, advice);
        }
        at = step.end;
    }
}

void Registry::start_anew_in_child() {
    ++generation_;
    mover_.start_anew_in_child();
    mappings_.clear();
    if (file_is_usable() && reader_.read_mappings({0, abi::kMemoryFileBytes}, mappings_) == 0) {
        mover_.configure(file_, support_, settings_.mover);
        std::uint64_t may_copy = kForkCopyBytes;
        for (const VmArea& mapping : mappings_) {
            if (is_ours(mapping)) {
                copy_in_child(mapping, may_copy);
            }
        }
        raw_syscall(SYS_close, file_);
    }
    file_ = -1;
    parking_.clear();
    counts_.clear();
    copied_.clear();
    mapped_.clear();
    wiped_.clear();
    placed_.clear();
    mapped_is_short_ = false;
}

void Registry::copy_in_child(const VmArea& mapping, std::uint64_t& may_copy) {
    const Range range = mapping.range;
    const std::uint64_t length = range.end - range.start;
    if (length <= may_copy && mover_.copy_to_private(range, mapping.file_offset, mapping.protection) == 0) {
        may_copy -= length;
    } else {
        raw_syscall(SYS_mmap, range.start, length, mapping.protection, MAP_PRIVATE | MAP_FIXED, file_,
                    mapping.file_offset);
        // These two may hold other things than the buffer.
        raw_syscall(SYS_madvise, range.start, kPageBytes, MADV_POPULATE_WRITE);
        raw_syscall(SYS_madvise, range.end - kPageBytes, kPageBytes, MADV_POPULATE_WRITE);
        // Out of memory: its MADV_DONTNEED will show the parent's pages.
        static_cast<void>(inherited_.insert(range));
    }
    for (Range wiped = wiped_.first(range, true); !wiped.empty();
         wiped = wiped_.first({wiped.end, range.end}, true)) {
        map_zeros(wiped, mapping.protection);
        raw_syscall(SYS_madvise, wiped.start, wiped.end - wiped.start, MADV_WIPEONFORK);
    }
}

}  // namespace urnic::memory
