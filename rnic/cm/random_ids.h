// Numbers that nobody can foretell: SipHash-2-4 of a counter under a secret key, so that who sees some of
// them knows nothing about the next.
#pragma once

#include <array>
#include <cstdint>

namespace urnic::cm {

class RandomIds {
  public:
    explicit RandomIds(const std::array<std::uint64_t, 2>& key) : key_(key) {}
    [[nodiscard]] std::uint64_t next();

  private:
    std::array<std::uint64_t, 2> key_;
    std::uint64_t counter_ = 0;
};

}  // namespace urnic::cm
