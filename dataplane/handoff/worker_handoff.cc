#include "dataplane/handoff/worker_handoff.h"

#include <boost/lockfree/spsc_queue.hpp>

#include "dataplane/port/frame_pool.h"

namespace urnic::dataplane {

struct WorkerHandoff::HandoffRing {
    boost::lockfree::spsc_queue<HandoffFrame, boost::lockfree::capacity<kRingFrames>> frames;
};

WorkerHandoff::WorkerHandoff(abi::DaemonState& state, std::uint32_t num_workers)
    : num_workers_(num_workers),
      wakeup_(state, num_workers),
      rings_(std::make_unique<HandoffRing[]>(std::size_t{num_workers} * num_workers)) {}

WorkerHandoff::~WorkerHandoff() {
    for (std::uint32_t i = 0; i < num_workers_ * num_workers_; ++i) {
        rings_[i].frames.consume_all([](HandoffFrame given) { free_frames({&given.frame, 1}); });
    }
}

WorkerHandoff::HandoffRing& WorkerHandoff::ring(std::uint32_t from, std::uint32_t to) {
    return rings_[std::size_t{to} * num_workers_ + from];
}

bool WorkerHandoff::enqueue(std::uint32_t from, std::uint32_t to, const HandoffFrame& frame) {
    return ring(from, to).frames.push(frame);
}

std::uint32_t WorkerHandoff::dequeue(std::uint32_t worker, HandoffFrame* frames, std::uint32_t count) {
    std::uint32_t taken = 0;
    for (std::uint32_t from = 0; from < num_workers_ && taken < count; ++from) {
        if (from != worker) {
            taken += static_cast<std::uint32_t>(ring(from, worker).frames.pop(frames + taken, count - taken));
        }
    }
    return taken;
}

}  // namespace urnic::dataplane
