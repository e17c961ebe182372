// One fault: which packets it hits and what happens to them. The form follows the events of RNIC testers
// (qpn, psn, type, iter).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/time.h"

namespace urnic::fault {

enum class Action : std::uint8_t { kDrop, kCorrupt, kEcn, kDelay, kDuplicate, kReorder };

/// As the RNIC sees it: kTx is what it sends.
enum class Direction : std::uint8_t { kTx, kRx, kBoth };

/// Where a corrupted bit lies.
enum class CorruptAt : std::uint8_t {
    kAnywhere,  // in any bit of the frame, Ethernet header and ICRC included
    kPayload,   // in the payload; packets without one are left alone
    kOffset,    // in the byte at offset_bytes
};

struct Rule {
    static constexpr std::uint32_t kMaxPackets = 1024;
    static constexpr TimeNs kMaxDelayNs = 10'000'000'000;
    static constexpr TimeNs kDefaultReorderNs = 1'000'000;

    Action action = Action::kDrop;

    // Which packets may be hit: all fields that are set must agree.
    std::string device;  // empty: every one
    Direction direction = Direction::kTx;
    std::optional<std::uint32_t> qpn;    // BTH DestQP
    std::optional<std::uint32_t> psn;    // BTH PSN
    std::optional<std::uint8_t> opcode;  // BTH OpCode

    // Which of those are hit.
    std::uint64_t iter = 0;  // only this one, counted from 1; 0: every one
    double probability = 1;
    std::optional<std::uint64_t> seed;  // of the probability and of random offsets; drawn when not set
    std::uint64_t count = 0;            // so many hits at most; 0: no end

    // What happens.
    CorruptAt corrupt_at = CorruptAt::kAnywhere;
    std::uint32_t offset_bytes = 0;  // from the frame's first byte
    std::optional<TimeNs> delay_ns;  // of the packet; of the copy for kDuplicate; the longest for kReorder
    std::optional<std::uint32_t> packets;  // kReorder: comes after this many later packets to the same QP
};

/// A value as a configuration file or a command line gives it.
using Value = std::variant<bool, std::int64_t, double, std::string>;

/// Sets the field `key`. Returns what is wrong ("'psn' must be ..."), or nothing.
[[nodiscard]] std::optional<std::string> set_field(Rule& rule, std::string_view key, const Value& value);
/// Checks what only whole rules show, once all fields are set: missing fields, fields of other actions.
[[nodiscard]] std::optional<std::string> check_rule(const Rule& rule);

[[nodiscard]] const char* action_name(Action action);
[[nodiscard]] const char* direction_name(Direction direction);
/// The names of all fields, for messages.
[[nodiscard]] std::string field_names();

}  // namespace urnic::fault
