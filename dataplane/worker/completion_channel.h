// A completion channel as workers tell it of completions.
#pragma once

#include <array>

#include "abi/queues.h"
#include "os/event_socket.h"

namespace urnic::dataplane {

struct NotifyingCq;

/// Made and destroyed by the control thread; outlives the CQs that use it.
struct CompletionChannel {
    EventSocket socket;  // a message is the 8 bytes of NotifyingCq::user_handle

    /// Of each worker: the CQs whose events found no room, the oldest first, linked by
    /// NotifyingCq::PerWorker::next_blocked, and the place in the worker's list of such channels.
    struct PerWorker {
        NotifyingCq* blocked_first = nullptr;
        NotifyingCq* blocked_last = nullptr;
        CompletionChannel* next_blocked = nullptr;
    };
    std::array<PerWorker, abi::kMaxWorkers> per_worker{};
};

}  // namespace urnic::dataplane
