#include "dataplane/port/frame_pool.h"

#include <rte_errno.h>
#include <rte_mempool.h>

#include <string>

#include "os/setup_error.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kCacheFrames = 256;
// What a worker holds besides the rings: its cache (up to 1.5 times its size) and its outboxes.
constexpr std::uint32_t kWorkerFrames = 2 * kCacheFrames;
// A buffer with its headers: mempool header, rte_mbuf, headroom, room, rounded up.
constexpr std::uint64_t kFrameTotalBytes =
    64 + sizeof(rte_mbuf) + RTE_PKTMBUF_HEADROOM + kFrameRoomBytes + 64;
// With many workers not every ring can be full at once: a worker that finds the pool empty sends later.
constexpr std::uint32_t kMaxFrames = 32768;

}  // namespace

std::uint32_t frames_for(std::uint32_t num_ports, std::uint32_t num_workers, std::uint32_t ring_frames) {
    const std::uint64_t in_rings = std::uint64_t{num_ports} * num_workers * num_workers * ring_frames;
    const std::uint64_t in_workers = std::uint64_t{num_workers} * (kWorkerFrames + num_ports * 128ULL);
    const std::uint64_t all = in_rings + in_workers + 1024;
    const auto frames = static_cast<std::uint32_t>(all < kMaxFrames ? all : kMaxFrames);
    return frames + num_workers * kHeldFramesPerWorker;
}

std::uint32_t packet_memory_mb(std::uint32_t frames) {
    // The rings, DPDK's own tables and the pool's bookkeeping fit in the rest.
    return static_cast<std::uint32_t>(frames * kFrameTotalBytes / (1024ULL * 1024)) + 32;
}

rte_mempool* make_frame_pool(const char* name, std::uint32_t frames) {
    rte_mempool* pool = rte_pktmbuf_pool_create(name, frames, kCacheFrames, 0,
                                                RTE_PKTMBUF_HEADROOM + kFrameRoomBytes, SOCKET_ID_ANY);
    if (pool == nullptr) {
        throw SetupError("cannot make a pool of " + std::to_string(frames) + " packet buffers (" +
                         rte_strerror(rte_errno) +
                         "): give the daemon more packet memory (eal_args = [\"-m\", \"" +
                         std::to_string(packet_memory_mb(frames)) + "\"])");
    }
    return pool;
}

}  // namespace urnic::dataplane
