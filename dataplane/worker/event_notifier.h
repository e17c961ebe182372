// Tells applications of completions and errors: threads that sleep in a poll, completion channels and
// asynchronous events.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/worker/notifying_cq.h"
#include "dataplane/worker/qp_slot.h"
#include "dataplane/worker/tsc_clock.h"

namespace urnic::dataplane {

/// Belongs to one worker. Apart from sleeping, it is the only part of the worker's loop that makes system
/// calls, and only for an application that has asked for an event.
class EventNotifier {
  public:
    /// `pollers_sleep`: threads that poll may sleep (abi::DaemonState::cores_shared).
    EventNotifier(std::uint32_t worker, bool pollers_sleep, TscClock& clock);
    EventNotifier(const EventNotifier&) = delete;
    EventNotifier& operator=(const EventNotifier&) = delete;

    /// Puts a completion into `cq`. Returns false if the CQ overran; its context got an event then.
    [[nodiscard]] bool complete(NotifyingCq& cq, const Completion& completion, TimeNs now);
    /// An affiliated event of a QP.
    void event(QpSlot& slot, AsyncEventType type);
    /// An affiliated event of an SRQ.
    static void srq_event(NotifyingSrq& srq, AsyncEventType type);

    /// Once a round: wakes the threads that sleep until one of the CQs has a completion, and writes to the
    /// channels of the CQs that were armed and got completions. Afterwards the only CQs it still knows are
    /// those whose channel was full and those whose event moderation holds back.
    void flush(TimeNs now);
    /// Returns whether some channel was full: flush() is to be called again soon though nothing happens.
    [[nodiscard]] bool has_blocked() const { return blocked_first_ != nullptr; }
    /// When flush() has a moderated event to send; kNever if moderation holds none back.
    [[nodiscard]] TimeNs next_due() const { return next_due_; }
    /// Forgets the CQ, which is about to be destroyed, and its events.
    void release(NotifyingCq& cq);

  private:
    static constexpr std::size_t kMaxDirtyCqs = 256;
    enum class Moderate : bool { kNo, kYes };

    void mark_dirty(NotifyingCq& cq, TimeNs now);
    /// Raises the events of the dirty CQs, except those that moderation holds back.
    void raise(TimeNs now, Moderate moderate);
    /// Defers the event of a moderated CQ until there are more completions, or until its time. Returns
    /// whether it is deferred.
    [[nodiscard]] bool try_defer(NotifyingCq& cq, TimeNs now);
    /// Returns false if there is no room in the channel's pipe.
    static bool write_channel(NotifyingCq& cq);
    /// Counts an event that found its channel full.
    void add_blocked(NotifyingCq& cq);
    void retry_blocked();
    /// Calls `keep(cq)` for each CQ whose channel was full, and drops those for which it returns false.
    template <typename Keep>
    void filter_blocked(Keep&& keep);

    std::uint32_t worker_;
    bool pollers_sleep_;
    TscClock& clock_;
    std::vector<NotifyingCq*> dirty_cqs_;
    TimeNs next_due_ = kNever;
    NotifyingCq* blocked_first_ =
        nullptr;  // linked by NotifyingCq::PerWorker::next_blocked, the oldest first
    NotifyingCq** blocked_end_ = &blocked_first_;
};

}  // namespace urnic::dataplane
