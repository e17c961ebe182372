// The rings of a live capture as one sequence in the order of time. Records stay where they lie: nothing of
// one is copied but its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rnic/device/capture_ring_reader.h"

namespace urnic::cli {

class CaptureMerge {
  public:
    /// Of each ring at once, so that what was looked at is still in the cache when it is written.
    static constexpr std::size_t kMostRecords = 4096;

    using Record = CaptureRingReader::Record;
    using Counts = CaptureRingReader::Counts;

    /// To be called before read().
    void add(const CaptureRingReader& ring) { rings_.push_back({ring, {}, 0, {}}); }
    /// Takes the next records, up to the first of each ring that is younger than `until_ns`. What was taken
    /// before is given back to the writers. Returns whether all of them made sense.
    [[nodiscard]] bool read(std::uint64_t until_ns);
    /// What read() took, in the order of time; there until it is called again.
    [[nodiscard]] std::span<const Record* const> records() const { return in_order_; }
    /// Returns whether read() left some that it could have taken.
    [[nodiscard]] bool has_more() const { return has_more_; }
    [[nodiscard]] Counts counts(std::uint16_t rnic) const;

  private:
    struct Ring {
        CaptureRingReader reader;
        std::vector<Record> records;
        std::size_t taken;                  // of `records`
        std::vector<std::uint64_t> oldest;  // from each of them on: leave_youngest()
    };
    static bool look(Ring& ring, std::uint64_t until_ns);
    static std::uint64_t cut(Ring& ring, std::uint64_t at_ns);
    void leave_youngest();
    void put_in_order(std::span<const Record> records);

    std::vector<Ring> rings_;
    std::vector<const Record*> in_order_;
    bool has_more_ = false;
};

}  // namespace urnic::cli
