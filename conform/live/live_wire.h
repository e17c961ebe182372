// The wire between the tester's port and the device under test: of all that the port takes, the frames that
// the device sends to QPs of the tester's, with their times, and a trace of both directions.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/address.h"
#include "conform/live/judged_bench.h"
#include "conform/live/wire_port.h"

namespace urnic::conform {

/// Who talks to whom.
struct LivePath {
    Mac own_mac{};
    Mac device_mac{};
    Gid own_gid{};  // both IPv4-mapped, or both IPv6
    Gid device_gid{};
    std::uint16_t vlan = 0;                        // whose tag the port puts and takes; 0: none
    std::optional<Gid> second_gid = std::nullopt;  // another of the tester's own; nothing: it has none
};

/// A case that does not come to its end.
struct CaseTooLong : std::runtime_error {
    using runtime_error::runtime_error;
};

class LiveWire {
  public:
    /// No step waits longer: what needs more is no case for a real device.
    static constexpr TimeNs kLongestWaitNs = 10'000'000'000;
    static constexpr std::size_t kMaxTrace = 20'000;

    /// `is_ours`: whether a QP number is one of the tester's.
    LiveWire(WirePort& port, const LivePath& path, std::function<bool(std::uint32_t)> is_ours)
        : port_(port), path_(path), is_ours_(std::move(is_ours)) {}

    /// What a real device and a machine with other work may take, where the case says an exact time.
    [[nodiscard]] static Tolerance tolerance();

    /// Forgets frames and trace; the case has to end by then.
    void begin_case(TimeNs limit_ns);
    /// Throws CannotPlay when a step would wait for too long, CaseTooLong when the case has to have ended.
    void check_limits(TimeNs until) const;
    /// From the tester to the device.
    [[nodiscard]] wire::PathSpec path() const;
    /// Whether frames to the tester's second address are its own as well.
    void take_second_address(bool is_taken) { takes_second_ = is_taken; }
    void transmit(const std::vector<FrameBytes>& burst);
    /// Whatever the rate that the port keeps to.
    void transmit_together(const std::vector<FrameBytes>& burst);
    /// The next frame, which stays the next until take(); null: none came up to and including `until`.
    [[nodiscard]] const SeenFrame* next(TimeNs until);
    SeenFrame take();
    void wait_until(TimeNs time);
    /// The answers about an address that come until then, by ARP or neighbour discovery, from whoever.
    [[nodiscard]] std::vector<SeenFrame> neighbour_messages(const Gid& address, TimeNs until);
    /// Takes in what has come, for so long.
    void collect(TimeNs until) { receive_until(until, false); }
    /// What was not taken is forgotten.
    void forget_frames();
    [[nodiscard]] const std::vector<TracedFrame>& trace() const { return trace_; }

    /// Of the last frame or request.
    [[nodiscard]] TimeNs clock() const { return clock_; }
    void set_clock_to_now() { clock_ = port_.now(); }
    [[nodiscard]] TimeNs real_now() const { return port_.now(); }
    /// By how much waits ended too late at most since begin_case(): behind their time, or behind the frame
    /// that was waited for.
    [[nodiscard]] TimeNs held_up_ns() const { return held_up_ns_; }

  private:
    void trace(TimeNs time, bool is_ours, const FrameBytes& frame, std::optional<std::uint16_t> vlan_tci);
    [[nodiscard]] std::optional<std::uint16_t> own_tag() const;
    void receive_until(TimeNs until, bool until_next);
    /// The tester goes on now, and should have at `due` if it waited for that.
    void note_delay(TimeNs due, bool was_waited_for);
    [[nodiscard]] std::size_t end_of_ip(const FrameBytes& frame) const;
    [[nodiscard]] bool is_for_us(FrameBytes& frame) const;
    [[nodiscard]] bool is_neighbour_answer(const FrameBytes& frame) const;

    WirePort& port_;
    LivePath path_;
    std::function<bool(std::uint32_t)> is_ours_;
    bool takes_second_ = false;
    std::deque<SeenFrame> frames_;
    std::optional<Gid> asked_for_;       // whose MAC somebody has just asked for
    std::vector<SeenFrame> neighbours_;  // the answers
    std::vector<TracedFrame> trace_;
    TimeNs clock_ = 0;
    TimeNs case_end_ = kNever;
    TimeNs held_up_ns_ = 0;
};

}  // namespace urnic::conform
