#include "observe/view/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "observe/view/connection_facts.h"

namespace urnic::view {

namespace {

using Places = ConnectionFacts::Places;

struct Case {
    const EventLog& log;
    const Connection& connection;
    const ConnectionFacts& facts;
    const Connection* peer;          // nullptr: not in the log
    const ConnectionFacts* of_peer;  // as well
    std::vector<Finding>& findings;

    void find(const char* id, Severity severity, const Places& places, std::string sentence) const {
        Finding finding{id, severity, std::move(sentence), {}, places.size()};
        finding.evidence.assign(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(
                                                                     std::min(places.size(), kMostEvidence)));
        findings.push_back(std::move(finding));
    }
};

std::string counted(std::size_t count, const char* one, const char* more) {
    return fmt::format("{} {}", count, count == 1 ? one : more);
}

void look_at_rnr_waits(const Case& of) {
    const Places& waits = of.facts.of(Kind::kRnrNak);
    constexpr double kPercent = 100;
    if (!waits.empty()) {
        const double share =
            of.facts.span_ms() > 0 ? of.facts.rnr_wait_ms / of.facts.span_ms() * kPercent : 0;
        const std::string naks = counted(waits.size(), "RNR NAK", "RNR NAKs");
        of.find(
            "rnr_waits", Severity::kWarning, waits,
            of.facts.has_requests()
                ? fmt::format("The receiver posts too few receives: {:.0f} % of the time ({:.3f} ms) went "
                              "to RNR waits, after {}.",
                              share, of.facts.rnr_wait_ms, naks)
                : fmt::format("The receiver posts too few receives: {} came.", naks));
    }
    const Places& without = of.facts.of(Kind::kNoReceive);
    if (!without.empty()) {
        of.find("no_receives", Severity::kWarning, without,
                fmt::format(
                    "This QP posts too few receives: {} found its receive queue empty and got an RNR NAK.",
                    counted(without.size(), "request", "requests")));
    }
}

/// One end knows only that something is early; the other, whether anything went again for it.
void look_at_losses(const Case& of) {
    const ConnectionFacts& facts = of.facts;
    const bool discards = of.of_peer != nullptr && !of.of_peer->of(Kind::kEarlyDropped).empty();
    if (!facts.went_back.empty() || (discards && !facts.sequence_naks.empty())) {
        of.find("go_back_n", Severity::kWarning,
                facts.went_back.empty() ? facts.sequence_naks : facts.went_back,
                fmt::format(
                    "Go-back-N: {} discards early packets, so that {} went again for {} of a lost packet.",
                    discards ? "the peer" : "the peer seems to be one that",
                    counted(facts.sent_for_nak.size(), "packet", "packets"),
                    counted(facts.sequence_naks.size(), "NAK", "NAKs")));
    } else if (!facts.sequence_naks.empty()) {
        of.find("packet_loss", Severity::kWarning, facts.sequence_naks,
                fmt::format("Requests are lost on their way: {} of the peer named a gap in the PSNs{}.",
                            counted(facts.sequence_naks.size(), "NAK", "NAKs"),
                            facts.has_requests()
                                ? fmt::format(", and {} went again",
                                              counted(facts.sent_for_nak.size(), "packet", "packets"))
                                : ""));
    }
    const Places& kept = facts.of(Kind::kEarlyKept);
    const Places& discarded = facts.of(Kind::kEarlyDropped);
    const bool went_again =
        of.of_peer != nullptr && !(of.of_peer->sent_for_nak.empty() && of.of_peer->timeouts.empty());
    if (!kept.empty() && of.of_peer != nullptr && !went_again) {
        of.find("reordering", Severity::kWarning, kept,
                fmt::format("The network reorders packets: {} early, and the peer sent nothing again.",
                            counted(kept.size(), "came", "came")));
    } else if (!kept.empty()) {
        of.find("early_packets", Severity::kNote, kept,
                fmt::format("{} and waited here for one that was lost or overtaken.",
                            counted(kept.size(), "packet came early", "packets came early")));
    }
    if (!discarded.empty()) {
        of.find("early_discarded", Severity::kWarning, discarded,
                fmt::format("This QP discards early packets: {} have to be sent again.",
                            counted(discarded.size(), "request", "requests")));
    }
}

void look_at_timeouts(const Case& of) {
    const ConnectionFacts& facts = of.facts;
    if (facts.timeouts.empty()) return;
    const std::string again = counted(facts.timeouts.size(), "retransmission", "retransmissions");
    if (facts.answers == 0 && facts.largest_through < 0) {
        of.find(
            "nothing_answered", Severity::kError, facts.timeouts,
            fmt::format("The peer answers nothing: {} by timeout, and no packet came back. It is gone, or no "
                        "packet passes the path.",
                        again));
        return;
    }
    const bool is_size = facts.largest_through >= 0 && facts.smallest_stuck > facts.largest_through;
    if (!facts.never_through.empty() && is_size) {
        of.find("path_mtu", Severity::kError, facts.never_through,
                fmt::format(
                    "Timeouts because the path MTU does not pass: packets with {:.0f} bytes of payload are "
                    "never answered, those with {:.0f} are.",
                    facts.smallest_stuck, facts.largest_through));
        return;
    }
    const bool arrived = of.of_peer != nullptr && !of.of_peer->of(Kind::kDuplicate).empty();
    of.find(
        "timeouts", Severity::kWarning, facts.timeouts,
        arrived
            ? fmt::format("Timeouts: {} although the requests had arrived. Their answers are lost, or the "
                          "timeout is shorter than the round trip.",
                          again)
            : fmt::format("Timeouts: {} because no answer came in time. The last packets of messages, or "
                          "their answers, are lost, or the round trip is longer than the timeout.",
                          again));
}

void look_at_duplicates(const Case& of) {
    const Places& duplicates = of.facts.of(Kind::kDuplicate);
    if (!duplicates.empty()) {
        const bool sent_once = of.of_peer != nullptr && of.of_peer->of(Kind::kRetransmission).empty();
        of.find("duplicate_requests", Severity::kWarning, duplicates,
                fmt::format(
                    "{} a second time: {}.", counted(duplicates.size(), "request came", "requests came"),
                    sent_once ? "the network duplicates packets, because the peer sent each once"
                              : "the answers to them are lost or late, or the network duplicates packets"));
    }
    const Places& again = of.facts.of(Kind::kObservedAgain);
    if (!again.empty()) {
        of.find("seen_again", Severity::kNote, again,
                fmt::format("{} with a PSN that was there before: retransmissions, or packets out of order.",
                            counted(again.size(), "packet passed", "packets passed")));
    }
}

/// IBA table 46.
struct NakMeaning {
    std::string_view code;
    const char* id;
    const char* meaning;
};
constexpr NakMeaning kNakMeanings[] = {
    {"remote access error", "access_error",
     "R_Key, address, length or access rights do not fit a memory region there"},
    {"invalid request", "invalid_request",
     "an operation that the QP there does not allow, a message too long for the receive, or packets of "
     "another MTU"},
    {"remote operational error", "remote_operational_error", "the peer could not complete the request"},
};

void look_at_errors(const Case& of) {
    for (const auto& [code, places] : of.facts.naks) {
        const auto* const found =
            std::find_if(std::begin(kNakMeanings), std::end(kNakMeanings),
                         [&code = code](const NakMeaning& one) { return one.code == code; });
        const bool is_known = found != std::end(kNakMeanings);
        of.find(is_known ? found->id : "nak", Severity::kError, places,
                fmt::format("The peer refuses {} ({}){}{}.", counted(places.size(), "request", "requests"),
                            code, is_known ? ": " : "", is_known ? found->meaning : ""));
    }
    const Places& refused = of.facts.of(Kind::kRefused);
    if (!refused.empty()) {
        of.find("refused", Severity::kError, refused,
                fmt::format("This QP refuses {}: access rights, length or operation do not fit.",
                            counted(refused.size(), "request", "requests")));
    }
    if (!of.facts.errors.empty()) {
        of.find("error_state", Severity::kError, of.facts.errors,
                of.facts.timeouts.empty() && of.facts.naks.empty()
                    ? "The QP went to ERR."
                    : fmt::format("The QP went to ERR, after {}.",
                                  of.facts.naks.empty() ? "timeouts" : "a NAK of the peer"));
    }
}

std::string device_of(const Connection& connection) {
    return connection.name.substr(0, connection.name.rfind('/'));
}

/// Several QPs of one RNIC answer marks in the same time: their senders meet in front of it.
void look_at_incast(const Case& of) {
    const Places& sent = of.facts.of(Kind::kCnpSent);
    if (sent.empty()) return;
    const std::string device = device_of(of.connection);
    const auto& connections = of.log.connections();
    const auto senders = std::count_if(connections.begin(), connections.end(), [&](const Connection& one) {
        return one.first_cnp_sent_ms <= one.last_cnp_sent_ms &&
               one.first_cnp_sent_ms <= of.connection.last_cnp_sent_ms &&
               one.last_cnp_sent_ms >= of.connection.first_cnp_sent_ms && device_of(one) == device;
    });
    if (senders < 2) return;
    of.find(
        "incast", Severity::kWarning, sent,
        fmt::format("Incast: {} QPs of this RNIC get packets with marks of congestion at the same time, so "
                    "their senders meet in front of it.",
                    senders));
}

void look_at_congestion(const Case& of) {
    const Places& received = of.facts.of(Kind::kCnpReceived);
    if (!received.empty()) {
        double lowest = -1;
        for (const std::size_t place : of.facts.of(Kind::kRate)) {
            const double rate = of.connection.events[place].value;
            if (rate > 0 && (lowest < 0 || rate < lowest)) lowest = rate;
        }
        of.find("cnps_cut_rate", Severity::kWarning, received,
                fmt::format("The network is congested: {} cut the rate of this QP{}.",
                            counted(received.size(), "CNP", "CNPs"),
                            lowest < 0 ? "" : fmt::format(", to {:.1f} Mbit/s at the least", lowest)));
    }
    const Places& sent = of.facts.of(Kind::kCnpSent);
    if (!sent.empty()) {
        of.find("ecn_marks", Severity::kWarning, sent,
                fmt::format("Packets arrive with marks of congestion (ECN CE): {} went to their sender.",
                            counted(sent.size(), "CNP", "CNPs")));
    }
}

/// Pauses that the other end of the link asks for; the QP is held up if it has that priority.
void look_at_pauses(const Case& of) {
    constexpr double kPercent = 100;
    constexpr std::size_t kPriorities = 8;
    std::array<double, kPriorities> since{};
    since.fill(-1);
    std::array<double, kPriorities> paused_ms{};
    Places begins;
    for (std::size_t place = 0; place < of.connection.events.size(); ++place) {
        const Event& event = of.connection.events[place];
        const bool is_pause = event.kind == Kind::kPaused;
        if ((!is_pause && event.kind != Kind::kResumed) || of.log.text_of(event) != "received") continue;
        double& begin = since[static_cast<std::size_t>(event.value)];
        if (is_pause) {
            if (begin < 0) begin = std::max(event.time_ms, of.facts.begin_ms);
            begins.push_back(place);
        } else if (begin >= 0) {
            paused_ms[static_cast<std::size_t>(event.value)] += std::max(event.time_ms - begin, 0.0);
            begin = -1;
        }
    }
    if (begins.empty()) return;
    for (std::size_t priority = 0; priority < kPriorities; ++priority) {
        if (since[priority] >= 0) paused_ms[priority] += std::max(of.facts.end_ms - since[priority], 0.0);
    }
    const auto* const most = std::max_element(paused_ms.begin(), paused_ms.end());
    of.find(
        "paused", Severity::kWarning, begins,
        fmt::format("The other end of the link stops this RNIC (PFC): {}, priority {} for {:.0f} % of the "
                    "time ({:.3f} ms).",
                    counted(begins.size(), "pause", "pauses"), most - paused_ms.begin(),
                    of.facts.span_ms() > 0 ? *most / of.facts.span_ms() * kPercent : 0, *most));
}

/// What a counter of `urnic status` says of the network or of the peer.
struct DropMeaning {
    std::string_view counter;
    const char* meaning;
};
constexpr DropMeaning kDropMeanings[] = {
    {"rx_icrc_encapsulated", "the ICRC is wrong: something damages packets on their way"},
    {"drop_malformed", "they are malformed: something damages packets on their way, or the peer is broken"},
    {"drop_unknown_qp", "there is no such QP: the peer sends to one that is gone"},
    {"drop_wrong_sender", "they come from an address that is not the peer's"},
    {"drop_qp_state", "the QP is in a state that takes none"},
    {"drop_pkey", "their P_Key is of another partition"},
    {"drop_qkey", "their Q_Key is wrong"},
    {"drop_opcode", "the QP has no use for their opcode"},
    {"drop_uc_message", "a part of their UC message is missing"},
    {"drop_port_down", "the port is down"},
};

void look_at_drops(const Case& of) {
    for (const auto& [counter, places] : of.facts.drops) {
        const auto* const found =
            std::find_if(std::begin(kDropMeanings), std::end(kDropMeanings),
                         [&counter = counter](const DropMeaning& one) { return one.counter == counter; });
        const bool is_damage = counter == "rx_icrc_encapsulated" || counter == "drop_malformed";
        of.find(
            is_damage ? "damaged_packets" : "dropped_packets", Severity::kWarning, places,
            fmt::format("{} dropped here{} ({}).", counted(places.size(), "packet was", "packets were"),
                        found == std::end(kDropMeanings) ? "" : std::string(", because ") + found->meaning,
                        counter));
    }
}

void look_at_latency(const Case& of) {
    constexpr std::size_t kFewest = 100;
    constexpr double kLong = 10;
    const Places& messages = of.facts.of(Kind::kMessage);
    if (messages.size() < kFewest) return;
    Places by_duration(messages);
    const auto& events = of.connection.events;
    std::sort(by_duration.begin(), by_duration.end(),
              [&](std::size_t a, std::size_t b) { return events[a].value > events[b].value; });
    const double median = events[by_duration[by_duration.size() / 2]].value;
    const double late = events[by_duration[by_duration.size() / kFewest]].value;
    if (late <= median * kLong) return;
    by_duration.resize(by_duration.size() / kFewest + 1);
    of.find("slow_messages", Severity::kNote, by_duration,
            fmt::format(
                "One message of a hundred takes {:.1f} us or longer, {:.0f} times the median of {:.1f} us.",
                late, median > 0 ? late / median : 0, median));
}

}  // namespace

std::vector<Finding> diagnose(const EventLog& log, const Connection& connection, const Connection* peer) {
    std::vector<Finding> findings;
    const ConnectionFacts facts(log, connection);
    const ConnectionFacts of_peer(log, peer != nullptr ? *peer : connection);
    const Case of{log, connection, facts, peer, peer != nullptr ? &of_peer : nullptr, findings};
    look_at_errors(of);
    look_at_timeouts(of);
    look_at_losses(of);
    look_at_rnr_waits(of);
    look_at_duplicates(of);
    look_at_congestion(of);
    look_at_incast(of);
    look_at_pauses(of);
    look_at_drops(of);
    look_at_latency(of);
    std::stable_sort(findings.begin(), findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
    return findings;
}

}  // namespace urnic::view
