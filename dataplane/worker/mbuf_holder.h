// Received frames that a QP keeps because an earlier packet is missing: references to their mbufs, so that
// nothing is copied.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/port/frame_pool.h"
#include "rnic/qp/reorder_buffer.h"

namespace urnic::dataplane {

/// One for each worker.
class MbufHolder final : public FrameRetainer {
  public:
    /// The frame pool has as many more buffers for each worker: held frames never starve the senders.
    static constexpr std::uint32_t kMaxFrames = kHeldFramesPerWorker;

    [[nodiscard]] void* retain(void* frame, std::span<const std::byte>& /*payload*/) override {
        if (count_ == kMaxFrames) {
            return nullptr;
        }
        ++count_;
        rte_mbuf_refcnt_update(static_cast<rte_mbuf*>(frame), 1);
        return frame;
    }
    void release(void* held) override {
        --count_;
        auto* frame = static_cast<rte_mbuf*>(held);
        free_frames({&frame, 1});
    }

  private:
    std::uint32_t count_ = 0;
};

}  // namespace urnic::dataplane
