#include "observe/view/network_diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace urnic::view {

namespace {

constexpr double kPercents = 100;
constexpr double kBytesOfKb = 1e3;
/// A part of the time that is worth a warning, and one that is worth a word.
constexpr double kMuch = 0.05;
constexpr double kLittle = 0.001;
/// A queue that holds its packets longer than that, in the mean, is one that builds up.
constexpr double kLongQueueUs = 5;

/// From the beginning of a state to its end, of which the trace may lack either.
class Span {
  public:
    void begin(double time_ms) {
        if (begin_ms_ < 0) begin_ms_ = time_ms;
    }
    void end(double time_ms) {
        if (begin_ms_ >= 0) total_ms_ += std::max(time_ms - begin_ms_, 0.0);
        begin_ms_ = -1;
    }
    [[nodiscard]] double total_ms() const { return total_ms_; }

  private:
    double begin_ms_ = -1;
    double total_ms_ = 0;
};

PortFacts facts_of(const Port& port, double end_ms) {
    constexpr std::size_t kPriorities = 8;
    PortFacts facts;
    std::array<Span, kPriorities> paused;
    Span waits;
    double byte_ms = 0;
    double bytes = 0;
    double since_ms = 0;
    for (std::size_t place = 0; place < port.events.size(); ++place) {
        const PortEvent& event = port.events[place];
        switch (event.kind) {
            case PortKind::kQueue:
                byte_ms += bytes * std::max(event.time_ms - since_ms, 0.0);
                bytes = event.value;
                since_ms = event.time_ms;
                if (event.most > facts.most_bytes) {
                    facts.most_bytes = event.most;
                    facts.fullest = place;
                }
                break;
            case PortKind::kMarked:
                facts.marks += event.value;
                facts.places_of_marks.push_back(place);
                break;
            case PortKind::kDropped:
                facts.drops += event.value;
                facts.places_of_drops.push_back(place);
                break;
            case PortKind::kPaused:
                paused[static_cast<std::size_t>(event.value)].begin(event.time_ms);
                facts.pauses.push_back(place);
                break;
            case PortKind::kResumed:
                paused[static_cast<std::size_t>(event.value)].end(event.time_ms);
                break;
            case PortKind::kWaitBegan:
                waits.begin(event.time_ms);
                facts.waits.push_back(place);
                break;
            case PortKind::kWaitEnded:
                waits.end(event.time_ms);
                break;
            default:
                break;
        }
    }
    byte_ms += bytes * std::max(end_ms - since_ms, 0.0);
    facts.mean_bytes = end_ms > 0 ? byte_ms / end_ms : 0;
    waits.end(end_ms);
    facts.waited_ms = waits.total_ms();
    for (std::size_t priority = 0; priority < kPriorities; ++priority) {
        paused[priority].end(end_ms);
        if (paused[priority].total_ms() > facts.paused_ms) {
            facts.paused_ms = paused[priority].total_ms();
            facts.paused_priority = priority;
        }
    }
    return facts;
}

/// What looks at one port need.
struct Network {
    const NetworkLog& log;
    NetworkDiagnosis& made;
    std::vector<std::pair<double, PortFinding>> found;  // with the weight of each among its like

