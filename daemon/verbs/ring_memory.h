// The rings of one client: one sealed memfd, one mapping, pieces handed out by the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "os/memfd.h"

namespace urnic::daemon {

/// A piece of ring memory: page-aligned, zero when it is handed out.
struct RingPiece {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
};

/// No call here takes the file's inode lock, which the client can hold: a piece that comes back is cleared
/// through the mapping, and its pages stay the client's for the next piece. Large pieces are cleared on a
/// thread of their own, and count as used until they are clear.
class RingMemory {
  public:
    /// Sparse: only pages that are used cost memory. Large enough for every limit of ClientLimits.
    static constexpr std::uint64_t kFileBytes = 64ULL << 30U;
    /// Longer pieces are cleared on another thread.
    static constexpr std::uint64_t kClearHereBytes = 1ULL << 20U;

    RingMemory();
    RingMemory(const RingMemory&) = delete;
    RingMemory& operator=(const RingMemory&) = delete;
    /// The thread that clears continues by itself.
    ~RingMemory();

    /// `limit_bytes`: what may be handed out at one time. 0 or errno.
    [[nodiscard]] int create(std::uint64_t limit_bytes);

    /// `more_extent_bytes`: what extent_bytes() may grow by. 0, ENOMEM (limit reached) or EDQUOT (the extent
    /// would grow by more). Throws std::bad_alloc, and then nothing has changed.
    [[nodiscard]] int allocate(std::size_t bytes, std::uint64_t more_extent_bytes, RingPiece& piece);
    /// The caller knows that no worker uses the piece any more.
    void release(const RingPiece& piece);
    /// Nobody allocates any more: what is released from now on needs no zeros.
    void clear_no_more() { is_over_ = true; }

    [[nodiscard]] std::byte* at(const RingPiece& piece) const;
    [[nodiscard]] int fd() const;
    [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
    /// Where the furthest piece ever handed out ends: pages before it may exist.
    [[nodiscard]] std::uint64_t extent_bytes() const { return extent_bytes_; }

  private:
    struct Clearing;                                        // shared with the thread
    using Ranges = std::map<std::uint64_t, std::uint64_t>;  // offset to length in bytes
    void take_cleared();
    void insert_free(Ranges::node_type node);

    std::shared_ptr<Clearing> clearing_;
    Ranges free_;  // neighbours are merged
    // A piece's node goes to free_ when the piece comes back: that must work without memory.
    Ranges taken_;
    std::uint64_t limit_bytes_ = 0;
    std::uint64_t used_bytes_ = 0;
    std::uint64_t extent_bytes_ = 0;
    bool is_over_ = false;
};

}  // namespace urnic::daemon
