// What cases have that only a live peer can show: the tester's own bench, frames as they came, times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"
#include "conform/case/script.h"
#include "conform/live/live_bench.h"
#include "rnic/wire/layout.h"
#include "rnic/wire/opcodes.h"

namespace urnic::conform {

inline constexpr TimeNs kMillisecond = 1'000'000;
// Offsets in a frame of RoCEv2 over IPv4 without options; over IPv6 there is bth_offset().
inline constexpr std::size_t kIpAt = wire::kEthernetBytes;
inline constexpr std::size_t kUdpAt = kIpAt + wire::kIpv4Bytes;
inline constexpr std::size_t kBthAt = kUdpAt + wire::kUdpBytes;

/// Its DSCP and ECN: TOS of IPv4, traffic class of IPv6.
[[nodiscard]] unsigned traffic_class_of(const FrameBytes& frame);
[[nodiscard]] unsigned udp_source_port_of(const FrameBytes& frame);
/// "12.3 us", "4.56 ms".
[[nodiscard]] std::string duration_text(TimeNs time);
/// The middle one; 0 of none.
[[nodiscard]] TimeNs median(std::vector<TimeNs> values);

class LiveScript : public Script {
  protected:
    [[nodiscard]] LiveBench& live() { return static_cast<LiveBench&>(bench()); }
    /// The next frame from the device; nothing: none came for so long.
    [[nodiscard]] std::optional<SeenFrame> next_frame(TimeNs patience);
    /// The same, of frames that are no CNPs: a device may send one beside a NAK.
    [[nodiscard]] std::optional<SeenFrame> next_but_cnps(TimeNs patience);
    /// All frames from now on, until none came for so long.
    [[nodiscard]] std::vector<SeenFrame> frames_until_silence(TimeNs silence);
    /// Requests with a payload of one path MTU each: what `post(write(1, packets * 256))` sends at 256.
    [[nodiscard]] std::vector<SeenFrame> take_requests(std::size_t count);
    /// The case looks into IPv4 headers.
    void need_ipv4() {
        if (!wire::is_ipv4_mapped(bench().path().dst_gid)) {
            throw NotApplicable("the case is about IPv4");
        }
    }
    /// The last step of a connection: whatever else comes of it, and however late, is not looked at.
    void leave_the_rest() {
        live().forget();
        ignore_the_rest();
    }
    static bool is_cnp(const SeenFrame& frame) { return frame_header(frame.bytes).opcode == wire::kCnp; }
};

}  // namespace urnic::conform

/// A case with the steps of LiveScript.
// NOLINTBEGIN(bugprone-macro-parentheses): the name of a type
#define LIVE_CASE(suite, name, clause, what)    \
    using suite = ::urnic::conform::LiveScript; \
    CONFORM_CASE_IN(suite, name, clause, what)
// NOLINTEND(bugprone-macro-parentheses)
