// Address space in which the application's own anonymous mappings wait, empty, while memfd pages stand in
// their place.
//
// Why: a mapping that is made anew for pages that become private again would never merge with its neighbours
// (it has another anon_vma), so programs that register many small ranges would run into vm.max_map_count. The
// parked mapping still is a piece of the application's own and merges when it comes home. Parked pieces lie
// as far apart as at home, so that they merge with each other too.
#pragma once

#include <cstdint>
#include <map>

#include "verbs_provider/memory/mapped_allocator.h"
#include "verbs_provider/memory/range_counts.h"

namespace urnic::memory {

class Parking {
  public:
    /// The parking place of a range never crosses a multiple of this.
    static constexpr std::uint64_t kWindowBytes = 1ULL << 30U;

    Parking();
    Parking(const Parking&) = delete;
    Parking& operator=(const Parking&) = delete;

    /// Reserves addresses for the pages at `range`. Returns false if it is out of memory or address space.
    [[nodiscard]] bool reserve(Range range);
    /// The place of a reserved address; 0 when it was never reserved.
    [[nodiscard]] std::uint64_t place_of(std::uint64_t addr) const;
    /// Makes the place of a piece that came home an inaccessible reservation again. Raw system calls alone.
    static void restore(std::uint64_t place, std::uint64_t length_bytes);
    /// Gives all windows back to the kernel.
    void clear();

  private:
    NodePool pool_;
    std::map<std::uint64_t, std::uint64_t, std::less<>,
             PoolAllocator<std::pair<const std::uint64_t, std::uint64_t>>>
        windows_;  // window number to its parking window's address
};

}  // namespace urnic::memory
