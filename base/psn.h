// Packet sequence numbers: 24 bits, compared modulo 2^24 with a half-space of 2^23 (IBA 9.7.1).
#pragma once

#include <cstdint>

namespace urnic {

/// A 24-bit sequence number. Arithmetic wraps, and so do comparisons: the lesser of two lies behind the other
/// by less than half the space.
class Psn {
  public:
    static constexpr std::uint32_t kMask = 0xff'ffff;

    constexpr Psn() = default;
    constexpr explicit Psn(std::uint32_t value) : value_(value & kMask) {}

    [[nodiscard]] constexpr std::uint32_t value() const { return value_; }

    constexpr Psn operator+(std::uint32_t n) const { return Psn(value_ + n); }
    constexpr Psn operator-(std::uint32_t n) const { return Psn(value_ - n); }
    constexpr Psn& operator++() {
        value_ = (value_ + 1) & kMask;
        return *this;
    }
    constexpr bool operator==(const Psn&) const = default;

    /// How far this PSN is ahead of `other`: -2^23 .. 2^23-1; negative when it lies behind.
    [[nodiscard]] constexpr std::int32_t distance(Psn other) const {
        return static_cast<std::int32_t>((value_ - other.value_) << 8U) >> 8;
    }

    constexpr bool operator<(Psn other) const { return distance(other) < 0; }
    constexpr bool operator<=(Psn other) const { return distance(other) <= 0; }
    constexpr bool operator>(Psn other) const { return distance(other) > 0; }
    constexpr bool operator>=(Psn other) const { return distance(other) >= 0; }

  private:
    std::uint32_t value_ = 0;
};

}  // namespace urnic
