// A packet as a list of layers with named values, for people and for JSON. Allocates; not for the packet
// path.
#pragma once

#include <string>
#include <vector>

#include "rnic/wire/dissect/packet.h"

namespace urnic::wire {

struct DescribedField {
    std::string name;
    std::string text;  // for people: with names of values
    bool is_number = false;
    std::uint64_t number = 0;
};

struct Layer {
    std::string name;  // "Ethernet", "BTH", "CM REQ"
    std::vector<DescribedField> fields;
};

/// All layers from the link to the connection manager's private data, in wire order; then "payload" when
/// bytes are left that no layer explains, and "checks" with the verdicts.
[[nodiscard]] std::vector<Layer> describe(const Packet& packet);

/// The layers that the payload holds: MAD, SMP, CM message, IPoIB, ARP. Empty when it is opaque.
[[nodiscard]] std::vector<Layer> describe_payload(const Packet& packet);

[[nodiscard]] const char* verdict_name(CheckVerdict verdict);
[[nodiscard]] const char* outcome_name(Outcome outcome);

}  // namespace urnic::wire
