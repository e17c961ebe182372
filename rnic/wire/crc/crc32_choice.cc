// Which variant is fastest on this machine, found by running each. What a CPU has says little where the CPU
// is emulated: QEMU without KVM carries out a carry-less multiplication bit by bit, and the table takes two
// thirds of the time.
#include <algorithm>
#include <array>

#include "rnic/wire/crc/crc32_variants.h"

namespace urnic::wire {

namespace {

// Four packets of the largest path MTU: long enough for any clock, 10 us by the slowest variant on a real
// CPU.
constexpr std::size_t kPacketBytes = 4096;
constexpr unsigned kPackets = 4;
// The shortest of these counts, so that neither a cold cache nor another program decides.
constexpr unsigned kRuns = 6;

TimeNs shortest_run(const Crc32Variant& variant, TimeNs (*now)()) {
    std::array<std::byte, kPacketBytes> from{};
    std::array<std::byte, kPacketBytes> to{};
    TimeNs shortest = 0;
    for (unsigned run = 0; run < kRuns; ++run) {
        const TimeNs begin = now();
        std::uint32_t crc = 0xffff'ffff;
        for (unsigned packet = 0; packet < kPackets; ++packet) {
            crc = variant.copy(crc, to.data(), from.data(), from.size());
        }
        // Looked at, so that the runs are not left out.
        from[0] = static_cast<std::byte>(crc);
        const TimeNs took = now() - begin;
        shortest = run == 0 ? took : std::min(shortest, took);
    }
    return shortest;
}

}  // namespace

const Crc32Variant& fastest_variant(std::span<const Crc32Variant* const> variants, TimeNs (*now)()) {
    const Crc32Variant* best = nullptr;
    TimeNs best_took = 0;
    for (const Crc32Variant* variant : variants) {
        if (!variant->supported()) {
            continue;
        }
        const TimeNs took = shortest_run(*variant, now);
        // By a quarter: what differs by less may come out either way, and the order is known from real CPUs.
        if (best == nullptr || 5 * took < 4 * best_took) {
            best = variant;
            best_took = took;
        }
    }
    return *best;
}

}  // namespace urnic::wire
