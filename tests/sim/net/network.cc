#include "tests/sim/net/network.h"

#include <algorithm>
#include <cstring>

#include "rnic/wire/layout.h"

namespace urnic::sim {

Network::LinkEnds Network::connect(NetworkNode& a, NetworkNode& b, const std::string& a_name,
                                   const std::string& b_name, const LinkOptions& a_to_b,
                                   const LinkOptions& b_to_a) {
    const auto id = static_cast<DirectionId>(directions_.size());
    directions_.resize(id + 2);
    directions_[id].to = &b;
    directions_[id].name = a_name + ">" + b_name;
    directions_[id + 1].to = &a;
    directions_[id + 1].name = b_name + ">" + a_name;
    for (DirectionId each = id; each < id + 2; ++each) {
        // A stream of its own for each direction: what one loses does not depend on the traffic of another.
        directions_[each].random = Random(seed_ ^ (0x11'0000'0001ULL * (each + 1)));
    }
    set_options(id, a_to_b);
    set_options(id + 1, b_to_a);
    return {id, id + 1};
}

void Network::set_options(DirectionId direction, const LinkOptions& options) {
    constexpr std::uint64_t kPsPerByteAtOneMbit = 8'000'000;
    directions_[direction].options = options;
    directions_[direction].ps_per_byte = options.rate_mbit == 0 ? 0 : kPsPerByteAtOneMbit / options.rate_mbit;
}

Frame& Network::take_frame() {
    if (free_.empty()) {
        pool_.push_back(std::make_unique<Frame>());
        free_.push_back(pool_.back().get());
    }
    Frame& frame = *free_.back();
    free_.pop_back();
    return frame;
}

bool Network::loses(Direction& direction) {
    if (now_ < direction.cut_until) {
        return true;
    }
    if (direction.burst_left != 0) {
        --direction.burst_left;
        return true;
    }
    if (!direction.random.chance(direction.options.loss, direction.options.chances_of)) {
        return false;
    }
    if (direction.options.loss_burst > 1) {
        direction.burst_left =
            static_cast<std::uint32_t>(direction.random.below(2ULL * direction.options.loss_burst - 1));
    }
    return true;
}

void Network::send(DirectionId id, Frame& frame) {
    Direction& direction = directions_[id];
    const LinkOptions& options = direction.options;
    ++direction.counters.frames;
    if (frame.length > options.mtu_bytes + wire::kEthernetBytes + wire::kVlanTagBytes) {
        ++direction.counters.too_long;
        write_log(direction, frame, "longer than the MTU");
        release(frame);
        return;
    }
    const std::uint64_t backlog_ps =
        direction.free_at_ps > now_ * kPsPerNs ? direction.free_at_ps - now_ * kPsPerNs : 0;
    if (backlog_ps > options.queue_bytes * direction.ps_per_byte) {
        ++direction.counters.queue_full;
        write_log(direction, frame, "queue full");
        release(frame);
        return;
    }
    direction.free_at_ps =
        now_ * kPsPerNs + backlog_ps + (frame.length + options.gap_bytes) * direction.ps_per_byte;
    if (loses(direction)) {
        ++direction.counters.lost;
        write_log(direction, frame, "LOST");
        release(frame);
        return;
    }
    const TimeNs sent = direction.free_at_ps / kPsPerNs;
    if (direction.random.chance(options.duplicate, options.chances_of)) {
        ++direction.counters.duplicated;
        Frame& copy = take_frame();
        copy.length = frame.length;
        std::memcpy(copy.bytes.data(), frame.bytes.data(), frame.length);
        schedule_copy(id, copy, sent);
    }
    schedule_copy(id, frame, sent);
}

void Network::schedule_copy(DirectionId id, Frame& frame, TimeNs sent) {
    Direction& direction = directions_[id];
    const LinkOptions& options = direction.options;
    Random& random = direction.random;
    const char* fate = "";
    TimeNs arrival = sent + options.delay_ns + (options.jitter_ns != 0 ? random.below(options.jitter_ns) : 0);
    if (random.chance(options.reorder, options.chances_of)) {
        ++direction.counters.reordered;
        arrival += random.below(options.reorder_ns);
        fate = "late";
    } else {
        arrival = std::max(arrival, direction.last_arrival);
        direction.last_arrival = arrival;
    }
    if (random.chance(options.corrupt, options.chances_of)) {
        ++direction.counters.corrupted;
        flip_bits(random, frame);
        fate = "CORRUPTED";
    }
    write_log(direction, frame, fate);
    push({arrival, next_order_++, direction.to, &frame, id});
}

// IBA's CRC finds every error of up to three bits in a frame of this length; a fourth goes unseen once in
// four thousand million times.
void Network::flip_bits(Random& random, Frame& frame) {
    for (std::uint64_t left = random.between(1, 4); left != 0; --left) {
        const std::uint64_t bit = random.below(std::uint64_t{frame.length} * 8);
        frame.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
}

std::uint32_t Network::room(DirectionId id) const {
    constexpr std::uint32_t kPlenty = 1'024;
    const Direction& direction = directions_[id];
    if (direction.ps_per_byte == 0) {
        return kPlenty;
    }
    const std::uint64_t now_ps = now_ * kPsPerNs;
    const std::uint64_t backlog = direction.free_at_ps > now_ps ? direction.free_at_ps - now_ps : 0;
    const std::uint64_t limit = direction.options.queue_bytes * direction.ps_per_byte;
    const std::uint64_t each = wire::kMaxFrameBytes * direction.ps_per_byte;
    return limit <= backlog ? 0 : static_cast<std::uint32_t>((limit - backlog) / each);
}

TimeNs Network::half_empty_at(DirectionId id) const {
    const Direction& direction = directions_[id];
    const std::uint64_t half = direction.options.queue_bytes / 2 * direction.ps_per_byte;
    const std::uint64_t at = direction.free_at_ps > half ? direction.free_at_ps - half : 0;
    return std::max(now_, at / kPsPerNs + 1);
}

TimeNs Network::longest_life() const {
    TimeNs total = 0;
    for (const Direction& direction : directions_) {
        const LinkOptions& options = direction.options;
        const std::uint64_t bytes = options.queue_bytes + wire::kMaxFrameBytes;
        total += options.delay_ns + options.jitter_ns + options.reorder_ns +
                 bytes * direction.ps_per_byte / kPsPerNs;
    }
    return total;
}

void Network::push(const Event& event) {
    events_.push_back(event);
    std::push_heap(events_.begin(), events_.end());
}

void Network::wake_at(TimeNs time, Agent& agent, std::uint64_t token) {
    push({std::max(time, now_), next_order_++, &agent, nullptr, token});
}

bool Network::step(TimeNs until) {
    if (events_.empty() || events_.front().time > until) {
        return false;
    }
    std::pop_heap(events_.begin(), events_.end());
    const Event event = events_.back();
    events_.pop_back();
    now_ = std::max(now_, event.time);
    if (event.frame == nullptr) {
        event.agent->wake(now_, event.token);
        return true;
    }
    const auto direction = static_cast<DirectionId>(event.token);
    ++directions_[direction].counters.delivered;
    directions_[direction].to->receive(now_, direction, *event.frame);
    return true;
}

void Network::run_until(TimeNs until) {
    while (step(until)) {
    }
    now_ = std::max(now_, until);
}

LinkCounters Network::total() const {
    LinkCounters sum;
    for (const Direction& direction : directions_) {
        sum.add(direction.counters);
    }
    return sum;
}

void LinkCounters::add(const LinkCounters& other) {
    frames += other.frames;
    lost += other.lost;
    too_long += other.too_long;
    queue_full += other.queue_full;
    duplicated += other.duplicated;
    corrupted += other.corrupted;
    reordered += other.reordered;
    delivered += other.delivered;
}

void Network::write_log(const Direction& direction, const Frame& frame, const char* fate) {
    if (log != nullptr) [[unlikely]] {
        log->frame(now_, direction.name, frame.span(), fate);
    }
}

void Switch::receive(TimeNs /*now*/, DirectionId from, Frame& frame) {
    wire::Mac destination;
    std::memcpy(destination.data(), frame.bytes.data(), destination.size());
    for (const Port& port : ports_) {
        if (wire::same_mac(port.mac, destination)) {
            network_.send(port.out, frame);
            return;
        }
    }
    for (const Port& port : ports_) {
        if (port.in != from) {
            Frame& copy = network_.take_frame();
            copy.length = frame.length;
            std::memcpy(copy.bytes.data(), frame.bytes.data(), frame.length);
            network_.send(port.out, copy);
        }
    }
    network_.release(frame);
}

}  // namespace urnic::sim
