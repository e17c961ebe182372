// A QP of any type, as the daemon makes it.
#pragma once

#include <memory>

#include "rnic/qp/rc/rc_qp.h"
#include "rnic/qp/unreliable/uc_qp.h"
#include "rnic/qp/unreliable/ud_qp.h"

namespace urnic {

[[nodiscard]] inline std::unique_ptr<Qp> make_qp(QpType type, const QpConfig& config) {
    switch (type) {
        case QpType::kUc:
            return std::make_unique<UcQp>(config);
        case QpType::kUd:
            return std::make_unique<UdQp>(config);
        default:
            return std::make_unique<RcQp>(config, type);
    }
}

}  // namespace urnic
