// One packet of each kind that the codec knows, with random fields: every opcode over every carrier, every CM
// message, SMPs, IPoIB, raw packets, PFC.
#pragma once

#include <string>
#include <vector>

#include "rnic/wire/dissect/packet.h"
#include "tests/support/random_bytes.h"

namespace urnic::test {

struct Sample {
    std::string name;
    wire::Packet packet;
    std::vector<std::byte> payload;  // what packet.payload refers to
};

/// How RoCE and InfiniBand packets travel.
struct Carrier {
    const char* name;
    wire::LinkLayer link;
    wire::Network network;
    std::uint8_t vlan_count;
    bool udp_checksum;
};
[[nodiscard]] const std::vector<Carrier>& carriers();

/// Payloads are at most `most_payload_bytes` long.
[[nodiscard]] std::vector<Sample> make_samples(Random& random, std::size_t most_payload_bytes);

/// Fills a structure with a random value of each of its fields.
void randomize(const wire::HeaderTable& table, void* object, Random& random);

}  // namespace urnic::test
