#include "daemon/subnet/mad_file.h"

#include <arpa/inet.h>
#include <rdma/ib_user_mad.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/umad.h"

namespace urnic::daemon {

namespace {

using subnet::MadPacket;
using subnet::MadRef;

static_assert(sizeof(ib_user_mad_hdr) == abi::kUmadHeaderBytes);

constexpr TimeNs kNsPerMs = 1'000'000;
/// A message of several segments that comes in and whose other end is closed.
constexpr TimeNs kMessageNs = 20'000 * kNsPerMs;
constexpr std::uint8_t kFirstVendorClassWithOui = 0x30;
constexpr std::uint8_t kLastVendorClassWithOui = 0x4f;
constexpr std::size_t kVendorOui = 37;

bool has_oui(std::uint8_t mgmt_class) {
    return mgmt_class >= kFirstVendorClassWithOui && mgmt_class <= kLastVendorClassWithOui;
}

std::uint32_t oui_of(const subnet::MadBytes& mad) {
    std::uint32_t oui = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        oui = oui << 8U | std::to_integer<std::uint32_t>(mad.at(kVendorOui + i));
    }
    return oui;
}

/// Of classes whose MADs have RMPP's header.
bool can_have_rmpp(std::uint8_t mgmt_class) {
    return mgmt_class == wire::kMadClassSubnetAdministration || has_oui(mgmt_class);
}

}  // namespace

int MadFile::add_agent(const MadAgent& agent, std::uint32_t& id) {
    if (agent.qpn > 1 || (agent.rmpp_version != 0 && !can_have_rmpp(agent.mgmt_class))) {
        return EINVAL;
    }
    for (id = 0; id < kMaxAgents; ++id) {
        if (!agents_.contains(id)) {
            agents_.emplace(id, agent);
            return 0;
        }
    }
    return ENOMEM;
}

int MadFile::remove_agent(std::uint32_t id) {
    if (agents_.erase(id) == 0) {
        return EINVAL;
    }
    requests_.remove_if([&](const Request& request) { return request.agent == id; });
    outgoing_.remove_if([&](const Outgoing& outgoing) { return outgoing.agent == id; });
    incoming_.remove_if([&](const Incoming& incoming) { return incoming.agent == id; });
    return 0;
}

/// Two agents of one port do not take the same requests.
bool MadFile::has_agent_for(const MadAgent& like) const {
    return std::any_of(agents_.begin(), agents_.end(), [&](const auto& entry) {
        const MadAgent& agent = entry.second;
        return agent.qpn == like.qpn && agent.mgmt_class == like.mgmt_class &&
               agent.class_version == like.class_version && agent.oui == like.oui &&
               ((agent.methods[0] & like.methods[0]) | (agent.methods[1] & like.methods[1])) != 0;
    });
}

