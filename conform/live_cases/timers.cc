// Timers and retries of a requester, as they are, beside what they may be.
#include <array>

#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

std::string times_text(TimeNs time, TimeNs of) {
    const auto tenths = static_cast<std::uint64_t>(time * 10 / of);
    return duration_text(time) + ", " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
           " times";
}

// Four of the RNR timer codes (IBA table 45), long enough that a busy machine does not hide them.
struct RnrRow {
    std::uint8_t code;
    TimeNs time;
};
constexpr std::array<RnrRow, 4> kRnrRows = {
    {{20, 10'240'000}, {22, 20'480'000}, {24, 40'960'000}, {26, 81'920'000}}};

}  // namespace

LIVE_CASE(LiveTimers, AckTimeout, "9.7.6.1.3",
          "without an answer a request goes again after one to four times 4.096 us * 2^timeout") {
    for (const std::uint8_t code : {13, 14, 15}) {
        given("timeout", unsigned{code});
        connect({.timeout = code});
        post(write(1, 8));
        sends(write_only(1000, 8));
        const TimeNs begin = now();
        resends_within(least_timeout(code), most_timeout(code), write_only(1000, 8));
        measured("timeout " + std::to_string(code) + ", " + duration_text(least_timeout(code)),
                 times_text(now() - begin, least_timeout(code)));
        peer(ack(1000, 1));
        completes(ok(1));
        leave_the_rest();
    }
}

LIVE_CASE(LiveTimers, RnrDelay, "9.7.5.2.8",
          "behind an RNR NAK the request goes again not before the time that the NAK named") {
    for (const RnrRow& row : kRnrRows) {
        given("RNR timer", unsigned{row.code});
        connect();
        post(send(1, 8));
        sends(send_only(1000, 8));
        peer(rnr_nak(1000, 0, row.code));
        const TimeNs begin = now();
        resends_within(row.time, kSecond, send_only(1000, 8));
        measured("RNR timer " + std::to_string(row.code) + ", " + duration_text(row.time),
                 times_text(now() - begin, row.time));
        peer(ack(1000, 1));
        completes(ok(1));
        leave_the_rest();
    }
}

LIVE_CASE(LiveTimers, Retries, "9.7.6.1.3 (9.9.2.4.2)",
          "a request that nobody answers goes retry_cnt times more, and then fails with RETRY_EXC_ERR") {
    for (const std::uint8_t retries : {0, 1, 3}) {
        given("retry_cnt", unsigned{retries});
        constexpr std::uint8_t kShort = 12;  // 16.8 ms
        connect({.timeout = kShort, .retry_cnt = retries});
        post(write(1, 8));
        sends(write_only(1000, 8));
        const TimeNs begin = now();
        const std::vector<SeenFrame> again = frames_until_silence(2 * most_timeout(kShort));
        for (const SeenFrame& frame : again) {
            require(frame_header(frame.bytes).psn.value() == 1000,
                    "something else than the request was sent");
        }
        require(again.size() == retries, "sent again " + std::to_string(again.size()) + " times");
        const TimeNs last = again.empty() ? 0 : again.back().time - begin;
        measured("retry_cnt " + std::to_string(retries),
                 std::to_string(again.size()) + " repetitions, the last after " + duration_text(last));
        completes(failed(1, WcStatus::kRetryExcErr));
        state(QpState::kErr);
        leave_the_rest();
    }
}

