#include "observe/view/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "observe/view/diagnosis.h"
#include "observe/view/messages.h"
#include "observe/view/page_parts.h"

namespace urnic::view {

namespace {

constexpr const char* kSeverities[] = {"note", "warning", "error"};

/// Plain ASCII whatever the text is.
std::string quoted(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

/// A JSON string that is data between <script> tags, too.
std::string embedded(const std::string& text) {
    std::string made;
    for (const char letter : quoted(text)) {
        if (letter == '<' || letter == '>' || letter == '&') {
            made += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
        } else {
            made += letter;
        }
    }
    return made;
}

std::string plain(const std::string& text) {
    const std::string made = quoted(text);
    return made.substr(1, made.size() - 2);
}

/// "NAME":[...] with one word of each event or message.
template <typename One, typename Format>
void write_column(std::ostream& out, const char* name, const std::vector<One>& all, Format format) {
    fmt::memory_buffer text;
    fmt::format_to(std::back_inserter(text), ",\"{}\":[", name);
    bool is_first = true;
    for (const One& one : all) {
        if (!is_first) text.push_back(',');
        is_first = false;
        format(std::back_inserter(text), one);
    }
    text.push_back(']');
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

void write_findings(std::ostream& out, const std::vector<Finding>& findings) {
    out << ",\"findings\":[";
    const char* between = "";
    for (const Finding& finding : findings) {
        out << between
            << fmt::format(
                   "{{\"id\":\"{}\",\"severity\":\"{}\",\"sentence\":{},\"count\":{},\"evidence\":[{}]}}",
                   finding.id, kSeverities[static_cast<std::size_t>(finding.severity)],
                   embedded(finding.sentence), finding.count, fmt::join(finding.evidence, ","));
        between = ",";
    }
    out << ']';
}

/// JSON has no NaN.
void write_times(std::ostream& out, const char* name, const std::vector<Message>& messages,
                 double Message::*time_ms) {
    write_column(out, name, messages, [time_ms](auto to, const Message& message) {
        if (std::isnan(message.*time_ms)) {
            fmt::format_to(to, "null");
        } else {
            fmt::format_to(to, "{:.6f}", message.*time_ms);
        }
    });
}

void write_messages(std::ostream& out, const Messages& messages) {
    out << fmt::format(",\"messages\":{{\"has_wqes\":{}", messages.has_wqes);
    write_times(out, "fetched", messages.all, &Message::fetched_ms);
    write_times(out, "first", messages.all, &Message::first_ms);
    write_times(out, "last", messages.all, &Message::last_ms);
    write_times(out, "acknowledged", messages.all, &Message::acknowledged_ms);
    write_times(out, "completed", messages.all, &Message::completed_ms);
    write_column(out, "bytes", messages.all,
                 [](auto to, const Message& message) { fmt::format_to(to, "{:.6g}", message.bytes); });
    write_column(out, "opcode", messages.all,
                 [](auto to, const Message& message) { fmt::format_to(to, "{}", message.opcode); });
    write_column(out, "status", messages.all,
                 [](auto to, const Message& message) { fmt::format_to(to, "{}", message.status); });
    out << '}';
}

void write_connection(std::ostream& out, const EventLog& log, const Connection& connection) {
    const Connection* const peer = log.peer_of(connection);
    out << "{\"name\":" << embedded(connection.name)
        << fmt::format(",\"peer\":{},\"peer_qpn\":{}", peer != nullptr ? peer - log.connections().data() : -1,
                       connection.peer_qpn);
    // JSON has numbers as JavaScript has; six digits behind the point are nanoseconds.
    write_column(out, "time", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{:.6f}", event.time_ms); });
    write_column(out, "kind", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{}", static_cast<int>(event.kind)); });
    write_column(out, "side", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{}", static_cast<int>(event.side)); });
    write_column(out, "psn", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{}", event.psn); });
    write_column(out, "distance", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{}", event.psn_distance); });
    write_column(out, "value", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{:.6g}", event.value); });
    write_column(out, "text", connection.events,
                 [](auto to, const Event& event) { fmt::format_to(to, "{}", event.text); });
    write_messages(out, messages_of(connection));
    write_findings(out, diagnose(log, connection, peer));
    out << '}';
}

}  // namespace

void write_data(std::ostream& out, const EventLog& log, const std::string& source,
                const std::string& shortfall) {
    out << "{\"source\":" << embedded(source) << ",\"shortfall\":" << embedded(shortfall) << ",\"texts\":[";
    const char* between = "";
    for (const std::string& text : log.texts()) {
        out << between << embedded(text);
        between = ",";
    }
    out << "],\"connections\":[";
    between = "";
    for (const Connection& connection : log.connections()) {
        out << between;
        write_connection(out, log, connection);
        between = ",\n";
    }
    out << "]}";
}

void write_page(std::ostream& out, const EventLog& log, const std::string& source) {
    out << kPageBegin;
    write_data(out, log, source, log.shortfall());
    out << kPageEnd;
    out.flush();
}

void write_text(std::ostream& out, const EventLog& log) {
    for (const Connection& connection : log.connections()) {
        std::string peer;
        if (connection.peer_qpn >= 0) peer = fmt::format(" to QP {:#x}", connection.peer_qpn);
        out << fmt::format("{}{}: {} events\n", plain(connection.name), peer, connection.events.size());
        const std::vector<Finding> findings = diagnose(log, connection, log.peer_of(connection));
        if (findings.empty()) out << "  nothing unusual\n";
        for (const Finding& finding : findings) {
            out << fmt::format("  {:7} {}: {}", kSeverities[static_cast<std::size_t>(finding.severity)],
                               finding.id, plain(finding.sentence));
            if (!finding.evidence.empty()) {
                out << fmt::format(" First at {:.6f} ms.",
                                   connection.events[finding.evidence.front()].time_ms);
            }
            out << '\n';
        }
    }
    out.flush();
}

}  // namespace urnic::view
