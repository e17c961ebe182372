// Random numbers that are the same on every machine and standard library, so that a seed says everything.
#pragma once

#include <cstdint>

namespace urnic::sim {

/// splitmix64: one addition and three multiplications a number; any seed is a good one.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        std::uint64_t mixed = (state_ += 0x9e37'79b9'7f4a'7c15ULL);
        mixed = (mixed ^ (mixed >> 30U)) * 0xbf58'476d'1ce4'e5b9ULL;
        mixed = (mixed ^ (mixed >> 27U)) * 0x94d0'49bb'1331'11ebULL;
        return mixed ^ (mixed >> 31U);
    }
    /// 0 .. bound - 1; 0 for a bound of 0. Bounds up to 2^32.
    std::uint64_t below(std::uint64_t bound) { return ((next() >> 32U) * bound) >> 32U; }
    /// least .. most, both included.
    std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
    bool chance(std::uint32_t part, std::uint32_t whole = 1000) { return part != 0 && below(whole) < part; }

  private:
    std::uint64_t state_;
};

}  // namespace urnic::sim
