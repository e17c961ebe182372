// The buffers that frames live in, and their life as the sanitizers see it.
#pragma once

#include <rte_mbuf.h>

#include <cstdint>
#include <span>

namespace urnic::dataplane {

/// Any frame of one path MTU of payload (wire::kMaxFrameBytes) behind DPDK's usual headroom.
inline constexpr std::uint32_t kFrameRoomBytes = 4096 + 256;

/// Frames that one worker may hold for packets that are missing before them (MbufHolder).
inline constexpr std::uint32_t kHeldFramesPerWorker = 1024;

/// How many frames the in-process wire and the workers can hold at once, and what they take in memory.
[[nodiscard]] std::uint32_t frames_for(std::uint32_t num_ports, std::uint32_t num_workers,
                                       std::uint32_t ring_frames);
[[nodiscard]] std::uint32_t packet_memory_mb(std::uint32_t frames);

/// Throws SetupError when the packet memory (EalConfig::memory_mb) does not hold it.
[[nodiscard]] rte_mempool* make_frame_pool(const char* name, std::uint32_t frames);

// A pool hands a buffer from the thread that freed it to the one that allocates it next. The library is not
// built with the thread sanitizer, which learns of that order here.
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
inline void note_acquired(rte_mbuf* frame) { __tsan_acquire(frame); }
inline void note_released(rte_mbuf* frame) { __tsan_release(frame); }
#else
inline void note_acquired(rte_mbuf* /*frame*/) {}
inline void note_released(rte_mbuf* /*frame*/) {}
#endif

/// Fills all of `frames`, or none. Returns whether it did.
[[nodiscard]] inline bool alloc_frames(rte_mempool* pool, std::span<rte_mbuf*> frames) {
    // As rte_pktmbuf_alloc_bulk() does, but for the order in which the thread sanitizer hears of it.
    if (rte_mempool_get_bulk(pool, reinterpret_cast<void**>(frames.data()),
                             static_cast<unsigned>(frames.size())) != 0) {
        return false;
    }
    for (rte_mbuf* frame : frames) {
        note_acquired(frame);
        rte_pktmbuf_reset(frame);
    }
    return true;
}

inline void free_frames(std::span<rte_mbuf*> frames) {
    for (rte_mbuf* frame : frames) {
        note_released(frame);
        // Workers share multicast frames. DPDK reads the reference count by a relaxed load;
        // the accesses of the others must happen before the next use of the frame.
        (void)__atomic_load_n(&frame->refcnt, __ATOMIC_ACQUIRE);
    }
    rte_pktmbuf_free_bulk(frames.data(), static_cast<unsigned>(frames.size()));
}

inline std::span<const std::byte> frame_bytes(const rte_mbuf* frame) {
    return {rte_pktmbuf_mtod(frame, const std::byte*), rte_pktmbuf_data_len(frame)};
}

}  // namespace urnic::dataplane
