#include "rnic/neighbour/neighbour_cache.h"

#include <algorithm>

#include "rnic/wire/multicast.h"

namespace urnic::net {

namespace {

constexpr TimeNs kSecondNs = 1'000'000'000;

bool is_known(const wire::Mac& mac) { return mac != wire::Mac{}; }

}  // namespace

void NeighbourCache::set_own(const wire::Mac& mac, std::span<const Hop> addresses, TimeNs now,
                             NeighbourOutbox& out) {
    std::vector<Hop> before(addresses.begin(), addresses.end());
    before.swap(own_);
    const bool all = mac != mac_;
    mac_ = mac;
    bool any = false;
    for (const Hop& own : own_) {
        if (all || std::find(before.begin(), before.end(), own) == before.end()) {
            out.send(announcement(mac_, own));
            any = true;
        }
    }
    announce_at_ = any ? now + kAskNs : announce_at_;
}

void NeighbourCache::announce(TimeNs now, NeighbourOutbox& out) {
    for (const Hop& own : own_) {
        out.send(announcement(mac_, own));
    }
    announce_at_ = now + kAskNs;
}

NeighbourMessage announcement(const wire::Mac& mac, const Hop& own) {
    NeighbourMessage message;
    const bool is_arp = wire::is_ipv4_mapped(own.address);
    message.op = is_arp ? NeighbourOp::kAsk : NeighbourOp::kAnswer;
    message.eth_src = mac;
    message.eth_dst = is_arp ? kBroadcastMac : wire::multicast_mac(kAllNodes);
    message.vlan = own.vlan;
    message.sender = own.address;
    message.sender_mac = mac;
    message.target = is_arp ? own.address : kAllNodes;
    return message;
}

bool NeighbourCache::is_own(const Hop& hop) const {
    return std::find(own_.begin(), own_.end(), hop) != own_.end();
}

const Hop* NeighbourCache::source_for(const Hop& hop, const wire::Gid& preferred) const {
    const Hop* found = nullptr;
    for (const Hop& own : own_) {
        if (own.vlan == hop.vlan && wire::is_ipv4_mapped(own.address) == wire::is_ipv4_mapped(hop.address)) {
            if (own.address == preferred) {
                return &own;
            }
            found = found == nullptr ? &own : found;
        }
    }
    return found;
}

bool NeighbourCache::want(const Hop& hop, const wire::Gid& source, TimeNs now, NeighbourOutbox& out) {
    const auto found = entries_.find(hop);
    if (found == entries_.end()) {
        if (entries_.size() == kMaxEntries) {
            return false;
        }
        Entry& entry = entries_[hop];
        entry.source = source;
        begin(NeighbourState::kIncomplete, hop, entry, now, out);
        return true;
    }
    Entry& entry = found->second;
    entry.source = source;
    if (entry.state == NeighbourState::kFailed) {
        // Somebody wants it now: that is worth a question, but not one for each that wants.
        entry.due = std::min(entry.due, std::max(now, entry.asked_at + kAskNs));
        advance(now, out);
    }
    return true;
}

void NeighbourCache::ask(const Hop& hop, Entry& entry, TimeNs now, NeighbourOutbox& out) {
    ++entry.asked;
    entry.asked_at = now;
    entry.due = now + kAskNs;
    const Hop* const source = source_for(hop, entry.source);
    if (source == nullptr) {
        return;  // no address to ask from just now
    }
    NeighbourMessage message;
    message.op = NeighbourOp::kAsk;
    message.eth_src = mac_;
    if (entry.state == NeighbourState::kProbe && !entry.is_doubted) {
        message.eth_dst = entry.mac;
    } else {
        message.eth_dst = wire::is_ipv4_mapped(hop.address)
                              ? kBroadcastMac
                              : wire::multicast_mac(solicited_node(hop.address));
    }
    message.vlan = hop.vlan;
    message.sender = source->address;
    message.sender_mac = mac_;
    message.target = hop.address;
    ++stats_.asks;
    out.send(message);
}

/// Enters a state; asks in those that ask.
void NeighbourCache::begin(NeighbourState state, const Hop& hop, Entry& entry, TimeNs now,
                           NeighbourOutbox& out) {
    entry.state = state;
    entry.asked = 0;
    const bool has_lost = state == NeighbourState::kIncomplete && is_known(entry.mac);
    switch (state) {
        case NeighbourState::kIncomplete:
        case NeighbourState::kProbe:
            if (has_lost) {
                entry.mac = {};
                entry.is_doubted = false;
            }
            ask(hop, entry, now, out);
            break;
        case NeighbourState::kReachable:
            entry.due = now + kReachableNs;
            break;
        case NeighbourState::kStale:
            entry.due = now + kDelayNs;
            break;
        case NeighbourState::kFailed:
            entry.due = now + kFailedNs;
            break;
    }
    if (has_lost) {
        ++stats_.failures;
        out.changed(hop, std::nullopt);
    }
}

void NeighbourCache::expire(const Hop& hop, Entry& entry, TimeNs now, NeighbourOutbox& out) {
    switch (entry.state) {
        case NeighbourState::kReachable:
        case NeighbourState::kStale:
            begin(NeighbourState::kProbe, hop, entry, now, out);
            return;
        case NeighbourState::kFailed:
            begin(NeighbourState::kIncomplete, hop, entry, now, out);
            return;
        case NeighbourState::kIncomplete:
        case NeighbourState::kProbe:
            break;
    }
    if (entry.asked < kAsks) {
        ask(hop, entry, now, out);
    } else if (entry.state == NeighbourState::kProbe) {
        // It may have another Ethernet address by now: everybody is asked.
        begin(NeighbourState::kIncomplete, hop, entry, now, out);
    } else {
        ++stats_.failures;
        begin(NeighbourState::kFailed, hop, entry, now, out);
    }
}

void NeighbourCache::advance(TimeNs now, NeighbourOutbox& out) {
    for (auto& [hop, entry] : entries_) {
        if (entry.due <= now) {
            expire(hop, entry, now, out);
        }
    }
    if (announce_at_ <= now) {
        announce(now, out);
        announce_at_ = kNever;
    }
}

TimeNs NeighbourCache::next_event() const {
    TimeNs next = announce_at_;
    for (const auto& [hop, entry] : entries_) {
        next = std::min(next, entry.due);
    }
    return next;
}

bool NeighbourCache::may_answer(TimeNs now) {
    if (now >= answers_since_ + kSecondNs / kAnswersPerSecond) {
        const TimeNs earned = (now - answers_since_) / (kSecondNs / kAnswersPerSecond);
        answers_left_ = static_cast<std::uint32_t>(std::min<TimeNs>(kAnswerBurst, answers_left_ + earned));
        answers_since_ = now;
    }
    if (answers_left_ == 0) {
        ++stats_.unanswered;
        return false;
    }
    --answers_left_;
    return true;
}

void NeighbourCache::answer(const NeighbourMessage& question, TimeNs now, NeighbourOutbox& out) {
    if (!may_answer(now)) {
        return;
    }
    const bool is_arp = wire::is_ipv4_mapped(question.target);
    const bool by_nobody = question.sender == wire::Gid{};
    NeighbourMessage message;
    message.op = NeighbourOp::kAnswer;
    message.eth_src = mac_;
    message.eth_dst = is_known(question.sender_mac) ? question.sender_mac : question.eth_src;
    message.vlan = question.vlan;
    message.sender = question.target;
    message.sender_mac = mac_;
    message.target = question.sender;
    message.is_solicited = !by_nobody;
    if (by_nobody && !is_arp) {  // RFC 4861 7.2.4
        message.target = kAllNodes;
        message.eth_dst = wire::multicast_mac(kAllNodes);
    }
    ++stats_.answers;
    out.send(message);
}

void NeighbourCache::receive(const NeighbourMessage& message, TimeNs now, NeighbourOutbox& out) {
    if (message.eth_src == mac_ || message.sender_mac == mac_) {
        // Our own, back from the wire, or somebody who would like to be us.
        ++stats_.refused;
        return;
    }
    if (is_own({message.sender, message.vlan})) {
        ++stats_.conflicts;
        out.conflict({message.sender, message.vlan}, message.sender_mac);
        return;
    }
    if (message.op == NeighbourOp::kAsk && is_own({message.target, message.vlan})) {
        answer(message, now, out);
    }
    if (message.sender != wire::Gid{}) {
        learn(message, now, out);
    }
}

void NeighbourCache::learn(const NeighbourMessage& message, TimeNs now, NeighbourOutbox& out) {
    const Hop hop{message.sender, message.vlan};
    const auto found = entries_.find(hop);
    if (found != entries_.end()) {
        learn_about(hop, found->second, message, now, out);
    } else if (message.op == NeighbourOp::kAnswer) {
        ++stats_.unasked;
    }
}

void NeighbourCache::learn_about(const Hop& hop, Entry& entry, const NeighbourMessage& message, TimeNs now,
                                 NeighbourOutbox& out) {
    const bool was_asked =
        entry.state == NeighbourState::kIncomplete || entry.state == NeighbourState::kProbe;
    const bool is_answer = was_asked && message.is_solicited;
    const bool tells = is_known(message.sender_mac);
    const bool differs = tells && message.sender_mac != entry.mac;
    if (!is_known(entry.mac) && !tells) {
        return;  // RFC 4861 7.2.5: says that it is there, but not where
    }
    if (differs && is_known(entry.mac)) {
        if (!message.may_override) {
            if (entry.state == NeighbourState::kReachable) {
                begin(NeighbourState::kStale, hop, entry, now, out);
            }
            return;
        }
        if (!is_answer) {
            if (now < entry.asked_at + kLockNs) {
                ++stats_.refused;
                return;
            }
            entry.is_doubted = true;
            begin(NeighbourState::kProbe, hop, entry, now, out);
            return;
        }
    }
    if (differs) {
        entry.mac = message.sender_mac;
    }
    entry.is_doubted = false;
    if (is_answer) {
        begin(NeighbourState::kReachable, hop, entry, now, out);
    } else if (entry.state == NeighbourState::kIncomplete) {
        // Used at once, but the question stands: who answers it has the last word.
        entry.state = NeighbourState::kProbe;
        entry.is_doubted = true;
    } else if (differs) {
        begin(NeighbourState::kStale, hop, entry, now, out);
    }
    if (differs) {
        out.changed(hop, entry.mac);
    }
}

std::optional<wire::Mac> NeighbourCache::find(const Hop& hop) const {
    const auto found = entries_.find(hop);
    return found != entries_.end() && is_known(found->second.mac) ? std::optional(found->second.mac)
                                                                  : std::nullopt;
}

std::optional<NeighbourState> NeighbourCache::state(const Hop& hop) const {
    const auto found = entries_.find(hop);
    return found == entries_.end() ? std::nullopt : std::optional(found->second.state);
}

}  // namespace urnic::net
