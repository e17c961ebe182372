#include "daemon/verbs/make_qp.h"

#include "rnic/qp/rc/rc_qp.h"
#include "rnic/qp/unreliable/uc_qp.h"
#include "rnic/qp/unreliable/ud_qp.h"

namespace urnic::daemon {

std::unique_ptr<Qp> make_qp(QpType type, const QpConfig& config) {
    switch (type) {
        case QpType::kRc:
        case QpType::kXrcSend:
        case QpType::kXrcRecv:
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
