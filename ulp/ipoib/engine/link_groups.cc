// What a link is a member of, and what waits for an answer of the subnet administrator.
#include <algorithm>
#include <utility>

#include "ulp/ipoib/engine/link.h"

namespace urnic::ipoib {

namespace {

/// Packets that wait for a way, of one destination and in all.
constexpr std::ptrdiff_t kMostWaitingForOne = 3;
constexpr std::size_t kMostWaiting = 64;

}  // namespace

bool Link::join_broadcast() {
    if (!has_joined_broadcast_) {
        const Progress progress = outbox_.join(broadcast_gid(config_.scope));
        has_joined_broadcast_ = progress == Progress::kDone;
        counters_.joins_failed += progress == Progress::kFailed ? 1 : 0;
    }
    return has_joined_broadcast_;
}

void Link::set_memberships(std::span<const std::uint32_t> ipv4, std::span<const Ipv6Address> ipv6) {
    std::vector<Gid> wanted;
    for (const std::uint32_t address : ipv4) {
        wanted.push_back(ipv4_group_gid(config_.scope, address));
    }
    for (const Ipv6Address& address : ipv6) {
        wanted.push_back(ipv6_group_gid(config_.scope, address));
    }
    std::sort(wanted.begin(), wanted.end());
    // Addresses of several scopes may share a group.
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    std::erase(wanted, broadcast_gid(config_.scope));
    std::vector<Gid> kept;
    for (const Gid& group : groups_) {
        if (std::binary_search(wanted.begin(), wanted.end(), group)) {
            kept.push_back(group);
        } else {
            leave(group);
        }
    }
    for (const Gid& group : joining_) {
        if (!std::binary_search(wanted.begin(), wanted.end(), group)) {
            leave(group);
        }
    }
    joining_.clear();
    for (const Gid& group : wanted) {
        if (std::binary_search(groups_.begin(), groups_.end(), group)) {
            continue;
        }
        const bool has_room = kept.size() + joining_.size() < config_.max_groups;
        const Progress progress = has_room ? outbox_.join(group) : Progress::kFailed;
        if (progress == Progress::kDone) {
            kept.push_back(group);
            // Who has only sent there may have had another LID.
            forget_handle(group);
        } else if (progress == Progress::kPending) {
            joining_.push_back(group);
        }
        counters_.joins_failed += progress == Progress::kFailed ? 1 : 0;
    }
    std::sort(kept.begin(), kept.end());
    groups_ = std::move(kept);
}

void Link::leave(const Gid& group) {
    outbox_.leave(group);
    forget_handle(group);
}

void Link::forget_handle(const Gid& group) {
    neighbours_.forget_handle({.qpn = kMulticastQpn, .gid = group});
}

void Link::forget_subnet() {
    counters_.tx_no_handle += waiting_.size();
    waiting_.clear();
    neighbours_.forget_handles();
    joining_.clear();
    for (const Gid& group : std::exchange(groups_, {})) {
        outbox_.leave(group);
    }
    if (std::exchange(has_joined_broadcast_, false)) {
        outbox_.leave(broadcast_gid(config_.scope));
    }
}

// --- waiting for a handle

void Link::wait_for_handle(const LinkAddress& to, std::uint16_t type, ConstOctets packet) {
    const auto for_one = std::count_if(waiting_.begin(), waiting_.end(),
                                       [&](const Waiting& waiting) { return waiting.to == to; });
    if (for_one >= kMostWaitingForOne || waiting_.size() >= kMostWaiting) {
        ++counters_.tx_no_handle;
        return;
    }
    waiting_.push_back({to, type, {packet.begin(), packet.end()}});
}

void Link::on_settled(const Gid& gid) {
    std::vector<Waiting> released;
    for (Waiting& waiting : waiting_) {
        if (waiting.to.gid == gid) {
            released.push_back(std::move(waiting));
        }
    }
    std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.to.gid == gid; });
    for (const Waiting& waiting : released) {
        if (send_or_wait(waiting.to, waiting.type, waiting.packet) && waiting.type != kTypeCm) {
            count_sent(waiting.to, waiting.packet.size());
        }
    }
}

}  // namespace urnic::ipoib
