// What a run says, as values: what the reports print, what a file of results holds, what `--resume` resumes
// from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "conform/live/judge.h"

namespace urnic::conform {

struct RunFacts {
    std::string label;  // what a matrix calls the device; empty: its name and address
    std::string peer;
    std::string port;
    std::map<std::string, std::string> device;  // as the agent says
    std::uint64_t seed = 0;
    std::string ended_by;  // why the run ended early; empty when it did not
    std::string profile;   // of the RNIC that the device is compared with; empty: none
};

struct CaseRecord {
    std::string suite;
    std::string name;
    std::string clause;
    std::string what;
    VerdictKind verdict = VerdictKind::kInconclusive;
    std::string reason;
    std::vector<Measurement> measurements;
    std::vector<std::string> packets;  // of the last attempt, a line each
    std::filesystem::path evidence;    // its frames as pcapng, an absolute path; empty: not written
    std::uint32_t attempts = 0;
    std::int64_t milliseconds = 0;
};

struct RunRecord {
    RunFacts facts;
    std::vector<CaseRecord> cases;
};

/// "Suite.Name"
[[nodiscard]] std::string record_name(const CaseRecord& record);
/// What the device is called in a report.
[[nodiscard]] std::string run_label(const RunFacts& facts);
[[nodiscard]] CaseRecord record_of(const CaseResult& result, const std::filesystem::path& evidence);
/// How many cases have each verdict.
[[nodiscard]] std::map<VerdictKind, std::size_t> count_verdicts(const std::vector<CaseRecord>& cases);

/// How the device's behaviour compares with the profile of the run, by kBehaviourNames.
struct ComparedBehaviours {
    std::vector<std::string_view> agreeing;
    std::vector<std::string_view> differing;
    std::vector<std::string_view> not_compared;  // the profile says something, and nothing showed it
};
[[nodiscard]] ComparedBehaviours compared_behaviours(const RunRecord& run);

/// From the root; of an empty one, as a file's is that is named without a folder, that of the working
/// directory.
[[nodiscard]] std::filesystem::path whole_path(const std::filesystem::path& folder);
/// JSON; evidence is named relative to the folder that the file is in.
[[nodiscard]] std::string to_json(const RunRecord& run, const std::filesystem::path& folder);
/// Throws SetupError: no such file, or not what to_json() writes.
[[nodiscard]] RunRecord read_run(const std::filesystem::path& path);

/// Replaces the file as a whole. Throws SetupError when it cannot be written.
void write_text(const std::filesystem::path& path, const std::string& text);

}  // namespace urnic::conform
