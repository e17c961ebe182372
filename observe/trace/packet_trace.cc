#include "observe/trace/packet_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/address_text.h"
#include "base/psn.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/packet_view.h"

namespace urnic::trace {

namespace {

using Json = nlohmann::ordered_json;

std::map<std::string, std::string> notes_in(const std::string& comment) {
    std::map<std::string, std::string> notes;
    std::istringstream words(comment);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        if (equals != std::string::npos) notes[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return notes;
}

std::uint32_t number_of(const std::map<std::string, std::string>& notes, const char* name) {
    const auto found = notes.find(name);
    return found == notes.end() ? 0
                                : static_cast<std::uint32_t>(std::strtoul(found->second.c_str(), nullptr, 0));
}

std::string stream_of(const wire::Packet& packet) {
    std::string ends;
    if (packet.network == wire::Network::kIpv4) {
        ends = ipv4_text(packet.ipv4.src_address) + " > " + ipv4_text(packet.ipv4.dst_address);
    } else if (packet.network == wire::Network::kIpv6 || packet.network == wire::Network::kGrh) {
        ends = gid_text(packet.grh.src_gid) + " > " + gid_text(packet.grh.dst_gid);
    } else {
        ends = fmt::format("LID {} > LID {}", packet.lrh.slid, packet.lrh.dlid);
    }
    return fmt::format("{} {:#x}", ends, packet.transport.dest_qp);
}

/// Of a NAK.
std::string nak_name(std::uint8_t syndrome) {
    const char* const name = wire::syndrome_name(syndrome);
    return name == nullptr ? "reserved" : std::string_view(name).substr(sizeof "NAK").data();
}

}  // namespace

std::string qp_name(const std::string& device, std::uint32_t qpn) {
    return fmt::format("{}/{:#x}", device, qpn);
}

bool PacketTrace::is_wanted(const std::string& device, std::uint32_t qpn) const {
    return targets_.empty() || std::any_of(targets_.begin(), targets_.end(), [&](const Target& target) {
               return target.device == device && (target.qpn == 0 || qpn == 0 || target.qpn == qpn);
           });
}

void PacketTrace::emit(std::uint64_t time_ns, const std::string& group, const char* name, Json data) {
    output_.add({time_ns, group, name, std::move(data)});
    ++events_;
}

void PacketTrace::emit(const Seen& seen, const char* name, Json data) {
    emit(seen.time_ns, seen.group, name, std::move(data));
}

void PacketTrace::add(const CapturedFrame& frame) {
    wire::Packet packet;
    wire::parse_packet(frame.link, frame.bytes, frame.wire_bytes, packet);
    if (!packet.has_transport) return;
    Seen seen;
    seen.time_ns = frame.time_ns;
    seen.notes = notes_in(frame.comment);
    seen.is_noted = seen.notes.contains("fate") && seen.notes.contains("qpn");
    seen.is_sent = frame.is_sent;
    seen.header = &packet.transport;
    seen.info = &wire::opcode_info(packet.transport.opcode);
    seen.payload_bytes = packet.payload_bytes;
    seen.group = seen.is_noted ? frame.device + "/" + seen.notes["qpn"] : stream_of(packet);
    const std::uint32_t qpn = seen.is_noted ? number_of(seen.notes, "qpn") : seen.header->dest_qp;
    add_seen(seen, frame.device, qpn);
}

void PacketTrace::add(const NotedPacket& packet) {
    Seen seen;
    seen.time_ns = packet.time_ns;
    seen.notes["fate"] = abi::kPacketFates[static_cast<std::size_t>(packet.fate.fate)];
    if (packet.fate.fate == abi::PacketFate::kDropped) {
        seen.notes["drop"] = abi::kPacketDrops[packet.fate.drop];
    }
    if (packet.state) {
        seen.notes["state"] = qp_state_name(*packet.state);
        seen.notes["next_psn"] = std::to_string(packet.next_psn);
    }
    seen.is_noted = true;
    seen.is_sent = packet.is_sent;
    seen.header = &packet.header;
    seen.info = &wire::opcode_info(packet.header.opcode);
    seen.payload_bytes = packet.payload_bytes;
    seen.group = qp_name(packet.device, packet.qpn);
    add_seen(seen, packet.device, packet.qpn);
}

void PacketTrace::add_seen(Seen& seen, const std::string& device, std::uint32_t qpn) {
    if (!is_wanted(device, qpn)) return;
    QueuePair& qp = qps_[seen.group];
    if (seen.is_noted && seen.notes.contains("state") && seen.notes["state"] != qp.state) {
        Json data = {{"new", seen.notes["state"]}};
        if (!qp.state.empty()) data["old"] = qp.state;
        qp.state = seen.notes["state"];
        emit(seen, "state_changed", std::move(data));
    }
    if (seen.is_noted && seen.is_sent) {
        on_sent(seen, qp);
    } else {
        on_received(seen, qp);
    }
}

void PacketTrace::on_sent(const Seen& seen, QueuePair& qp) {
    const bool again = seen.notes.at("fate") == "retransmission";
    const bool is_request = (seen.info->flags & wire::kIsRequest) != 0;
    const std::uint32_t psn = seen.header->psn.value();
    Json data = {{"opcode", seen.info->name},
                 {"psn", psn},
                 {"dest_qpn", seen.header->dest_qp},
                 {"payload_length", seen.payload_bytes},
                 {"ack_req", seen.header->ack_req}};
    if (again) data["retransmission"] = true;
    emit(seen, seen.header->opcode == wire::kCnp ? "cnp_sent" : "packet_sent", std::move(data));
    if (again) {
        emit(seen, "retransmission", {{"psn", psn}, {"cause", qp.cause.empty() ? "timeout" : qp.cause}});
        return;
    }
    const bool is_connected = (seen.header->opcode & wire::kServiceMask) != wire::kServiceUd;
    if (!is_request || !is_connected) return;
    if ((seen.info->flags & wire::kStarts) != 0 && qp.messages.size() < kMostMessages) {
        std::string name = seen.info->name;
        for (const char* const part : {" First", " Only"}) {
            if (const std::size_t at = name.find(part); at != std::string::npos)
                name.erase(at, std::string(part).size());
        }
        qp.messages.push_back({name, psn, take_fetched(qp, psn), seen.time_ns, false});
    }
    if (!qp.messages.empty()) {
        Message& last = qp.messages.back();
        last.last_psn = psn;
        last.is_whole = last.is_whole || (seen.info->flags & wire::kEnds) != 0;
    }
}

/// One that sends nothing has the PSN of the message behind it.
std::optional<std::uint64_t> PacketTrace::take_fetched(QueuePair& qp, std::uint32_t psn) {
    std::optional<std::uint64_t> time_ns;
    while (!qp.fetched.empty() && Psn(psn) >= Psn(qp.fetched.front().first_psn)) {
        if (qp.fetched.front().first_psn == psn) time_ns = qp.fetched.front().time_ns;
        qp.fetched.pop_front();
    }
    return time_ns;
}

void PacketTrace::on_received(const Seen& seen, QueuePair& qp) {
    Json data = {{"opcode", seen.info->name},
                 {"psn", seen.header->psn.value()},
                 {"dest_qpn", seen.header->dest_qp},
                 {"payload_length", seen.payload_bytes},
                 {"ack_req", seen.header->ack_req}};
    if (!seen.is_noted) {
        emit(seen, "packet_observed", std::move(data));
    } else if (seen.notes.at("fate") == "dropped") {
        const auto drop = seen.notes.find("drop");
        data["trigger"] = drop != seen.notes.end() ? drop->second : "unknown";
        emit(seen, "packet_dropped", std::move(data));
        return;
    } else {
        data["fate"] = seen.notes.at("fate");
        emit(seen, seen.header->opcode == wire::kCnp ? "cnp_received" : "packet_received", std::move(data));
    }
    if ((seen.info->headers & wire::kHasAeth) != 0) on_answer(seen, qp);
}

void PacketTrace::on_answer(const Seen& seen, QueuePair& qp) {
    const wire::Aeth& aeth = seen.header->aeth;
    const std::uint32_t psn = seen.header->psn.value();
    Json data = {{"psn", psn}, {"msn", aeth.msn}};
    const auto value = static_cast<std::uint32_t>(aeth.syndrome & wire::kSyndromeValueMask);
    switch (aeth.syndrome & wire::kSyndromeKindMask) {
        case wire::kSyndromeAck:
            data["credits"] = value;
            emit(seen, "ack_received", std::move(data));
            qp.cause.clear();
            update_window(seen, qp, (Psn(psn) + 1).value());
            if ((seen.info->flags & (wire::kIsAck | wire::kEnds)) != 0) end_messages(seen, qp);
            break;
        case wire::kSyndromeRnrNak:
            data["timer"] = value;
            emit(seen, "rnr_nak_received", std::move(data));
            qp.cause = "rnr_nak";
            update_window(seen, qp, psn);
            break;
        case wire::kSyndromeNak:
            data["code"] = nak_name(aeth.syndrome);
            emit(seen, "nak_received", std::move(data));
            qp.cause = "nak";
            update_window(seen, qp, psn);
            break;
        default:  // reserved
            break;
    }
}

void PacketTrace::update_window(const Seen& seen, QueuePair& qp, std::uint32_t acknowledged) {
    if (!seen.is_noted || !seen.notes.contains("next_psn")) return;
    const std::int32_t in_flight =
        std::max(Psn(number_of(seen.notes, "next_psn")).distance(Psn(acknowledged)), 0);
    if (in_flight == qp.in_flight) return;
    qp.in_flight = in_flight;
    emit(seen, "window_updated", {{"packets_in_flight", in_flight}, {"unacknowledged_psn", acknowledged}});
}

/// An ACK is for everything up to its PSN (IBA 9.7.5.1.1); so is the last response of a READ. A message that
/// others follow, and whose last packet was not seen, was lost to the reader: nothing is said of it.
void PacketTrace::end_messages(const Seen& seen, QueuePair& qp) {
    while (!qp.messages.empty() && seen.header->psn >= Psn(qp.messages.front().last_psn)) {
        const Message& message = qp.messages.front();
        if (!message.is_whole && qp.messages.size() == 1) return;
        if (message.is_whole) {
            output_.add_message(
                {seen.group, message.name, message.fetched_ns, message.begin_ns, seen.time_ns});
            ++events_;
        }
        qp.messages.pop_front();
    }
}

}  // namespace urnic::trace
