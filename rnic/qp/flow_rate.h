// How fast one QP sends: its rate control and its pacer (congestion/).
#pragma once

#include <cstdint>

#include "base/time.h"
#include "congestion/pacer.h"
#include "congestion/settings.h"

namespace urnic {

/// Two times come in: `now` is the QP's, which stands still while its worker is kept from running; `clock` is
/// the wire's, by which rates are measured (Outbox::clock()).
class FlowRate {
  public:
    /// `settings` may be nullptr: then nothing is ever limited, and CNPs are ignored.
    explicit FlowRate(const congestion::Settings* settings) : settings_(settings) { reset(); }

    /// As new, at the full rate.
    void reset();
    /// From now on these settings hold, or the old ones, whose contents changed. The QP starts at the full
    /// rate again, and may send at once.
    void settings_changed(TimeNs clock, const congestion::Settings* settings);

    /// Returns whether the rate is limited. If not, the QP sends as fast as it can and need not call anything
    /// else.
    [[nodiscard]] bool is_limited() const { return is_limited_; }
    /// Returns whether a packet may go now, rather than after wait().
    [[nodiscard]] bool may_send(TimeNs clock) const { return !is_limited_ || pacer_.next_ns() <= clock; }
    /// A frame of that length went out.
    void sent(TimeNs now, TimeNs clock, std::uint32_t bytes);
    /// There is something to send that may not go yet: deadline() says when.
    void wait(TimeNs now, TimeNs clock);

    /// A CNP came for the QP. Returns whether the rate control honours it: not those that come faster than a
    /// notification point with these settings sends them.
    [[nodiscard]] bool on_cnp(TimeNs now, TimeNs clock);
    /// A SEND or WRITE was acknowledged `rtt_ns` after it was sent; at most one for each round trip.
    void on_rtt(TimeNs clock, TimeNs rtt_ns);
    /// Round trip times count: on_rtt() is to be called.
    [[nodiscard]] bool is_rtt_needed() const {
        return settings_ != nullptr && settings_->rate.algorithm == congestion::Algorithm::kTimely;
    }
    /// To be called at deadline(), and harmless at any other time.
    void on_timer(TimeNs now, TimeNs clock);
    /// When the rate changes or a packet may go, in the QP's time; kNever: not before something else happens.
    [[nodiscard]] TimeNs deadline() const { return deadline_; }

    [[nodiscard]] const congestion::Settings* settings() const { return settings_; }
    /// As it is now; settings() is not nullptr.
    [[nodiscard]] BitsPerSecond rate() const { return rate_.rate(settings_->rate); }
    [[nodiscard]] const congestion::RateControl& control() const { return rate_; }
    /// How often it began at the full rate again, for new settings or RESET.
    [[nodiscard]] std::uint32_t starts() const { return starts_; }
    /// CNPs honoured.
    [[nodiscard]] std::uint64_t cnps() const { return cnps_; }

  private:
    void update(TimeNs clock);

    const congestion::Settings* settings_;
    bool is_limited_ = false;
    TimeNs deadline_ = kNever;
    TimeNs wait_until_ = kNever;
    congestion::RateControl rate_;
    congestion::Pacer pacer_;
    std::uint64_t cnps_ = 0;
    std::uint32_t starts_ = 0;
    TimeNs next_cnp_ns_ = 0;  // when the next one is on time
};

}  // namespace urnic
