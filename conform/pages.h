// Results as pages for people: one run, or several side by side.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "conform/record.h"

namespace urnic::conform {

/// A page that needs no other file: verdicts, what was seen, packets. `folder`: where the page is to be, so
/// that it can name the files of evidence.
[[nodiscard]] std::string html_report(const RunRecord& run, const std::filesystem::path& folder);
/// Cases by devices, each cell a link to what was seen.
[[nodiscard]] std::string html_matrix(const std::vector<RunRecord>& runs,
                                      const std::filesystem::path& folder);

/// The same as Markdown, for documents: `evidence_page` is the name of the page that markdown_evidence()
/// makes.
[[nodiscard]] std::string markdown_matrix(const std::vector<RunRecord>& runs,
                                          const std::string& evidence_page);
/// What was seen in each case that did not pass.
[[nodiscard]] std::string markdown_evidence(const std::vector<RunRecord>& runs);

/// `urnic conform matrix ...`; the exit status.
[[nodiscard]] int matrix_command(int argc, char** argv);

}  // namespace urnic::conform
