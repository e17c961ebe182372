// `urnic conform matrix`: several runs side by side, as HTML or Markdown.
#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "conform/pages.h"
#include "conform/report.h"
#include "conform/rows.h"
#include "os/command_line.h"
#include "os/setup_error.h"

namespace urnic::conform {

namespace {

constexpr int kExitWrong = 2;
constexpr std::size_t kMostLines = 14;

// In a cell of a table.
std::string cell(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '|' || c == '\\' || c == '<') {
            escaped += '\\';
        }
        escaped += c == '\n' ? ' ' : c;
    }
    return escaped;
}

std::string anchor(const CaseRecord& record) { return record_name(record); }

// As GitHub makes it from a heading.
std::string slug(const std::string& heading) {
    std::string text;
    for (const char c : heading) {
        if (c >= 'A' && c <= 'Z') {
            text += static_cast<char>(c - 'A' + 'a');
        } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
            text += c;
        }
    }
    return text;
}

bool has_evidence(const CaseRecord& record) { return record.verdict != VerdictKind::kPassed; }

// The layers below the BTH, which cases do not compare, are left out.
std::string first_lines(const std::string& text) {
    std::string shown;
    std::size_t at = 0;
    bool is_below = false;
    for (std::size_t i = 0; i < kMostLines && at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        const std::size_t begin = line.find_first_not_of(' ');
        const std::string word = begin == std::string::npos ? std::string{} : line.substr(begin);
        is_below = word == "Ethernet" || (is_below && word != "BTH");
        if (!is_below) {
            shown += line + "\n";
            ++i;
        }
        at = end + 1;
    }
    return at < text.size() ? shown + "...\n" : shown;
}

std::string fact(const RunFacts& facts, const char* name) {
    const auto found = facts.device.find(name);
    return found == facts.device.end() ? std::string("-") : found->second;
}

std::string device_table(const std::vector<RunRecord>& runs) {
    std::string text = "| device |";
    std::string line = "|---|";
    for (std::size_t i = 0; i < kVerdictKinds; ++i) {
        text += fmt::format(" {} |", verdict_name(static_cast<VerdictKind>(i)));
        line += "---|";
    }
    const bool has_profiles = std::any_of(runs.begin(), runs.end(),
                                          [](const RunRecord& run) { return !run.facts.profile.empty(); });
    text += " early packets | path MTU | firmware |" + std::string(has_profiles ? " beside a profile |" : "");
    text += "\n" + line + "---|---|---|" + (has_profiles ? "---|\n" : "\n");
    for (const RunRecord& run : runs) {
        text += fmt::format("| {} |", cell(run_label(run.facts)));
        for (const auto& [kind, number] : count_verdicts(run.cases)) {
            text += fmt::format(" {} |", number);
        }
        text += fmt::format(" {} | {} | {} |", cell(fact(run.facts, "early_packets")),
                            cell(fact(run.facts, "mtu")), cell(fact(run.facts, "firmware")));
        if (has_profiles) {
            const std::string compared = profile_line(run);
            text += compared.empty() ? " |" : " " + cell(compared.substr(0, compared.size() - 1)) + " |";
        }
        text += "\n";
    }
    return text;
}

int make(const std::vector<std::string>& files, const std::string& html, const std::string& markdown,
         const std::string& evidence) {
    std::vector<RunRecord> runs;
    runs.reserve(files.size());
    for (const std::string& file : files) {
        runs.push_back(read_run(file));
    }
    if (!html.empty()) {
        write_text(html, html_matrix(runs, std::filesystem::path(html).parent_path()));
    }
    if (!markdown.empty()) {
        write_text(markdown, markdown_matrix(runs, std::filesystem::path(evidence).filename().string()));
        write_text(evidence, markdown_evidence(runs));
    }
    for (const RunRecord& run : runs) {
        std::printf("%s: %s%s", run_label(run.facts).c_str(), summary_line(run.cases).c_str(),
                    profile_line(run).c_str());
    }
    return 0;
}

}  // namespace

std::vector<MatrixRow> matrix_rows(const std::vector<RunRecord>& runs) {
    std::vector<MatrixRow> rows;
    std::map<std::string, std::size_t> at;
    for (std::size_t column = 0; column < runs.size(); ++column) {
        for (const CaseRecord& record : runs[column].cases) {
            const auto [found, is_new] = at.emplace(record_name(record), rows.size());
            if (is_new) {
                rows.push_back({std::vector<const CaseRecord*>(runs.size(), nullptr)});
            }
            rows[found->second].cells[column] = &record;
        }
    }
    return rows;
}

std::string markdown_matrix(const std::vector<RunRecord>& runs, const std::string& evidence_page) {
    std::string text = device_table(runs) + "\n| clause | case | requirement |";
    std::string line = "|---|---|---|";
    for (const RunRecord& run : runs) {
        text += fmt::format(" {} |", cell(run_label(run.facts)));
        line += "---|";
    }
    text += "\n" + line + "\n";
    for (const MatrixRow& row : matrix_rows(runs)) {
        text += fmt::format("| {} | `{}` | {} |", cell(row.any().clause), record_name(row.any()),
                            cell(row.any().what));
        for (const CaseRecord* record : row.cells) {
            if (record == nullptr) {
                text += " |";
            } else if (has_evidence(*record)) {
                text += fmt::format(" [{}]({}#{}) |", verdict_name(record->verdict), evidence_page,
                                    slug(anchor(*record)));
            } else {
                text += fmt::format(" {} |", verdict_name(record->verdict));
            }
        }
        text += "\n";
    }
    return text;
}

std::string markdown_evidence(const std::vector<RunRecord>& runs) {
    std::string text;
    for (const MatrixRow& row : matrix_rows(runs)) {
        std::string seen;
        for (std::size_t i = 0; i < row.cells.size(); ++i) {
            const CaseRecord* record = row.cells[i];
            if (record == nullptr || !has_evidence(*record)) {
                continue;
            }
            seen += fmt::format("\n{}: {}\n", run_label(runs[i].facts), verdict_name(record->verdict));
            if (const std::string lines = first_lines(seen_text(*record)); !lines.empty()) {
                seen += "```\n" + lines + "```\n";
            }
        }
        if (!seen.empty()) {
            text += fmt::format("### {}\n\n{}: {}\n{}\n", anchor(row.any()), row.any().clause, row.any().what,
                                seen);
        }
    }
    return text;
}

int matrix_command(int argc, char** argv) {
    std::vector<std::string> files;
    std::string html;
    std::string markdown;
    std::string evidence;
    CommandLine app{"urnic conform matrix: cases by devices, from what several runs wrote with --json",
                    "urnic conform matrix"};
    app.option("RESULT.json", files, "results of runs, a device each");
    app.option("--html", html, "write one self-contained page").type_name("FILE");
    const CommandLineOption table =
        app.option("--markdown", markdown, "write the table as Markdown").type_name("FILE");
    const CommandLineOption page =
        app.option("--markdown-evidence", evidence, "and here what was seen, which the table links to")
            .type_name("FILE");
    (void)table.needs(page);
    (void)page.needs(table);
    if (const auto ended = app.parse(argc, argv)) {
        return *ended == 0 ? 0 : kExitWrong;
    }
    if (files.empty() || (html.empty() && markdown.empty())) {
        (void)app.refuse_without("RESULT.json and --html or --markdown");
        return kExitWrong;
    }
    return make(files, html, markdown, evidence);
}

}  // namespace urnic::conform
