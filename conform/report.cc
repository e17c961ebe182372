#include "conform/report.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "os/setup_error.h"

namespace urnic::conform {

namespace {

constexpr double kNsPerSecond = 1e9;

std::array<std::size_t, kVerdictKinds> count(const std::vector<CaseResult>& results) {
    std::array<std::size_t, kVerdictKinds> counts{};
    for (const CaseResult& result : results) {
        ++counts[static_cast<std::size_t>(result.verdict)];
    }
    return counts;
}

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

class PcapngWriter {
  public:
    explicit PcapngWriter(const std::filesystem::path& path) : file_(path, std::ios::binary) {
        // Section header: byte-order magic, version 1.0, length unknown.
        block(0x0a0d0d0a, {0x1a2b3c4d, 1, 0xffffffff, 0xffffffff}, {});
        // Interface: Ethernet, no snap length, if_tsresol 9 (nanoseconds), end of options.
        block(1, {1, 0, 9U | 1U << 16U, 9, 0}, {});
    }
    void frame(const TracedFrame& frame) {
        const auto length = static_cast<std::uint32_t>(frame.bytes.size());
        std::vector<char> data(frame.bytes.size() + (4 - frame.bytes.size() % 4) % 4);
        std::transform(frame.bytes.begin(), frame.bytes.end(), data.begin(),
                       [](std::byte byte) { return static_cast<char>(byte); });
        block(6,
              {0, static_cast<std::uint32_t>(frame.time >> 32U), static_cast<std::uint32_t>(frame.time),
               length, length},
              data);
    }
    [[nodiscard]] bool is_good() const { return file_.good(); }

  private:
    void word(std::uint32_t value) {
        for (int i = 0; i < 4; ++i) {
            file_.put(static_cast<char>(value >> (8 * i)));
        }
    }
    void block(std::uint32_t type, const std::vector<std::uint32_t>& words, const std::vector<char>& data) {
        const auto length = static_cast<std::uint32_t>(12 + 4 * words.size() + data.size());
        word(type);
        word(length);
        for (const std::uint32_t value : words) {
            word(value);
        }
        file_.write(data.data(), static_cast<std::streamsize>(data.size()));
        word(length);
    }

    std::ofstream file_;
};

}  // namespace

std::string json_report(const RunFacts& facts, const std::vector<CaseResult>& results) {
    JsonWriter json;
    json.object("", [&] {
        json.value("format", 1);
        json.value("peer", facts.peer);
        json.value("port", facts.port);
        json.value("seed", facts.seed);
        json.value("ended_by", facts.ended_by);
        json.object("device", [&] {
            for (const auto& [name, value] : facts.device) {
                json.value(name, value);
            }
        });
        const auto counts = count(results);
        json.object("counts", [&] {
            for (std::size_t i = 0; i < kVerdictKinds; ++i) {
                json.value(verdict_name(static_cast<VerdictKind>(i)), counts[i]);
            }
        });
        json.array("cases", [&] {
            for (const CaseResult& result : results) {
                json.object("", [&] {
                    json.value("name", case_name(*result.entry));
                    json.value("clause", result.entry->clause);
                    json.value("requirement", result.entry->what);
                    json.value("verdict", verdict_name(result.verdict));
                    json.value("reason", result.reason);
                    json.value("attempts", result.attempts);
                    json.value("milliseconds", result.took_ns / 1'000'000);
                });
            }
        });
    });
    return json.take();
}

std::string junit_report(const RunFacts& facts, const std::vector<CaseResult>& results) {
    const auto counts = count(results);
    const auto of = [&](VerdictKind kind) { return counts[static_cast<std::size_t>(kind)]; };
    std::string text = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"urnic conform {}\" tests=\"{}\" "
        "failures=\"{}\" "
        "errors=\"{}\" skipped=\"{}\">\n",
        xml(facts.peer), results.size(), of(VerdictKind::kFailed), of(VerdictKind::kInconclusive),
        of(VerdictKind::kNotApplicable));
    for (const CaseResult& result : results) {
        text += fmt::format("<testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">", result.entry->suite,
                            result.entry->name, static_cast<double>(result.took_ns) / kNsPerSecond);
        const std::string reason = xml(result.reason);
        const std::string what = xml(fmt::format("IBA {}: {}", result.entry->clause, result.entry->what));
        switch (result.verdict) {
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
                text += fmt::format("<system-out>{}: {}</system-out>", verdict_name(result.verdict), reason);
        }
        text += "</testcase>\n";
    }
    return text + "</testsuite>\n";
}

std::string case_lines(const CaseResult& result) {
    constexpr std::string_view kMarks[kVerdictKinds] = {"✔", "×", "~", "i", "-", "?"};
    std::string text = fmt::format("  {} {} {} ({}): {}\n", kMarks[static_cast<std::size_t>(result.verdict)],
                                   result.entry->clause, result.entry->name, verdict_name(result.verdict),
                                   result.entry->what);
    if (result.verdict == VerdictKind::kPassed) {
        return text;
    }
    std::size_t at = 0;
    while (at < result.reason.size()) {
        const std::size_t end = std::min(result.reason.find('\n', at), result.reason.size());
        text += "      " + result.reason.substr(at, end - at) + "\n";
        at = end + 1;
    }
    return text;
}

std::string summary_line(const std::vector<CaseResult>& results) {
    const auto counts = count(results);
    std::string text = fmt::format("{} cases", results.size());
    for (std::size_t i = 0; i < kVerdictKinds; ++i) {
        text += fmt::format(", {} {}", counts[i], verdict_name(static_cast<VerdictKind>(i)));
    }
    return text + "\n";
}

void write_text(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
        throw SetupError("cannot write " + path.string());
    }
}

void write_pcapng(const std::filesystem::path& path, const CaseResult& result) {
    PcapngWriter writer(path);
    for (const TracedFrame& frame : result.trace) {
        writer.frame(frame);
    }
    if (!writer.is_good()) {
        throw SetupError("cannot write " + path.string());
    }
}

}  // namespace urnic::conform
