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
    [[nodiscard]] FrameBytes marked(const ScriptPacket& packet) {
        FrameBytes frame = built(packet);
        wire::set_ce(frame);
        return frame;
    }
    /// When the CNPs came that these have, sent with nothing between them.
    std::vector<TimeNs> cnps_of(const std::vector<FrameBytes>& frames) {
        live().transmit_together(frames);
        std::vector<TimeNs> times;
        for (const SeenFrame& frame : frames_until_silence(kIdle)) {
            if (is_cnp(frame)) {
                times.push_back(frame.time);
            }
        }
        return times;
    }
    /// Marks in pairs, of the QP under test alone and of it and another: whose gap is it?
    struct SharedGap {
        std::size_t cnps = 0;
        std::uint32_t of_one_qp = 0;   // pairs of one QP that had one CNP
        std::uint32_t of_two_qps = 0;  // pairs of two QPs that had one CNP
        // The gap is seen where two marks of one QP have one CNP.
        [[nodiscard]] bool is_seen() const { return of_one_qp > kRounds / 2; }
        // Marks of two QPs have one as often, where both have one gap.
        [[nodiscard]] bool is_each_ones() const { return of_two_qps < of_one_qp / 2; }
        static constexpr std::uint32_t kRounds = 30;
    };
    SharedGap mark_pairs(const OtherQp& other) {
        SharedGap gap;
        for (std::uint32_t i = 0; i < SharedGap::kRounds; ++i) {
            const std::uint32_t psn = 2000 + 3 * i;
            const std::size_t one =
                cnps_of({marked(write_only(psn, 8)), marked(write_only(psn + 1, 8))}).size();
            const std::size_t two =
                cnps_of({marked(write_only(psn + 2, 8)),
                         marked(write_only(2000 + i, 8).dest_qp(other.number).source(other.peer_gid))})
                    .size();
            gap.cnps += one + two;
            gap.of_one_qp += one == 1 ? 1U : 0U;
            gap.of_two_qps += two == 1 ? 1U : 0U;
        }
        return gap;
    }
    void measure(const SharedGap& gap, const char* what, DeviceBehaviour behaviour, const char* each,
                 const char* both) {
        measured(what,
                 gap.cnps == 0        ? "no CNP"
                 : !gap.is_seen()     ? "cannot be told: two marks of one QP have a CNP each as well"
                 : gap.is_each_ones() ? each
                                      : both,
                 gap.is_seen() ? std::optional(ShownBehaviour{behaviour, gap.is_each_ones() ? 1U : 0U})
                               : std::nullopt);
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
    bench().transmit({marked(write_only(2000, 8))});
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
    measured("CNP", cnp ? "after " + duration_text(cnp->time - begin) : "none",
             ShownBehaviour{DeviceBehaviour::kCnp, cnp ? 1U : 0U});
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
    measured("CNPs beside a NAK", std::to_string(cnps),
             ShownBehaviour{DeviceBehaviour::kCnpOfANak, cnps != 0 ? 1U : 0U});
    leave_the_rest();
}

CONFORM_CASE_IN(LiveCongestion, GapOfCnps, "A17.9.3", "CNPs for marks of one flow may have a least gap") {
    constexpr std::uint32_t kMarks = 400;
    constexpr std::uint32_t kTogether = 16;
    constexpr std::size_t kEnoughGaps = 8;
    connect();
    std::size_t cnps = 0;
    std::vector<TimeNs> gaps;  // between marks that came together
    for (std::uint32_t i = 0; i < kMarks; i += kTogether) {
        std::vector<FrameBytes> burst;
        for (std::uint32_t k = 0; k < kTogether; ++k) {
            burst.push_back(marked(unasked(write_only(2000 + i + k, 8))));
        }
        const std::vector<TimeNs> times = cnps_of(burst);
        cnps += times.size();
        for (std::size_t k = 1; k < times.size(); ++k) {
            gaps.push_back(times[k] - times[k - 1]);
        }
    }
    peer(write_only(2000 + kMarks, 8));
    (void)frames_until_silence(kIdle);
    measured(std::to_string(kMarks) + " marks, " + std::to_string(kTogether) + " at a time",
             std::to_string(cnps) + " CNPs");
    if (!gaps.empty()) {
        const TimeNs middle = median(gaps);
        // Few of them are what a pause of this machine makes.
        measured("gap between CNPs",
                 "least " + duration_text(*std::min_element(gaps.begin(), gaps.end())) + ", median " +
                     duration_text(middle),
                 gaps.size() < kEnoughGaps ? std::nullopt
                                           : std::optional(ShownBehaviour{DeviceBehaviour::kCnpGap, middle}));
    }
    leave_the_rest();
}

CONFORM_CASE_IN(LiveCongestion, ScopeOfTheGap, "A17.9.3",
                "the gap between CNPs may be a QP's or that of all QPs of an address or a port") {
    connect();
    measure(mark_pairs(live().add_qp()), "marks of two QPs at once", DeviceBehaviour::kCnpScope,
            "a CNP for each QP", "one CNP for both QPs");
    leave_the_rest();
}

// Where a QP has a gap of its own, an address has, too.
CONFORM_CASE_IN(LiveCongestion, ScopeOfAddresses, "A17.9.3",
                "a gap between CNPs that several QPs have may be an address's or the port's") {
    connect();
    measure(mark_pairs(live().add_qp_of_second_address()), "marks of two addresses at once",
            DeviceBehaviour::kCnpScopeOfAddresses, "a CNP for each address", "one CNP for both addresses");
    leave_the_rest();
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
    leave_the_rest();
}

}  // namespace urnic::conform
