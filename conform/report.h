// What a run says: on a terminal, as JUnit, and the frames of each case as pcapng.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "conform/record.h"

namespace urnic::conform {

/// XML's and HTML's special characters as entities; no control characters.
[[nodiscard]] std::string xml(std::string_view text);
/// Where the requirement stands: a clause of the IBA specification, or an RFC.
[[nodiscard]] std::string clause_text(const CaseRecord& record);
[[nodiscard]] std::string junit_report(const RunRecord& run);
/// Why it did not pass, and what was measured.
[[nodiscard]] std::string seen_text(const CaseRecord& record);
/// One character for a verdict.
[[nodiscard]] std::string_view verdict_mark(VerdictKind kind);
/// A block of lines for one case, in the manner of h2spec: a mark, the requirement, and what was seen when it
/// did not pass.
[[nodiscard]] std::string case_lines(const CaseRecord& record);
/// How the device stands to the profile of the run, and a line's end; empty without one.
[[nodiscard]] std::string profile_line(const RunRecord& run);
[[nodiscard]] std::string summary_line(const std::vector<CaseRecord>& cases);
/// Throws SetupError when the file cannot be written.
void write_pcapng(const std::filesystem::path& path, const std::vector<TracedFrame>& trace);

}  // namespace urnic::conform
