#include "rnic/subnet/sa_choice.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace urnic::subnet {

namespace {

// IBA 15.2.5.16, slowest first: 2.5, 5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80, 100, 112, 120, 168, 200,
// 300, 400, 600 Gb/s.
constexpr std::uint8_t kRates[] = {2, 5, 3,  11, 6,  15, 19, 4,  7,  20, 12,
                                   8, 9, 16, 13, 10, 14, 17, 18, 21, 22};
constexpr std::uint8_t kMtus[] = {1, 2, 3, 4, 5};
constexpr std::uint8_t kLongestLife = 63;  // six bits

using Values = std::span<const std::uint8_t>;

/// Its place among all values; nullopt: it is none.
std::optional<std::size_t> place_of(Values values, std::uint8_t value) {
    const auto found = std::find(values.begin(), values.end(), value);
    return found == values.end() ? std::nullopt
                                 : std::optional(static_cast<std::size_t>(found - values.begin()));
}

std::optional<std::uint8_t> choose(Values values, Bound bound, std::uint8_t most) {
    const std::optional<std::size_t> top = place_of(values, most);
    if (!top || bound.selector == Selector::kBest) {
        return top ? std::optional(most) : std::nullopt;
    }
    const std::optional<std::size_t> at = place_of(values, bound.value);
    if (!at) {
        return std::nullopt;
    }
    switch (bound.selector) {
        case Selector::kGreater:
            return *top > *at ? std::optional(most) : std::nullopt;
        case Selector::kLess:
            return *at == 0 ? std::nullopt : std::optional(values[std::min(*top, *at - 1)]);
        default:
            return *at <= *top ? std::optional(bound.value) : std::nullopt;
    }
}

bool fits(Values values, Bound bound, std::uint8_t value) {
    if (bound.selector == Selector::kBest) {
        return true;
    }
    const std::optional<std::size_t> at = place_of(values, bound.value);
    const std::optional<std::size_t> own = place_of(values, value);
    return at && own &&
           (bound.selector == Selector::kGreater ? *own > *at
            : bound.selector == Selector::kLess  ? *own < *at
                                                 : *own == *at);
}

}  // namespace

std::optional<std::uint8_t> choose_mtu(Bound bound, std::uint8_t most) { return choose(kMtus, bound, most); }
std::optional<std::uint8_t> choose_rate(Bound bound, std::uint8_t most) {
    return choose(kRates, bound, most);
}

std::optional<std::uint8_t> choose_life_time(Bound bound, std::uint8_t least) {
    switch (bound.selector) {
        case Selector::kGreater:
            return bound.value >= kLongestLife ? std::nullopt
                                               : std::optional(std::max<std::uint8_t>(
                                                     least, static_cast<std::uint8_t>(bound.value + 1)));
        case Selector::kLess:
            return least < bound.value ? std::optional(least) : std::nullopt;
        case Selector::kExactly:
            return least <= bound.value ? std::optional(bound.value) : std::nullopt;
        default:
            return least;
    }
}

bool mtu_fits(Bound bound, std::uint8_t mtu) { return fits(kMtus, bound, mtu); }
bool rate_fits(Bound bound, std::uint8_t rate) { return fits(kRates, bound, rate); }
bool life_time_fits(Bound bound, std::uint8_t life_time) {
    return bound.selector == Selector::kBest ||
           (bound.selector == Selector::kGreater ? life_time > bound.value
            : bound.selector == Selector::kLess  ? life_time < bound.value
                                                 : life_time == bound.value);
}

bool is_rate_at_least(std::uint8_t rate, std::uint8_t least) {
    return choose(kRates, {Selector::kExactly, least}, rate).has_value();
}

std::uint8_t rate_of(const wire::mad::PortInfo& info) {
    // 4X, which all ports here are: 100 and 56 Gb/s by extended speeds, else 40, 20 and 10.
    return info.link_speed_ext_active == 2   ? 16
           : info.link_speed_ext_active == 1 ? 12
           : info.link_speed_active == 4     ? 7
           : info.link_speed_active == 2     ? 6
                                             : 3;
}

}  // namespace urnic::subnet
