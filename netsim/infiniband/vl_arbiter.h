// Which virtual lane of a port sends next (IBA 7.6.9): a table of high and one of low priority, each a
// weighted round robin, and a limit after which low priority has its chance.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "netsim/infiniband/ib_packet.h"

namespace urnic::netsim {

struct VlArbitrationEntry {
    std::uint8_t vl = 0;
    std::uint8_t weight = 0;  // in 64 bytes; 0: the entry is skipped

    bool operator==(const VlArbitrationEntry&) const = default;
};

class VlArbiter {
  public:
    static constexpr std::uint32_t kEntries = 64;  // of each table: VLArbitrationHighCap and LowCap
    using Table = std::array<VlArbitrationEntry, kEntries>;
    enum class Priority : std::uint8_t { kLow, kHigh };

    /// Low priority has each data VL with 4096 bytes, high priority nothing; the limit is 0.
    VlArbiter();

    void set_table(Priority priority, const Table& table);
    [[nodiscard]] const Table& table(Priority priority) const { return lists_[index(priority)].entries; }
    /// LimitOfHighPriority: so many times 4096 bytes of high priority go before low priority has its chance;
    /// 0: one packet; 255: no limit.
    void set_high_limit(std::uint8_t limit);
    [[nodiscard]] std::uint8_t high_limit() const { return high_limit_; }

    /// Returns whether packets of the VL ever go: a table has it, or it is VL 15.
    [[nodiscard]] bool is_served(std::uint8_t vl) const { return (served_ >> vl & 1U) != 0; }

    /// Chooses the VL that sends now. `ready` are the bytes of the packet that each VL could send; 0: none.
    /// Returns kVls if no VL of the tables has one. VL 15 goes before all others, and in no table.
    [[nodiscard]] std::uint8_t choose(std::span<const std::uint32_t, kVls> ready);

  private:
    struct List {
        Table entries{};
        std::uint32_t count = 0;  // of them; those behind have no weight
        std::uint32_t current = 0;
        std::int32_t left = 0;  // of the current entry's weight
    };
    [[nodiscard]] static std::size_t index(Priority priority) { return static_cast<std::size_t>(priority); }
    /// Turns to the entry that is next; false: none has a packet, and the list stays where it is.
    [[nodiscard]] static bool turn(List& list, std::span<const std::uint32_t, kVls> ready);
    [[nodiscard]] std::uint8_t take(List& list, std::span<const std::uint32_t, kVls> ready);
    void reload_high() { high_bytes_left_ = std::int64_t{high_limit_} * 4096; }

    std::array<List, 2> lists_{};
    std::uint32_t served_ = 0;  // bit n: VL n
    std::uint8_t high_limit_ = 0;
    std::int64_t high_bytes_left_ = 0;
    bool high_sent_ = false;  // since low priority had its chance
};

}  // namespace urnic::netsim
