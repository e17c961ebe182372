// Keeps payloads of held packets as copies: what the daemon does with references to its packet buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "rnic/qp/reorder_buffer.h"

namespace urnic::sim {

class CopiedFrames final : public FrameRetainer {
  public:
    void* retain(void* /*frame*/, std::span<const std::byte>& payload) override {
        if (copies_.size() >= limit) {
            return nullptr;
        }
        auto copy = std::make_unique<std::vector<std::byte>>(payload.begin(), payload.end());
        payload = *copy;
        most = copies_.size() + 1 > most ? copies_.size() + 1 : most;
        void* const key = copy.get();
        copies_.emplace(key, std::move(copy));
        return key;
    }
    void release(void* frame) override { copies_.erase(frame); }

    [[nodiscard]] std::size_t size() const { return copies_.size(); }

    std::size_t limit = std::numeric_limits<std::size_t>::max();
    std::size_t most = 0;  // that were held at once

  private:
    std::unordered_map<void*, std::unique_ptr<std::vector<std::byte>>> copies_;
};

}  // namespace urnic::sim
