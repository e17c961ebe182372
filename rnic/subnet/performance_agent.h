// The performance management agent of a node (IBA 16.1): PortCounters and PortCountersExtended, read and
// cleared.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "rnic/subnet/smp.h"

namespace urnic::subnet {

/// What a port counts, in the order of PortCounters (IBA table 233); then what PortCountersExtended has
/// alone.
enum class PortCounter : std::uint8_t {
    kSymbolError,
    kLinkErrorRecovery,
    kLinkDowned,
    kRcvErrors,
    kRcvRemotePhysicalErrors,
    kRcvSwitchRelayErrors,
    kXmitDiscards,
    kXmitConstraintErrors,
    kRcvConstraintErrors,
    kLocalLinkIntegrityErrors,
    kExcessiveBufferOverrunErrors,
    kVl15Dropped,
    kXmitData,  // units of four octets
    kRcvData,
    kXmitPkts,
    kRcvPkts,
    kXmitWait,
    kUnicastXmitPkts,
    kUnicastRcvPkts,
    kMulticastXmitPkts,
    kMulticastRcvPkts,
    kCount,
};
using PortCounterValues = std::array<std::uint64_t, static_cast<std::size_t>(PortCounter::kCount)>;

/// Where the counters of a node's ports come from. They only rise; clearing is the agent's.
class PortCounterSource {
  public:
    virtual ~PortCounterSource() = default;
    virtual void read(std::uint8_t port, PortCounterValues& values) = 0;
};

class PerformanceAgent {
  public:
    /// Ports are `first_port` (0 of a switch, 1 of an RNIC) to `last_port`.
    PerformanceAgent(std::uint8_t first_port, std::uint8_t last_port)
        : first_port_(first_port), last_port_(last_port), bases_(last_port + 1U) {}

    /// A MAD of the performance class. Returns whether it is the response now; else it is not to be answered.
    [[nodiscard]] bool handle(MadRef mad, PortCounterSource& source);

  private:
    /// What a counter stood at when it was cleared; the two attributes have counters of their own.
    struct Base {
        PortCounterValues counters{};
        PortCounterValues extended{};
    };
    std::uint16_t answer(MadRef mad, PortCounterSource& source);
    std::uint16_t counters(MadRef mad, bool is_set, bool is_extended, PortCounterSource& source);

    std::uint8_t first_port_;
    std::uint8_t last_port_;
    std::vector<Base> bases_;
};

}  // namespace urnic::subnet
