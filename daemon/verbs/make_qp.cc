#include "daemon/verbs/make_qp.h"

#include "rnic/qp/rc/measured_rc_qp.h"
#include "rnic/qp/unreliable/measured_unreliable_qp.h"
#include "rnic/qp/unreliable/uc_qp.h"
#include "rnic/qp/unreliable/ud_qp.h"

namespace urnic::daemon {

namespace {

std::unique_ptr<Qp> make_measured_qp(QpType type, const QpConfig& config) {
    switch (type) {
        case QpType::kRc:
        case QpType::kXrcSend:
            return std::make_unique<MeasuredRcQp>(config, type);
        case QpType::kUc:
            return std::make_unique<MeasuredUnreliableQp<UcQp>>(config);
        case QpType::kUd:
            if (config.is_infiniband) {
                return std::make_unique<MeasuredUnreliableQp<IbUdQp>>(config);
            }
            return std::make_unique<MeasuredUnreliableQp<UdQp>>(config);
        default:
            return nullptr;
    }
}

}  // namespace

std::unique_ptr<Qp> make_qp(QpType type, const QpConfig& config) {
    if (config.histograms != nullptr) {
        return make_measured_qp(type, config);
    }
    switch (type) {
        case QpType::kRc:
        case QpType::kXrcSend:
        case QpType::kXrcRecv:  // sends no messages: never measured
            if (config.acks_each_request || config.timer_tick_ns != 0) {
                return std::make_unique<ImitatingRcQp>(config, type);
            }
            return std::make_unique<RcQp>(config, type);
        case QpType::kUc:
            return std::make_unique<UcQp>(config);
        case QpType::kUd:
            if (config.is_infiniband) {
                return std::make_unique<IbUdQp>(config);
            }
            return std::make_unique<UdQp>(config);
        default:
            return nullptr;
    }
}

}  // namespace urnic::daemon
