#include "observe/view/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "observe/view/event_fields.h"

namespace urnic::view {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint32_t kPsns = 1U << 24U;
constexpr double kUsPerMs = 1e3;
constexpr double kNsPerUs = 1e3;
constexpr double kNsPerMs = 1e6;
constexpr double kBitsPerMbit = 1e6;
constexpr std::size_t kMostTexts = 1'000;

bool take_psn(const Json& data, std::uint32_t& psn) {
    double number = 0;
    if (!take_number(data, "psn", number) || number >= kPsns) return false;
    psn = static_cast<std::uint32_t>(number);
    return true;
}

/// What became of a request that came in.
struct FateKind {
    const char* fate;
    Kind kind;
};
constexpr FateKind kFates[] = {
    {"delivered", Kind::kDelivered},  {"duplicate", Kind::kDuplicate},
    {"early-kept", Kind::kEarlyKept}, {"early-dropped", Kind::kEarlyDropped},
    {"no-receive", Kind::kNoReceive}, {"refused", Kind::kRefused},
};

bool is_response(const std::string& opcode) {
    return opcode.find("Acknowledge") != std::string::npos || opcode.find("Response") != std::string::npos;
}

}  // namespace

std::int64_t EventLog::Psns::distance_of(std::uint32_t psn) {
    if (!has_begun) {
        has_begun = true;
        last = psn;
        return last_distance;
    }
    const std::uint32_t ahead = (psn - last) & (kPsns - 1);
    last_distance += ahead < kPsns / 2 ? static_cast<std::int64_t>(ahead)
                                       : static_cast<std::int64_t>(ahead) - static_cast<std::int64_t>(kPsns);
    last = psn;
    return last_distance;
}

std::uint32_t EventLog::intern(const std::string& text) {
    const auto found = text_numbers_.find(text);
    if (found != text_numbers_.end()) return found->second;
    // Opcodes, counters, codes, causes and states are few; a file that makes up more of them gets the last.
    if (texts_.size() < kMostTexts) texts_.push_back(text);
    const auto number = static_cast<std::uint32_t>(texts_.size() - 1);
    text_numbers_.emplace(text, number);
    return number;
}

EventLog::Known* EventLog::known(const std::string& group) {
    const auto found = known_.find(group);
    if (found != known_.end()) return &found->second;
    if (connections_.size() == kMostConnections) return nullptr;
    Known& made = known_[group];
    made.index = connections_.size();
    connections_.emplace_back().name = group;
    const auto paused = paused_.find(group.substr(0, group.rfind('/')));
    if (paused != paused_.end()) {
        for (const Event& event : paused->second) push(connections_.back(), event);
    }
    return &made;
}

void EventLog::push(Connection& connection, const Event& event) {
    if (events_ == kMostEvents) {
        ++beyond_;
        return;
    }
    connection.events.push_back(event);
    ++events_;
}

void EventLog::add_pause(double time_ms, const std::string& device, bool is_paused, const Json& data) {
    constexpr double kPriorities = 8;
    Event event;
    event.time_ms = time_ms;
    event.kind = is_paused ? Kind::kPaused : Kind::kResumed;
    std::string direction;
    if (!data.is_object() || !take_number(data, "priority", event.value) || event.value >= kPriorities ||
        !take_text(data, "direction", direction) || (direction != "received" && direction != "sent")) {
        ++bad_;
        return;
    }
    event.text = intern(direction);
    if (paused_.size() == kMostConnections && !paused_.contains(device)) {
        ++beyond_;
        return;
    }
    std::vector<Event>& open = paused_[device];
    open.erase(
        std::remove_if(open.begin(), open.end(),
                       [&](const Event& one) { return one.value == event.value && one.text == event.text; }),
        open.end());
    if (is_paused) open.push_back(event);
    const std::string prefix = device + "/";
    for (Connection& connection : connections_) {
        if (connection.name.rfind(prefix, 0) == 0) push(connection, event);
    }
}

bool EventLog::fill_rate(Event& event, const std::string& name, const Json& data) {
    std::string text;
    if (name == "rate_changed") {
        event.kind = Kind::kRate;
        if (!take_number(data, "bits_per_s", event.value)) event.value = 0;
        event.value /= kBitsPerMbit;
        if (!take_text(data, "cause", text)) return false;
    } else {
        event.kind = Kind::kTimer;
        if (!take_text(data, "timer", text) || !take_number(data, "retries", event.value)) return false;
    }
    event.text = intern(text);
    return true;
}

