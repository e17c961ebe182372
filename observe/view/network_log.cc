#include "observe/view/network_log.h"

#include <algorithm>

#include "observe/view/event_fields.h"

namespace urnic::view {

NetworkLog::Taken NetworkLog::add_port(const std::string& group, const nlohmann::ordered_json& data) {
    Port port;
    port.name = group;
    std::string type;
    if (!take_text(data, "node", port.node) || !take_text(data, "node_type", type) ||
        !take_number(data, "bits_per_s", port.bits_per_s) || numbers_.contains(group)) {
        return Taken::kBad;
    }
    if (ports_.size() == kMostPorts) return Taken::kBeyond;
    port.is_host = type == "host";
    if (port.is_host) hosts_.emplace(port.node, ports_.size());
    numbers_.emplace(group, ports_.size());
    ports_.push_back(std::move(port));
    return Taken::kAsFact;
}

NetworkLog::Taken NetworkLog::add_path(const std::string& group, const nlohmann::ordered_json& data) {
    Path path;
    path.qp = group;
    const auto payload = data.find("payload");
    const auto ports = data.find("ports");
    if ((!take_number(data, "priority", path.level) && !take_number(data, "sl", path.level)) ||
        !take_text(data, "flow", path.flow) || payload == data.end() || !payload->is_boolean() ||
        ports == data.end() || !ports->is_array() || ports->size() > kMostHops) {
        return Taken::kBad;
    }
    path.has_payload = payload->get<bool>();
    for (const auto& name : *ports) {
        const auto found = name.is_string() ? numbers_.find(name.get<std::string>()) : numbers_.end();
        if (found == numbers_.end()) return Taken::kBad;
        path.ports.push_back(found->second);
    }
    if (paths_.size() == kMostPaths) return Taken::kBeyond;
    paths_.push_back(std::move(path));
    return Taken::kAsFact;
}

NetworkLog::Taken NetworkLog::add_pause(double time_ms, const std::string& group, bool is_begin,
                                        const nlohmann::ordered_json& data) {
    const auto port = numbers_.find(group);
    const auto host = hosts_.find(group);
    if (port == numbers_.end() && host == hosts_.end()) return Taken::kNot;
    constexpr double kPriorities = 8;
    PortEvent event;
    event.time_ms = time_ms;
    std::string direction;
    if (!take_number(data, "priority", event.value) || event.value >= kPriorities ||
        !take_text(data, "direction", direction) || (direction != "received" && direction != "sent")) {
        return port == numbers_.end() ? Taken::kNot : Taken::kBad;
    }
    const bool is_received = direction == "received";
    event.kind = is_begin ? (is_received ? PortKind::kPaused : PortKind::kStops)
                          : (is_received ? PortKind::kResumed : PortKind::kLetsGo);
    ports_[port != numbers_.end() ? port->second : host->second].events.push_back(event);
    end_ms_ = std::max(end_ms_, time_ms);
    // A host's pauses are its QPs', too, and count as theirs.
    return port != numbers_.end() ? Taken::kAsEvent : Taken::kNot;
}

bool NetworkLog::fill(PortEvent& event, const std::string& name, const nlohmann::ordered_json& data) {
    if (name == "queue_updated") {
        event.kind = PortKind::kQueue;
        return take_number(data, "bytes", event.value) && take_number(data, "most_bytes", event.most);
    }
    if (name == "packets_marked") {
        event.kind = PortKind::kMarked;
        return take_number(data, "count", event.value);
    }
    if (name == "packets_dropped") {
        event.kind = PortKind::kDropped;
        std::string trigger;
        if (!take_number(data, "count", event.value) || !take_text(data, "trigger", trigger)) return false;
        const auto* const found = std::find(kDropTriggers.begin(), kDropTriggers.end(), trigger);
        event.most = static_cast<double>(found - kDropTriggers.begin());
        return found != kDropTriggers.end();
    }
    event.kind = name == "credit_wait_began" ? PortKind::kWaitBegan : PortKind::kWaitEnded;
    return true;
}

NetworkLog::Taken NetworkLog::add(double time_ms, const std::string& group, const std::string& name,
                                  const nlohmann::ordered_json& data) {
    const bool is_pause = name == "pfc_paused";
    if (is_pause || name == "pfc_resumed") {
        return data.is_object() ? add_pause(time_ms, group, is_pause, data) : Taken::kNot;
    }
    const bool is_port = name == "port_added";
    if (is_port || name == "path_assigned") {
        if (!data.is_object()) return Taken::kBad;
        return is_port ? add_port(group, data) : add_path(group, data);
    }
    if (name != "queue_updated" && name != "packets_marked" && name != "packets_dropped" &&
        name != "credit_wait_began" && name != "credit_wait_ended") {
        return Taken::kNot;
    }
    const auto port = numbers_.find(group);
    PortEvent event;
    event.time_ms = time_ms;
    if (port == numbers_.end() || !data.is_object() || !fill(event, name, data)) return Taken::kBad;
    ports_[port->second].events.push_back(event);
    end_ms_ = std::max(end_ms_, time_ms);
    return Taken::kAsEvent;
}

}  // namespace urnic::view
