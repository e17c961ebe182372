#include "experiment/fluid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace urnic::experiment {

namespace {

constexpr double kSecond = 1e9;

// In packets and seconds, as the papers have it.
struct Terms {
    explicit Terms(const FluidModel& model)
        : packet_bits(8.0 * model.packet_bytes),
          capacity(static_cast<double>(model.rate) / packet_bits),
          rate(capacity / model.flows),
          gap(static_cast<double>(model.min_time_between_cnps_ns) / kSecond),
          alpha_period(static_cast<double>(model.dcqcn.alpha_period_ns) / kSecond),
          timer(static_cast<double>(model.dcqcn.increase_period_ns) / kSecond),
          bytes(static_cast<double>(model.dcqcn.increase_bytes) / model.packet_bytes),
          increase(static_cast<double>(model.dcqcn.additive_increase) / packet_bits),
          stages(model.dcqcn.recovery_stages) {}

    double packet_bits;
    double capacity;
    double rate;
    double gap;           // tau
    double alpha_period;  // tau'
    double timer;         // T
    double bytes;         // B; 0: none
    double increase;      // AI
    double stages;        // F
};

// 1 - (1-p)^n without loss of small p.
double any_of(double p, double n) { return -std::expm1(n * std::log1p(-p)); }
double none_of(double p, double n) { return std::exp(n * std::log1p(-p)); }
// Steps a packet: p / ((1-p)^-n - 1), where a step is n packets without a mark.
double steps(double p, double n) { return n == 0 ? 0 : p / std::expm1(-n * std::log1p(-p)); }

struct Rest {
    double alpha;
    double ahead;  // of target before rate
    double excess;
};

Rest at(const Terms& terms, double p) {
    const double timer_packets = terms.timer * terms.rate;
    const double by_bytes = steps(p, terms.bytes);
    const double by_timer = steps(p, timer_packets);
    const double cut = any_of(p, terms.gap * terms.rate);
    const double alpha = any_of(p, terms.alpha_period * terms.rate);
    // The rate stands still: cuts take as much as steps towards the target give.
    const double ahead = alpha * cut / (terms.gap * (by_bytes + by_timer));
    // The target does: additive increase gives what cuts take.
    const double gain = terms.increase * terms.rate *
                        (none_of(p, terms.stages * terms.bytes) * by_bytes +
                         none_of(p, terms.stages * timer_packets) * by_timer);
    return {alpha, ahead, ahead / terms.gap * cut - gain};
}

struct State {
    double rate;
    double target;
    double alpha;
    double queue;  // packets
};

// The marking probability at a queue of so many packets, below 1 so that its logarithm exists.
double marking(const FluidModel& model, double packets) {
    constexpr double kMost = 1 - 1e-9;
    const double bytes = packets * model.packet_bytes;
    return std::min(kMost, static_cast<double>(model.ecn.chance(static_cast<std::uint64_t>(bytes)).raw()) /
                               Fraction::kOne);
}

// One step of the delay differential equations.
State step(const Terms& terms, const State& now, const State& then, double p, double flows, double dt) {
    constexpr double kNothing = 1e-12;
    p = std::max(p, kNothing);
    const double timer_packets = terms.timer * then.rate;
    const double by_bytes = steps(p, terms.bytes);
    const double by_timer = steps(p, timer_packets);
    const double cut = any_of(p, terms.gap * then.rate);
    const double gain = terms.increase * then.rate *
                        (none_of(p, terms.stages * terms.bytes) * by_bytes +
                         none_of(p, terms.stages * timer_packets) * by_timer);
    const double ahead = now.target - now.rate;
    State next = now;
    next.target += dt * (gain - ahead / terms.gap * cut);
    next.rate +=
        dt * (ahead / 2 * then.rate * (by_bytes + by_timer) - now.rate * now.alpha / (2 * terms.gap) * cut);
    next.alpha += dt / terms.alpha_period * (any_of(p, terms.alpha_period * then.rate) - now.alpha);
    next.queue = std::max(0.0, now.queue + dt * (flows * now.rate - terms.capacity));
    next.target = std::min(next.target, terms.capacity);
    next.rate = std::min(next.rate, terms.capacity);
    return next;
}

}  // namespace

FluidCourse course(const FluidModel& model, TimeNs from, TimeNs end, TimeNs feedback_ns) {
    constexpr TimeNs kStepNs = 500;
    const Terms terms(model);
    const double dt = static_cast<double>(kStepNs) / kSecond;
    const double flows = model.flows;
    std::vector<State> past(feedback_ns / kStepNs + 1, {terms.capacity, terms.capacity, 1, 0});
    State now = past[0];
    FluidCourse found;
    found.least_queue_bytes = std::numeric_limits<double>::max();
    double samples = 0;
    std::size_t place = 0;
    for (TimeNs at = 0; at < end; at += kStepNs) {
        const State then = past[place];
        past[place] = now;
        place = (place + 1) % past.size();
        now = step(terms, now, then, marking(model, then.queue), flows, dt);
        if (at < from) {
            continue;
        }
        const double bytes = now.queue * model.packet_bytes;
        found.utilisation += now.queue > 0 ? 1 : std::min(1.0, flows * now.rate / terms.capacity);
        found.queue_bytes += bytes;
        found.least_queue_bytes = std::min(found.least_queue_bytes, bytes);
        found.most_queue_bytes = std::max(found.most_queue_bytes, bytes);
        ++samples;
    }
    found.utilisation /= samples;
    found.queue_bytes /= samples;
    return found;
}

FluidPoint fixed_point(const FluidModel& model) {
    FluidPoint point;
    if (model.flows == 0 || model.packet_bytes == 0 || model.min_time_between_cnps_ns == 0 ||
        model.dcqcn.rate_reduce_monitor_period_ns != 0 || model.dcqcn.increase_period_ns == 0 ||
        model.ecn.kmax_bytes == 0) {
        return point;
    }
    const Terms terms(model);
    double low = 1e-9;
    double high = 0.999;
    constexpr int kHalvings = 200;
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = std::sqrt(low * high);
        if (at(terms, middle).excess < 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    const Rest rest = at(terms, low);
    point.is_valid = true;
    point.marked = low;
    point.alpha = rest.alpha;
    point.target_gbit = (terms.rate + rest.ahead) * terms.packet_bits / kSecond;
    const double pmax = static_cast<double>(model.ecn.pmax.raw()) / Fraction::kOne;
    const auto kmin = static_cast<double>(model.ecn.kmin_bytes);
    const auto kmax = static_cast<double>(model.ecn.kmax_bytes);
    // Beyond Kmax everything is marked: a probability between Pmax and 1 has its queue there.
    point.queue_bytes = low >= pmax ? kmax : kmin + low / pmax * (kmax - kmin);
    return point;
}

double approximate_marking(const FluidModel& model) {
    const Terms terms(model);
    const double each =
        (terms.bytes == 0 ? 0 : 1 / terms.bytes) + model.flows / (terms.timer * terms.capacity);
    const double flows = model.flows;
    return std::cbrt(terms.increase * flows * flows / (terms.alpha_period * terms.capacity * terms.capacity) *
                     each * each);
}

}  // namespace urnic::experiment
