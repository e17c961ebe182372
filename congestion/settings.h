// What the QPs of a device, or one QP, go by: how fast they may send, and how they answer marks.
#pragma once

#include <cstdint>

#include "congestion/rate_control.h"

namespace urnic::congestion {

/// Whose gap between two congestion notification packets (CNPs) it is.
enum class CnpScope : std::uint8_t {
    kFlow,           // each QP's own
    kIpPair,         // of all QPs between two addresses
    kDestinationIp,  // of all QPs to one address, whatever the source
    kPort,           // of all QPs of the device
};

/// It outlives the QPs that name it, and changes between two calls of each QP alone
/// (FlowRate::settings_changed()).
struct Settings {
    /// The rate that QPs begin with is rate.line_rate, and at that rate nothing is paced.
    RateParameters rate;
    std::uint8_t profile = 0;           // of dcqcn_profiles(): where the parameters came from last
    std::uint32_t burst_bytes = 65536;  // that a QP which was silent may send at once

    bool cnp_enabled = true;                   // in answer to packets with a CE mark
    TimeNs min_time_between_cnps_ns = 50'000;  // between two CNPs
    CnpScope cnp_scope = CnpScope::kFlow;
    bool nak_triggers_cnp = false;  // a NAK of a packet that is missing is answered like a mark, too
    std::uint8_t cnp_dscp = 48;
    std::uint8_t cnp_priority = 6;  // of frames with a VLAN tag

    bool operator==(const Settings&) const = default;
};

}  // namespace urnic::congestion
