#include "dataplane/handoff/worker_handoff.h"

#include <boost/lockfree/spsc_queue.hpp>

#include "dataplane/port/frame_pool.h"

namespace urnic::dataplane {

struct Steering::Lane {
    boost::lockfree::spsc_queue<Handover, boost::lockfree::capacity<kHandoverFrames>> frames;
};

Steering::Steering(abi::DaemonState& state, std::uint32_t num_workers)
    : num_workers_(num_workers),
      wakes_(state, num_workers),
      lanes_(std::make_unique<Lane[]>(std::size_t{num_workers} * num_workers)) {}

Steering::~Steering() {
    for (std::uint32_t i = 0; i < num_workers_ * num_workers_; ++i) {
        lanes_[i].frames.consume_all([](Handover given) { free_frames({&given.frame, 1}); });
    }
}

Steering::Lane& Steering::lane(std::uint32_t from, std::uint32_t to) {
    return lanes_[std::size_t{to} * num_workers_ + from];
}

bool Steering::hand_over(std::uint32_t from, std::uint32_t to, const Handover& frame) {
    return lane(from, to).frames.push(frame);
}

std::uint32_t Steering::take(std::uint32_t worker, Handover* frames, std::uint32_t count) {
    std::uint32_t taken = 0;
    for (std::uint32_t from = 0; from < num_workers_ && taken < count; ++from) {
        if (from != worker) {
            taken += static_cast<std::uint32_t>(lane(from, worker).frames.pop(frames + taken, count - taken));
        }
    }
    return taken;
}

}  // namespace urnic::dataplane
