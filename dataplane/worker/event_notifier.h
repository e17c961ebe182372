// Tells applications about completions and errors: threads that sleep in a poll, completion channels and
// asynchronous events.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/worker/tsc_clock.h"
#include "dataplane/worker/worker.h"

namespace urnic::dataplane {

/// One worker's. The only part of the loop, sleeping aside, that makes system calls, and only for an
/// application that asked to be told.
class Notifier {
  public:
    /// `pollers_sleep`: threads that poll may sleep (abi::DaemonState::cores_shared).
    Notifier(std::uint32_t worker, bool pollers_sleep, TscClock& clock);

    /// Puts a completion into `cq`. False: the CQ overran; its context was told.
    [[nodiscard]] bool complete(NotifyingCq& cq, const Completion& completion, TimeNs now);
    /// An affiliated event of a QP.
    void event(QpSlot& slot, AsyncEventType type);
    /// The same of an SRQ.
    static void srq_event(NotifyingSrq& srq, AsyncEventType type);

    /// Once a round: wakes who sleeps until one of the CQs has a completion, and tells the channels of the
    /// CQs that were armed and got completions. Afterwards the only CQs it still knows are those whose
    /// channel was full and those whose event moderation holds back.
    void flush(TimeNs now);
    /// True: some channel was full, flush() wants to be called again soon though nothing happens.
    [[nodiscard]] bool retry_wanted() const { return full_first_ != nullptr; }
    /// When flush() has a moderated event to send; kNever: it holds none back.
    [[nodiscard]] TimeNs next_due() const { return next_due_; }
    void release(NotifyingCq& cq);

  private:
    static constexpr std::size_t kMaxTouched = 256;

    void note_touched(NotifyingCq& cq, TimeNs now);
    void retry_full();
    /// Sends the events of the CQs that got completions; `hold_back`: moderation may keep some.
    void tell(TimeNs now, bool hold_back);
    /// True: the event of a moderated CQ waits for more completions, or for its time.
    [[nodiscard]] bool too_early(NotifyingCq& cq, TimeNs now);
    /// False: no room in the pipe.
    static bool write_channel(NotifyingCq& cq);
    /// Puts the CQ at the end of those whose channel was full.
    void wait_for_room(NotifyingCq& cq);
    /// Goes through those whose channel was full; keep(cq) says which stay.
    template <typename Keep>
    void sort_full(Keep&& keep);

    std::uint32_t worker_;
    bool pollers_sleep_;
    TscClock& clock_;
    std::vector<NotifyingCq*> touched_;
    TimeNs next_due_ = kNever;
    NotifyingCq* full_first_ = nullptr;  // linked by NotifyingCq::waiting
    NotifyingCq* full_last_ = nullptr;
};

}  // namespace urnic::dataplane
