// Tells applications about completions and errors: completion channels and asynchronous events.
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/worker.h"

namespace urnic::dataplane {

/// One worker's. The only part of the loop, sleeping aside, that makes system calls, and only for an
/// application that asked to be told.
class Notifier {
  public:
    explicit Notifier(std::uint32_t worker);

    /// Puts a completion into `cq`. False: the CQ overran; its context was told.
    [[nodiscard]] bool complete(NotifyingCq& cq, const Completion& completion, TimeNs now);
    /// An affiliated event of a QP.
    void event(QpSlot& slot, AsyncEventType type);

    /// Once a round: tells the channels of the CQs that were armed and got completions. Afterwards the only
    /// CQs it still knows are those whose channel was full.
    void flush();
    /// True: some channel was full, flush() wants to be called again soon though nothing happens.
    [[nodiscard]] bool retry_wanted() const { return !full_.empty(); }
    void release(NotifyingCq& cq);

  private:
    static constexpr std::size_t kMaxTouched = 256;

    /// False: no room in the pipe.
    static bool write_channel(NotifyingCq& cq);

    std::uint32_t worker_;
    std::vector<NotifyingCq*> touched_;
    std::vector<NotifyingCq*> full_;
};

}  // namespace urnic::dataplane
