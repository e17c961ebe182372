// A packet as a list of layers with named values, for people and for JSON. Allocates; not for the packet
// path.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "rnic/wire/dissect/packet.h"

namespace urnic::wire {

struct DescribedField {
    std::string name;
    std::string text;  // for people: with names of values
    bool is_number = false;
    std::uint64_t number = 0;
    bool is_shown = false;  // on the line of summary(), besides those that it chooses itself
};

struct Layer {
    std::string name;  // "Ethernet", "BTH", "CM REQ"
    std::vector<DescribedField> fields;
};

/// All layers from the link to the connection manager's private data, in wire order, then those of `upper`,
/// which the caller found in the payload; then "payload" when there are any bytes of it, and "checks" with
/// the verdicts.
[[nodiscard]] std::vector<Layer> describe(const Packet& packet, std::span<const Layer> upper = {});

/// The layers that the payload holds: MAD, SMP, CM message, IPoIB, ARP. Empty when it is opaque.
[[nodiscard]] std::vector<Layer> describe_payload(const Packet& packet);

[[nodiscard]] const char* verdict_name(CheckVerdict verdict);
[[nodiscard]] const char* outcome_name(Outcome outcome);

}  // namespace urnic::wire
