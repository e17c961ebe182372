// Management packets of RNICs in live captures (`urnic capture`): no worker sees them (docs/adr/0033).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/time.h"
#include "daemon/state/active_captures.h"
#include "rnic/subnet/subnet.h"

namespace urnic::daemon {

/// The control thread's own.
class MadCapture final : public subnet::PacketTap {
  public:
    /// Both live longer.
    MadCapture(ActiveCaptures& captures, const subnet::Subnet& subnet)
        : captures_(captures), subnet_(subnet) {}

    /// The node is the port of the RNIC with that index. Packets of others are seen where they arrive.
    void add(subnet::NodeId node, std::uint32_t rnic);

    void on_sent(subnet::NodeId node, const subnet::PacketBytes& packet) override;
    void on_arrival(subnet::NodeId node) override;
    void on_handled(subnet::NodeId node, const subnet::PacketBytes& packet) override;

  private:
    static constexpr std::uint32_t kNoRnic = std::numeric_limits<std::uint32_t>::max();

    /// kNoRnic: it has none, or nobody captures it.
    [[nodiscard]] std::uint32_t captured_rnic(subnet::NodeId node);
    [[nodiscard]] dataplane::Fate fate_since_arrival() const;
    void write(std::uint32_t rnic, const subnet::PacketBytes& packet, TimeNs time, bool is_sent,
               dataplane::Fate fate);

    ActiveCaptures& captures_;
    const subnet::Subnet& subnet_;
    std::vector<std::uint32_t> rnics_;  // by node
    // Of the packet that is being handled.
    TimeNs arrived_at_ = 0;
    subnet::SubnetCounters before_;
};

}  // namespace urnic::daemon
