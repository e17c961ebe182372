// The transports that a QP type stands for.
#pragma once

#include <memory>

#include "rnic/qp/qp.h"

namespace urnic::daemon {

/// Returns a QP of a supported type, nullptr for another one. Tests of the control plane link QPs of their
/// own.
std::unique_ptr<Qp> make_qp(QpType type, const QpConfig& config);

}  // namespace urnic::daemon
