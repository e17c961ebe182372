// Counts the frames that wait where the driver cannot: it takes them from the driver ahead of time. Needed to
// send PFC pause frames (PfcSettings::sent).
#pragma once

#include <cstdint>
#include <vector>

#include "dataplane/port/port.h"

namespace urnic::dataplane {

class PrefetchPort final : public Port {
  public:
    static constexpr std::uint32_t kMaxFrames = 4096;

    /// Up to `max_frames` (1 to kMaxFrames) of each queue are taken ahead; further frames wait in the
    /// driver. `below` lives longer.
    PrefetchPort(Port& below, std::uint32_t num_queues, std::uint32_t max_frames);
    ~PrefetchPort() override;
    PrefetchPort(const PrefetchPort&) = delete;
    PrefetchPort& operator=(const PrefetchPort&) = delete;

    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        return below_.tx_burst(queue, frames, count);
    }
    /// Takes as many frames ahead as there is room for; `max_frames` means that many or more.
    [[nodiscard]] std::uint32_t rx_waiting(std::uint32_t queue) override;
    [[nodiscard]] std::uint64_t rx_missed() override { return below_.rx_missed(); }
    void set_multicast(std::span<const wire::Mac> groups) override { below_.set_multicast(groups); }
    void set_mac(const wire::Mac& mac) override { below_.set_mac(mac); }
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override { return below_.wait_fd(queue); }
    [[nodiscard]] bool must_be_polled(std::uint32_t queue) const override {
        return below_.must_be_polled(queue);
    }

  private:
    // In order, from `first` on, around the end of the vector.
    struct alignas(64) Queue {
        std::vector<rte_mbuf*> frames;
        std::uint32_t first = 0;
        std::uint32_t count = 0;
    };

    Port& below_;
    std::vector<Queue> queues_;
};

}  // namespace urnic::dataplane
