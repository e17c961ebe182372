#include "rnic/fault/rule.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <type_traits>

#include "base/psn.h"
#include "rnic/wire/opcodes.h"

namespace urnic::fault {

namespace {

using Problem = std::optional<std::string>;

constexpr std::int64_t kMost24Bits = Psn::kMask;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMaxDelayUs = Rule::kMaxDelayNs / 1000;
/// No frame of one path MTU is longer.
constexpr std::int64_t kMaxOffset = 4351;

struct ActionName {
    const char* name;
    Action action;
};
/// The first name of an action is the one that is shown; "bit-error" is another tester's word.
constexpr ActionName kActions[] = {
    {"drop", Action::kDrop},        {"corrupt", Action::kCorrupt},     {"ecn", Action::kEcn},
    {"delay", Action::kDelay},      {"duplicate", Action::kDuplicate}, {"reorder", Action::kReorder},
    {"bit-error", Action::kCorrupt}};
constexpr std::array kDirections{"tx", "rx", "both"};

std::string quoted(std::string_view key) {
    std::string text = "'";
    return text.append(key).append("'");
}

/// A whole number in range, or nothing.
std::optional<std::int64_t> whole(const Value& value, std::int64_t least, std::int64_t most) {
    const auto* number = std::get_if<std::int64_t>(&value);
    return number != nullptr && *number >= least && *number <= most ? std::optional(*number) : std::nullopt;
}

Problem out_of_range(std::string_view key, std::int64_t least, std::int64_t most) {
    return quoted(key) + " must be a whole number from " + std::to_string(least) + " to " +
           std::to_string(most);
}

template <auto Member, std::int64_t Least, std::int64_t Most>
Problem set_number(Rule& rule, std::string_view key, const Value& value) {
    const auto number = whole(value, Least, Most);
    if (!number) {
        return out_of_range(key, Least, Most);
    }
    using Member_t = std::remove_reference_t<decltype(rule.*Member)>;
    if constexpr (std::is_integral_v<Member_t>) {
        rule.*Member = static_cast<Member_t>(*number);
    } else {
        rule.*Member = static_cast<typename Member_t::value_type>(*number);
    }
    return std::nullopt;
}

Problem set_type(Rule& rule, std::string_view key, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    for (const ActionName& entry : kActions) {
        if (text != nullptr && *text == entry.name) {
            rule.action = entry.action;
            return std::nullopt;
        }
    }
    return quoted(key) + R"( must be "drop", "corrupt", "ecn", "delay", "duplicate" or "reorder")";
}

Problem set_device(Rule& rule, std::string_view key, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr || text->empty() || text->size() > 60) {
        return quoted(key) + " must be the name of an RNIC, for example \"urnic0\"";
    }
    rule.device = *text;
    return std::nullopt;
}

Problem set_direction(Rule& rule, std::string_view key, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    for (std::size_t i = 0; i < kDirections.size(); ++i) {
        if (text != nullptr && *text == kDirections[i]) {
            rule.direction = static_cast<Direction>(i);
            return std::nullopt;
        }
    }
    return quoted(key) + R"( must be "tx" (what the RNIC sends), "rx" or "both")";
}

bool same_letters(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
    });
}

Problem set_opcode(Rule& rule, std::string_view key, const Value& value) {
    if (const auto number = whole(value, 0, 255)) {
        rule.opcode = static_cast<std::uint8_t>(*number);
        return std::nullopt;
    }
    const auto* text = std::get_if<std::string>(&value);
    for (unsigned opcode = 0; opcode < 256 && text != nullptr; ++opcode) {
        const wire::OpcodeInfo& info = wire::opcode_info(static_cast<std::uint8_t>(opcode));
        if ((info.flags & wire::kValid) != 0 && same_letters(info.name, *text)) {
            rule.opcode = static_cast<std::uint8_t>(opcode);
            return std::nullopt;
        }
    }
    return quoted(key) +
           " must be an opcode of the BTH from 0 to 255 or its name, for example \"RC WRITE Only\"";
}

