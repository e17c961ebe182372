// A QP of any type, as the daemon makes it.
#pragma once

#include <memory>

#include "rnic/qp/rc/measured_rc_qp.h"
#include "rnic/qp/unreliable/measured_unreliable_qp.h"
#include "rnic/qp/unreliable/uc_qp.h"
#include "rnic/qp/unreliable/ud_qp.h"

namespace urnic {

template <class Plain, class Measured, typename... Arguments>
[[nodiscard]] std::unique_ptr<Qp> make_qp_of(const QpConfig& config, Arguments... arguments) {
    if (config.histograms != nullptr) {
        return std::make_unique<Measured>(config, arguments...);
    }
    return std::make_unique<Plain>(config, arguments...);
}

[[nodiscard]] inline std::unique_ptr<Qp> make_qp(QpType type, const QpConfig& config) {
    switch (type) {
        case QpType::kUc:
            return make_qp_of<UcQp, MeasuredUnreliableQp<UcQp>>(config);
        case QpType::kUd:
            return make_qp_of<UdQp, MeasuredUnreliableQp<UdQp>>(config);
        default:
            if (config.acks_each_request || config.timer_tick_ns != 0) {
                return make_qp_of<ImitatingRcQp, MeasuredRcQp>(config, type);
            }
            return make_qp_of<RcQp, MeasuredRcQp>(config, type);
    }
}

}  // namespace urnic
