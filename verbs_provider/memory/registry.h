// The process's registered ranges and the decisions about them: what can be converted, what must be, and what
// goes back. Not thread-safe; verbs_provider/memory/memory.cc serialises.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "verbs_provider/memory/address_space_reader.h"
#include "verbs_provider/memory/mapping_traits.h"
#include "verbs_provider/memory/memory.h"
#include "verbs_provider/memory/page_mover.h"
#include "verbs_provider/memory/parking.h"
#include "verbs_provider/memory/private_stack.h"
#include "verbs_provider/memory/range_counts.h"
#include "verbs_provider/memory/userfault.h"

namespace urnic::memory {

/// For tests.
struct RegistrySettings {
    MoverSettings mover;
    bool text_maps_only = false;      // as before Linux 6.11
    bool protects_untouched = true;   // false: as before Linux 6.4
    bool userfault_available = true;  // false: as where it is forbidden
    std::uint64_t max_stretches = 0;  // 0: from vm.max_map_count
};

class Registry {
  public:
    Registry();
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    /// See memory_file().
    int file();
    Registration convert(std::uint64_t addr, std::uint64_t length_bytes, bool writable);
    void release(const Registration& registration);

    /// In a forked child, before anything else: converted ranges become the child's own, and the registry is
    /// empty. Calls nothing but the kernel.
    void start_anew_in_child();

    // For system calls of the program's own (calls.h). All but note_moved() and wipe_on_fork() only look at
    // the registry and may run several at a time, while nothing moves.

    /// Whether anything in the range can ever have been converted. From any thread, at any time.
    [[nodiscard]] bool may_map(Range range) const {
        return range.start < highest_.load(std::memory_order_relaxed) &&
               range.end > lowest_.load(std::memory_order_relaxed);
    }
    struct Stretch {
        // Inherited: in a child, a private mapping of the parent's memory file.
        enum class Kind { kHole, kAnonymous, kConverted, kInherited, kOther };
        Range range;
        int protection = 0;
        Kind kind = Kind::kHole;
    };
    using Stretches = std::vector<Stretch, MappedAllocator<Stretch>>;
    /// Whether something of the range may map the memory file; nothing that does is overlooked.
    [[nodiscard]] bool may_hold(Range range) const;
    /// The range's stretches in order, none left out. Empty: nothing of it maps the memory file.
    void list_stretches(Range range, Stretches& to) const;
    /// Changes whenever pages have moved.
    [[nodiscard]] std::uint64_t moves() const { return moves_; }
    /// Pages of the range that lie in the memory file read as zeros from now on, here and for the daemon;
    /// with `private_too` the private anonymous ones too.
    void discard(Range range, bool private_too) const;
    /// Gives the advice to the mappings that will come home.
    void advise_parked(Range range, int advice) const;
    /// The range maps the memory file now: the program has moved it there.
    void note_moved(Range range);
    /// Whether children get zeros in the range.
    [[nodiscard]] bool wipe_on_fork(Range range, bool wipe);

    [[nodiscard]] bool has_file() const { return file_ >= 0; }
    void apply(const RegistrySettings& settings);
    /// For tests: stretches of converted pages.
    [[nodiscard]] std::uint64_t stretches() const { return counts_.stretches(); }

  private:
    enum class Verdict { kFault, kCopy, kConvert };
    struct Part {
        Range range;
        int protection = 0;
        bool is_locked = false;
        NumaPolicy policy;
    };
    using Parts = std::vector<Part, MappedAllocator<Part>>;

    Verdict examine(Range range, bool writable);
    [[nodiscard]] bool is_at_stack(std::uint64_t addr);
    [[nodiscard]] bool is_to_be_converted(Range range) const;
    [[nodiscard]] bool is_ours(const VmArea& mapping) const;
    [[nodiscard]] bool is_at_home(const VmArea& mapping) const;
    [[nodiscard]] bool is_inherited(const VmArea& mapping) const;
    [[nodiscard]] Stretch::Kind kind_of(const VmArea& mapping) const;
    [[nodiscard]] bool read_mappings_beside(Range range, Mappings& to) const;
    void discard_mapping(const VmArea& mapping, Range within, bool private_too) const;
    void copy_in_child(const VmArea& mapping, std::uint64_t& may_copy);
    [[nodiscard]] bool file_is_usable() const;
    [[nodiscard]] bool has_file_data(Range range) const;
    int make_file();

    [[nodiscard]] bool may_convert(Range range, std::uint64_t addr);
    [[nodiscard]] static bool grows_down(const Part& part);
    bool convert_parts();
    void read_traits();
    void prepare_traits() const;
    void restore_traits() const;
    void give_traits();
    void note_mapped(Range range);
    void make_unused_private(Range range);
    void make_private(Range range);
    bool make_private_at_once(Range range);
    void reclaim(Range range);
    bool move_to_private(Range range, std::uint64_t file_offset, int protection);
    bool move_pages_to_private(Range range, std::uint64_t file_offset, int protection);
    int run_on_private_stack(int (Registry::*job)());
    int job_to_file();
    int job_to_private();

    int file_ = -1;
    std::uint64_t inode_ = 0;
    std::uint32_t device_major_ = 0, device_minor_ = 0;
    std::uint32_t generation_ = 1;
    std::uint64_t max_stretches_ = 0;
    std::uint64_t max_bytes_ = 0;  // of one registration that converts
    UserfaultSupport support_;
    RegistrySettings settings_;

    AddressSpaceReader reader_;
    RangeCounts counts_;  // converted registrations
    // The others: a page that the daemon reaches through the kernel must not move, or what it is just writing
    // would go to the page that was there before.
    RangeCounts copied_;
    // Where the memory file may be mapped: a little more than it is, as the program unmaps memory unseen.
    RangeCounts mapped_;
    bool mapped_is_short_ = false;                           // there was no memory to note more
    std::atomic<std::uint64_t> lowest_{~0ULL}, highest_{0};  // of all that ever was in it
    RangeCounts wiped_;                                      // children get zeros there (MADV_WIPEONFORK)
    RangeCounts placed_;     // its own mapping, which will come home, has a NUMA policy
    RangeCounts inherited_;  // in a child: what maps the parent's file, privately
    std::uint64_t moves_ = 0;
    Parking parking_;
    PageMover mover_;
    PrivateStack stack_;

    // Kept between calls so that they need not be allocated again.
    Mappings mappings_;
    Mappings displaced_;
    ThreadBlocks thread_blocks_;
    Parts parts_;  // what is to be converted
    AdvisedAreas advised_;

    // Argument of job_to_private.
    Part job_part_;
    std::uint64_t job_offset_ = 0;
    int (Registry::*job_)() = nullptr;
};

}  // namespace urnic::memory