bool MadFile::write(std::span<const std::byte> datagram, TimeNs now) {
    ib_user_mad_hdr header{};
    if (datagram.size() < sizeof header + wire::kMadHeaderBytes) {
        return false;
    }
    std::memcpy(&header, datagram.data(), sizeof header);
    const std::span<const std::byte> message = datagram.subspan(sizeof header);
    const auto agent = agents_.find(header.id);
    const std::uint32_t dest_qp = ntohl(header.qpn);
    if (agent == agents_.end() || dest_qp > 1 || (dest_qp == 0) != (agent->second.qpn == 0)) {
        return false;
    }
    MadPacket packet;
    packet.dlid = ntohs(header.lid);
    packet.sl = header.sl & 0x0fU;
    packet.src_qp = agent->second.qpn;
    packet.dest_qp = dest_qp;
    packet.qkey = dest_qp == 0 ? 0 : wire::kGsiQkey;
    std::copy_n(message.begin(), std::min(message.size(), packet.mad.size()), packet.mad.begin());
    MadRef mad(packet.mad);
    if (mad.is_subnet_management() != (dest_qp == 0)) {
        return false;
    }
    if (!mad.is_response() && mad.method() != wire::kMadTrapRepress) {
        // The responses find their agent by it, as Linux's do.
        mad.set_transaction_id(std::uint64_t{first_tid_ + header.id} << 32U |
                               (mad.transaction_id() & 0xffff'ffffU));
    }
    // Programs set the flag alone; the rest of RMPP's header is written here, as Linux does.
    if (agent->second.rmpp_version != 0 && subnet::is_rmpp_active(packet.mad)) {
        return start_message(header.id, message, packet, now);
    }
    if (message.size() > wire::kMadBytes) {
        return false;
    }
    if (header.timeout_ms != 0 && !mad.is_response()) {
        if (requests_.size() >= kMaxOutstanding) {
            return false;
        }
        Request request{header.id,
                        {datagram.begin(), datagram.begin() + sizeof header},
                        packet,
                        header.retries,
                        header.timeout_ms * kNsPerMs,
                        kNever};
        request.deadline = now + request.timeout_ns;
        requests_.push_back(std::move(request));
    }
    effects_.send(packet);
    return true;
}

std::optional<std::uint32_t> MadFile::agent_for(const MadPacket& packet) const {
    subnet::MadBytes bytes = packet.mad;
    const MadRef mad(bytes);
    if (mad.is_response()) {
        const auto id = static_cast<std::uint32_t>(mad.transaction_id() >> 32U) - first_tid_;
        const auto agent = agents_.find(id);
        return agent != agents_.end() && agent->second.mgmt_class == mad.mgmt_class() ? std::optional(id)
                                                                                      : std::nullopt;
    }
    for (const auto& [id, agent] : agents_) {
        if (agent.qpn == packet.dest_qp && agent.mgmt_class == mad.mgmt_class() &&
            agent.class_version == mad.class_version() && agent.has_method(mad.method()) &&
            (!has_oui(agent.mgmt_class) || agent.oui == oui_of(packet.mad))) {
            return id;
        }
    }
    return std::nullopt;
}

bool MadFile::take(const MadPacket& packet, TimeNs now) {
    const auto mgmt_class = std::to_integer<std::uint8_t>(packet.mad[1]);
    const bool is_rmpp = can_have_rmpp(mgmt_class) && subnet::is_rmpp_active(packet.mad);
    if (is_rmpp && subnet::rmpp_type(packet.mad) != wire::mad::kRmppData) {
        return take_control(packet, now);
    }
    const std::optional<std::uint32_t> agent = agent_for(packet);
    if (!agent) {
        return false;
    }
    if (is_rmpp && agents_.at(*agent).rmpp_version != 0) {
        take_segment(*agent, packet, now);
        return true;
    }
    subnet::MadBytes bytes = packet.mad;
    if (const MadRef mad(bytes); mad.is_response()) {
        finish_request(mad.transaction_id());
    }
    give(*agent, packet, packet.mad);
    return true;
}

void MadFile::finish_request(std::uint64_t transaction_id) {
    const auto request = std::find_if(requests_.begin(), requests_.end(), [&](Request& candidate) {
        return MadRef(candidate.packet.mad).transaction_id() == transaction_id;
    });
    if (request != requests_.end()) {
        requests_.erase(request);
    }
}

/// ACK, STOP or ABORT of a message that goes out.
bool MadFile::take_control(const MadPacket& packet, TimeNs now) {
    const auto outgoing = std::find_if(outgoing_.begin(), outgoing_.end(), [&](const Outgoing& candidate) {
        return candidate.transfer.is_of(packet);
    });
    if (outgoing == outgoing_.end()) {
        return false;
    }
    if (!outgoing->transfer.on_control(packet, now, effects_.send)) {
        outgoing_.erase(outgoing);
    }
    return true;
}

bool MadFile::start_message(std::uint32_t agent, std::span<const std::byte> message, const MadPacket& packet,
                            TimeNs now) {
    if (outgoing_.size() >= kMaxMessages) {
        return false;
    }
    // Its transaction ID may be ours now.
    std::vector<std::byte> whole(message.begin(), message.end());
    std::copy_n(packet.mad.begin(), wire::kMadHeaderBytes, whole.begin());
    outgoing_.push_back({agent, subnet::RmppTransfer(packet, whole, now)});
    outgoing_.back().transfer.pump(effects_.send);
    return true;
}

void MadFile::take_segment(std::uint32_t agent, const MadPacket& packet, TimeNs now) {
    subnet::MadBytes bytes = packet.mad;
    const MadRef mad(bytes);
    auto incoming = std::find_if(incoming_.begin(), incoming_.end(), [&](const Incoming& candidate) {
        return candidate.transaction_id == mad.transaction_id() && candidate.mgmt_class == mad.mgmt_class() &&
               candidate.slid == packet.slid;
    });
    if (incoming == incoming_.end()) {
        if (incoming_.size() >= kMaxMessages) {
            return;
        }
        incoming_.push_back({mad.transaction_id(), mad.mgmt_class(), packet.slid, agent,
                             subnet::RmppReceiver(abi::kMaxUmadBytes), now + kMessageNs});
        incoming = std::prev(incoming_.end());
    }
    std::optional<subnet::MadBytes> answer;
    const auto result = incoming->receiver.on_data(packet.mad, answer);
    if (answer) {
        MadPacket back = packet;
        std::swap(back.src_qp, back.dest_qp);
        back.dlid = packet.slid;
        back.mad = *answer;
        effects_.send(back);
    }
    if (result == subnet::RmppReceiver::Result::kMore) {
        return;
    }
    if (result == subnet::RmppReceiver::Result::kDone) {
        finish_request(mad.transaction_id());
        give(agent, packet, incoming->receiver.message());
    }
    incoming_.erase(incoming);
}

void MadFile::give(std::uint32_t agent, const MadPacket& from, std::span<const std::byte> message) {
    ib_user_mad_hdr header{};
    header.id = agent;
    header.length = static_cast<std::uint32_t>(sizeof header + message.size());
    header.qpn = htonl(from.src_qp);
    header.qkey = htonl(from.qkey);
    header.lid = htons(from.slid);
    header.sl = from.sl;
    std::vector<std::byte> datagram(sizeof header + message.size());
    std::memcpy(datagram.data(), &header, sizeof header);
    std::copy(message.begin(), message.end(), datagram.begin() + sizeof header);
    effects_.give(datagram);
}

void MadFile::advance(TimeNs now) {
    for (auto request = requests_.begin(); request != requests_.end();) {
        if (request->deadline > now) {
            ++request;
            continue;
        }
        if (request->retries != 0) {
            --request->retries;
            request->deadline = now + request->timeout_ns;
            effects_.send(request->packet);
            ++request;
            continue;
        }
        // As Linux: the header and the MAD's own, with the status.
        ib_user_mad_hdr header{};
        std::memcpy(&header, request->header.data(), sizeof header);
        header.status = ETIMEDOUT;
        header.length = sizeof header + wire::kMadHeaderBytes;
        std::vector<std::byte> datagram(header.length);
        std::memcpy(datagram.data(), &header, sizeof header);
        std::copy_n(request->packet.mad.begin(), wire::kMadHeaderBytes, datagram.begin() + sizeof header);
        request = requests_.erase(request);
        effects_.give(datagram);
    }
    outgoing_.remove_if([&](Outgoing& one) { return !one.transfer.advance(now, effects_.send); });
    std::erase_if(incoming_, [&](const Incoming& one) { return one.deadline <= now; });
}

TimeNs MadFile::next_event() const {
    TimeNs next = kNever;
    for (const Request& one : requests_) {
        next = std::min(next, one.deadline);
    }
    for (const Outgoing& one : outgoing_) {
        next = std::min(next, one.transfer.next_event());
    }
    for (const Incoming& one : incoming_) {
        next = std::min(next, one.deadline);
    }
    return next;
}

}  // namespace urnic::daemon
