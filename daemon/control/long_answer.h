// An answer that takes long is made in steps: others are served in between.
#pragma once

#include <cstddef>

#include "daemon/control/object_walk.h"
#include "daemon/ipc/message.h"
#include "daemon/verbs/batch.h"

namespace urnic::daemon {

class LongAnswer {
  public:
    /// Objects of a step, which takes well below a millisecond.
    static constexpr std::size_t kObjectsPerStep = daemon::kObjectsPerStep;
    /// Of one that only counts them.
    static constexpr std::size_t kCountedPerStep = 1024;

    LongAnswer() = default;
    LongAnswer(const LongAnswer&) = delete;
    LongAnswer& operator=(const LongAnswer&) = delete;
    virtual ~LongAnswer() = default;

    /// `client_from`: of those that the asker may see. 0, kUnfinished or errno; may throw std::bad_alloc.
    /// Whatever but kUnfinished is the end of it.
    [[nodiscard]] virtual int step(const ClientFrom& client_from, Reply& reply) = 0;
};

}  // namespace urnic::daemon
