// The daemon's share of the floor: for each packet a header, a fused copy and CRC into a frame, a CRC check,
// a copy out of it; rings in, rings out; nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "bench/e2e/floor_rings.h"
#include "bench/e2e/processes.h"
#include "rnic/wire/frame.h"

namespace urnic::bench {

class FloorDaemon {
  public:
    explicit FloorDaemon(FloorMemory& memory) : memory_(memory) {}

    /// Serves both applications until one of them says stop.
    void run(Miss miss);
    /// One round: a burst from each application. Returns whether there was anything to do.
    [[nodiscard]] bool step();

  private:
    static constexpr std::uint32_t kBurst = 32;
    static constexpr std::uint32_t kMtuBytes = 4096;
    // Ethernet, IPv4, UDP, BTH and RETH; the ICRC begins after Ethernet.
    static constexpr std::size_t kHeaderBytes = 14 + 20 + 8 + 12 + 16;
    static constexpr std::size_t kL2Bytes = 14;

    struct Frame {
        std::byte bytes[wire::kMaxFrameBytes];
        std::byte* target;
        std::uint32_t payload_bytes;
    };
    struct Sender {
        std::uint32_t taken = 0;      // WQEs
        std::uint32_t offset = 0;     // within the first that is not taken
        std::uint32_t completed = 0;  // CQEs
    };

    [[nodiscard]] bool serve(std::uint32_t app);
    void send(const std::byte* source, std::byte* target, std::uint32_t length_bytes);
    void receive_all();

    FloorMemory& memory_;
    std::array<Sender, 2> senders_{};
    std::unique_ptr<std::array<Frame, kBurst>> frames_ = std::make_unique<std::array<Frame, kBurst>>();
    std::uint32_t in_flight_ = 0;
    std::array<std::byte, kHeaderBytes> header_{};
};

}  // namespace urnic::bench
