// Which worker a QP belongs to, and the way there for frames that another worker received.
#pragma once

#include <cstdint>
#include <memory>

#include "dataplane/handoff/worker_wakeup.h"

struct rte_mbuf;

namespace urnic::dataplane {

/// A frame on its way to another worker. The device is not in the frame: the in-process wire gives one
/// multicast frame to several devices.
struct Handover {
    rte_mbuf* frame = nullptr;
    std::uint32_t device = 0;  // index of the one that received it
};

/// Made before the workers, shared by all of them.
class Steering {
  public:
    /// Frames that wait on the way from one worker to another; more are dropped, as a NIC's queue would.
    static constexpr std::uint32_t kHandoverFrames = 512;

    Steering(abi::DaemonState& state, std::uint32_t num_workers);
    ~Steering();
    Steering(const Steering&) = delete;
    Steering& operator=(const Steering&) = delete;

    [[nodiscard]] std::uint32_t num_workers() const { return num_workers_; }
    [[nodiscard]] std::uint32_t worker_of(std::uint32_t qp_num) const {
        return num_workers_ == 1 ? 0 : qp_num % num_workers_;
    }
    [[nodiscard]] WakeBoard& wakes() { return wakes_; }

    /// Worker `from` gives a frame to worker `to`. False: no room, the frame stays the caller's. Call
    /// wakes().wake(to) after the burst.
    [[nodiscard]] bool hand_over(std::uint32_t from, std::uint32_t to, const Handover& frame);
    /// Up to `count` frames that others gave to `worker`; the caller's from now on.
    [[nodiscard]] std::uint32_t take(std::uint32_t worker, Handover* frames, std::uint32_t count);

  private:
    struct Lane;
    [[nodiscard]] Lane& lane(std::uint32_t from, std::uint32_t to);

    std::uint32_t num_workers_;
    WakeBoard wakes_;
    std::unique_ptr<Lane[]> lanes_;
};

}  // namespace urnic::dataplane
