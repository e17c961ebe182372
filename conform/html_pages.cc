#include <algorithm>

#include <fmt/format.h>

#include "conform/pages.h"
#include "conform/report.h"
#include "conform/rows.h"

namespace urnic::conform {

namespace {

constexpr std::string_view kStyle = R"(<style>
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.4em}h2{font-size:1.1em;margin:1.5em 0 .3em}table{border-collapse:collapse}
td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left;vertical-align:top}
pre{background:#f5f5f5;padding:.6em;overflow-x:auto;font-size:12px}summary{cursor:pointer}
.passed{color:#17692b}.failed{color:#b00020;font-weight:bold}.not-strict{color:#8a5a00}.informational{color:#1b4f9c}
.not-applicable{color:#777}.inconclusive{color:#7a2a8a}a{color:inherit}
details:target{outline:2px solid #1b4f9c}
</style>)";

std::string css_class(VerdictKind kind) {
    std::string name(verdict_name(kind));
    std::replace(name.begin(), name.end(), ' ', '-');
    return name;
}

std::string head(const std::string& title) {
    return fmt::format(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\n{1}</head>"
        "<body>\n<h1>{0}</h1>\n",
        xml(title), kStyle);
}

std::string facts_table(const RunFacts& facts) {
    std::string text = "<table>\n";
    const auto row = [&](const std::string& name, const std::string& value) {
        text += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", xml(name), xml(value));
    };
    row("peer", facts.peer);
    row("port", facts.port);
    row("seed", std::to_string(facts.seed));
    for (const auto& [name, value] : facts.device) {
        row(name, value);
    }
    if (!facts.profile.empty()) {
        row("compared with profile", facts.profile);
    }
    if (!facts.ended_by.empty()) {
        row("ended early by", facts.ended_by);
    }
    return text + "</table>\n";
}

std::string counts_line(const RunRecord& run) {
    std::string text = fmt::format("<p>{} cases", run.cases.size());
    for (const auto& [kind, number] : count_verdicts(run.cases)) {
        text += fmt::format(", <span class=\"{}\">{} {}</span>", css_class(kind), number, verdict_name(kind));
    }
    const std::string line = profile_line(run);
    return text + ".</p>\n" + (line.empty() ? "" : "<p>" + xml(line) + "</p>\n");
}

std::string block(const std::string& text) { return text.empty() ? "" : "<pre>" + xml(text) + "</pre>\n"; }

std::string details(const CaseRecord& record, const std::string& id, const std::filesystem::path& folder) {
    std::string text = fmt::format(
        "<details id=\"{}\"><summary><span class=\"{}\">{} {}</span> {} <b>{}</b>: {}</summary>\n", xml(id),
        css_class(record.verdict), verdict_mark(record.verdict), verdict_name(record.verdict),
        xml(record.clause), xml(record_name(record)), xml(record.what));
    text += fmt::format("<p>{}; attempts: {}; {:.3f} s", xml(clause_text(record)), record.attempts,
                        static_cast<double>(record.milliseconds) / 1e3);
    if (!record.evidence.empty()) {
        const std::string path = record.evidence.lexically_relative(folder).string();
        text += fmt::format("; <a href=\"{}\">frames (pcapng)</a>", xml(path));
    }
    text += "</p>\n" + block(seen_text(record));
    std::string packets;
    for (const std::string& line : record.packets) {
        packets += line + "\n";
    }
    return text + block(packets) + "</details>\n";
}

}  // namespace

std::string html_report(const RunRecord& run, const std::filesystem::path& folder) {
    const std::filesystem::path whole = whole_path(folder);
    std::string text = head("urnic conform: " + run_label(run.facts));
    text += facts_table(run.facts) + counts_line(run);
    std::string suite;
    for (const CaseRecord& record : run.cases) {
        if (suite != record.suite) {
            suite = record.suite;
            text += fmt::format("<h2>{}</h2>\n", xml(suite));
        }
        text += details(record, record_name(record), whole);
    }
    return text + "</body></html>\n";
}

std::string html_matrix(const std::vector<RunRecord>& runs, const std::filesystem::path& folder) {
    const std::filesystem::path whole = whole_path(folder);
    std::string text = head("urnic conform: cases by devices");
    text += "<table>\n<tr><th>clause</th><th>case</th>";
    for (const RunRecord& run : runs) {
        text += fmt::format("<th>{}</th>", xml(run_label(run.facts)));
    }
    text += "</tr>\n";
    const auto id = [](std::size_t column, const CaseRecord& record) {
        return fmt::format("d{}-{}", column, record_name(record));
    };
    std::string evidence;
    for (const MatrixRow& row : matrix_rows(runs)) {
        const CaseRecord& any = row.any();
        text += fmt::format("<tr><td>{}</td><td title=\"{}\">{}</td>", xml(any.clause), xml(any.what),
                            xml(record_name(any)));
        evidence += fmt::format("<h2>{}</h2>\n", xml(record_name(any)));
        for (std::size_t i = 0; i < row.cells.size(); ++i) {
            const CaseRecord* record = row.cells[i];
            if (record == nullptr) {
                text += "<td></td>";
                continue;
            }
            text += fmt::format("<td><a class=\"{}\" href=\"#{}\">{} {}</a></td>", css_class(record->verdict),
                                xml(id(i, *record)), verdict_mark(record->verdict),
                                verdict_name(record->verdict));
            evidence += fmt::format("<p>{}</p>\n", xml(run_label(runs[i].facts))) +
                        details(*record, id(i, *record), whole);
        }
        text += "</tr>\n";
    }
    text += "</table>\n";
    for (const RunRecord& run : runs) {
        text += fmt::format("<h2>{}</h2>\n", xml(run_label(run.facts))) + facts_table(run.facts) +
                counts_line(run);
    }
    return text + evidence + "</body></html>\n";
}

}  // namespace urnic::conform
