// The way from an RNIC on a real port to itself and to the others of the same port, which no switch brings
// back: stacks on the port, and on an in-process wire that joins the RNICs of that port.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "abi/queues.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/in_process_switch.h"
#include "rnic/wire/packet_view.h"

struct rte_mbuf;

namespace urnic::dataplane {

class HairpinPort final : public Port {
  public:
    /// For RNIC `index` of those on the port, which `local_switch` joins. Frames to them go by `local_switch`
    /// alone, those to groups both ways.
    HairpinPort(InProcessSwitch& local_switch, std::uint32_t index, Port& wire);

    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    void set_multicast(std::span<const wire::Mac> groups) override;
    void set_mac(const wire::Mac& mac) override { local_switch_.set_mac(index_, mac); }
    [[nodiscard]] std::uint32_t rx_waiting(std::uint32_t queue) override { return wire_.rx_waiting(queue); }
    [[nodiscard]] std::uint64_t rx_missed() override { return wire_.rx_missed(); }
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override { return wire_.wait_fd(queue); }
    [[nodiscard]] bool must_be_polled(std::uint32_t queue) const override {
        return wire_.must_be_polled(queue);
    }

  private:
    enum class Path : std::uint8_t { kWire, kLocal, kBoth };
    [[nodiscard]] Path path_of(const rte_mbuf& frame) const;
    void send_on_both(std::uint32_t queue, rte_mbuf* frame);

    InProcessSwitch& local_switch_;
    std::uint32_t index_;
    Port& local_;
    Port& wire_;
    struct alignas(64) Turn {
        bool wire_first = false;  // so that neither keeps the other waiting
    };
    std::array<Turn, abi::kMaxWorkers> turns_{};
};

}  // namespace urnic::dataplane
