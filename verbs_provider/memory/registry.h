// The process's registered ranges and the decisions about them: what can be converted, what must be, and what
// goes back. Not thread-safe; verbs_provider/memory/memory.cc serialises.
#pragma once

#include <cstdint>
#include <vector>

#include "verbs_provider/memory/address_space.h"
#include "verbs_provider/memory/memory.h"
#include "verbs_provider/memory/page_mover.h"
#include "verbs_provider/memory/parking.h"
#include "verbs_provider/memory/private_stack.h"
#include "verbs_provider/memory/range_counts.h"
#include "verbs_provider/memory/userfault.h"

namespace urnic::memory {

/// For tests.
struct Settings {
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

    [[nodiscard]] bool has_file() const { return file_ >= 0; }
    void apply(const Settings& settings);
    /// For tests: stretches of converted pages.
    [[nodiscard]] std::uint64_t stretches() const { return counts_.stretches(); }

  private:
    enum class Verdict { kFault, kCopy, kConvert };
    struct Part {
        Range range;
        int protection = 0;
    };
    using Parts = std::vector<Part, MappedAllocator<Part>>;

    Verdict examine(Range range, bool writable);
    [[nodiscard]] bool touches_a_stack(std::uint64_t addr);
    [[nodiscard]] bool is_to_be_converted(Range range) const;
    [[nodiscard]] bool is_ours(const Mapping& mapping) const;
    [[nodiscard]] bool is_at_home(const Mapping& mapping) const;
    bool file_is_usable();
    [[nodiscard]] bool file_holds_data(Range range) const;
    int make_file();

    [[nodiscard]] bool may_convert(Range range, std::uint64_t addr);
    bool convert_parts();
    void make_unused_private(Range range);
    void make_private(Range range);
    void reclaim(Range range);
    void move_to_private(Range range, std::uint64_t file_offset, int protection);
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
    Settings settings_;

    AddressSpaceReader reader_;
    RangeCounts counts_;  // converted registrations
    // The others: a page that the daemon reaches through the kernel must not move, or what it is just writing
    // would go to the page that was there before.
    RangeCounts copied_;
    Parking parking_;
    PageMover mover_;
    PrivateStack stack_;

    // Kept between calls so that they need not be allocated again.
    Mappings mappings_;
    Mappings displaced_;
    ThreadBlocks thread_blocks_;
    Parts parts_;  // what is to be converted

    // Argument of job_to_private.
    Part job_part_;
    std::uint64_t job_offset_ = 0;
    int (Registry::*job_)() = nullptr;
};

}  // namespace urnic::memory
