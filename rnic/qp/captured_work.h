// What a trace shows of WQEs, completions, rates and timers.
#pragma once

#include <optional>

#include "abi/capture.h"
#include "rnic/qp/qp.h"

namespace urnic {

/// Returns whether an index of a queue is ahead of another: indexes turn.
[[nodiscard]] inline bool is_ahead(std::uint32_t index, std::uint32_t of) {
    return static_cast<std::int32_t>(index - of) > 0;
}

/// A WQE that the QP took out of its send queue lately.
[[nodiscard]] abi::CapturedWqe captured_send(const Qp& qp, std::uint32_t index);
[[nodiscard]] abi::CapturedCompletion captured_completion(const Completion& completion);
[[nodiscard]] abi::CapturedTimer captured_timer(const TimerExpiry& expiry);

/// What was seen of a QP's rate last.
class RateWatch {
  public:
    /// Only what changes from now on counts.
    void begin(const FlowRate& flow);
    /// Returns whether look() has to be called.
    [[nodiscard]] bool has_changed(const FlowRate& flow) const {
        return rate_of(flow) != rate_ || flow.starts() != starts_;
    }
    /// What the rate has changed to, and why; nullopt: it is the same.
    [[nodiscard]] std::optional<abi::CapturedRate> look(const FlowRate& flow);

  private:
    static BitsPerSecond rate_of(const FlowRate& flow) {
        const congestion::Settings* const settings = flow.settings();
        const bool is_controlled =
            settings != nullptr && settings->rate.algorithm != congestion::Algorithm::kNone;
        return is_controlled ? flow.rate() : 0;
    }
    [[nodiscard]] abi::RateCause cause_of(const FlowRate& flow) const;

    BitsPerSecond rate_ = 0;  // 0: there is no rate control
    std::uint32_t starts_ = 0;
    std::uint32_t timer_stage_ = 0;
    std::uint32_t byte_stage_ = 0;
};

}  // namespace urnic
