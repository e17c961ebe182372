// The floor's shared memory: two applications, each with a send ring, a completion ring and two buffers.
// Sequence numbers in the slots, as in abi/queues.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "bench/e2e/results.h"

namespace urnic::bench {

inline constexpr std::uint32_t kRingEntries = 256;
inline constexpr std::uint32_t kDepth = 128;            // WQEs in flight, as perftest has
inline constexpr std::uint32_t kSignalEvery = 100;      // perftest's --cq-mod, which it uses
inline constexpr std::uint32_t kSignalAllAbove = 8192;  // up to this size
inline constexpr std::uint32_t kMaxMessage = 65536;

struct alignas(64) FloorWqe {
    std::atomic<std::uint32_t> seq;
    std::uint32_t length_bytes;
    bool signaled;
};
struct alignas(64) FloorCqe {
    std::atomic<std::uint32_t> seq;
    std::uint32_t wqe_index;
};

/// One application.
struct FloorApp {
    FloorWqe sq[kRingEntries];
    FloorCqe cq[kRingEntries];
    alignas(4096) std::byte source[kMaxMessage];
    alignas(4096) std::byte target[kMaxMessage];
};

struct FloorMemory {
    alignas(64) std::atomic<bool> stop;
    FloorApp apps[2];
    Results results;
};

/// The application's side: posts WRITEs and takes completions.
class FloorPoster {
  public:
    explicit FloorPoster(FloorApp& app) : app_(app) {}

    [[nodiscard]] bool has_room() const { return posted_ - done_ < kDepth; }
    void post(std::uint32_t length_bytes, bool signaled) {
        FloorWqe& wqe = app_.sq[posted_ % kRingEntries];
        wqe.length_bytes = length_bytes;
        wqe.signaled = signaled;
        wqe.seq.store(++posted_, std::memory_order_release);
    }
    /// Returns whether a completion was there.
    bool poll() {
        const FloorCqe& cqe = app_.cq[polled_ % kRingEntries];
        if (cqe.seq.load(std::memory_order_acquire) != polled_ + 1) {
            return false;
        }
        ++polled_;
        done_ = cqe.wqe_index + 1;
        return true;
    }
    [[nodiscard]] std::uint32_t posted() const { return posted_; }
    [[nodiscard]] std::uint32_t done() const { return done_; }

  private:
    FloorApp& app_;
    std::uint32_t posted_ = 0;
    std::uint32_t done_ = 0;
    std::uint32_t polled_ = 0;
};

}  // namespace urnic::bench