    void find(std::size_t port, const char* id, Severity severity, double weight,
              const std::vector<std::size_t>& evidence, std::string sentence) {
        Finding finding{id, severity, std::move(sentence), evidence, evidence.size()};
        if (finding.evidence.size() > kMostEvidence) finding.evidence.resize(kMostEvidence);
        found.emplace_back(weight, PortFinding{port, std::move(finding)});
    }
    [[nodiscard]] double part(double ms) const { return made.span_ms > 0 ? ms / made.span_ms : 0; }
    /// Part of the time in which the port might not send, by pause or for want of credit.
    [[nodiscard]] double stopped(std::size_t port) const {
        return part(std::max(made.facts[port].paused_ms, made.facts[port].waited_ms));
    }
    /// How long the mean queue takes to leave.
    [[nodiscard]] double queue_us(std::size_t port) const {
        constexpr double kBits = 8e6;
        const double rate = log.ports()[port].bits_per_s;
        return rate > 0 ? made.facts[port].mean_bytes * kBits / rate : 0;
    }
};

std::string counted(double number, const char* one, const char* more) {
    return fmt::format("{:.0f} {}", number, number == 1 ? one : more);
}

void look_at_drops(Network& of, std::size_t port) {
    const PortFacts& facts = of.made.facts[port];
    if (facts.drops == 0) return;
    std::map<std::string, double> by_trigger;
    for (const std::size_t place : facts.places_of_drops) {
        const PortEvent& event = of.log.ports()[port].events[place];
        by_trigger[kDropTriggers.at(static_cast<std::size_t>(event.most))] += event.value;
    }
    std::string triggers;
    for (const auto& [trigger, count] : by_trigger) {
        triggers += fmt::format("{}{} {:.0f}", triggers.empty() ? "" : ", ", trigger, count);
    }
    of.find(port, "port_drops", Severity::kWarning, facts.drops, facts.places_of_drops,
            fmt::format("The port {} dropped {} ({}).", of.log.ports()[port].name,
                        counted(facts.drops, "packet", "packets"), triggers));
}

void look_at_queue(Network& of, std::size_t port) {
    if (of.queue_us(port) < kLongQueueUs) return;
    const PortFacts& facts = of.made.facts[port];
    constexpr double kBitsOfGbit = 1e9;
    // A port that is stopped itself is full for what is behind it: those that are not come first.
    constexpr double kLess = 1e-6;
    const double stopped = of.stopped(port);
    const std::string because =
        stopped < kMuch ? "" : fmt::format("; it was stopped {:.1f} % of the time", stopped * kPercents);
    of.find(
        port, "queue_builds_up", Severity::kWarning, of.queue_us(port) * (stopped < kMuch ? 1 : kLess),
        {facts.fullest},
        fmt::format("A queue builds up at {}: {:.0f} KB in the mean, {:.0f} KB at most. The mean takes "
                    "{:.0f} us to leave at {:.4g} Gbit/s; {} by that port{}.",
                    of.log.ports()[port].name, facts.mean_bytes / kBytesOfKb, facts.most_bytes / kBytesOfKb,
                    of.queue_us(port), of.log.ports()[port].bits_per_s / kBitsOfGbit,
                    counted(static_cast<double>(facts.flows), "flow goes", "flows go"), because));
}

void look_at_stops(Network& of, std::size_t port) {
    const PortFacts& facts = of.made.facts[port];
    const std::string& name = of.log.ports()[port].name;
    const double paused = of.part(facts.paused_ms);
    if (paused >= kLittle) {
        of.find(
            port, "port_paused", paused >= kMuch ? Severity::kWarning : Severity::kNote, paused, facts.pauses,
            fmt::format("The port {} was paused {:.1f} % of the time (PFC, priority {}: {:.3f} ms in {}).",
                        name, paused * kPercents, facts.paused_priority, facts.paused_ms,
                        counted(static_cast<double>(facts.pauses.size()), "pause", "pauses")));
    }
    const double waited = of.part(facts.waited_ms);
    if (waited >= kLittle) {
        of.find(
            port, "credit_waits", waited >= kMuch ? Severity::kWarning : Severity::kNote, waited, facts.waits,
            fmt::format(
                "The port {} had no credit for what it had to send {:.1f} % of the time ({:.3f} ms in {}).",
                name, waited * kPercents, facts.waited_ms,
                counted(static_cast<double>(facts.waits.size()), "wait", "waits")));
    }
}

/// The port of each node whose queue is longest in the mean.
std::map<std::string, std::size_t> fullest_of_nodes(const Network& of) {
    std::map<std::string, std::size_t> fullest;
    for (std::size_t port = 0; port < of.log.ports().size(); ++port) {
        std::size_t& best = fullest.try_emplace(of.log.ports()[port].node, port).first->second;
        if (of.made.facts[port].mean_bytes > of.made.facts[best].mean_bytes) best = port;
    }
    return fullest;
}

/// Who goes by a port and from there by a next one, with one priority or SL.
struct Turn {
    std::size_t port;
    std::size_t next;
    double level;
    bool operator<(const Turn& other) const {
        return std::tie(port, next, level) < std::tie(other.port, other.next, other.level);
    }
};
using Turns = std::map<Turn, std::vector<const Path*>>;

std::string names_of(const std::vector<const Path*>& paths) {
    constexpr std::size_t kMostNames = 3;
    std::string names;
    for (std::size_t i = 0; i < std::min(paths.size(), kMostNames); ++i) {
        names += fmt::format("{}{} ({})", i == 0 ? "" : ", ", paths[i]->flow, paths[i]->qp);
    }
    if (paths.size() > kMostNames) names += fmt::format(" and {} more", paths.size() - kMostNames);
    return names;
}

/// A flow waits at a port that was stopped for the queue of a port that it does not use, behind packets of
/// its own priority that do, while its own port there is all but empty and free to send: head-of-line
/// blocking.
void look_at_victims(Network& of) {
    constexpr double kEmpty = 0.1;  // as full as the full one
    Turns turns;
    for (const Path& path : of.log.paths()) {
        for (std::size_t hop = 0; path.has_payload && hop + 1 < path.ports.size(); ++hop) {
            if (of.stopped(path.ports[hop]) < kMuch) continue;
            turns[{path.ports[hop], path.ports[hop + 1], path.level}].push_back(&path);
        }
    }
    const std::map<std::string, std::size_t> fullest = fullest_of_nodes(of);
    for (const auto& [turn, paths] : turns) {
        const PortFacts& facts = of.made.facts[turn.port];
        const std::size_t full = fullest.at(of.log.ports()[turn.next].node);
        const double next_bytes = of.made.facts[turn.next].mean_bytes;
        const double full_bytes = of.made.facts[full].mean_bytes;
        const bool is_paused = facts.paused_ms >= facts.waited_ms;
        if (full_bytes <= 0 || next_bytes > full_bytes * kEmpty || of.stopped(turn.next) >= kMuch ||
            !turns.contains({turn.port, full, turn.level}) ||
            (is_paused && static_cast<double>(facts.paused_priority) != turn.level)) {
            continue;
        }
        of.find(
            turn.port, "victim_of_pause", Severity::kWarning,
            of.stopped(turn.port) * static_cast<double>(paths.size()), is_paused ? facts.pauses : facts.waits,
            fmt::format("A victim: {} had to wait at {}, which {} {:.1f} % of the time, for the queue of {} "
                        "({:.0f} KB in the mean); {}, the next port of that path, held {:.0f} KB.",
                        names_of(paths), of.log.ports()[turn.port].name,
                        is_paused ? "was paused" : "had no credit", of.stopped(turn.port) * kPercents,
                        of.log.ports()[full].name, full_bytes / kBytesOfKb, of.log.ports()[turn.next].name,
                        next_bytes / kBytesOfKb));
    }
}

void look_at_marks(Network& of, std::size_t port) {
    const PortFacts& facts = of.made.facts[port];
    if (facts.marks == 0) return;
    of.find(port, "port_marks", Severity::kNote, facts.marks, facts.places_of_marks,
            fmt::format("The port {} set the mark of congestion (ECN CE) in {}.", of.log.ports()[port].name,
                        counted(facts.marks, "packet", "packets")));
}

/// What is a cause before what comes of it.
std::size_t rank_of(const Finding& finding) {
    constexpr std::array<std::string_view, 6> kOrder = {"port_drops",  "queue_builds_up", "victim_of_pause",
                                                        "port_paused", "credit_waits",    "port_marks"};
    return static_cast<std::size_t>(std::find(kOrder.begin(), kOrder.end(), finding.id) - kOrder.begin());
}

}  // namespace

