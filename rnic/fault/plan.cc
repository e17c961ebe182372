#include "rnic/fault/plan.h"

#include <algorithm>

#include "rnic/wire/frame.h"

namespace urnic::fault {

namespace {

enum Use : std::uint64_t { kForChance = 1, kForOffset = 2 };

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

bool is_match(const Rule& rule, Direction direction, const wire::PacketHeader& header) {
    return (rule.direction == Direction::kBoth || rule.direction == direction) &&
           (!rule.qpn || *rule.qpn == header.dest_qp) && (!rule.psn || *rule.psn == header.psn.value()) &&
           (!rule.opcode || *rule.opcode == header.opcode);
}

/// 53 bits of chance, as many as a double holds.
bool by_chance(const ActiveRule& active, std::uint64_t n) {
    if (active.rule.probability >= 1) {
        return true;
    }
    const auto drawn = static_cast<double>(random_number(active.seed, n, kForChance) >> 11U);
    return drawn * 0x1p-53 < active.rule.probability;
}

/// Takes one of the hits that the rule has left.
bool take_hit(ActiveRule& active) {
    std::uint64_t hits = active.hits.load(kRelaxed);
    do {
        if (active.rule.count != 0 && hits >= active.rule.count) {
            return false;
        }
    } while (!active.hits.compare_exchange_weak(hits, hits + 1, kRelaxed));
    return true;
}

/// The bits that may flip. Empty: the packet has no such place.
struct BitRange {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

BitRange corruptible(const Rule& rule, std::span<const std::byte> frame, const wire::PacketView& view) {
    const auto bits = [](std::size_t bytes) { return static_cast<std::uint32_t>(bytes * 8); };
    switch (rule.corrupt_at) {
        case CorruptAt::kAnywhere:
            break;
        case CorruptAt::kPayload: {
            if (view.payload.empty()) {
                return {};
            }
            const auto offset = static_cast<std::size_t>(view.payload.data() - frame.data());
            return {bits(offset), bits(view.payload.size())};
        }
        case CorruptAt::kOffset:
            return rule.offset_bytes < frame.size() ? BitRange{bits(rule.offset_bytes), 8} : BitRange{};
    }
    return {0, bits(frame.size())};
}

void act(ActiveRule& active, std::uint64_t n, const BitRange& bits, Verdict& verdict) {
    const Rule& rule = active.rule;
    switch (rule.action) {
        case Action::kDrop:
            verdict.drop = true;
            break;
        case Action::kEcn:
            verdict.ecn = true;
            break;
        case Action::kCorrupt: {
            const std::uint64_t drawn = random_number(active.seed, n, kForOffset);
            verdict.flip_bits[verdict.flips++] =
                bits.first + static_cast<std::uint32_t>(drawn % std::max(bits.count, 1U));
            break;
        }
        case Action::kDelay:
            verdict.delay_ns += *rule.delay_ns;
            verdict.holder = &active;
            break;
        case Action::kReorder:
            verdict.behind = std::max(verdict.behind, rule.packets.value_or(1));
            verdict.delay_ns += rule.delay_ns.value_or(Rule::kDefaultReorderNs);
            verdict.holder = &active;
            break;
        case Action::kDuplicate:
            verdict.copier = &active;
            verdict.copy_delay_ns = rule.delay_ns.value_or(0);
            break;
    }
}

}  // namespace

std::uint64_t random_number(std::uint64_t seed, std::uint64_t n, std::uint64_t use) {
    // SplitMix64 (Steele, Lea and Flood), entered at any place of its sequence.
    std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (2 * n + use);
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
}

Verdict Plan::decide(Direction direction, std::span<const std::byte> frame) const {
    Verdict verdict;
    wire::PacketView view;
    if (wire::parse_frame(frame, view) != wire::ParseError::kNone) {
        return verdict;
    }
    verdict.is_roce = true;
    verdict.dest_qp = view.header.dest_qp;
    for (const auto& active : rules_) {
        if (!is_match(active->rule, direction, view.header)) {
            continue;
        }
        BitRange bits;
        if (active->rule.action == Action::kCorrupt) {
            bits = corruptible(active->rule, frame, view);
            if (bits.count == 0 || verdict.flips == Verdict::kMaxFlips) {
                continue;
            }
        }
        const std::uint64_t n = active->seen.fetch_add(1, kRelaxed) + 1;
        if ((active->rule.iter != 0 && n != active->rule.iter) || !by_chance(*active, n) ||
            !take_hit(*active)) {
            continue;
        }
        act(*active, n, bits, verdict);
        if (verdict.drop) {
            break;
        }
    }
    return verdict;
}

void edit_frame(const Verdict& verdict, std::span<std::byte> frame) {
    if (verdict.ecn) {
        wire::set_ce(frame);
    }
    for (std::uint8_t i = 0; i < verdict.flips; ++i) {
        const std::uint32_t bit = verdict.flip_bits[i];
        frame[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    }
}

}  // namespace urnic::fault
