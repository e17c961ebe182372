// What a run says: on a terminal, as JSON and JUnit, and the frames of each case as pcapng.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "conform/live/judge.h"

namespace urnic::conform {

struct RunFacts {
    std::string peer;
    std::string port;
    std::map<std::string, std::string> device;  // as the agent says
    std::uint64_t seed = 0;
    std::string ended_by;  // why the run ended early; empty when it did not
};

[[nodiscard]] std::string json_report(const RunFacts& facts, const std::vector<CaseResult>& results);
[[nodiscard]] std::string junit_report(const RunFacts& facts, const std::vector<CaseResult>& results);
/// A block of lines for one case, in the manner of h2spec: a mark, the requirement, and what was seen when it
/// did not pass.
[[nodiscard]] std::string case_lines(const CaseResult& result);
[[nodiscard]] std::string summary_line(const std::vector<CaseResult>& results);
/// Throws SetupError when the file cannot be written.
void write_text(const std::filesystem::path& path, const std::string& text);
void write_pcapng(const std::filesystem::path& path, const CaseResult& result);

}  // namespace urnic::conform
