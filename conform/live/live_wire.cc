#include "conform/live/live_wire.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "conform/live/vlan_tag.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/layout.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kIpOffset = wire::kEthernetBytes;
constexpr unsigned kUdpProtocol = 17;
constexpr TimeNs kNsPerSecond = 1'000'000'000;

}  // namespace

Tolerance LiveWire::tolerance() {
    constexpr TimeNs kMillisecond = kNsPerSecond / 1000;
    return {.patience_ns = 1000 * kMillisecond,
            .settle_ns = 10 * kMillisecond,
            .late_ns = 250 * kMillisecond,
            .too_late_ns = 2000 * kMillisecond,
            .early_ns = 5 * kMillisecond,
            .longest_silence_ns = 100 * kMillisecond,
            .takes_what_specification_leaves_open = true,
            .recovery_is_unknown = false};
}

void LiveWire::begin_case(TimeNs limit_ns) {
    trace_.clear();
    frames_.clear();
    clock_ = port_.now();
    held_up_ns_ = 0;
    case_end_ = clock_ + limit_ns;
}

void LiveWire::forget_frames() {
    receive_until(0, false);
    frames_.clear();
}

void LiveWire::check_limits(TimeNs until) const {
    const TimeNs now = port_.now();
    if (until != kNever && until > now + kLongestWaitNs) {
        throw CannotPlay("a step waits for " + std::to_string((until - now) / kNsPerSecond) + " s");
    }
    if (now > case_end_) {
        throw CaseTooLong("the case did not come to its end in time");
    }
}

wire::PathSpec LiveWire::path() const {
    wire::PathSpec spec;
    spec.src_mac = path_.own_mac;
    spec.dst_mac = path_.device_mac;
    spec.src_gid = path_.own_gid;
    spec.dst_gid = path_.device_gid;
    return spec;
}

// As it is on the wire.
void LiveWire::trace(TimeNs time, bool is_ours, const FrameBytes& frame,
                     std::optional<std::uint16_t> vlan_tci) {
    if (trace_.size() < kMaxTrace) {
        trace_.push_back({time, is_ours, vlan_tci ? with_vlan_tag(frame, *vlan_tci) : frame});
    }
}

std::optional<std::uint16_t> LiveWire::own_tag() const {
    return path_.vlan == 0 ? std::nullopt : std::optional(path_.vlan);
}

void LiveWire::transmit(const std::vector<FrameBytes>& burst) {
    check_limits(0);
    receive_until(0, false);
    for (const FrameBytes& frame : burst) {
        clock_ = port_.send(frame);
        trace(clock_, true, frame, own_tag());
    }
}

void LiveWire::transmit_together(const std::vector<FrameBytes>& burst) {
    check_limits(0);
    receive_until(0, false);
    clock_ = port_.send_together(burst);
    for (const FrameBytes& frame : burst) {
        trace(clock_, true, frame, own_tag());
    }
}

// Where IP ends in a frame of RoCEv2 between these two; 0: it is something else.
std::size_t LiveWire::end_of_ip(const FrameBytes& frame) const {
    if (frame.size() < kIpOffset + wire::kIpv4Bytes + wire::kUdpBytes + wire::kBthBytes) {
        return 0;
    }
    const auto byte = [&frame](std::size_t at) { return std::to_integer<unsigned>(frame[kIpOffset + at]); };
    const unsigned type = wire::load_be16(frame.data() + 12);
    const bool is_ipv4 = type == wire::kEtherTypeIpv4 && byte(0) == 0x45 && byte(9) == kUdpProtocol;
    const bool is_ipv6 = type == wire::kEtherTypeIpv6 && (byte(0) >> 4U) == 6 && byte(6) == kUdpProtocol;
    const std::size_t header = is_ipv6 ? wire::kIpv6Bytes : wire::kIpv4Bytes;
    if ((!is_ipv4 && !is_ipv6) || frame.size() < kIpOffset + header + wire::kUdpBytes + wire::kBthBytes ||
        wire::load_be16(frame.data() + kIpOffset + header + 2) != wire::kRocev2UdpPort) {
        return 0;
    }
    // The last four or all 16 bytes of a GID.
    const std::size_t address = is_ipv6 ? 16 : 4;
    const auto same = [&](std::size_t at, const Gid& gid) {
        return std::equal(gid.end() - static_cast<std::ptrdiff_t>(address), gid.end(),
                          frame.begin() + static_cast<std::ptrdiff_t>(kIpOffset + at),
                          [](std::uint8_t a, std::byte b) { return a == std::to_integer<unsigned>(b); });
    };
    const std::size_t source = is_ipv6 ? 8 : 12;
    const bool is_to_second = takes_second_ && path_.second_gid && same(source + address, *path_.second_gid);
    if (!same(source, path_.device_gid) || (!is_to_second && !same(source + address, path_.own_gid))) {
        return 0;
    }
    return is_ipv6 ? kIpOffset + header + wire::load_be16(frame.data() + kIpOffset + 4)
                   : kIpOffset + wire::load_be16(frame.data() + kIpOffset + 2);
}

