// Moves pages of this process between private anonymous memory and the memory file, in place, while other
// threads continue to use them. docs/memory.md tells the steps and why each is there.
#pragma once

#include <cstdint>

#include "verbs_provider/memory/parking.h"
#include "verbs_provider/memory/range_counts.h"
#include "verbs_provider/memory/userfault.h"

namespace urnic::memory {

/// For tests, which show that they would see an update lost.
struct MoverSettings {
    bool protect_to_file = true;
    bool protect_to_private = true;
    bool always_crowded = false;  // as where other threads compute
};

class PageMover {
  public:
    /// Pages move in steps of at most this many bytes, so that a writer waits about 1 ms at most.
    static constexpr std::uint64_t kStepBytes = 2ULL << 20U;
    static_assert(Parking::kWindowBytes % kStepBytes == 0);

    /// Where other threads compute so much of memory waits at once: some 15 ms at most.
    static constexpr std::uint64_t kCrowdedBytes = 32ULL << 20U;

    explicit PageMover(const Parking& parking) : parking_(parking) {}
    /// Must precede everything else.
    void configure(int file, const UserfaultSupport& support, MoverSettings settings) {
        file_ = file;
        support_ = support;
        settings_ = settings;
    }

    // Both run on the private stack and answer 0 or a negative errno value; then all before `moved_end` has
    // moved and the rest is as it was.

    /// `range` lies in one private anonymous mapping with this protection, is readable, and has parking.
    int to_file(Range range, int protection, std::uint64_t& moved_end);
    /// `range` maps the memory file from `file_offset` on. The file's pages are freed.
    int to_private(Range range, std::uint64_t file_offset, int protection, std::uint64_t& moved_end);

    /// For a forked child, before anything else: the userfaultfd there is the parent's.
    void start_anew_in_child() { userfault_.close(); }
    /// For a forked child that is still alone: gives it a private copy. The file stays as it is.
    int copy_to_private(Range range, std::uint64_t file_offset, int protection);

  private:
    void begin_protecting(Range range);
    int protect_ahead(Range step, std::uint64_t end, bool touch_first);
    void give_up(Range rest);
    int step_to_file(Range step, int protection);
    int write_to_file(Range step);
    void populate(int protection) const;
    int step_to_private(Range step, std::uint64_t file_offset, int protection);
    int copy_from_file(std::uint64_t to, Range mapped, std::uint64_t file_offset);
    int copy_step_from_file(std::uint64_t to, Range mapped, std::uint64_t file_offset);
    int read_file(std::uint64_t to, std::uint64_t file_offset, std::uint64_t length) const;

    int file_ = -1;
    UserfaultSupport support_;
    Userfault userfault_;
    const Parking& parking_;
    MoverSettings settings_;
    std::uint64_t protected_end_ = 0;
    std::uint64_t preemptions_ = 0;
    // Stretches of pages with content in the current step.
    Range stretches_[kStepBytes / kPageBytes / 2 + 1];
    std::uint32_t num_stretches_ = 0;
    unsigned char is_resident_[kStepBytes / kPageBytes];  // of the current step, as mincore(2) says
};

/// A step within [at, end): up to the next multiple of PageMover::kStepBytes.
Range next_step(std::uint64_t at, std::uint64_t end);
/// Frees the memory file's pages of the range.
void punch_hole(int file, Range offsets);

}  // namespace urnic::memory
