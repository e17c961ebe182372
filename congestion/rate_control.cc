#include "congestion/rate_control.h"

#include <algorithm>

namespace urnic::congestion {

void RateControl::start(const RateParameters& parameters) {
    dcqcn_.start(parameters.dcqcn, parameters.line_rate);
    timely_.start(parameters.line_rate);
}

void RateControl::on_cnp(const RateParameters& parameters, TimeNs now) {
    if (parameters.algorithm == Algorithm::kDcqcn) {
        dcqcn_.on_cnp(parameters.dcqcn, now);
    }
}

void RateControl::on_rtt(const RateParameters& parameters, TimeNs rtt_ns) {
    if (parameters.algorithm == Algorithm::kTimely) {
        timely_.on_rtt(parameters.timely, rtt_ns);
    }
}

void RateControl::on_bytes_sent(const RateParameters& parameters, TimeNs now, std::uint64_t bytes) {
    if (parameters.algorithm == Algorithm::kDcqcn) {
        dcqcn_.on_bytes_sent(parameters.dcqcn, now, bytes);
    }
}

void RateControl::on_timer(const RateParameters& parameters, TimeNs now) {
    if (parameters.algorithm == Algorithm::kDcqcn) {
        dcqcn_.on_timer(parameters.dcqcn, now);
    }
}

TimeNs RateControl::deadline(const RateParameters& parameters) const {
    return parameters.algorithm == Algorithm::kDcqcn ? dcqcn_.deadline(parameters.dcqcn) : kNever;
}

BitsPerSecond RateControl::rate(const RateParameters& parameters) const {
    switch (parameters.algorithm) {
        case Algorithm::kFixed:
            return std::min(parameters.fixed_rate, parameters.line_rate);
        case Algorithm::kDcqcn:
            return dcqcn_.rate();
        case Algorithm::kTimely:
            return timely_.rate();
        case Algorithm::kNone:
            break;
    }
    return parameters.line_rate;
}

}  // namespace urnic::congestion
