#include "conform/record.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "conform/live/compare.h"
#include "os/setup_error.h"

namespace urnic::conform {

namespace {

constexpr int kFormat = 2;
constexpr std::size_t kMostPackets = 80;
constexpr double kNsPerUs = 1e3;

std::vector<std::string> packet_lines(const std::vector<TracedFrame>& trace) {
    std::vector<std::string> lines;
    const std::size_t shown = std::min(trace.size(), kMostPackets);
    for (std::size_t i = 0; i < shown; ++i) {
        const double at_us = static_cast<double>(trace[i].time - trace.front().time) / kNsPerUs;
        lines.push_back(fmt::format("{:>12.1f} us  {} {}", at_us, trace[i].is_ours ? "tester" : "device",
                                    frame_line(trace[i].bytes)));
    }
    if (shown != trace.size()) {
        lines.push_back(fmt::format("... and {} more", trace.size() - shown));
    }
    return lines;
}

std::optional<VerdictKind> verdict_of(const std::string& name) {
    for (std::size_t i = 0; i < kVerdictKinds; ++i) {
        if (verdict_name(static_cast<VerdictKind>(i)) == name) {
            return static_cast<VerdictKind>(i);
        }
    }
    return {};
}

Measurement measurement_from(const nlohmann::json& json) {
    Measurement measurement{json.at("what"), json.at("value"), {}, {}};
    if (!json.contains("behaviour")) {
        return measurement;
    }
    const std::string name = json.at("behaviour");
    const auto* const found = std::find(kBehaviourNames.begin(), kBehaviourNames.end(), name);
    if (found == kBehaviourNames.end()) {
        throw SetupError("a measurement shows '" + name + "', which no device has a choice of");
    }
    measurement.shown = ShownBehaviour{static_cast<DeviceBehaviour>(found - kBehaviourNames.begin()),
                                       json.at("shown").get<std::uint64_t>()};
    if (json.contains("profile")) {
        measurement.comparison = Comparison{json.at("agrees"), json.at("profile")};
    }
    return measurement;
}

CaseRecord case_from(const nlohmann::json& json, const std::filesystem::path& folder) {
    CaseRecord record;
    const std::string name = json.at("name");
    const std::size_t dot = name.find('.');
    const std::optional<VerdictKind> verdict = verdict_of(json.at("verdict"));
    if (dot == std::string::npos || !verdict) {
        throw SetupError("a case has no suite, or a verdict that is none");
    }
    record.suite = name.substr(0, dot);
    record.name = name.substr(dot + 1);
    record.clause = json.at("clause");
    record.what = json.at("requirement");
    record.verdict = *verdict;
    record.reason = json.at("reason");
    for (const auto& entry : json.at("measurements")) {
        record.measurements.push_back(measurement_from(entry));
    }
    record.packets = json.at("packets").get<std::vector<std::string>>();
    const std::string evidence = json.at("evidence");
    if (!evidence.empty()) {
        record.evidence = (folder / evidence).lexically_normal();
    }
    record.attempts = json.at("attempts");
    record.milliseconds = json.at("milliseconds");
    return record;
}

RunRecord run_from(const nlohmann::json& json, const std::filesystem::path& folder) {
    if (json.at("format") != kFormat) {
        throw SetupError("its format is not " + std::to_string(kFormat) +
                         "; it is of another release of urnic conform");
    }
    RunRecord run;
    run.facts.label = json.at("label");
    run.facts.peer = json.at("peer");
    run.facts.port = json.at("port");
    run.facts.seed = json.at("seed");
    run.facts.ended_by = json.at("ended_by");
    run.facts.device = json.at("device").get<std::map<std::string, std::string>>();
    if (json.contains("profile")) {
        run.facts.profile = json.at("profile").at("name");
    }
    for (const auto& entry : json.at("cases")) {
        run.cases.push_back(case_from(entry, folder));
    }
    return run;
}

void measurement_json(JsonWriter& json, const Measurement& measurement) {
    json.value("what", measurement.what);
    json.value("value", measurement.value);
    if (measurement.shown) {
        json.value("behaviour", behaviour_name(measurement.shown->behaviour));
        json.value("shown", measurement.shown->value);
    }
    if (measurement.comparison) {
        json.value("agrees", measurement.comparison->agrees);
        json.value("profile", measurement.comparison->text);
    }
}

void profile_json(JsonWriter& json, const RunRecord& run) {
    const ComparedBehaviours compared = compared_behaviours(run);
    const auto list = [&json](const char* name, const std::vector<std::string_view>& names) {
        json.array(name, [&] {
            for (const std::string_view behaviour : names) {
                json.value("", behaviour);
            }
        });
    };
    json.value("name", run.facts.profile);
    list("agrees", compared.agreeing);
    list("differs", compared.differing);
    list("not_compared", compared.not_compared);
}

void case_json(JsonWriter& json, const CaseRecord& record, const std::filesystem::path& folder) {
    json.value("name", record_name(record));
    json.value("clause", record.clause);
    json.value("requirement", record.what);
    json.value("verdict", verdict_name(record.verdict));
    json.value("reason", record.reason);
    json.array("measurements", [&] {
        for (const Measurement& measurement : record.measurements) {
            json.object("", [&] { measurement_json(json, measurement); });
        }
    });
    json.value("attempts", record.attempts);
    json.value("milliseconds", record.milliseconds);
    json.value("evidence",
               record.evidence.empty() ? std::string{} : record.evidence.lexically_relative(folder).string());
    json.array("packets", [&] {
        for (const std::string& line : record.packets) {
            json.value("", line);
        }
    });
}

}  // namespace

std::string record_name(const CaseRecord& record) { return record.suite + "." + record.name; }

std::string run_label(const RunFacts& facts) {
    if (!facts.label.empty()) {
        return facts.label;
    }
    const auto name = facts.device.find("name");
    return (name == facts.device.end() ? std::string("device") : name->second) + " at " + facts.peer;
}

CaseRecord record_of(const CaseResult& result, const std::filesystem::path& evidence) {
    constexpr TimeNs kNsPerMs = 1'000'000;
    return {.suite = result.entry->suite,
            .name = result.entry->name,
            .clause = result.entry->clause,
            .what = result.entry->what,
            .verdict = result.verdict,
            .reason = result.reason,
            .measurements = result.measurements,
            .packets = packet_lines(result.trace),
            .evidence = evidence.empty() ? evidence : std::filesystem::absolute(evidence).lexically_normal(),
            .attempts = result.attempts,
            .milliseconds = static_cast<std::int64_t>(result.took_ns / kNsPerMs)};
}

std::map<VerdictKind, std::size_t> count_verdicts(const std::vector<CaseRecord>& cases) {
    std::map<VerdictKind, std::size_t> counts;
    for (std::size_t i = 0; i < kVerdictKinds; ++i) {
        counts[static_cast<VerdictKind>(i)] = 0;
    }
    for (const CaseRecord& record : cases) {
        ++counts[record.verdict];
    }
    return counts;
}

ComparedBehaviours compared_behaviours(const RunRecord& run) {
    ComparedBehaviours compared;
    std::array<const Comparison*, kBehaviours> comparisons{};
    for (const CaseRecord& record : run.cases) {
        for (const Measurement& measurement : record.measurements) {
            if (measurement.shown && measurement.comparison) {
                comparisons[static_cast<std::size_t>(measurement.shown->behaviour)] =
                    &*measurement.comparison;
            }
        }
    }
    const RnicProfile* const profile = find_rnic_profile(run.facts.profile);
    for (std::size_t i = 0; i < kBehaviours; ++i) {
        const Comparison* const comparison = comparisons[i];
        if (comparison != nullptr) {
            (comparison->agrees ? compared.agreeing : compared.differing).push_back(kBehaviourNames[i]);
        } else if (profile != nullptr && behaviour_of(*profile, static_cast<DeviceBehaviour>(i))) {
            compared.not_compared.push_back(kBehaviourNames[i]);
        }
    }
    return compared;
}

std::filesystem::path whole_path(const std::filesystem::path& folder) {
    return std::filesystem::absolute(folder.empty() ? "." : folder).lexically_normal();
}

std::string to_json(const RunRecord& run, const std::filesystem::path& folder) {
    const std::filesystem::path whole = whole_path(folder);
    JsonWriter json;
    json.object("", [&] {
        json.value("format", kFormat);
        json.value("label", run.facts.label);
        json.value("peer", run.facts.peer);
        json.value("port", run.facts.port);
        json.value("seed", run.facts.seed);
        json.value("ended_by", run.facts.ended_by);
        json.object("device", [&] {
            for (const auto& [name, value] : run.facts.device) {
                json.value(name, value);
            }
        });
        if (!run.facts.profile.empty()) {
            json.object("profile", [&] { profile_json(json, run); });
        }
        json.object("counts", [&] {
            for (const auto& [kind, number] : count_verdicts(run.cases)) {
                json.value(verdict_name(kind), number);
            }
        });
        json.array("cases", [&] {
            for (const CaseRecord& record : run.cases) {
                json.object("", [&] { case_json(json, record, whole); });
            }
        });
    });
    return json.take();
}

RunRecord read_run(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
        throw SetupError("cannot read " + path.string() + "; is it what --json wrote?");
    }
    try {
        return run_from(nlohmann::json::parse(text.str()),
                        std::filesystem::absolute(path).lexically_normal().parent_path());
    } catch (const SetupError& error) {
        throw SetupError(path.string() + ": " + error.what());
    } catch (const nlohmann::json::exception& error) {
        throw SetupError(path.string() + " is no file of results of `urnic conform --json`: " + error.what());
    }
}

void write_text(const std::filesystem::path& path, const std::string& text) {
    const std::filesystem::path part = path.string() + ".part";
    std::ofstream file(part, std::ios::binary);
    file << text;
    file.close();
    std::error_code error;
    if (file) {
        std::filesystem::rename(part, path, error);
    }
    if (!file || error) {
        throw SetupError("cannot write " + path.string() +
                         "; does its folder exist, and may you write there?");
    }
}

}  // namespace urnic::conform
