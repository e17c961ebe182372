// A UC or UD QP that fills the histogram of its messages' sizes (docs/adr/0029). Nobody acknowledges such a
// message, so that it has no latency.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rnic/device/message_histograms.h"
#include "rnic/qp/unreliable/unreliable_qp.h"

namespace urnic {

/// `Base`: UcQp, UdQp or IbUdQp.
template <class Base>
class MeasuredUnreliableQp final : public Base {
  public:
    /// `config` has histograms.
    explicit MeasuredUnreliableQp(const QpConfig& config) : Base(config) {}

    /// One packet at a time, so that no more than one message ends in between.
    [[nodiscard]] bool progress(TimeNs now, std::uint32_t max_packets, Outbox& outbox) override {
        bool more = false;
        for (std::uint32_t sent = 0; sent < std::max(max_packets, 1U); ++sent) {
            const std::uint32_t index = requester().index();
            const std::uint64_t errors = this->config_.counters->req_cqe_error.value();
            more = Base::progress(now, std::min(max_packets, 1U), outbox);
            if (requester().index() == index + 1 && this->config_.counters->req_cqe_error.value() == errors &&
                !requester().info().is(WrOpcodeInfo::kIsLocal)) {
                count_message();
            }
            if (!more || !is_requester_active(this->state()) || outbox.room() == 0) {
                break;
            }
        }
        return more;
    }

  private:
    [[nodiscard]] const UnreliableRequester& requester() const { return Base::requester(); }
    void count_message() {
        this->config_.histograms->of(message_operation(requester().info().completion))
            .size_bytes.add(requester().work().length_bytes);
    }
};

}  // namespace urnic
