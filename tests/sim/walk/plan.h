// What a random walk is made of: everything that its seed decides before the first operation.
#pragma once

#include <cstdint>
#include <string>

#include "tests/sim/net/network.h"

namespace urnic::sim {

/// How bad things are.
enum class Impairments : std::uint8_t {
    kClear,       // nothing happens to any frame: no retry is allowed either
    kRough,       // up to 3 % each of loss, duplication, reordering, corruption: retries suffice
    kReordering,  // up to 30 % reordered, nothing lost
    kStorm,       // loss in bursts, outages, few retries: connections may break
};

struct WalkPlan {
    std::uint64_t seed = 0;
    Impairments impairments = Impairments::kClear;
    std::uint32_t messages = 0;  // that are posted
    std::uint32_t devices = 2;
    bool has_switch = false;
    std::uint32_t connections = 1;
    std::uint32_t cqs_per_device = 1;
    std::uint32_t cq_entries = 4'096;  // few: they run over
    bool is_ipv6 = false;
    std::uint16_t vlan_tci = 0;
    LinkOptions link;
    std::uint32_t outage_per_mille = 0;  // of the moments at which a connection acts
    std::uint32_t poison_per_10000 = 0;  // operations that have to fail
    std::uint32_t abort_per_10000 = 0;   // moments at which an application gives up a connection
    std::uint32_t revoke_per_10000 = 0;  // moments at which an application takes a key away that is in use
    std::uint32_t sqd_per_1000 = 0;      // moments at which an application stops its send queue
    std::uint32_t max_message_bytes = 0;
    std::uint32_t area_bytes = 0;     // of each direction's target
    std::uint32_t landing_bytes = 0;  // of each end's READs and atomics
    std::uint32_t receive_bytes = 0;  // of all receives of one end
    std::uint32_t pause_ns = 0;       // between two moments of an application, at most
    std::uint32_t most_posts = 0;     // at one moment

    [[nodiscard]] bool retries_suffice() const { return impairments != Impairments::kStorm; }
    [[nodiscard]] std::string describe() const;
};

[[nodiscard]] WalkPlan make_plan(std::uint64_t seed);

}  // namespace urnic::sim
