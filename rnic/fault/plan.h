// Decides what happens to a packet. Pure: a packet's bytes go in, a verdict comes out; chance is a function
// of a rule's seed and of how many packets it has seen.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "rnic/fault/rule.h"
#include "rnic/wire/packet_view.h"

namespace urnic::fault {

/// A rule that is in force, with what it has done. Its counters may be used by several threads at once; each
/// count is drawn by one of them alone, so that "the third packet" is one packet.
struct ActiveRule {
    ActiveRule(Rule what, std::uint32_t number, std::uint64_t rule_seed)
        : rule(std::move(what)), id(number), seed(rule_seed) {}

    const Rule rule;
    const std::uint32_t id;
    const std::uint64_t seed;
    std::atomic<std::uint64_t> seen{0};    // packets that agreed with every field that is set
    std::atomic<std::uint64_t> hits{0};    // those that the fault happened to
    std::atomic<std::uint64_t> missed{0};  // hits for which there was no room: dropped or not copied
};

/// What happens to one packet, when every rule has been asked.
struct Verdict {
    static constexpr std::size_t kMaxFlips = 4;

    bool is_roce = false;  // rules apply to RoCEv2 packets alone
    bool drop = false;
    bool ecn = false;  // set CE
    std::uint8_t flips = 0;
    std::array<std::uint32_t, kMaxFlips> flip_bits{};  // from the frame's first bit
    TimeNs delay_ns = 0;                               // 0: continues at once, unless `behind`
    std::uint32_t behind =
        0;  // held until so many later packets to the same QP went by, or the delay is over
    ActiveRule* holder = nullptr;  // the rule that holds it
    ActiveRule* copier = nullptr;  // the rule that wants a copy; nullptr: none
    TimeNs copy_delay_ns = 0;
    std::uint32_t dest_qp = 0;
};

/// The rules for one RNIC, in the order in which they are asked.
class Plan {
  public:
    explicit Plan(std::vector<std::shared_ptr<ActiveRule>> rules) : rules_(std::move(rules)) {}

    /// Counts in the rules what it decides. A dropped packet is not shown to later rules. `direction` is kTx
    /// or kRx.
    [[nodiscard]] Verdict decide(Direction direction, std::span<const std::byte> frame) const;

  private:
    std::vector<std::shared_ptr<ActiveRule>> rules_;
};

/// Carries out what a verdict says about the frame's bytes: CE with the IPv4 checksum that goes with it, then
/// flipped bits.
void edit_frame(const Verdict& verdict, std::span<std::byte> frame);

/// A well-mixed number for each (seed, n, use): the same wherever it is asked for.
[[nodiscard]] std::uint64_t random_number(std::uint64_t seed, std::uint64_t n, std::uint64_t use);

}  // namespace urnic::fault
