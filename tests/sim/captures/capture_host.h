// A simulated host in the place of one of a capture's peers: the same addresses, QP number, PSNs, keys and
// memory addresses. Its frames are those of the network, which takes them nowhere.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/captures/conversation.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_network.h"

namespace urnic::sim {

class CaptureHost final : public SimHost {
  public:
    /// In RTS, connected to the other peer.
    CaptureHost(SimNetwork& network, const Conversation& conversation, int self);

    /// Registers the memory that the requests of the other peer name, under their keys and addresses.
    void register_named_memory();
    /// The memory at an address that a request names; `length_bytes` of it.
    [[nodiscard]] std::span<std::byte> named_memory(std::uint64_t va, std::uint32_t rkey,
                                                    std::size_t length_bytes);
    [[nodiscard]] Psn expected_psn() const;

  private:
    struct Named {
        std::uint32_t key = 0;
        std::uint64_t first = ~0ULL;  // addresses [first, end)
        std::uint64_t end = 0;
        std::vector<std::byte> bytes;
    };
    const Conversation& conversation_;
    int self_;
    std::vector<Named> named_;
};

using Frames = std::vector<std::vector<std::byte>>;

/// What went over the network: requests, or answers.
[[nodiscard]] Frames frames_of(const SimNetwork& network, bool requests);

}  // namespace urnic::sim