Problem set_probability(Rule& rule, std::string_view key, const Value& value) {
    double number = 0;
    if (const auto* real = std::get_if<double>(&value)) {
        number = *real;
    } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        number = static_cast<double>(*integer);
    }
    if (!(number > 0) || number > 1) {
        return quoted(key) + " must be a number greater than 0 and at most 1, for example 0.01";
    }
    rule.probability = number;
    return std::nullopt;
}

Problem set_offset(Rule& rule, std::string_view key, const Value& value) {
    const auto* text = std::get_if<std::string>(&value);
    const auto number = whole(value, 0, kMaxOffset);
    if (number) {
        rule.corrupt_at = CorruptAt::kOffset;
        rule.offset_bytes = static_cast<std::uint32_t>(*number);
    } else if (text != nullptr && *text == "payload") {
        rule.corrupt_at = CorruptAt::kPayload;
    } else if (text != nullptr && *text == "any") {
        rule.corrupt_at = CorruptAt::kAnywhere;
    } else {
        return quoted(key) + R"( must be "any", "payload" or the number of a byte of the frame, from 0 to )" +
               std::to_string(kMaxOffset);
    }
    return std::nullopt;
}

Problem set_delay(Rule& rule, std::string_view key, const Value& value) {
    const auto number = whole(value, 0, kMaxDelayUs);
    if (!number) {
        return out_of_range(key, 0, kMaxDelayUs);
    }
    rule.delay_ns = static_cast<TimeNs>(*number) * 1000;
    return std::nullopt;
}

struct FieldSetter {
    const char* name;
    Problem (*set)(Rule&, std::string_view key, const Value&);
};
constexpr FieldSetter kFields[] = {
    {"type", set_type},
    {"device", set_device},
    {"direction", set_direction},
    {"qpn", set_number<&Rule::qpn, 0, kMost24Bits>},
    {"psn", set_number<&Rule::psn, 0, kMost24Bits>},
    {"opcode", set_opcode},
    {"iter", set_number<&Rule::iter, 1, kMost>},
    {"probability", set_probability},
    {"seed", set_number<&Rule::seed, 0, kMost>},
    {"count", set_number<&Rule::count, 1, kMost>},
    {"offset", set_offset},
    {"delay-us", set_delay},
    {"packets", set_number<&Rule::packets, 1, Rule::kMaxPackets>},
};

}  // namespace

std::optional<std::string> set_field(Rule& rule, std::string_view key, const Value& value) {
    const auto* field = std::find_if(std::begin(kFields), std::end(kFields),
                                     [&](const FieldSetter& entry) { return key == entry.name; });
    if (field == std::end(kFields)) {
        return "unknown key " + quoted(key) + "; allowed: " + field_names();
    }
    return field->set(rule, key, value);
}

std::optional<std::string> check_rule(const Rule& rule) {
    const std::string type = "type \"" + std::string(action_name(rule.action)) + "\"";
    const bool delays =
        rule.action == Action::kDelay || rule.action == Action::kDuplicate || rule.action == Action::kReorder;
    if (rule.action == Action::kDelay && !rule.delay_ns) {
        return type + " needs 'delay-us', the time in microseconds";
    }
    if (!delays && rule.delay_ns) {
        return "'delay-us' goes with type \"delay\", \"duplicate\" or \"reorder\", not with " + type;
    }
    if (rule.action != Action::kReorder && rule.packets) {
        return "'packets' goes with type \"reorder\", not with " + type;
    }
    if (rule.action != Action::kCorrupt && rule.corrupt_at != CorruptAt::kAnywhere) {
        return "'offset' goes with type \"corrupt\", not with " + type;
    }
    return std::nullopt;
}

const char* action_name(Action action) {
    return std::find_if(std::begin(kActions), std::end(kActions),
                        [=](const ActionName& entry) { return entry.action == action; })
        ->name;
}

const char* direction_name(Direction direction) { return kDirections[static_cast<std::size_t>(direction)]; }

std::string field_names() {
    std::string names;
    for (const FieldSetter& field : kFields) {
        names += (names.empty() ? "" : ", ") + std::string(field.name);
    }
    return names;
}

}  // namespace urnic::fault
