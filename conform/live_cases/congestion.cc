// Congestion notification: from a mark to a CNP, and from a CNP to a rate.
#include <algorithm>

#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

constexpr std::size_t kCnpBytes = wire::kBthBytes + 16 + wire::kIcrcBytes;  // behind UDP
constexpr TimeNs kIdle = 20 * kMillisecond;  // longer than any gap between CNPs

}  // namespace

class LiveCongestion : public LiveScript {
  protected:
    void send_marked(const ScriptPacket& packet) {
        FrameBytes frame = built(packet);
        wire::set_ce(frame);
        bench().transmit({frame});
    }
    /// What the annex has of a CNP, bit by bit (A17.9.3).
    void check(const SeenFrame& cnp) {
        const wire::PacketHeader header = frame_header(cnp.bytes);
        const std::size_t bth = bth_offset(cnp.bytes);
        require(cnp.bytes.size() == bth + kCnpBytes,
                "a CNP of " + std::to_string(cnp.bytes.size()) + " bytes");
        require(header.becn && !header.fecn, "a CNP has BECN 1 and FECN 0");
        require(header.psn.value() == 0 && !header.ack_req && !header.solicited,
                "a CNP has PSN 0, AckReq 0 and SE 0");
        require(std::all_of(cnp.bytes.begin() + static_cast<std::ptrdiff_t>(bth + wire::kBthBytes),
                            cnp.bytes.end() - wire::kIcrcBytes,
                            [](std::byte byte) { return byte == std::byte{0}; }),
                "the 16 bytes behind a CNP's BTH are zero");
    }
};

CONFORM_CASE_IN(
    LiveCongestion, CnpOfAMark, "A17.9.3",
    "a mark may be answered by a CNP to the QP that sent the packet; the packet counts all the same") {
    connect();
    const TimeNs begin = live().real_now();
    send_marked(write_only(2000, 8));
    bool is_acknowledged = false;
    std::optional<SeenFrame> cnp;
    for (const SeenFrame& frame : frames_until_silence(5 * kIdle)) {
        if (is_cnp(frame)) {
            require(!cnp.has_value(), "two CNPs for one mark");
            check(frame);
            cnp = frame;
        } else {
            is_acknowledged = is_acknowledged || frame_header(frame.bytes).psn.value() == 2000;
        }
    }
    require(is_acknowledged, "a marked request is not acknowledged");
    measured("CNP", cnp ? "after " + duration_text(cnp->time - begin) : "none");
    if (cnp) {
        measured("DSCP of CNPs", std::to_string(traffic_class_of(cnp->bytes) >> 2U));
        measured("MigReq of CNPs", frame_header(cnp->bytes).mig_req ? "1" : "0");
    }
}

CONFORM_CASE_IN(LiveCongestion, CnpOfAGap, "A17.9.3",
                "a responder that misses a packet may take that for congestion: a CNP beside the NAK") {
    connect();
    peer(write_only(2001, 8));
    bool is_nak = false;
    std::size_t cnps = 0;
    for (const SeenFrame& frame : frames_until_silence(5 * kIdle)) {
        if (is_cnp(frame)) {
            check(frame);
            ++cnps;
        } else {
            is_nak = is_nak || frame_header(frame.bytes).aeth.syndrome == wire::kNakPsnSequenceError;
        }
    }
    require(is_nak, "a gap has no NAK");
    measured("CNPs beside a NAK", std::to_string(cnps));
    live().forget();
}

CONFORM_CASE_IN(LiveCongestion, GapOfCnps, "A17.9.3", "CNPs for marks of one flow may have a least gap") {
    constexpr std::uint32_t kMarks = 400;
    connect();
    const TimeNs begin = live().real_now();
    for (std::uint32_t i = 0; i < kMarks; ++i) {
        send_marked(unasked(write_only(2000 + i, 8)));
    }
    const TimeNs took = live().real_now() - begin;
    peer(write_only(2000 + kMarks, 8));
    std::vector<TimeNs> times;
    for (const SeenFrame& frame : frames_until_silence(kIdle)) {
        if (is_cnp(frame)) {
            times.push_back(frame.time);
        }
    }
    std::vector<TimeNs> gaps;
    for (std::size_t i = 1; i < times.size(); ++i) {
        gaps.push_back(times[i] - times[i - 1]);
    }
    measured(std::to_string(kMarks) + " marks in " + duration_text(took),
             std::to_string(times.size()) + " CNPs");
    if (!gaps.empty()) {
        measured("gap between CNPs", "least " + duration_text(*std::min_element(gaps.begin(), gaps.end())) +
                                         ", median " + duration_text(median(gaps)));
    }
    live().forget();
}

CONFORM_CASE_IN(LiveCongestion, ScopeOfTheGap, "A17.9.3",
                "the gap between CNPs may be a QP's or that of all QPs of an address or a port") {
    constexpr std::uint32_t kRounds = 10;
    connect();
    const OtherQp other = live().add_qp();
    std::uint32_t both = 0;
    std::uint32_t one = 0;
    for (std::uint32_t i = 0; i < kRounds; ++i) {
        FrameBytes first = built(write_only(2000 + i, 8));
        FrameBytes second = built(write_only(2000 + i, 8).dest_qp(other.number));
        wire::set_ce(first);
        wire::set_ce(second);
        bench().transmit({first, second});
        std::size_t cnps = 0;
        for (const SeenFrame& frame : frames_until_silence(kIdle)) {
            cnps += is_cnp(frame) ? 1U : 0U;
        }
        both += cnps == 2 ? 1U : 0U;
        one += cnps == 1 ? 1U : 0U;
    }
    measured("marks of two QPs at once", both + one == 0      ? "no CNP"
                                         : both > kRounds / 2 ? "a CNP for each QP"
                                                              : "one CNP for both QPs");
    live().forget();
}

CONFORM_CASE_IN(LiveCongestion, CnpsAndTheRate, "A17.9.3",
                "CNPs are taken by the QP that they are for, and break nothing") {
    constexpr std::uint32_t kMtu = 1024;
    constexpr std::uint32_t kCount = 96;  // Linux rxe has no more than 128 packets unacknowledged
    connect({.mtu = kMtu});
    const auto take_message = [&](std::uint64_t wr_id, std::uint32_t psn) {
        post(write(wr_id, kCount * kMtu));
        const std::vector<SeenFrame> frames = take_requests(kCount);
        peer(ack(psn + kCount - 1, static_cast<std::uint32_t>(wr_id)));
        completes(ok(wr_id));
        return frames.back().time - frames.front().time;
    };
    const TimeNs before = take_message(1, 1000);
    constexpr int kCnps = 20;
    for (int i = 0; i < kCnps; ++i) {
        peer(ScriptPacket(wire::kCnp & wire::kOperationMask, 0)
                 .service(wire::kServiceCnp)
                 .ackreq(false)
                 .becn());
        bench().wait_until(live().real_now() + kMillisecond / 5);
    }
    const TimeNs after = take_message(2, 1000 + kCount);
    measured("a WRITE of " + std::to_string(kCount) + " packets", duration_text(before));
    measured("the same behind " + std::to_string(kCnps) + " CNPs", duration_text(after));
    live().forget();
}

}  // namespace urnic::conform
