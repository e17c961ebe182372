// Fractions between 0 and 1 in fixed point: every machine computes the same rates, to the last bit.
#pragma once

#include <cstdint>

namespace urnic {

/// A rate in bit/s on the wire, frame headers included.
using BitsPerSecond = std::uint64_t;
/// Rates are below this (1.09 Tbit/s), so that a rate times a fraction fits 64 bits.
inline constexpr BitsPerSecond kMaxRate = (BitsPerSecond{1} << 40U) - 1;
/// No QP is slowed down more than to this.
inline constexpr BitsPerSecond kMinRate = 1'000;

/// A multiple of 2^-24 in [0, 1].
class Fraction {
  public:
    static constexpr std::uint32_t kBits = 24;
    static constexpr std::uint32_t kOne = 1U << kBits;

    constexpr Fraction() = default;
    /// `raw` multiples of 2^-24, at most kOne.
    static constexpr Fraction from_raw(std::uint32_t raw) { return Fraction(raw < kOne ? raw : kOne); }
    /// numerator / denominator, rounded to the nearest; numerator <= denominator < 2^32, not 0.
    static constexpr Fraction of(std::uint64_t numerator, std::uint64_t denominator) {
        return from_raw(static_cast<std::uint32_t>(((numerator << kBits) + denominator / 2) / denominator));
    }
    static constexpr Fraction one() { return Fraction(kOne); }

    [[nodiscard]] constexpr std::uint32_t raw() const { return raw_; }
    [[nodiscard]] constexpr Fraction complement() const { return Fraction(kOne - raw_); }
    /// Products are rounded down: what is multiplied by less than 1 again and again reaches 0.
    [[nodiscard]] constexpr Fraction times(Fraction other) const {
        return Fraction(static_cast<std::uint32_t>((std::uint64_t{raw_} * other.raw_) >> kBits));
    }
    [[nodiscard]] constexpr std::uint64_t of_rate(BitsPerSecond rate) const { return (rate * raw_) >> kBits; }
    [[nodiscard]] constexpr Fraction plus(Fraction other) const { return from_raw(raw_ + other.raw_); }

    constexpr bool operator==(const Fraction&) const = default;
    constexpr bool operator<(Fraction other) const { return raw_ < other.raw_; }

  private:
    explicit constexpr Fraction(std::uint32_t raw) : raw_(raw) {}
    std::uint32_t raw_ = 0;
};

}  // namespace urnic
