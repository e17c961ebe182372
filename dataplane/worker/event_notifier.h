// Tells applications of completions and errors: threads that sleep in a poll, completion channels and
// asynchronous events.
#pragma once

#include <algorithm>
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

    /// Once a round: wakes the threads that sleep until one of the CQs has a completion, and tells the
    /// channels of the CQs that were armed and got completions. Afterwards the only CQs it still knows are
    /// those whose channel was full and those whose event moderation holds back.
    void flush(TimeNs now);
    /// When flush() has something to do though nothing happens: a moderated event, or a full channel to try
    /// again; kNever if there is neither.
    [[nodiscard]] TimeNs next_due() const {
        return blocked_first_ == nullptr ? next_due_ : std::min(next_due_, retry_at_);
    }
    /// Forgets the CQ, which is about to be destroyed, and its events.
    void release(NotifyingCq& cq);

  private:
    static constexpr std::size_t kMaxDirtyCqs = 256;
    /// How soon full channels are tried again, and how many messages are tried then: what many full channels
    /// cost is bounded, and each has its turn.
    static constexpr TimeNs kChannelRetryNs = 1'000'000;
    static constexpr std::uint32_t kChannelTries = 16;
    enum class Moderate : bool { kNo, kYes };

    void mark_dirty(NotifyingCq& cq, TimeNs now);
    /// Raises the events of the dirty CQs, except those that moderation holds back.
    void raise(TimeNs now, Moderate moderate);
    /// Defers the event of a moderated CQ until there are more completions, or until its time. Returns
    /// whether it is deferred.
    [[nodiscard]] bool try_defer(NotifyingCq& cq, TimeNs now);
    /// Tells the channel, or remembers that it is to be told.
    void notify(NotifyingCq& cq, TimeNs now);
    /// Returns false if there is no room in the channel.
    static bool tell_channel(NotifyingCq& cq);
    /// Counts an event that found its channel full.
    void add_blocked(NotifyingCq& cq, TimeNs now);
    void retry_blocked(TimeNs now);
    /// Tells the first channel in the list of its first CQ. Returns whether there was room.
    bool retry_first();
    void append_channel(CompletionChannel& channel);
    /// Takes the first channel out of the list.
    CompletionChannel& take_first_channel();
    void remove_channel(CompletionChannel& channel);

    std::uint32_t worker_;
    bool pollers_sleep_;
    TscClock& clock_;
    std::vector<NotifyingCq*> dirty_cqs_;
    TimeNs next_due_ = kNever;
    // Full channels, linked by CompletionChannel::PerWorker::next_blocked.
    CompletionChannel* blocked_first_ = nullptr;
    CompletionChannel* blocked_last_ = nullptr;
    std::uint32_t num_blocked_ = 0;
    TimeNs retry_at_ = 0;
};

}  // namespace urnic::dataplane