bool EventLog::fill_packet(Event& event, const std::string& name, const Json& data, Connection& connection) {
    std::string opcode;
    double peer = 0;
    if (!take_psn(data, event.psn) || !take_text(data, "opcode", opcode) ||
        !take_number(data, "dest_qpn", peer) || !take_number(data, "payload_length", event.value)) {
        return false;
    }
    const bool is_sent = name == "packet_sent";
    const bool answers = is_response(opcode);
    event.text = intern(opcode);
    // A requester sends requests and gets responses.
    event.side = is_sent != answers ? Side::kRequester : Side::kResponder;
    if (is_sent) {
        connection.peer_qpn = static_cast<std::int64_t>(peer);
        const auto again = data.find("retransmission");
        const bool is_again = again != data.end() && again->is_boolean() && again->get<bool>();
        event.kind = answers ? Kind::kResponse : is_again ? Kind::kRetransmission : Kind::kSent;
    } else if (name == "packet_observed") {
        event.side = Side::kRequester;
        event.kind = answers ? Kind::kResponse : Kind::kObserved;
    } else if (name == "packet_dropped") {
        std::string counter;
        if (!take_text(data, "trigger", counter)) return false;
        event.kind = Kind::kDropped;
        event.text = intern(counter);
    } else {
        std::string fate;
        if (!take_text(data, "fate", fate)) return false;
        const auto* const found = std::find_if(std::begin(kFates), std::end(kFates),
                                               [&](const FateKind& one) { return fate == one.fate; });
        if (found == std::end(kFates)) return false;
        event.kind = answers ? Kind::kResponse : found->kind;
    }
    return true;
}

bool EventLog::fill_work(Event& event, const std::string& name, const Json& data) {
    std::string queue;
    double index = 0;
    constexpr double kIndexes = 4'294'967'296.0;
    if (!take_text(data, "queue", queue) || !take_number(data, "wqe_index", index) || index >= kIndexes) {
        return false;
    }
    event.wqe_index = static_cast<std::uint32_t>(index);
    event.side = queue == "send" ? Side::kRequester : Side::kResponder;
    std::string text = "RECV";
    if (name == "completion_written") {
        event.kind = Kind::kCompletion;
        (void)take_number(data, "byte_len", event.value);
        if (!take_text(data, "status", text)) return false;
    } else {
        event.kind = Kind::kFetched;
        (void)take_number(data, "length", event.value);
        const bool is_send = event.side == Side::kRequester;
        if (is_send && !take_psn(data, event.psn)) return false;
        if (is_send && !take_text(data, "opcode", text)) text = "unknown";
    }
    event.text = intern(text);
    return true;
}

bool EventLog::fill(Event& event, const std::string& name, const Json& data, Known& known,
                    Connection& connection) {
    std::string text;
    bool has_psn = true;
    if (name == "packet_sent" || name == "packet_received" || name == "packet_dropped" ||
        name == "packet_observed") {
        if (!fill_packet(event, name, data, connection)) return false;
    } else if (name == "wqe_fetched" || name == "completion_written") {
        if (!fill_work(event, name, data)) return false;
        has_psn = event.kind == Kind::kFetched && event.side == Side::kRequester;
    } else if (name == "rate_changed" || name == "timer_expired") {
        if (!fill_rate(event, name, data)) return false;
        has_psn = false;
    } else if (name == "ack_received") {
        event.kind = Kind::kAck;
        if (!take_psn(data, event.psn) || !take_number(data, "credits", event.value)) return false;
    } else if (name == "nak_received") {
        event.kind = Kind::kNak;
        if (!take_psn(data, event.psn) || !take_text(data, "code", text)) return false;
    } else if (name == "rnr_nak_received") {
        event.kind = Kind::kRnrNak;
        if (!take_psn(data, event.psn) || !take_number(data, "timer", event.value)) return false;
    } else if (name == "retransmission") {
        event.kind = Kind::kResend;
        if (!take_psn(data, event.psn) || !take_text(data, "cause", text)) return false;
    } else {
        has_psn = false;
        if (name == "cnp_sent" || name == "cnp_received") {
            event.kind = name == "cnp_sent" ? Kind::kCnpSent : Kind::kCnpReceived;
            if (event.kind == Kind::kCnpSent) {
                const bool is_first = connection.last_cnp_sent_ms < connection.first_cnp_sent_ms;
                if (is_first) connection.first_cnp_sent_ms = event.time_ms;
                connection.last_cnp_sent_ms = event.time_ms;
            }
        } else if (name == "window_updated") {
            event.kind = Kind::kWindow;
            if (!take_number(data, "packets_in_flight", event.value)) return false;
        } else if (name == "state_changed") {
            event.kind = Kind::kState;
            if (!take_text(data, "new", text)) return false;
        } else if (name == "message_acknowledged") {
            event.kind = Kind::kMessage;
            if (!take_number(data, "duration", event.value) || !take_text(data, "opcode", text)) return false;
            event.value *= kUsPerMs;
        } else {
            return false;
        }
    }
    if (!text.empty()) event.text = intern(text);
    if (has_psn) {
        Psns& psns = known.psns[static_cast<std::size_t>(event.side)];
        event.psn_distance = psns.distance_of(event.psn);
        if (event.kind == Kind::kObserved) {
            if (event.psn_distance <= psns.most) event.kind = Kind::kObservedAgain;
            psns.most = std::max(psns.most, event.psn_distance);
        }
    }
    return true;
}

