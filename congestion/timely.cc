#include "congestion/timely.h"

#include <algorithm>

namespace urnic::congestion {

namespace {

constexpr std::uint32_t kTrendBits = 16;
// A round trip time longer than this is taken for this: it has nothing more to say.
constexpr TimeNs kLongestRtt = 500'000'000;  // so that products with a weight fit 64 bits

}  // namespace

TimelyParameters timely_of_paper() {
    return {.t_low_ns = 50'000,
            .t_high_ns = 500'000,
            .min_rtt_ns = 20'000,
            .ewma = Fraction::of(875, 1000),
            .beta = Fraction::of(8, 10),
            .increase = 10'000'000,
            .hyper_after = 5,
            .hyper_factor = 5,
            .min_rate = 10'000'000};
}

void Timely::start(BitsPerSecond line_rate) {
    *this = {};
    line_rate_ = rate_ = std::min(line_rate, kMaxRate);
}

void Timely::on_rtt(const TimelyParameters& parameters, TimeNs rtt_ns) {
    rtt_ns = std::clamp<TimeNs>(rtt_ns, 1, kLongestRtt);
    if (last_rtt_ns_ != 0) {
        const std::int64_t difference =
            (static_cast<std::int64_t>(rtt_ns) - static_cast<std::int64_t>(last_rtt_ns_)) * (1 << kTrendBits);
        const std::int64_t weight = parameters.ewma.raw() >> (Fraction::kBits - kTrendBits);
        rtt_trend_ += (difference - rtt_trend_) * weight / (1 << kTrendBits);
        const Fraction rest = kept(parameters, rtt_ns);
        if (rest == Fraction::one()) {
            const std::uint64_t factor = rises_ < parameters.hyper_after ? 1 : parameters.hyper_factor;
            rate_ = std::min(line_rate_, rate_ + parameters.increase * factor);
            ++rises_;
        } else {
            rate_ = std::max(std::min(parameters.min_rate, line_rate_), rest.of_rate(rate_));
            rises_ = 0;
        }
    }
    last_rtt_ns_ = rtt_ns;
}

// What part of the rate is kept; all of it: the rate may rise.
Fraction Timely::kept(const TimelyParameters& parameters, TimeNs rtt_ns) const {
    std::uint64_t fall = 0;
    if (rtt_ns > parameters.t_high_ns) {
        fall = parameters.beta.times(Fraction::of(rtt_ns - parameters.t_high_ns, rtt_ns)).raw();
    } else if (rtt_ns < parameters.t_low_ns || rtt_trend_ <= 0) {
        return Fraction::one();
    } else {
        const auto trend_ns = static_cast<std::uint64_t>(rtt_trend_) >> kTrendBits;
        const std::uint64_t gradient =
            (trend_ns << Fraction::kBits) / std::max<TimeNs>(parameters.min_rtt_ns, 1);
        fall = (std::min(gradient, std::uint64_t{1} << 32U) * parameters.beta.raw()) >> Fraction::kBits;
    }
    fall = std::clamp<std::uint64_t>(fall, 1, Fraction::kOne);
    return Fraction::from_raw(static_cast<std::uint32_t>(fall)).complement();
}

}  // namespace urnic::congestion
