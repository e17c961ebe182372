#include "daemon/control/fault_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "daemon/config/config.h"
#include "rnic/wire/opcodes.h"

namespace urnic::daemon {

namespace {

using Json = nlohmann::ordered_json;
using Rules = std::vector<fault::Rule>;

constexpr const char* kEvents = "data-pkt-events";

/// Thrown inside this file alone: the first mistake ends the parse.
struct InvalidFault {
    std::string text;
};

std::string quote(const std::string& key) { return fmt::format("'{}'", key); }

fault::Value value_of(const std::string& key, const Json& json) {
    if (json.is_boolean()) {
        return json.get<bool>();
    }
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX) {
        throw InvalidFault{quote(key) + " is too large"};
    }
    if (json.is_number_integer()) {
        return json.get<std::int64_t>();
    }
    if (json.is_number_float()) {
        return json.get<double>();
    }
    if (json.is_string()) {
        return json.get<std::string>();
    }
    throw InvalidFault{quote(key) + " must be a number or a string"};
}

fault::Rule read_event(const Json& event) {
    if (!event.is_object()) {
        throw InvalidFault{R"(must be an object such as {"type": "drop", "probability": 0.01})"};
    }
    if (!event.contains("type")) {
        throw InvalidFault{R"(has no 'type', for example "type": "drop")"};
    }
    fault::Rule rule;
    for (const auto& [key, json] : event.items()) {
        if (const auto problem = fault::set_field(rule, key, value_of(key, json))) {
            throw InvalidFault{*problem};
        }
    }
    if (const auto problem = fault::check_rule(rule)) {
        throw InvalidFault{*problem};
    }
    return rule;
}

/// The list of events, wherever it is; an object has nothing beside it that would be ignored unseen, but for
/// a tester's whole file, whose "traffic" has much more.
const Json& find_events(const Json& document) {
    const Json* place = &document;
    if (place->is_object() && place->contains("traffic") && (*place)["traffic"].is_object()) {
        place = &(*place)["traffic"];
    } else if (place->is_object()) {
        for (const auto& [key, json] : place->items()) {
            if (key != kEvents) {
                throw InvalidFault{fmt::format("unknown key '{}'; allowed: {}", key, kEvents)};
            }
        }
    }
    if (place->is_object() && place->contains(kEvents)) {
        place = &(*place)[kEvents];
    }
    if (!place->is_array()) {
        throw InvalidFault{
            fmt::format("must be a list of events, or an object with such a list as \"{}\"", kEvents)};
    }
    return *place;
}

Rules read_events(const Json& document) {
    const Json& events = find_events(document);
    if (events.size() > kMaxFaults) {
        throw InvalidFault{
            fmt::format("has {} events; at most {} can be in force", events.size(), kMaxFaults)};
    }
    Rules rules;
    for (const Json& event : events) {
        try {
            rules.push_back(read_event(event));
        } catch (const InvalidFault& mistake) {
            throw InvalidFault{fmt::format("event {}: {}", rules.size() + 1, mistake.text)};
        }
    }
    return rules;
}

/// "LINE:COLUMN" of the byte with that number, counted from 1.
std::string position(std::string_view text, std::size_t byte) {
    const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t newline = before.rfind('\n');
    return fmt::format("{}:{}", line,
                       before.size() - (newline == std::string_view::npos ? 0 : newline + 1) + 1);
}

/// What the library says, without its own prefix.
std::string reason(const nlohmann::detail::parse_error& error) {
    const std::string text = error.what();
    const std::size_t colon = text.find(": ");
    return colon == std::string::npos ? text : text.substr(colon + 2);
}

void write_selection(JsonWriter& json, const fault::Rule& rule) {
    if (!rule.device.empty()) {
        json.value("device", rule.device);
    }
    json.value("direction", fault::direction_name(rule.direction));
    if (rule.qpn) {
        json.value("qpn", *rule.qpn);
    }
    if (rule.psn) {
        json.value("psn", *rule.psn);
    }
    if (rule.opcode) {
        const wire::OpcodeInfo& info = wire::opcode_info(*rule.opcode);
        if ((info.flags & wire::kValid) != 0) {
            json.value("opcode", info.name);
        } else {
            json.value("opcode", *rule.opcode);
        }
    }
    if (rule.iter != 0) {
        json.value("iter", rule.iter);
    }
}

void write_effect(JsonWriter& json, const fault::ActiveRule& active) {
    const fault::Rule& rule = active.rule;
    if (rule.probability < 1) {
        json.raw("probability", fmt::format("{}", rule.probability));
    }
    const bool random_offset =
        rule.action == fault::Action::kCorrupt;  // the bit of a given byte is drawn as well
    if (rule.probability < 1 || random_offset) {
        json.value("seed", active.seed);
    }
    if (rule.count != 0) {
        json.value("count", rule.count);
    }
    if (rule.corrupt_at == fault::CorruptAt::kPayload) {
        json.value("offset", "payload");
    } else if (rule.corrupt_at == fault::CorruptAt::kOffset) {
        json.value("offset", rule.offset_bytes);
    }
    if (rule.delay_ns) {
        json.value("delay-us", *rule.delay_ns / 1000);
    }
    if (rule.packets) {
        json.value("packets", *rule.packets);
    }
}

}  // namespace

std::variant<Rules, FaultError> parse_faults(std::string_view text, const std::string& source) {
    try {
        return read_events(Json::parse(text));
    } catch (const nlohmann::detail::parse_error& error) {
        return FaultError{
            fmt::format("{}:{}: not valid JSON: {}", source, position(text, error.byte), reason(error))};
    } catch (const nlohmann::detail::exception& error) {
        return FaultError{fmt::format("{}: {}", source, error.what())};
    } catch (const InvalidFault& mistake) {
        return FaultError{fmt::format("{}: {}", source, mistake.text)};
    }
}

std::variant<Rules, FaultError> read_faults(const std::string& file) {
    errno = 0;
    std::ifstream stream(file);
    std::ostringstream text;
    if (!stream || !(text << stream.rdbuf())) {
        return FaultError{fmt::format("{}: cannot read the faults: {}", file,
                                      errno != 0 ? std::strerror(errno) : "the file is empty")};
    }
    return parse_faults(text.str(), file);
}

void write_faults(JsonWriter& json, const std::vector<std::shared_ptr<fault::ActiveRule>>& rules) {
    json.array("faults", [&] {
        for (const auto& active : rules) {
            json.object({}, [&] {
                json.value("id", active->id);
                json.value("type", fault::action_name(active->rule.action));
                write_selection(json, active->rule);
                write_effect(json, *active);
                json.value("seen", active->seen.load(std::memory_order_relaxed));
                json.value("hits", active->hits.load(std::memory_order_relaxed));
                json.value("missed", active->missed.load(std::memory_order_relaxed));
            });
        }
    });
}

std::string faults_json(const std::vector<std::shared_ptr<fault::ActiveRule>>& rules) {
    JsonWriter json;
    json.object({}, [&] { write_faults(json, rules); });
    return json.take();
}

}  // namespace urnic::daemon