void EventLog::add(double time_ms, const std::string& group, const std::string& name, const Json& data) {
    if (events_ == kMostEvents) {
        ++beyond_;
        return;
    }
    if (texts_.empty()) (void)intern("");
    const NetworkLog::Taken taken = network_.add(time_ms, group, name, data);
    if (taken != NetworkLog::Taken::kNot) {
        events_ += taken == NetworkLog::Taken::kAsEvent ? 1 : 0;
        bad_ += taken == NetworkLog::Taken::kBad ? 1 : 0;
        beyond_ += taken == NetworkLog::Taken::kBeyond ? 1 : 0;
        return;
    }
    if (name == "pfc_paused" || name == "pfc_resumed") {
        add_pause(time_ms, group, name == "pfc_paused", data);
        return;
    }
    Known* const of = known(group);
    if (of == nullptr) {
        ++beyond_;
        return;
    }
    Event event;
    event.time_ms = time_ms;
    Connection& connection = connections_[of->index];
    if (!data.is_object() || !fill(event, name, data, *of, connection)) {
        ++bad_;
        return;
    }
    push(connection, event);
}

bool EventLog::add_line(const Json& line) {
    if (!line.is_object()) return false;
    std::string name;
    std::string group;
    const auto time = line.find("time");
    const auto data = line.find("data");
    if (!take_text(line, "name", name) || !take_text(line, "group_id", group) || time == line.end() ||
        !time->is_number() || data == line.end()) {
        return false;
    }
    const auto time_ms = time->get<double>();
    constexpr const char* kPrefix = "rdma:";
    if (!std::isfinite(time_ms) || name.rfind(kPrefix, 0) != 0) return false;
    add(time_ms, group, name.substr(std::char_traits<char>::length(kPrefix)), *data);
    return true;
}

bool EventLog::read(std::istream& in) {
    std::string text;
    if (!std::getline(in, text)) return false;
    const Json header = Json::parse(text, nullptr, false);
    std::string format;
    if (!header.is_object() || !take_text(header, "qlog_format", format) || format != "NDJSON") return false;
    while (std::getline(in, text)) {
        const bool is_last = in.eof();  // no newline behind it
        const Json line = Json::parse(text, nullptr, false);
        if (!line.is_discarded() && add_line(line)) continue;
        if (is_last) {
            is_cut_ = true;
        } else {
            ++bad_;
        }
    }
    return true;
}

void EventLog::keep_newest(std::size_t most) {
    for (Connection& connection : connections_) {
        std::vector<Event>& events = connection.events;
        if (events.size() > most) {
            const auto end = events.end() - static_cast<std::ptrdiff_t>(most);
            events_ -= static_cast<std::size_t>(end - events.begin());
            events.erase(events.begin(), end);
        }
    }
}

const Connection* EventLog::peer_of(const Connection& connection) const {
    const auto qpn_of = [](const Connection& one) -> std::int64_t {
        const std::size_t slash = one.name.rfind('/');
        return slash == std::string::npos ? -1 : std::strtoll(one.name.c_str() + slash + 1, nullptr, 0);
    };
    const std::int64_t qpn = qpn_of(connection);
    if (qpn < 0 || connection.peer_qpn < 0) return nullptr;
    const auto found = std::find_if(connections_.begin(), connections_.end(), [&](const Connection& one) {
        return &one != &connection && one.peer_qpn == qpn && qpn_of(one) == connection.peer_qpn;
    });
    return found == connections_.end() ? nullptr : &*found;
}

std::string EventLog::shortfall() const {
    std::string words;
    const auto say = [&words](const std::string& more) { words += (words.empty() ? "" : "; ") + more; };
    if (is_cut_) say("the file is cut in its last line; what is before it is shown");
    if (bad_ != 0) say(fmt::format("{} lines are no events of urnic trace and are left out", bad_));
    if (beyond_ != 0) {
        say(fmt::format("{} more events are left out: {} events and {} QPs are shown at most", beyond_,
                        kMostEvents, kMostConnections));
    }
    return words;
}

double LogOutput::ms_since_begin(std::uint64_t time_ns) {
    if (!has_begun_) {
        has_begun_ = true;
        reference_ns_ = time_ns;
    }
    const bool before = time_ns < reference_ns_;
    const double distance = static_cast<double>(before ? reference_ns_ - time_ns : time_ns - reference_ns_);
    return (before ? -distance : distance) / kNsPerMs;
}

void LogOutput::add(const trace::Event& event) {
    log_.add(ms_since_begin(event.time_ns), std::string(event.group), std::string(event.name),
             trace::json_of(event.data));
}

void LogOutput::add_message(const trace::AcknowledgedMessage& message) {
    const double duration_ms = static_cast<double>(message.end_ns - message.begin_ns) / kNsPerUs / kUsPerMs;
    log_.add(ms_since_begin(message.end_ns), std::string(message.group), "message_acknowledged",
             {{"opcode", message.name}, {"duration", duration_ms}});
}

}  // namespace urnic::view
