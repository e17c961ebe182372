// A shared receive queue in plain memory, filled as a provider would, with a CQ for receives of an XRC SRQ.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "rnic/queue/completion_queue.h"
#include "rnic/queue/shared_recv_queue.h"
#include "tests/sim/sim_host.h"
#include "tests/support/ring_memory.h"

namespace urnic::sim {

class SimSrq {
  public:
    static constexpr std::uint32_t kMaxSge = 4;
    static constexpr std::uint32_t kCqEntries = 256;

    explicit SimSrq(std::uint32_t entries, std::uint32_t pd = 1, std::uint32_t number = 77,
                    bool is_xrc = false)
        : entries_(entries),
          memory_(zeroed_memory(abi::srq_bytes(entries, kStride))),
          queue_({number, pd, is_xrc ? &cq_.queue() : nullptr}, memory_.get(), entries, kStride, kMaxSge) {}

    void post(std::uint64_t wr_id, const std::vector<abi::Sge>& sge) {
        abi::RecvWqe& wqe = slot(posted_);
        wqe.wr_id = wr_id;
        wqe.num_sge = static_cast<std::uint32_t>(sge.size());
        std::memcpy(static_cast<void*>(&wqe + 1), sge.data(), sge.size() * sizeof(abi::Sge));
        wqe.seq.store(++posted_, std::memory_order_release);
    }
    [[nodiscard]] abi::RecvWqe& slot(std::uint32_t index) {
        return *reinterpret_cast<abi::RecvWqe*>(memory_.get() + abi::kSrqHeaderBytes +
                                                std::size_t{index % entries_} * kStride);
    }
    /// How many receives are the application's again.
    [[nodiscard]] std::uint32_t consumed() const {
        return reinterpret_cast<const abi::SrqHeader*>(memory_.get())->consumed.load();
    }
    /// Doubles the ring, as a resize does.
    void grow() {
        RingMemory larger = zeroed_memory(abi::srq_bytes(2 * entries_, kStride));
        for (std::uint32_t i = queue_.next(); i != posted_; ++i) {
            std::memcpy(larger.get() + abi::kSrqHeaderBytes + std::size_t{i % (2 * entries_)} * kStride,
                        static_cast<const void*>(&slot(i)), kStride);
        }
        queue_.switch_ring(larger.get(), 2 * entries_, kStride, kMaxSge);
        memory_ = std::move(larger);
        entries_ *= 2;
    }
    /// Completions of an XRC SRQ since the last call; those entries stay as they are for kCqEntries more.
    std::vector<const abi::Cqe*> poll() {
        std::vector<const abi::Cqe*> result;
        for (const abi::Cqe* cqe = cq_.poll(); cqe != nullptr; cqe = cq_.poll()) {
            result.push_back(cqe);
        }
        return result;
    }
    [[nodiscard]] SharedRecvQueue& queue() { return queue_; }

  private:
    static constexpr std::uint32_t kStride = abi::recv_stride(kMaxSge);

    std::uint32_t entries_;
    std::uint32_t posted_ = 0;
    RingMemory memory_;
    CompletionRing cq_{kCqEntries};
    SharedRecvQueue queue_;
};

}  // namespace urnic::sim
