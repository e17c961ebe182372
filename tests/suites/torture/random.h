// Decisions drawn from a seed: the same on every run of it.
#pragma once

#include <cstdint>

namespace urnic::torture {

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    /// SplitMix64.
    std::uint64_t next() {
        std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
        z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
        return z ^ (z >> 31U);
    }
    /// 0 to bound - 1.
    std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(next() % bound); }
    /// `low` to `high`, both included.
    std::uint32_t between(std::uint32_t low, std::uint32_t high) { return low + below(high - low + 1); }
    bool one_in(std::uint32_t n) { return below(n) == 0; }

  private:
    std::uint64_t state_;
};

}  // namespace urnic::torture