LIVE_CASE(LiveTimers, SevenRetries, "9.7.6.1.3", "retry_cnt 7 is seven times more, not for ever") {
    constexpr std::uint8_t kShort = 9;  // 2.1 ms; 8 transmissions take at most 67 ms
    connect({.timeout = kShort, .retry_cnt = 7});
    post(write(1, 8));
    sends(write_only(1000, 8));
    const TimeNs end = now() + kSecond;
    std::size_t again = 0;
    while (now() < end && next_frame(kSecond)) {
        ++again;
    }
    const std::vector<SeenCompletion> seen = bench().completions(false, 1);
    require(!seen.empty(),
            "sent again " + std::to_string(again) + " times within a second, and no end of it");
    require(
        again == 7 && seen[0].status == WcStatus::kRetryExcErr,
        "sent again " + std::to_string(again) + " times, and completed otherwise than with RETRY_EXC_ERR");
    measured("retry_cnt 7, timeout " + duration_text(least_timeout(kShort)),
             std::to_string(again) + " repetitions, then an error");
    leave_the_rest();
}

LIVE_CASE(LiveTimers, AckLatency, "9.7.5.1.2", "a request with AckReq is acknowledged") {
    constexpr std::uint32_t kTimes = 30;
    connect();
    std::vector<TimeNs> times;
    for (std::uint32_t i = 0; i < kTimes; ++i) {
        const TimeNs begin = live().real_now();
        peer(write_only(2000 + i, 8));
        sends(ack(2000 + i, i + 1).any_credits());
        times.push_back(now() - begin);
    }
    measured("from request to ACK, median of " + std::to_string(kTimes), duration_text(median(times)));
}

LIVE_CASE(LiveTimers, AcksOfABurst, "9.7.5.1.2", "an ACK may stand for all requests before it") {
    constexpr std::uint32_t kBurst = 64;
    constexpr std::uint32_t kTogether = 16;
    connect();
    for (std::uint32_t i = 0; i < kBurst; i += kTogether) {
        std::vector<FrameBytes> burst;
        for (std::uint32_t k = 0; k < kTogether; ++k) {
            burst.push_back(built(write_only(2000 + i + k, 8)));
        }
        live().transmit_together(burst);
    }
    std::size_t acks = 0;
    for (bool is_last = false; !is_last; ++acks) {
        const std::optional<SeenFrame> frame = next_frame(bench().tolerance().patience_ns);
        require(frame.has_value(), "the last of a burst is not acknowledged");
        is_last = frame_header(frame->bytes).psn.value() == 2000 + kBurst - 1;
    }
    measured(std::to_string(kBurst) + " requests with AckReq, " + std::to_string(kTogether) + " at a time",
             std::to_string(acks) + " ACKs",
             ShownBehaviour{DeviceBehaviour::kAckOfEachRequest, acks == kBurst ? 1U : 0U});
}

LIVE_CASE(LiveTimers, ReadsOutstanding, "9.7.3.1 (11.2.4.2)",
          "no more READs are outstanding than max_rd_atomic says") {
    constexpr std::uint32_t kReads = 16;
    constexpr std::uint8_t kDepth = 4;
    connect({.max_rd_atomic = kDepth});
    for (std::uint32_t i = 0; i < kReads; ++i) {
        post(read(i, 8, std::size_t{8} * i));
    }
    const std::vector<SeenFrame> first = frames_until_silence(bench().tolerance().settle_ns);
    const std::uint32_t depth = std::min<std::uint32_t>(kDepth, live().facts().max_rd_atomic);
    require(first.size() <= depth, std::to_string(first.size()) +
                                       " READs without a response, with a depth of " + std::to_string(depth));
    std::size_t seen = first.size();
    Wcs expected;
    for (std::uint32_t i = 0; i < kReads; ++i) {
        require(i < seen, "a READ waits though a response came");
        peer(response_only(1000 + i, i + 1, 8, std::size_t{8} * i));
        expected.push_back(ok(i));
        while (seen < std::min(i + 1 + depth, kReads) && next_frame(bench().tolerance().patience_ns)) {
            ++seen;
        }
    }
    require(seen == kReads, std::to_string(seen) + " READ requests");
    completes(expected);
    measured("READs outstanding, max_rd_atomic " + std::to_string(unsigned{kDepth}),
             std::to_string(first.size()));
}

}  // namespace urnic::conform
