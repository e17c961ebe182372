// The way of frames into an emulated network, which runs on worker 0, from the other workers.
#pragma once

#include <cstdint>
#include <vector>

struct rte_mbuf;
struct rte_ring;

namespace urnic::dataplane {

class WorkerHandoff;

class WorkerRings {
  public:
    /// Throws SetupError: the packet memory is too small.
    WorkerRings(std::uint32_t num_ports, WorkerHandoff& handoff);
    ~WorkerRings();
    WorkerRings(const WorkerRings&) = delete;
    WorkerRings& operator=(const WorkerRings&) = delete;

    /// On `worker`, which is not 0: frames that it sends by a port. Returns how many were taken, and wakes
    /// worker 0 for them.
    std::uint16_t enqueue(std::uint32_t worker, std::uint32_t port, rte_mbuf** frames,
                          std::uint16_t count) const;
    /// On worker 0: calls `send(port, frame)` for what came, in order; false: the frame has to wait, and is
    /// the next one of its ring.
    template <typename Send>
    void dequeue(const Send& send) {
        for (std::size_t i = 0; i < rings_.size(); ++i) {
            const auto port = static_cast<std::uint32_t>(i % num_ports_);
            for (unsigned taken = 0; taken < kBurst; ++taken) {
                rte_mbuf* const frame = next(i);
                if (frame == nullptr) {
                    break;
                }
                if (!send(port, frame)) {
                    stalled_[i] = frame;
                    break;
                }
            }
        }
    }

  private:
    static constexpr unsigned kRingFrames = 256;
    /// Frames taken from one ring at once.
    static constexpr unsigned kBurst = 32;
    [[nodiscard]] rte_mbuf* next(std::size_t ring);

    WorkerHandoff& handoff_;
    std::uint32_t num_ports_;
    std::vector<rte_ring*> rings_;    // from each worker but 0, by port
    std::vector<rte_mbuf*> stalled_;  // of the rings: the one that was taken out and found no room
};

}  // namespace urnic::dataplane
