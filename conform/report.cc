#include "conform/report.h"

#include <algorithm>
#include <cstdint>
#include <fstream>

#include <fmt/format.h>

#include "base/pcapng.h"
#include "os/setup_error.h"

namespace urnic::conform {

namespace {

constexpr double kMsPerSecond = 1e3;

std::string listed(const char* head, const std::vector<std::string_view>& names) {
    std::string text;
    for (const std::string_view name : names) {
        text += (text.empty() ? head : ", ") + std::string(name);
    }
    return text;
}

}  // namespace

std::string xml(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        switch (c) {
            case '&':
                escaped += "&amp;";
                break;
            case '<':
                escaped += "&lt;";
                break;
            case '>':
                escaped += "&gt;";
                break;
            case '"':
                escaped += "&quot;";
                break;
            default:
                escaped += byte < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
        }
    }
    return escaped;
}

std::string clause_text(const CaseRecord& record) {
    return record.clause.starts_with("RFC ") ? record.clause : "IBA " + record.clause;
}

std::string junit_report(const RunRecord& run) {
    auto counts = count_verdicts(run.cases);
    std::string text = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"urnic conform {}\" tests=\"{}\" "
        "failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
        xml(run_label(run.facts)), run.cases.size(), counts[VerdictKind::kFailed],
        counts[VerdictKind::kInconclusive], counts[VerdictKind::kNotApplicable]);
    if (const std::string line = profile_line(run); !line.empty()) {
        text += fmt::format("<properties><property name=\"profile\" value=\"{}\"/></properties>\n",
                            xml(line.substr(0, line.size() - 1)));
    }
    for (const CaseRecord& record : run.cases) {
        text += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">", record.suite,
                            record.name, static_cast<double>(record.milliseconds) / kMsPerSecond);
        const std::string reason = xml(record.reason);
        const std::string what = xml(fmt::format("{}: {}", clause_text(record), record.what));
        switch (record.verdict) {
            case VerdictKind::kFailed:
                text += fmt::format("<failure message=\"{}\">{}</failure>", what, reason);
                break;
            case VerdictKind::kInconclusive:
                text += fmt::format("<error message=\"{}\">{}</error>", what, reason);
                break;
            case VerdictKind::kNotApplicable:
                text += fmt::format("<skipped message=\"{}\"/>", reason);
                break;
            case VerdictKind::kPassed:
                break;
            default:
                text += fmt::format("<system-out>{}: {}</system-out>", verdict_name(record.verdict),
                                    xml(seen_text(record)));
        }
        text += "</testcase>\n";
    }
    return text + "</testsuite>\n";
}

std::string seen_text(const CaseRecord& record) {
    std::string text = record.reason;
    for (const Measurement& measurement : record.measurements) {
        text += (text.empty() ? "" : "\n") + measurement.what + ": " + measurement.value;
        text += measurement.comparison ? " (" + measurement.comparison->text + ")" : "";
    }
    return text;
}

std::string_view verdict_mark(VerdictKind kind) {
    constexpr std::string_view kMarks[kVerdictKinds] = {"✔", "×", "~", "i", "-", "?"};
    return kMarks[static_cast<std::size_t>(kind)];
}

std::string case_lines(const CaseRecord& record) {
    std::string text = fmt::format("  {} {} {} ({}): {}\n", verdict_mark(record.verdict), record.clause,
                                   record.name, verdict_name(record.verdict), record.what);
    const std::string seen = seen_text(record);
    std::size_t at = 0;
    while (at < seen.size()) {
        const std::size_t end = std::min(seen.find('\n', at), seen.size());
        text += "      " + seen.substr(at, end - at) + "\n";
        at = end + 1;
    }
    return text;
}

std::string profile_line(const RunRecord& run) {
    if (run.facts.profile.empty()) {
        return {};
    }
    const ComparedBehaviours compared = compared_behaviours(run);
    return fmt::format("profile {}: agrees in {}, differs in {}{}{}\n", run.facts.profile,
                       compared.agreeing.size(), compared.differing.size(), listed(": ", compared.differing),
                       listed("; not compared: ", compared.not_compared));
}

std::string summary_line(const std::vector<CaseRecord>& cases) {
    std::string text = fmt::format("{} cases", cases.size());
    for (const auto& [kind, number] : count_verdicts(cases)) {
        text += fmt::format(", {} {}", number, verdict_name(kind));
    }
    return text + "\n";
}

void write_pcapng(const std::filesystem::path& path, const std::vector<TracedFrame>& trace) {
    std::ofstream file(path, std::ios::binary);
    file << pcapng_section("urnic conform") << pcapng_interface({});
    for (const TracedFrame& frame : trace) {
        PcapngPacket packet;
        packet.time_ns = frame.time;
        packet.wire_bytes = static_cast<std::uint32_t>(frame.bytes.size());
        packet.bytes = frame.bytes;
        packet.direction = frame.is_ours ? PcapngDirection::kOutbound : PcapngDirection::kInbound;
        file << pcapng_packet(packet);
    }
    if (!file.good()) {
        throw SetupError("cannot write " + path.string());
    }
}

}  // namespace urnic::conform
