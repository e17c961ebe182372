// The rings of one client: one sealed memfd, one mapping, pieces handed out by the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "os/memfd.h"

namespace urnic::daemon {

/// A piece of ring memory: page-aligned, zero when it is handed out.
struct RingPiece {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
};

class RingMemory {
  public:
    /// Sparse: only pages that are used cost memory. Large enough for every limit of ClientLimits.
    static constexpr std::uint64_t kFileBytes = 64ULL << 30U;

    /// `limit_bytes`: what may be handed out at one time. 0 or errno.
    [[nodiscard]] int create(std::uint64_t limit_bytes);

    /// 0 or ENOMEM (limit reached). Throws std::bad_alloc, and then nothing has changed.
    [[nodiscard]] int allocate(std::size_t bytes, RingPiece& piece);
    /// The caller knows that no worker uses the piece any more. Gives its pages back to the system.
    void release(const RingPiece& piece);

    [[nodiscard]] std::byte* at(const RingPiece& piece) const { return file_.mapping.data() + piece.offset; }
    [[nodiscard]] int fd() const { return file_.fd.get(); }
    [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

  private:
    Memfd file_;
    using Ranges = std::map<std::uint64_t, std::uint64_t>;  // offset to length in bytes
    Ranges free_;                                           // neighbours are merged
    // A piece's node goes to free_ when the piece comes back: that must work without memory.
    Ranges taken_;
    std::uint64_t limit_bytes_ = 0;
    std::uint64_t used_bytes_ = 0;
};

}  // namespace urnic::daemon
