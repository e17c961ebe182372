// The subnet management agent (SMA) of a node (IBA 14.3): answers Get and Set, guards them by the M_Key, and
// changes the node.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "rnic/subnet/node.h"
#include "rnic/subnet/smp.h"

namespace urnic::subnet {

/// What an SMP is to the agent.
enum class Handled : std::uint8_t {
    kReply,    // the MAD is the response now
    kDiscard,  // not to be answered
    kForSm,    // for the subnet manager behind this port: SMInfo, traps, responses
};

/// What a Set has changed, for those who carry packets.
struct Change {
    enum class Kind : std::uint8_t {
        kNone,
        kPort,
        kPkeys,
        kSlToVl,
        kVlArbitration,
        kLinear,
        kMulticast,
        kSwitch
    };
    Kind kind = Kind::kNone;
    std::uint8_t port = 0;
    std::uint16_t block = 0;     // kPkeys, kVlArbitration, kLinear, kMulticast
    std::uint8_t position = 0;   // kMulticast
    bool is_reset = false;       // kPort: the link begins anew
    bool is_reregister = false;  // kPort: clients are to register with the subnet administrator again
    bool is_m_key_violation = false;
};

struct AgentCounters {
    std::uint64_t gets = 0;
    std::uint64_t sets = 0;
    std::uint64_t bad = 0;  // answered with a status
    std::uint64_t m_key_violations = 0;
};

class SubnetAgent {
  public:
    explicit SubnetAgent(Node& node) : node_(node) {}

    /// An SMP that came to this node through `ingress`. `now` is for the M_Key's lease.
    [[nodiscard]] Handled handle(MadRef mad, std::uint8_t ingress, TimeNs now, Change& change);
    [[nodiscard]] const AgentCounters& counters() const { return counters_; }

  private:
    struct Request {
        MadRef mad;
        std::uint8_t ingress;
        bool is_set;
        Change& change;
    };
    using Operation = std::uint16_t (SubnetAgent::*)(const Request&);
    struct Row;

    [[nodiscard]] bool is_allowed(MadRef mad, bool is_set, TimeNs now, Change& change);
    void end_lease(TimeNs now);
    [[nodiscard]] PortRecord* port_of(std::uint32_t number, std::uint8_t ingress, std::uint8_t& port);

    std::uint16_t node_description(const Request& request);
    std::uint16_t node_info(const Request& request);
    std::uint16_t switch_info(const Request& request);
    std::uint16_t port_info(const Request& request);
    std::uint16_t guid_info(const Request& request);
    std::uint16_t pkey_table(const Request& request);
    std::uint16_t sl_to_vl(const Request& request);
    std::uint16_t vl_arbitration(const Request& request);
    std::uint16_t linear_forwarding(const Request& request);
    std::uint16_t multicast_forwarding(const Request& request);

    Node& node_;
    AgentCounters counters_;
    bool has_key_ = true;  // the request that is answered has the port's M_Key, or needs none
    TimeNs lease_ends_ = kNever;
};

/// Set of PortInfo (IBA 14.2.5.6): what `wanted` asks for of `port`. Returns a MadStatus; other than good,
/// nothing has changed.
[[nodiscard]] std::uint16_t set_port_info(Node& node, std::uint8_t port, const wire::mad::PortInfo& wanted,
                                          Change& change);

}  // namespace urnic::subnet
