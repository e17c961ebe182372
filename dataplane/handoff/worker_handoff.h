// Which worker owns a QP, and the rings to it for frames that another worker received.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/handoff/worker_wakeup.h"

struct rte_mbuf;

namespace urnic::dataplane {

/// A frame on its way to another worker. The device is not in the frame: the in-process wire gives one
/// multicast frame to several devices.
struct HandoffFrame {
    rte_mbuf* frame = nullptr;
    std::uint32_t device = 0;  // index of the one that received it
};

/// Made before the workers, shared by all of them.
class WorkerHandoff {
  public:
    /// Frames that wait on the way from one worker to another; more are dropped, as a NIC's queue would.
    static constexpr std::uint32_t kRingFrames = 512;

    WorkerHandoff(abi::DaemonState& state, std::uint32_t num_workers);
    ~WorkerHandoff();
    WorkerHandoff(const WorkerHandoff&) = delete;
    WorkerHandoff& operator=(const WorkerHandoff&) = delete;

    [[nodiscard]] std::uint32_t num_workers() const { return num_workers_; }
    [[nodiscard]] std::uint32_t worker_of(std::uint32_t qp_num) const {
        return num_workers_ == 1 ? 0 : qp_num % num_workers_;
    }
    [[nodiscard]] WorkerWakeup& wakeup() { return wakeup_; }

    /// Hands a frame off from worker `from` to worker `to`. Returns false if there is no room: the caller
    /// keeps the frame. Call wakeup().wake(to) after the burst.
    [[nodiscard]] bool enqueue(std::uint32_t from, std::uint32_t to, const HandoffFrame& frame);
    /// Takes up to `count` frames that others have handed off to `worker`, which owns them from now on.
    [[nodiscard]] std::uint32_t dequeue(std::uint32_t worker, HandoffFrame* frames, std::uint32_t count);

  private:
    struct HandoffRing;
    [[nodiscard]] HandoffRing& ring(std::uint32_t from, std::uint32_t to);

    std::uint32_t num_workers_;
    WorkerWakeup wakeup_;
    std::unique_ptr<HandoffRing[]> rings_;
};

}  // namespace urnic::dataplane
