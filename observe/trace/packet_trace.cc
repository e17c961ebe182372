#include "observe/trace/packet_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/address_text.h"
#include "base/psn.h"
#include "rnic/wire/dissect/ib/transport.h"
#include "rnic/wire/packet_view.h"

namespace urnic::trace {

namespace {

/// What a comment of urnic capture says, "fate=sent qpn=0x11 ..."; of a word that comes twice the last.
struct Notes {
    std::optional<std::string_view> fate;
    std::optional<std::string_view> drop;
    std::optional<std::string_view> qpn;
    std::optional<std::string_view> state;
    std::optional<std::string_view> next_psn;
};

Notes notes_in(std::string_view comment) {
    constexpr std::string_view kSpaces = " \t\n\v\f\r";
    Notes notes;
    while (true) {
        comment.remove_prefix(std::min(comment.find_first_not_of(kSpaces), comment.size()));
        if (comment.empty()) return notes;
        const std::string_view word = comment.substr(0, comment.find_first_of(kSpaces));
        comment.remove_prefix(word.size());
        const std::size_t equals = word.find('=');
        if (equals == std::string_view::npos) continue;
        const std::string_view name = word.substr(0, equals);
        const std::string_view value = word.substr(equals + 1);
        if (name == "fate") notes.fate = value;
        if (name == "drop") notes.drop = value;
        if (name == "qpn") notes.qpn = value;
        if (name == "state") notes.state = value;
        if (name == "next_psn") notes.next_psn = value;
    }
}

std::uint32_t number_of(std::string_view text) {
    return static_cast<std::uint32_t>(std::strtoul(std::string(text).c_str(), nullptr, 0));
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
const char* nak_name(std::uint8_t syndrome) {
    const char* const name = wire::syndrome_name(syndrome);
    return name == nullptr ? "reserved" : name + sizeof "NAK";
}

/// Of the message that a packet of that opcode begins: "RC WRITE with Immediate" of "RC WRITE Only with
/// Immediate".
std::string_view message_name(std::uint8_t opcode) {
    static const auto kNames = [] {
        std::array<std::string, 256> names;
        for (std::size_t i = 0; i < names.size(); ++i) {
            names[i] = wire::opcode_info(static_cast<std::uint8_t>(i)).name;
            for (const std::string_view part : {" First", " Only"}) {
                if (const std::size_t at = names[i].find(part); at != std::string::npos) {
                    names[i].erase(at, part.size());
                }
            }
        }
        return names;
    }();
    return kNames[opcode];
}

}  // namespace

std::string qp_name(std::string_view device, std::uint32_t qpn) {
    return fmt::format("{}/{:#x}", device, qpn);
}

bool PacketTrace::is_wanted(std::string_view device, std::uint32_t qpn) const {
    return targets_.empty() || std::any_of(targets_.begin(), targets_.end(), [&](const Target& target) {
               return target.device == device && (target.qpn == 0 || qpn == 0 || target.qpn == qpn);
           });
}

PacketTrace::QueuePair& PacketTrace::qp_of(const std::string& group) {
    const auto [found, is_new] = qps_.try_emplace(group);
    if (is_new) found->second.group = found->first;
    return found->second;
}

PacketTrace::QueuePair& PacketTrace::qp_of(std::string_view device, std::uint32_t qpn) {
    const auto found = known_qps_.find(QpKeyView(device, qpn));
    if (found != known_qps_.end()) return *found->second;
    QueuePair& qp = qp_of(qp_name(device, qpn));
    known_qps_.emplace(QpKey{std::string(device), qpn}, &qp);
    return qp;
}

void PacketTrace::emit(std::uint64_t time_ns, std::string_view group, const char* name,
                       const EventData& data) {
    output_.add({time_ns, group, name, data});
    ++events_;
}

void PacketTrace::add(const CapturedFrame& frame) {
    wire::Packet packet;
    wire::parse_packet(frame.link, frame.bytes, frame.wire_bytes, packet);
    if (!packet.has_transport) return;
    const Notes notes = notes_in(frame.comment);
    Seen seen;
    seen.time_ns = frame.time_ns;
    seen.is_noted = notes.fate && notes.qpn;
    seen.is_sent = frame.is_sent;
    if (seen.is_noted) seen.fate = *notes.fate;
    seen.drop = notes.drop;
    seen.state = notes.state;
    if (notes.next_psn) seen.next_psn = number_of(*notes.next_psn);
    seen.header = &packet.transport;
    seen.info = &wire::opcode_info(packet.transport.opcode);
    seen.payload_bytes = packet.payload_bytes;
    if (!is_wanted(frame.device, seen.is_noted ? number_of(*notes.qpn) : packet.transport.dest_qp)) return;
    add_seen(seen, qp_of(seen.is_noted ? fmt::format("{}/{}", frame.device, *notes.qpn) : stream_of(packet)));
}

void PacketTrace::add(const NotedPacket& packet) {
    if (!is_wanted(packet.device, packet.qpn)) return;
    Seen seen;
    seen.time_ns = packet.time_ns;
    seen.fate = abi::kPacketFates[static_cast<std::size_t>(packet.fate.fate)];
    if (packet.fate.fate == abi::PacketFate::kDropped) seen.drop = abi::kPacketDrops[packet.fate.drop];
    if (packet.state) {
        seen.state = qp_state_name(*packet.state);
        seen.next_psn = packet.next_psn;
    }
    seen.is_noted = true;
    seen.is_sent = packet.is_sent;
    seen.header = &packet.header;
    seen.info = &wire::opcode_info(packet.header.opcode);
    seen.payload_bytes = packet.payload_bytes;
    add_seen(seen, qp_of(packet.device, packet.qpn));
}

void PacketTrace::add_seen(const Seen& seen, QueuePair& qp) {
    if (seen.is_noted && seen.state) set_state(seen.time_ns, qp, *seen.state);
    if (seen.is_noted && seen.is_sent) {
        on_sent(seen, qp);
    } else {
        on_received(seen, qp);
    }
}

void PacketTrace::set_state(std::uint64_t time_ns, QueuePair& qp, std::string_view state) {
    if (qp.state == state) return;
    EventData data = {{"new", state}};
    if (!qp.state.empty()) data["old"] = qp.state;
    emit(time_ns, qp.group, "state_changed", data);
    qp.state = state;
}

void PacketTrace::on_sent(const Seen& seen, QueuePair& qp) {
    const bool again = seen.fate == "retransmission";
    const bool is_request = (seen.info->flags & wire::kIsRequest) != 0;
    const std::uint32_t psn = seen.header->psn.value();
    EventData data = {{"opcode", seen.info->name},
                      {"psn", psn},
                      {"dest_qpn", seen.header->dest_qp},
                      {"payload_length", seen.payload_bytes},
                      {"ack_req", seen.header->ack_req}};
    if (again) data["retransmission"] = true;
    emit(seen.time_ns, qp.group, seen.header->opcode == wire::kCnp ? "cnp_sent" : "packet_sent", data);
    if (again) {
        emit(seen.time_ns, qp.group, "retransmission",
             {{"psn", psn}, {"cause", qp.cause.empty() ? std::string_view("timeout") : qp.cause}});
        return;
    }
    const bool is_connected = (seen.header->opcode & wire::kServiceMask) != wire::kServiceUd;
    if (!is_request || !is_connected) return;
    if ((seen.info->flags & wire::kStarts) != 0 && qp.messages.size() < kMostMessages) {
        qp.messages.push_back(
            {message_name(seen.header->opcode), psn, take_fetched(qp, psn), seen.time_ns, false});
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
    EventData data = {{"opcode", seen.info->name},
                      {"psn", seen.header->psn.value()},
                      {"dest_qpn", seen.header->dest_qp},
                      {"payload_length", seen.payload_bytes},
                      {"ack_req", seen.header->ack_req}};
    if (!seen.is_noted) {
        emit(seen.time_ns, qp.group, "packet_observed", data);
    } else if (seen.fate == "dropped") {
        data["trigger"] = seen.drop.value_or("unknown");
        emit(seen.time_ns, qp.group, "packet_dropped", data);
        return;
    } else {
        data["fate"] = seen.fate;
        emit(seen.time_ns, qp.group, seen.header->opcode == wire::kCnp ? "cnp_received" : "packet_received",
             data);
    }
    if ((seen.info->headers & wire::kHasAeth) != 0) on_answer(seen, qp);
}

void PacketTrace::on_answer(const Seen& seen, QueuePair& qp) {
    const wire::Aeth& aeth = seen.header->aeth;
    const std::uint32_t psn = seen.header->psn.value();
    EventData data = {{"psn", psn}, {"msn", aeth.msn}};
    const auto value = static_cast<std::uint32_t>(aeth.syndrome & wire::kSyndromeValueMask);
    switch (aeth.syndrome & wire::kSyndromeKindMask) {
        case wire::kSyndromeAck:
            data["credits"] = value;
            emit(seen.time_ns, qp.group, "ack_received", data);
            qp.cause = {};
            update_window(seen, qp, (Psn(psn) + 1).value());
            if ((seen.info->flags & (wire::kIsAck | wire::kEnds)) != 0) end_messages(seen, qp);
            break;
        case wire::kSyndromeRnrNak:
            data["timer"] = value;
            emit(seen.time_ns, qp.group, "rnr_nak_received", data);
            qp.cause = "rnr_nak";
            update_window(seen, qp, psn);
            break;
        case wire::kSyndromeNak:
            data["code"] = nak_name(aeth.syndrome);
            emit(seen.time_ns, qp.group, "nak_received", data);
            qp.cause = "nak";
            update_window(seen, qp, psn);
            break;
        default:  // reserved
            break;
    }
}

void PacketTrace::update_window(const Seen& seen, QueuePair& qp, std::uint32_t acknowledged) {
    if (!seen.is_noted || !seen.next_psn) return;
    const std::int32_t in_flight = std::max(Psn(*seen.next_psn).distance(Psn(acknowledged)), 0);
    if (in_flight == qp.in_flight) return;
    qp.in_flight = in_flight;
    emit(seen.time_ns, qp.group, "window_updated",
         {{"packets_in_flight", in_flight}, {"unacknowledged_psn", acknowledged}});
}

/// An ACK is for everything up to its PSN (IBA 9.7.5.1.1); so is the last response of a READ. A message that
/// others follow, and whose last packet was not seen, was lost to the reader: nothing is said of it.
void PacketTrace::end_messages(const Seen& seen, QueuePair& qp) {
    while (!qp.messages.empty() && seen.header->psn >= Psn(qp.messages.front().last_psn)) {
        const Message& message = qp.messages.front();
        if (!message.is_whole && qp.messages.size() == 1) return;
        if (message.is_whole) {
            output_.add_message({qp.group, message.name, message.fetched_ns, message.begin_ns, seen.time_ns});
            ++events_;
        }
        qp.messages.pop_front();
    }
}

}  // namespace urnic::trace
