#include "netsim/infiniband/ib_port.h"

#include <algorithm>
#include <bit>

namespace urnic::netsim {

namespace {

// VLStalled lasts for so many HOQ lifetimes (IBA 18.2.5.4).
constexpr TimeNs kStallLifetimes = 8;

TimeNs sum(TimeNs a, TimeNs b) { return b == kNever ? kNever : a + b; }

std::uint64_t words_of(const IbPacket& packet) {
    return packet.bytes < kVcrcOctets ? 0 : (packet.bytes - kVcrcOctets) / 4;
}

bool is_multicast(const IbPacket& packet) {
    return packet.dlid >= kMulticastLids && packet.dlid != kPermissiveLid;
}

}  // namespace

IbPort::IbPort(const Options& options)
    : rate_(std::clamp(options.rate, kMinRate, kMaxRate)),
      management_buffer_bytes_(options.management_buffer_bytes) {
    set_info(options.info);
    for (Lane& lane : lanes_) {
        lane.receiver.set_capacity(options.vl_buffer_blocks);
    }
}

void IbPort::set_info(const IbPortInfo& info) {
    info_ = info;
    info_.vl_cap = std::clamp<std::uint8_t>(info_.vl_cap, 1, kDataVls);
    info_.operational_vls = std::clamp<std::uint8_t>(info_.operational_vls, 1, info_.vl_cap);
}

bool IbPort::set_state(IbPortState state) {
    const bool arms = state_ == IbPortState::kInit && state == IbPortState::kArmed;
    const bool activates = state_ == IbPortState::kArmed && state == IbPortState::kActive;
    if (arms || activates) {
        state_ = state;
    }
    return arms || activates;
}

void IbPort::train(bool up) {
    counters_.link_downed += !up && state_ != IbPortState::kDown ? 1 : 0;
    state_ = up ? IbPortState::kInit : IbPortState::kDown;
    for (Lane& lane : lanes_) {
        lane.sender.reset();
        lane.receiver.reset();
        lane.expired_in_a_row = 0;
        lane.stalled_until = 0;
    }
    waits_since_ = kNever;
}

bool IbPort::has_pkey(std::uint16_t pkey) const {
    return std::any_of(pkeys_.begin(), pkeys_.end(),
                       [pkey](std::uint16_t own) { return pkeys_match(own, pkey); });
}

bool IbPort::receive(const IbPacket& packet) {
    const bool is_management = packet.vl == kManagementVl;
    // In Init and Armed a port takes management alone, but what comes to an armed one from a neighbour that
    // is active makes it active (IBA 7.2.4).
    if (state_ == IbPortState::kDown || (!is_management && state_ == IbPortState::kInit)) {
        return false;
    }
    if (!is_management && state_ == IbPortState::kArmed) {
        state_ = IbPortState::kActive;
    }
    if (packet.bytes > std::uint32_t{info_.mtu_cap_bytes} + kMostIbHeaderBytes || packet.vl >= kVls ||
        (!is_management && packet.vl >= info_.operational_vls)) {
        ++counters_.rcv_errors;
        return false;
    }
    if (!is_management && !lanes_[packet.vl].receiver.receive(credit_blocks(packet.bytes))) {
        ++counters_.rcv_errors;
        return false;
    }
    ++counters_.rcv_packets;
    counters_.rcv_multicast_packets += is_multicast(packet) ? 1 : 0;
    counters_.rcv_data += words_of(packet);
    return true;
}

void IbPort::release(std::uint8_t vl, std::uint32_t bytes) {
    if (vl < kDataVls) {
        lanes_[vl].receiver.release(credit_blocks(bytes));
    }
}

bool IbPort::grant_due(std::uint8_t vl) const {
    return vl < info_.vl_cap && state_ != IbPortState::kDown &&
           lanes_[vl].receiver.grant_due(longest_blocks());
}

std::optional<FlowControlPacket> IbPort::grant(std::uint8_t vl) {
    if (!grant_due(vl)) {
        return std::nullopt;
    }
    Lane& lane = lanes_[vl];
    return FlowControlPacket{false, vl, lane.sender.total_sent(), lane.receiver.grant()};
}

FlowControlPacket IbPort::initial_grant(std::uint8_t vl) {
    Lane& lane = lanes_[vl];
    return {true, vl, lane.sender.total_sent(), lane.receiver.grant()};
}

void IbPort::take(TimeNs now, const FlowControlPacket& packet) {
    if (packet.vl >= kDataVls || state_ == IbPortState::kDown) {
        return;
    }
    Lane& lane = lanes_[packet.vl];
    lane.receiver.set_total(packet.fctbs);
    lane.sender.set_limit(packet.fccl);
    note_wait(now);
}

bool IbPort::push(TimeNs now, IbPacket& packet) {
    const std::uint8_t vl = packet.vl;
    Lane& lane = lanes_[vl];
    if (vl == kManagementVl && lane.waiting_bytes + packet.bytes > management_buffer_bytes_) {
        ++counters_.vl15_dropped;
        return false;
    }
    if (!can_pass(vl) || now < lane.stalled_until ||
        packet.bytes > std::uint32_t{info_.neighbour_mtu_bytes} + kMostIbHeaderBytes) {
        ++counters_.xmit_discards;
        return false;
    }
    packet.next = nullptr;
    if (lane.head == nullptr) {
        packet.head_since = now;
        lane.head = &packet;
    } else {
        lane.tail->next = &packet;
    }
    lane.tail = &packet;
    lane.waiting_bytes += packet.bytes;
    waiting_bytes_ += packet.bytes;
    most_waiting_bytes_ = std::max(most_waiting_bytes_, waiting_bytes_);
    waiting_vls_ |= 1U << vl;
    note_wait(now);
    return true;
}

IbPacket& IbPort::unlink(TimeNs now, std::uint8_t vl) {
    Lane& lane = lanes_[vl];
    IbPacket& packet = *lane.head;
    lane.head = packet.next;
    packet.next = nullptr;
    lane.waiting_bytes -= packet.bytes;
    waiting_bytes_ -= packet.bytes;
    if (lane.head == nullptr) {
        waiting_vls_ &= ~(1U << vl);
    } else {
        lane.head->head_since = now;
    }
    return packet;
}

bool IbPort::can_go(std::uint8_t vl) const {
    const Lane& lane = lanes_[vl];
    return can_pass(vl) && arbiter_.is_served(vl) &&
           (vl == kManagementVl || lane.sender.may_send(credit_blocks(lane.head->bytes)));
}

// The time in which packets wait and the link could send, but none of them may.
void IbPort::note_wait(TimeNs now) {
    bool blocked = waiting_vls_ != 0;
    for (std::uint32_t vls = waiting_vls_; vls != 0 && blocked; vls &= vls - 1) {
        blocked = !can_go(static_cast<std::uint8_t>(std::countr_zero(vls)));
    }
    if (waits_since_ != kNever && now > waits_since_) {
        counters_.xmit_wait_ns += now - waits_since_;
    }
    waits_since_ = blocked ? std::max(now, busy_until_) : kNever;
}

IbPacket* IbPort::pop(TimeNs now) {
    if (waiting_vls_ == 0 || now < busy_until_) {
        return nullptr;
    }
    std::array<std::uint32_t, kVls> ready{};
    for (std::uint32_t vls = waiting_vls_; vls != 0; vls &= vls - 1) {
        const auto vl = static_cast<std::uint8_t>(std::countr_zero(vls));
        ready[vl] = can_go(vl) ? lanes_[vl].head->bytes : 0;
    }
    const std::uint8_t vl = arbiter_.choose(ready);
    if (vl == kVls) {
        return nullptr;
    }
    Lane& lane = lanes_[vl];
    IbPacket& packet = unlink(now, vl);
    if (vl != kManagementVl) {
        lane.sender.send(credit_blocks(packet.bytes));
    }
    lane.expired_in_a_row = 0;
    ++counters_.xmit_packets;
    counters_.xmit_multicast_packets += is_multicast(packet) ? 1 : 0;
    counters_.xmit_data += words_of(packet);
    occupy(now, packet.bytes);
    note_wait(now);
    return &packet;
}

void IbPort::occupy(TimeNs now, std::uint32_t bytes) {
    constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
    constexpr std::uint32_t kPsPerNs = 1'000;
    // Picoseconds are carried on, so that many small packets take as long as they should.
    const std::uint64_t work = std::uint64_t{bytes} * 8 * kNsPerSecond;
    const std::uint64_t ps = work % rate_ * kPsPerNs / rate_;
    const bool follows = busy_until_ >= now;
    part_ps_ = static_cast<std::uint32_t>(ps) + (follows ? part_ps_ : 0);
    busy_until_ = (follows ? busy_until_ : now) + work / rate_ + part_ps_ / kPsPerNs;
    part_ps_ %= kPsPerNs;
}

TimeNs IbPort::expires_at(std::uint8_t vl, TimeNs switch_life_ns) const {
    const IbPacket& head = *lanes_[vl].head;
    return std::min(sum(head.head_since, ib_lifetime_ns(info_.hoq_life)), sum(head.came_at, switch_life_ns));
}

IbPacket* IbPort::pop_expired(TimeNs now, TimeNs switch_life_ns) {
    for (std::uint32_t vls = waiting_vls_; vls != 0; vls &= vls - 1) {
        const auto vl = static_cast<std::uint8_t>(std::countr_zero(vls));
        Lane& lane = lanes_[vl];
        if (can_pass(vl) && now >= lane.stalled_until && expires_at(vl, switch_life_ns) > now) {
            continue;
        }
        const TimeNs hoq_ns = ib_lifetime_ns(info_.hoq_life);
        const bool by_hoq = can_pass(vl) && sum(lane.head->head_since, hoq_ns) <= now;
        IbPacket& packet = unlink(now, vl);
        ++counters_.xmit_discards;
        lane.expired_in_a_row = static_cast<std::uint8_t>(by_hoq ? lane.expired_in_a_row + 1 : 0);
        if (info_.vl_stall_count != 0 && lane.expired_in_a_row >= info_.vl_stall_count) {
            lane.stalled_until = now + kStallLifetimes * hoq_ns;
            lane.expired_in_a_row = 0;
        }
        note_wait(now);
        return &packet;
    }
    return nullptr;
}

IbPacket* IbPort::take_any() {
    return waiting_vls_ == 0 ? nullptr
                             : &unlink(0, static_cast<std::uint8_t>(std::countr_zero(waiting_vls_)));
}

TimeNs IbPort::deadline(TimeNs switch_life_ns) const {
    TimeNs next = kNever;
    for (std::uint32_t vls = waiting_vls_; vls != 0; vls &= vls - 1) {
        const auto vl = static_cast<std::uint8_t>(std::countr_zero(vls));
        if (!can_pass(vl)) {
            return 0;
        }
        next = std::min(next, can_go(vl) ? busy_until_ : kNever);
        next = std::min(next, expires_at(vl, switch_life_ns));
    }
    return next;
}

}  // namespace urnic::netsim
