// Values that a request of subnet administration bounds by a selector: MTU, rate, packet lifetime (IBA
// 15.2.5.16).
#pragma once

#include <cstdint>
#include <optional>

#include "rnic/wire/mad/subnet_attributes.h"

namespace urnic::subnet {

/// Of MTU, rate and packet lifetime in records.
enum class Selector : std::uint8_t { kGreater = 0, kLess = 1, kExactly = 2, kBest = 3 };

/// What a request says of a value. Left out: the best.
struct Bound {
    Selector selector = Selector::kBest;
    std::uint8_t value = 0;  // kBest: does not matter
};

/// Of a request's two fields, which count when both are named.
[[nodiscard]] inline Bound bound_of(bool is_given, std::uint8_t selector, std::uint8_t value) {
    return is_given ? Bound{static_cast<Selector>(selector), value} : Bound{};
}

/// 4.096 us * 2^n: of every path, and what a request may ask for at most.
inline constexpr std::uint8_t kPathLifeTime = 18;

// The value for a path that could have `most` (lifetime: `least`), as the bound wants it; nullopt: there is
// none, or the bound's value is none of the specification's.
[[nodiscard]] std::optional<std::uint8_t> choose_mtu(Bound bound, std::uint8_t most);
[[nodiscard]] std::optional<std::uint8_t> choose_rate(Bound bound, std::uint8_t most);
[[nodiscard]] std::optional<std::uint8_t> choose_life_time(Bound bound, std::uint8_t least);

// Returns whether a value that is fixed is within the bound.
[[nodiscard]] bool mtu_fits(Bound bound, std::uint8_t mtu);
[[nodiscard]] bool rate_fits(Bound bound, std::uint8_t rate);
[[nodiscard]] bool life_time_fits(Bound bound, std::uint8_t life_time);

/// Returns whether a port with the first rate is at least as fast as the second.
[[nodiscard]] bool is_rate_at_least(std::uint8_t rate, std::uint8_t least);

/// The rate of a port's link, in the encoding of records.
[[nodiscard]] std::uint8_t rate_of(const wire::mad::PortInfo& info);

}  // namespace urnic::subnet
