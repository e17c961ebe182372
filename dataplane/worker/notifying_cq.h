// CQs and SRQs that notify their application of completions and errors.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "abi/queues.h"
#include "base/time.h"
#include "dataplane/worker/completion_channel.h"
#include "os/event_socket.h"
#include "rnic/qp/qp.h"

namespace urnic::dataplane {

/// A CQ with what its notifications need. Made and destroyed by the control thread. Every CQ that a QP of a
/// worker names is one of these.
struct NotifyingCq : CompletionQueue {
    using CompletionQueue::CompletionQueue;
    std::atomic<std::uint32_t>* wake_word = nullptr;  // of its client, abi::DaemonState::wake_words
    CompletionChannel* channel = nullptr;
    std::uint64_t user_handle = 0;  // the 8 bytes sent to it
    std::atomic<std::uint32_t> completion_events{0};
    EventSocket async;  // the context's
    std::atomic<std::uint32_t> async_events{0};
    std::atomic<bool> error_reported{false};
    bool ignore_overrun = false;
    bool per_cqe_timestamp = false;  // a completion gets its own time, not that of the worker's round

    /// When an armed CQ's event may come (abi::ModifyCqRequest); both 0: at once. Written by the control
    /// thread.
    struct alignas(4) Moderation {
        std::uint16_t count = 0;
        std::uint16_t period_us = 0;
    };
    std::atomic<Moderation> moderation{Moderation{}};
    std::atomic<std::uint32_t> since_event{0};  // completions while armed, of all workers; only if moderated

    /// Of each worker: completion events that wait for room in the channel, or for moderation.
    struct PerWorker {
        NotifyingCq* next_blocked = nullptr;  // CompletionChannel::PerWorker
        std::uint32_t pending_events = 0;  // that found the channel full; not 0 while the CQ is in its list
        TimeNs due = 0;                    // when a moderated event comes at the latest; 0: none is held back
    };
    std::array<PerWorker, abi::kMaxWorkers> per_worker{};
};

/// An SRQ with what its events need. Every SRQ that a QP of a worker names is one of these.
struct NotifyingSrq : SharedRecvQueue {
    using SharedRecvQueue::SharedRecvQueue;
    EventSocket async;
    std::uint64_t user_handle = 0;
    std::atomic<std::uint32_t> async_events{0};
    std::uint32_t seen_receives = 0;  // its worker's: receives that left it, as far as a trace has seen
};

}  // namespace urnic::dataplane
