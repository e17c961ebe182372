#include "dataplane/port/prefetch_port.h"

#include <algorithm>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"

namespace urnic::dataplane {

namespace {
constexpr std::uint32_t kPrefetchBurst = 32;
}  // namespace

PrefetchPort::PrefetchPort(Port& below, std::uint32_t num_queues, std::uint32_t max_frames)
    : below_(below), queues_(num_queues) {
    URNIC_CHECK(max_frames != 0 && max_frames <= kMaxFrames);
    for (Queue& queue : queues_) {
        queue.frames.resize(max_frames);
    }
}

PrefetchPort::~PrefetchPort() {
    for (Queue& queue : queues_) {
        for (; queue.count != 0; --queue.count) {
            free_frames({&queue.frames[queue.first], 1});
            queue.first = (queue.first + 1) % queue.frames.size();
        }
    }
}

std::uint32_t PrefetchPort::rx_waiting(std::uint32_t index) {
    Queue& queue = queues_[index];
    const auto size = static_cast<std::uint32_t>(queue.frames.size());
    std::uint16_t got = 1;
    // Drivers return fewer frames than requested even if more wait: only 0 means that none do.
    while (queue.count < size && got != 0) {
        const std::uint32_t end = (queue.first + queue.count) % size;
        // Up to the end of the vector, or to the first that waits.
        const std::uint32_t room = std::min({size - queue.count, size - end, kPrefetchBurst});
        got = below_.rx_burst(index, queue.frames.data() + end, static_cast<std::uint16_t>(room));
        queue.count += got;
    }
    return queue.count;
}

std::uint16_t PrefetchPort::rx_burst(std::uint32_t index, rte_mbuf** frames, std::uint16_t count) {
    Queue& queue = queues_[index];
    std::uint16_t taken = 0;
    for (; taken < count && queue.count != 0; ++taken, --queue.count) {
        frames[taken] = queue.frames[queue.first];
        queue.first = queue.first + 1 == queue.frames.size() ? 0 : queue.first + 1;
    }
    return taken == count ? taken
                          : static_cast<std::uint16_t>(
                                taken + below_.rx_burst(index, frames + taken,
                                                        static_cast<std::uint16_t>(count - taken)));
}

}  // namespace urnic::dataplane