// A frame from the device to a QP of the tester's, cut to the length that IP has. Whatever its ICRC.
bool LiveWire::is_for_us(FrameBytes& frame) const {
    const std::size_t length = end_of_ip(frame);
    if (length == 0 || length > frame.size() || length < bth_offset(frame) + wire::kBthBytes) {
        return false;
    }
    frame.resize(length);
    const std::uint32_t number = wire::load_be32(frame.data() + bth_offset(frame) + 4) & 0xff'ffffU;
    return is_ours_(number);
}

void LiveWire::receive_until(TimeNs until, bool until_next) {
    constexpr std::size_t kMostFrames = 100'000;
    std::size_t taken = 0;
    const TimeNs begin = port_.now();
    while (std::optional<SeenFrame> frame = port_.receive(until)) {
        if (++taken > kMostFrames) {
            throw BenchFailed("the port is flooded");
        }
        // A port that is never empty does not make a wait longer than it is.
        const bool is_over = until != 0 && frame->time > until;
        if (is_of_vlan(*frame, path_.vlan) && is_neighbour_answer(frame->bytes)) {
            trace(frame->time, false, frame->bytes, frame->vlan_tci);
            neighbours_.push_back(std::move(*frame));
            continue;
        }
        if (is_of_vlan(*frame, path_.vlan) && is_for_us(frame->bytes)) {
            trace(frame->time, false, frame->bytes, frame->vlan_tci);
            const TimeNs came = frame->time;
            frames_.push_back(std::move(*frame));
            if (until_next) {
                note_delay(std::max(came, begin), came >= begin);
                return;
            }
        }
        if (is_over) {
            break;
        }
    }
    note_delay(until, until > begin);
}

void LiveWire::note_delay(TimeNs due, bool was_waited_for) {
    const TimeNs now = port_.now();
    if (was_waited_for && now > due) {
        held_up_ns_ = std::max(held_up_ns_, now - due);
    }
}

const SeenFrame* LiveWire::next(TimeNs until) {
    check_limits(until);
    if (frames_.empty()) {
        receive_until(until, true);
    }
    return frames_.empty() || frames_.front().time > until ? nullptr : &frames_.front();
}

SeenFrame LiveWire::take() {
    SeenFrame frame = std::move(frames_.front());
    frames_.pop_front();
    clock_ = std::max(clock_, frame.time);
    return frame;
}

bool LiveWire::is_neighbour_answer(const FrameBytes& frame) const {
    net::NeighbourMessage message;
    // A malformed one that begins like an answer is for who asked to look at.
    return asked_for_ && net::is_neighbour_frame(frame) &&
           net::parse_neighbour(frame, message) != net::NeighbourParse::kOther &&
           message.op == net::NeighbourOp::kAnswer && message.sender == *asked_for_;
}

std::vector<SeenFrame> LiveWire::neighbour_messages(const Gid& address, TimeNs until) {
    check_limits(until);
    asked_for_ = address;
    receive_until(until, false);
    asked_for_.reset();
    return std::exchange(neighbours_, {});
}

void LiveWire::wait_until(TimeNs time) {
    check_limits(time);
    receive_until(time, false);
    clock_ = std::max(clock_, time);
}

}  // namespace urnic::conform
