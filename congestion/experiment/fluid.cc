#include "congestion/experiment/fluid.h"

#include <algorithm>
#include <cmath>

namespace urnic::experiment {

namespace {

constexpr double kSecond = 1e9;

// In packets and seconds, as the papers have it.
struct Terms {
    explicit Terms(const FluidModel& model)
        : packet_bits(8.0 * model.packet_bytes),
          capacity(static_cast<double>(model.rate) / packet_bits),
          rate(capacity / model.flows),
          gap(static_cast<double>(model.cnp_gap_ns) / kSecond),
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

}  // namespace

FluidPoint fixed_point(const FluidModel& model) {
    FluidPoint point;
    if (model.flows == 0 || model.packet_bytes == 0 || model.cnp_gap_ns == 0 ||
        model.dcqcn.cut_window_ns != 0 || model.dcqcn.increase_period_ns == 0 || model.ecn.kmax_bytes == 0) {
        return point;
    }
    const Terms terms(model);
    double low = 1e-9;
    double high = 0.999;
    constexpr int kHalvings = 200;
    for (int i = 0; i < kHalvings; ++i) {
        const double middle = std::sqrt(low * high);
        (at(terms, middle).excess < 0 ? low : high) = middle;
    }
    const Rest rest = at(terms, low);
    point.is_valid = true;
    point.marked = low;
    point.alpha = rest.alpha;
    point.target_gbit = (terms.rate + rest.ahead) * terms.packet_bits / kSecond;
    const double pmax = static_cast<double>(model.ecn.pmax.raw()) / congestion::Fraction::kOne;
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
