#include "observe/view/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "observe/view/diagnosis.h"
#include "observe/view/messages.h"
#include "observe/view/network_diagnosis.h"
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

void write_port(std::ostream& out, const Port& port, const PortFacts& facts) {
    out << "{\"name\":" << embedded(port.name)
        << fmt::format(
               ",\"is_host\":{},\"bits_per_s\":{:.6g},\"mean\":{:.6g},\"most\":{:.6g},\"marks\":{:.0f},"
               "\"drops\":{:.0f},\"paused\":{:.6f},\"waited\":{:.6f},\"flows\":{}",
               port.is_host, port.bits_per_s, facts.mean_bytes, facts.most_bytes, facts.marks, facts.drops,
               facts.paused_ms, facts.waited_ms, facts.flows);
    write_column(out, "time", port.events,
                 [](auto to, const PortEvent& event) { fmt::format_to(to, "{:.6f}", event.time_ms); });
    write_column(out, "kind", port.events, [](auto to, const PortEvent& event) {
        fmt::format_to(to, "{}", static_cast<int>(event.kind));
    });
    write_column(out, "value", port.events,
                 [](auto to, const PortEvent& event) { fmt::format_to(to, "{:.9g}", event.value); });
    write_column(out, "peak", port.events,
                 [](auto to, const PortEvent& event) { fmt::format_to(to, "{:.9g}", event.most); });
    out << '}';
}

/// "network":null if the trace has none.
void write_network(std::ostream& out, const EventLog& log) {
    const NetworkLog& network = log.network();
    out << "\"network\":";
    if (network.ports().empty()) {
        out << "null";
        return;
    }
    const NetworkDiagnosis diagnosis = diagnose_network(log);
    out << fmt::format("{{\"span\":{:.6f},\"ports\":[", diagnosis.span_ms);
    for (std::size_t port = 0; port < network.ports().size(); ++port) {
        out << (port == 0 ? "" : ",\n");
        write_port(out, network.ports()[port], diagnosis.facts[port]);
    }
    out << "],\"paths\":[";
    std::map<std::string_view, std::size_t> connections;
    for (const Connection& one : log.connections()) connections.emplace(one.name, connections.size());
    const char* between = "";
    for (const Path& path : network.paths()) {
        const auto found = connections.find(path.qp);
        out << between << "{\"qp\":" << embedded(path.qp) << ",\"flow\":" << embedded(path.flow)
            << fmt::format(",\"connection\":{},\"payload\":{},\"ports\":[{}]}}",
                           found == connections.end() ? -1 : static_cast<std::int64_t>(found->second),
                           path.has_payload, fmt::join(path.ports, ","));
        between = ",\n";
    }
    out << "],\"ports_of_findings\":[";
    between = "";
    std::vector<Finding> findings;
    for (const PortFinding& one : diagnosis.findings) {
        out << between << one.port;
        findings.push_back(one.finding);
        between = ",";
    }
    out << ']';
    write_findings(out, findings);
    out << '}';
}

void write_finding_text(std::ostream& out, const Finding& finding, double first_ms) {
    out << fmt::format("  {:7} {}: {}", kSeverities[static_cast<std::size_t>(finding.severity)], finding.id,
                       plain(finding.sentence));
    if (!finding.evidence.empty()) out << fmt::format(" First at {:.6f} ms.", first_ms);
    out << '\n';
}

void write_network_text(std::ostream& out, const EventLog& log) {
    const NetworkLog& network = log.network();
    if (network.ports().empty()) return;
    const auto flows = std::count_if(network.paths().begin(), network.paths().end(),
                                     [](const Path& path) { return path.has_payload; });
    out << fmt::format("network: {} ports, {} flows\n", network.ports().size(), flows);
    const NetworkDiagnosis diagnosis = diagnose_network(log);
    if (diagnosis.findings.empty()) out << "  nothing unusual\n";
    for (const PortFinding& one : diagnosis.findings) {
        const std::vector<PortEvent>& events = network.ports()[one.port].events;
        write_finding_text(out, one.finding,
                           one.finding.evidence.empty() ? 0 : events[one.finding.evidence.front()].time_ms);
    }
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
    out << "],";
    write_network(out, log);
    out << ",\"connections\":[";
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
            write_finding_text(
                out, finding,
                finding.evidence.empty() ? 0 : connection.events[finding.evidence.front()].time_ms);
        }
    }
    write_network_text(out, log);
    out.flush();
}

}  // namespace urnic::view
