#include "observe/trace/trace_output.h"

#include <fmt/format.h>

namespace urnic::trace {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kNsPerMs = 1e6;
constexpr double kNsPerUs = 1e3;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

nlohmann::ordered_json json_of(const EventData& data) {
    Json object = Json::object();
    for (const EventData::Member& member : data) {
        const EventData::Value& value = member.value;
        Json& made = object[std::string(member.name())];
        switch (value.kind) {
            case EventData::Kind::kBoolean:
                made = value.boolean;
                break;
            case EventData::Kind::kSigned:
                made = value.number;
                break;
            case EventData::Kind::kUnsigned:
                made = value.unsigned_number;
                break;
            case EventData::Kind::kReal:
                made = value.real;
                break;
            case EventData::Kind::kMilliseconds:
                made = static_cast<double>(value.unsigned_number) / kNsPerMs;
                break;
            case EventData::Kind::kHexText:
                made = fmt::format("{:#x}", value.unsigned_number);
                break;
            case EventData::Kind::kText:
                made = value.text();
                break;
            case EventData::Kind::kTexts:
                made = *value.texts;
                break;
        }
    }
    return object;
}

void JsonLines::begin(std::uint64_t time_ns) {
    if (has_begun_) return;
    has_begun_ = true;
    reference_ns_ = time_ns;
    const Json header = {{"qlog_version", "0.4"},
                         {"qlog_format", "NDJSON"},
                         {"title", "urnic trace"},
                         {"trace",
                          {{"vantage_point", {{"type", vantage_point_}}},
                           {"common_fields",
                            {{"time_format", "relative_to_epoch"},
                             {"protocol_types", {"RDMA"}},
                             {"reference_time", {{"epoch_ns", fmt::format("{}", reference_ns_)}}}}}}}};
    out_ << text_of(header) << '\n';
}

void JsonLines::add(const Event& event) {
    begin(event.time_ns);
    const bool before = event.time_ns < reference_ns_;
    line_.clear();
    line_.raw("{\"time\":");
    line_.milliseconds(before ? reference_ns_ - event.time_ns : event.time_ns - reference_ns_, before);
    line_.raw(",\"name\":\"rdma:");
    line_.raw(event.name);
    line_.raw("\",\"group_id\":");
    line_.text(event.group);
    line_.raw(",\"data\":{");
    line_.members(event.data);
    line_.raw("}}\n");
    const std::string_view line = line_.view();
    out_.write(line.data(), static_cast<std::streamsize>(line.size()));
}

void JsonLines::add_message(const AcknowledgedMessage& message) {
    add({message.end_ns,
         message.group,
         "message_acknowledged",
         {{"opcode", message.name}, {"duration", Milliseconds{message.end_ns - message.begin_ns}}}});
}

void JsonLines::finish() {
    begin(0);
    out_.flush();
}

/// A double has no nanoseconds of the time since 1970.
double PerfettoJson::us_since_begin(std::uint64_t time_ns) {
    if (!reference_ns_) reference_ns_ = time_ns;
    const bool before = time_ns < *reference_ns_;
    const double distance = static_cast<double>(before ? *reference_ns_ - time_ns : time_ns - *reference_ns_);
    return (before ? -distance : distance) / kNsPerUs;
}

PerfettoJson::Track PerfettoJson::track_of(std::string_view name) {
    const std::string group(name);
    const auto found = tracks_.find(group);
    if (found != tracks_.end()) return found->second;
    const std::string process = group.substr(0, group.find('/'));
    const auto [at, is_new] = processes_.try_emplace(process, static_cast<int>(processes_.size()) + 1);
    if (is_new) {
        write({{"ph", "M"}, {"name", "process_name"}, {"pid", at->second}, {"args", {{"name", process}}}});
    }
    const Track track{at->second, static_cast<int>(tracks_.size()) + 1};
    write({{"ph", "M"},
           {"name", "thread_name"},
           {"pid", track.process},
           {"tid", track.thread},
           {"args", {{"name", group}}}});
    return tracks_.emplace(group, track).first->second;
}

void PerfettoJson::write(const Json& event) {
    out_ << (is_first_ ? "" : ",\n") << text_of(event);
    is_first_ = false;
}

void PerfettoJson::add(const Event& event) {
    const std::string group(event.group);
    const std::string name(event.name);
    const Json data = json_of(event.data);
    const Track track = track_of(group);
    const double time_us = us_since_begin(event.time_ns);
    if (name == "window_updated") {
        write({{"ph", "C"},
               {"name", "in flight " + group},
               {"pid", track.process},
               {"ts", time_us},
               {"args", {{"packets", data.at("packets_in_flight")}}}});
        return;
    }
    if (name == "rate_changed") {
        constexpr double kBitsPerMbit = 1e6;
        write({{"ph", "C"},
               {"name", "rate " + group},
               {"pid", track.process},
               {"ts", time_us},
               {"args", {{"Mbit/s", data.value("bits_per_s", 0.0) / kBitsPerMbit}}}});
    }
    if (name == "pfc_paused" || name == "pfc_resumed") {
        const auto priority = data.at("priority").get<int>();
        const auto direction = data.at("direction").get<std::string>();
        write({{"ph", name == "pfc_paused" ? "b" : "e"},
               {"cat", "pfc"},
               {"id", fmt::format("{} {} {}", group, direction, priority)},
               {"name", fmt::format("priority {} paused ({})", priority, direction)},
               {"pid", track.process},
               {"tid", track.thread},
               {"ts", time_us}});
        return;
    }
    const std::string opcode = data.value("opcode", "");
    write({{"ph", "i"},
           {"s", "t"},
           {"name", opcode.empty() ? name : name + " " + opcode},
           {"pid", track.process},
           {"tid", track.thread},
           {"ts", time_us},
           {"args", data}});
}

void PerfettoJson::add_message(const AcknowledgedMessage& message) {
    const Track track = track_of(message.group);
    const std::uint64_t begin_ns = message.fetched_ns.value_or(message.begin_ns);
    Json slice = {{"ph", "X"},
                  {"name", message.name},
                  {"pid", track.process},
                  {"tid", track.thread},
                  {"ts", us_since_begin(begin_ns)},
                  {"dur", static_cast<double>(message.end_ns - begin_ns) / kNsPerUs}};
    if (message.fetched_ns) {
        slice["args"] = {{"us_to_first_packet", static_cast<double>(message.begin_ns - begin_ns) / kNsPerUs}};
    }
    write(slice);
}

void PerfettoJson::finish() {
    out_ << "\n]}\n";
    out_.flush();
}

}  // namespace urnic::trace
