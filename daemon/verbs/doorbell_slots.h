// Places in one worker's doorbell bitmap of one client.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace urnic::daemon {

class DoorbellSlots {
  public:
    /// Nullopt when all are taken.
    [[nodiscard]] std::optional<std::uint32_t> allocate();
    void free(std::uint32_t slot) { free_.push_back(slot); }  // has room since allocate()

  private:
    std::vector<std::uint32_t> free_;
    std::uint32_t next_ = 0;
};

}  // namespace urnic::daemon
