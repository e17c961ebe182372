// An RNIC's port of an emulated network, which runs on worker 0: from its rx_burst(), in protocol time.
// Frames of the other workers come to it by rings.
#pragma once

#include <cstdint>
#include <span>

#include "dataplane/port/timed_port.h"
#include "dataplane/wire/in_process_switch.h"

namespace urnic::dataplane {

/// `Network` has `wire` (the in-process switch behind it), `rings`, `now`, `has_arrivals` by port, and run(),
/// transmit(port, frames, count) and next_event(port).
template <typename Network>
class NetworkPort : public TimedPort {
  public:
    NetworkPort(Network& network, std::uint32_t index) : network_(network), index_(index) {}

    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        if (queue != 0) {
            return switch_port().rx_burst(queue, frames, count);
        }
        network_.run();
        const std::uint16_t own = rx_own(frames, count);
        const auto got = static_cast<std::uint16_t>(
            own + switch_port().rx_burst(queue, frames + own, static_cast<std::uint16_t>(count - own)));
        network_.has_arrivals[index_] = got == count;
        return got;
    }
    [[nodiscard]] std::uint32_t rx_waiting(std::uint32_t queue) override {
        if (queue == 0) {
            network_.run();
        }
        return switch_port().rx_waiting(queue);
    }
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        return queue == 0 ? network_.transmit(index_, frames, count)
                          : network_.rings.enqueue(queue, index_, frames, count);
    }
    void set_multicast(std::span<const wire::Mac> groups) override { switch_port().set_multicast(groups); }
    [[nodiscard]] int wait_fd(std::uint32_t /*queue*/) const override { return -1; }
    [[nodiscard]] bool has_events(std::uint32_t queue) const override { return queue == 0; }
    void set_time(std::uint32_t queue, TimeNs protocol_now) override {
        if (queue == 0) {
            network_.now = protocol_now;
        }
    }
    [[nodiscard]] TimeNs next_event(std::uint32_t queue) const override {
        return queue == 0 ? network_.next_event(index_) : kNever;
    }

  protected:
    /// Frames of the network's own for the RNIC.
    virtual std::uint16_t rx_own(rte_mbuf** /*frames*/, std::uint16_t /*count*/) { return 0; }
    [[nodiscard]] Port& switch_port() const { return network_.wire.port(index_); }
    [[nodiscard]] Network& network() const { return network_; }
    [[nodiscard]] std::uint32_t index() const { return index_; }

  private:
    Network& network_;
    std::uint32_t index_;
};

}  // namespace urnic::dataplane