NetworkDiagnosis diagnose_network(const EventLog& log) {
    NetworkDiagnosis made;
    const NetworkLog& network = log.network();
    if (network.ports().empty()) return made;
    made.span_ms = network.end_ms();
    for (const Connection& connection : log.connections()) {
        if (!connection.events.empty())
            made.span_ms = std::max(made.span_ms, connection.events.back().time_ms);
    }
    for (const Port& port : network.ports()) made.facts.push_back(facts_of(port, made.span_ms));
    for (const Path& path : network.paths()) {
        if (!path.has_payload) continue;
        for (const std::size_t port : path.ports) ++made.facts[port].flows;
    }
    Network of{network, made, {}};
    for (std::size_t port = 0; port < network.ports().size(); ++port) {
        look_at_drops(of, port);
        look_at_queue(of, port);
        look_at_stops(of, port);
        look_at_marks(of, port);
    }
    look_at_victims(of);
    std::stable_sort(of.found.begin(), of.found.end(), [](const auto& a, const auto& b) {
        const Finding& one = a.second.finding;
        const Finding& other = b.second.finding;
        if (one.severity != other.severity) return one.severity > other.severity;
        return rank_of(one) != rank_of(other) ? rank_of(one) < rank_of(other) : a.first > b.first;
    });
    for (auto& [weight, finding] : of.found) made.findings.push_back(std::move(finding));
    return made;
}

}  // namespace urnic::view
