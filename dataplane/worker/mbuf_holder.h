// Received frames that a QP keeps because an earlier packet is missing: references to their mbufs, so that
// nothing is copied but what lies in an application's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/local_frame.h"
#include "rnic/qp/reorder_buffer.h"
#include "rnic/wire/crc/copy_payload.h"

namespace urnic::dataplane {

/// One for each worker.
class MbufHolder final : public FrameRetainer {
  public:
    /// The frame pool has as many more buffers for each worker: held frames never starve the senders.
    static constexpr std::uint32_t kMaxFrames = kHeldFramesPerWorker;

    [[nodiscard]] void* retain(void* frame, std::span<const std::byte>& payload) override {
        if (count_ == kMaxFrames) {
            return nullptr;
        }
        auto* held = static_cast<rte_mbuf*>(frame);
        if (is_local(*held) && local_frame(*held).packet.key != 0) {
            if (!alloc_frames(held->pool, {&held, 1})) {
                return nullptr;
            }
            auto* const copy = rte_pktmbuf_mtod(held, std::byte*);
            wire::copy_payload(copy, payload.data(), payload.size());
            payload = {copy, payload.size()};
        } else {
            rte_mbuf_refcnt_update(held, 1);
        }
        ++count_;
        return held;
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
