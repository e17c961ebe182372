#include "dataplane/wire/worker_rings.h"

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "dataplane/handoff/worker_handoff.h"
#include "os/setup_error.h"

namespace urnic::dataplane {

WorkerRings::WorkerRings(std::uint32_t num_ports, WorkerHandoff& handoff)
    : handoff_(handoff), num_ports_(num_ports) {
    static std::atomic<std::uint32_t> instances{0};
    const std::string name = "emu" + std::to_string(instances.fetch_add(1)) + "_";
    for (std::size_t i = 0; i < std::size_t{num_ports} * (handoff.num_workers() - 1); ++i) {
        rte_ring* const made = rte_ring_create((name + std::to_string(i)).c_str(), kRingFrames, SOCKET_ID_ANY,
                                               RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
        if (made == nullptr) {
            std::for_each(rings_.begin(), rings_.end(), rte_ring_free);
            throw SetupError(
                "cannot make the rings of an emulated wire: give the daemon more packet memory (eal_args = "
                "[\"-m\", \"MB\"])");
        }
        rings_.push_back(made);
    }
    stalled_.resize(rings_.size());
}

WorkerRings::~WorkerRings() {
    for (rte_ring* ring : rings_) {
        void* frame = nullptr;
        while (rte_ring_sc_dequeue(ring, &frame) == 0) {
            rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
        }
        rte_ring_free(ring);
    }
    std::for_each(stalled_.begin(), stalled_.end(), rte_pktmbuf_free);
}

std::uint16_t WorkerRings::enqueue(std::uint32_t worker, std::uint32_t port, rte_mbuf** frames,
                                   std::uint16_t count) const {
    const unsigned taken = rte_ring_sp_enqueue_burst(rings_[std::size_t{worker - 1} * num_ports_ + port],
                                                     reinterpret_cast<void**>(frames), count, nullptr);
    if (taken != 0) {
        handoff_.wakeup().wake(0);
    }
    return static_cast<std::uint16_t>(taken);
}

rte_mbuf* WorkerRings::next(std::size_t ring) {
    void* frame = std::exchange(stalled_[ring], nullptr);
    if (frame == nullptr && rte_ring_sc_dequeue(rings_[ring], &frame) != 0) {
        return nullptr;
    }
    return static_cast<rte_mbuf*>(frame);
}

}  // namespace urnic::dataplane
