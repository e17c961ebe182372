// Work requests that are done inside the RNIC: memory windows (IBA 10.6.6, 10.6.7).
#pragma once

#include "rnic/qp/qp_common.h"
#include "rnic/queue/work_queue.h"

namespace urnic {

/// Executes a bind or a local invalidation. kSuccess or kMwBindErr; on an error nothing changed.
[[nodiscard]] WcStatus execute_mw_op(const QpCommon& common, const SendWork& work);

}  // namespace urnic
