// WRITEs over many connections from one thread, a fixed number in flight on each.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/verbs/side.h"

namespace urnic::bench {

class WriteLoad {
  public:
    /// WRITEs posted by one call, of which the last is signaled.
    static constexpr std::uint32_t kBatch = 32;

    /// All QPs read and write the same place, or each QP `own_place_bytes` further than the one before: then
    /// no two workers write to the same memory.
    WriteLoad(const Side& side, const SideAddress& peer, std::uint32_t own_place_bytes = 0)
        : side_(side), peer_(peer), own_place_bytes_(own_place_bytes) {}

    /// Keeps `in_flight` (a multiple of kBatch) WRITEs of that many bytes going on each of the first `active`
    /// QPs for so long. Returns messages a second.
    [[nodiscard]] double run(std::uint32_t active, std::uint32_t bytes, std::uint32_t in_flight,
                             double seconds);

  private:
    void post(std::uint32_t qp, std::uint32_t bytes) const;
    /// Takes completions and posts again for each as long as `again`. Returns how many there were.
    std::uint32_t turn(std::uint32_t bytes, bool again);

    const Side& side_;
    SideAddress peer_;
    std::uint32_t own_place_bytes_;
};

}  // namespace urnic::bench
