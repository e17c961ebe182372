// The QPs that somebody looks at: how many at once and how long, and what their pages get of a ring.
#include "daemon/http/qp_traces.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "dataplane/worker/capture_ring_writer.h"

namespace urnic::daemon {
namespace {

constexpr std::uint16_t kRnic = 3;
constexpr std::size_t kBytes = abi::kMinCaptureRingBytes;

TracedQp qp(std::uint32_t qpn) { return {"urnic0", qpn}; }

/// A ring with a worker's end.
class Traced {
  public:
    explicit Traced(std::uint32_t qpn) {
        auto memory = std::make_shared<Memfd>();
        EXPECT_EQ(create_memfd("ring", kBytes, Sharing::kWritable, *memory), 0);
        writer_ = dataplane::CaptureRingWriter({memory->mapping.data(), kBytes});
        trace.qp = qp(qpn);
        trace.rnic = kRnic;
        trace.began_ns = 1'000'000;
        trace.ring = std::move(memory);
    }

    /// A WQE that was taken up. Returns whether there was room.
    bool fetch(std::uint32_t index, std::uint32_t lost_before = 0) {
        abi::CapturedWqe wqe{};
        wqe.wqe_index = index;
        wqe.first_psn = index;
        return write(abi::CaptureKind::kWqe, trace.qp.qpn, index, lost_before, wqe);
    }
    /// The other end of the RNIC's link stops priority 3, or lets it continue.
    bool pause(std::uint32_t time_ns, bool is_begin) {
        abi::CapturedPause pause{};
        (is_begin ? pause.paused : pause.resumed) = 1U << 3U;
        return write(abi::CaptureKind::kPause, abi::kNoQp, time_ns, 0, pause);
    }

    RunningTrace trace;

  private:
    template <class Content>
    bool write(abi::CaptureKind kind, std::uint32_t qpn, std::uint32_t time_ns, std::uint32_t lost_before,
               const Content& content) {
        abi::CaptureRecord header{};
        header.bytes = sizeof header + sizeof content;
        header.rnic = kRnic;
        header.time_ns = 2'000'000 + time_ns;
        header.captured = sizeof content;
        header.qpn = qpn;
        header.lost_before = lost_before;
        header.state = abi::kNoState;
        header.kind = kind;
        std::byte* const room = writer_.reserve(header.bytes);
        writer_.count(kRnic, room == nullptr);
        if (room == nullptr) {
            return false;
        }
        std::memcpy(room, &header, sizeof header);
        std::memcpy(room + sizeof header, &content, sizeof content);
        writer_.publish();
        return true;
    }

    dataplane::CaptureRingWriter writer_;
};

class QpTracesTest : public testing::Test {
  protected:
    /// What a page gets now; each call half a second behind the one before.
    nlohmann::json look(const Traced& traced) {
        now_ += QpTraces::kTextNs;
        EXPECT_TRUE(traces_.ask(traced.trace.qp, now_));
        const QpTraces::Answer answer = traces_.answer(traced.trace.qp, {traced.trace}, now_);
        EXPECT_NE(answer.text, nullptr);
        return answer.text == nullptr ? nlohmann::json() : nlohmann::json::parse(*answer.text);
    }

    QpTraces traces_{2};
    TimeNs now_ = kSecondNs;
};

TEST_F(QpTracesTest, EventsSinceItBegan) {
    Traced traced(0x11);
    nlohmann::json seen = look(traced);
    EXPECT_EQ(seen.at("next"), 0);
    EXPECT_TRUE(seen.at("data").at("connections").at(0).at("time").empty());
    EXPECT_TRUE(traced.fetch(0));
    EXPECT_TRUE(traced.fetch(1));
    seen = look(traced);
    EXPECT_EQ(seen.at("first"), 0);
    EXPECT_EQ(seen.at("next"), 2);
    EXPECT_EQ(seen.at("lost"), 0);
    EXPECT_EQ(seen.at("gone"), false);
    EXPECT_EQ(seen.at("data").at("shortfall"), "");
    const nlohmann::json connection = seen.at("data").at("connections").at(0);
    EXPECT_EQ(connection.at("name"), "urnic0/0x11");
    EXPECT_EQ(connection.at("time"), (nlohmann::json{1.0, 1.000001})) << "milliseconds since it began";
    traced.trace.is_gone = true;
    EXPECT_EQ(look(traced).at("gone"), true);
}

TEST_F(QpTracesTest, PausesOfTheRnicAreItsQps) {
    Traced traced(0x11);
    EXPECT_TRUE(traced.pause(0, true));
    EXPECT_TRUE(traced.fetch(1));
    EXPECT_TRUE(traced.pause(5, false));
    const nlohmann::json seen = look(traced);
    EXPECT_EQ(seen.at("next"), 3);
    EXPECT_EQ(seen.at("data").at("shortfall"), "");
    const nlohmann::json connection = seen.at("data").at("connections").at(0);
    EXPECT_EQ(connection.at("kind"), (nlohmann::json{25, 21, 26})) << "view::Kind: paused, fetched, resumed";
    EXPECT_EQ(connection.at("findings").at(0).at("id"), "paused");
}

TEST_F(QpTracesTest, ATextIsMadeForAllWhoLook) {
    Traced traced(0x11);
    (void)look(traced);
    const auto first = traces_.answer(traced.trace.qp, {traced.trace}, now_).text;
    EXPECT_TRUE(traced.fetch(0));
    EXPECT_EQ(traces_.answer(traced.trace.qp, {traced.trace}, now_ + QpTraces::kTextNs - 1).text, first);
    EXPECT_NE(traces_.answer(traced.trace.qp, {traced.trace}, now_ + QpTraces::kTextNs).text, first);
}

TEST_F(QpTracesTest, WhatHasNoRoomIsToldAndBeginsAnew) {
    Traced traced(0x11);
    (void)look(traced);
    std::uint32_t index = 0;
    while (traced.fetch(index)) {
        ++index;
    }
    EXPECT_FALSE(traced.fetch(index));
    nlohmann::json seen = look(traced);
    EXPECT_EQ(seen.at("lost"), 2);
    EXPECT_EQ(seen.at("next"), index);
    EXPECT_NE(
        seen.at("data").at("shortfall").get<std::string>().find("2 packets, WQEs and completions are lost"),
        std::string::npos);
    EXPECT_TRUE(traced.fetch(index + 2, 2));
    seen = look(traced);
    EXPECT_EQ(seen.at("first"), index) << "what is before the gap is not shown";
    EXPECT_EQ(seen.at("next"), index + 1);
    EXPECT_EQ(seen.at("data").at("connections").at(0).at("time").size(), 1U);
}

TEST_F(QpTracesTest, OldEventsGoForNewOnes) {
    Traced traced(0x11);
    QpTrace trace(traced.trace);
    std::uint32_t index = 0;
    while (index < QpTrace::kMostEvents + 100) {
        ASSERT_TRUE(traced.fetch(index));
        ++index;
        trace.read();
    }
    const auto seen = nlohmann::json::parse(trace.text(false));
    EXPECT_EQ(seen.at("lost"), 0);
    EXPECT_EQ(seen.at("next"), index);
    EXPECT_EQ(seen.at("first"), index - QpTrace::kMostEvents);
    EXPECT_EQ(seen.at("data").at("connections").at(0).at("time").size(), QpTrace::kMostEvents);
    EXPECT_NE(seen.at("data").at("shortfall").get<std::string>().find("The newest 20000 events"),
              std::string::npos);
}

TEST_F(QpTracesTest, AsManyAsAreAllowedForAsLongAsSomebodyAsks) {
    EXPECT_TRUE(traces_.ask(qp(1), 0));
    EXPECT_TRUE(traces_.ask(qp(2), kSecondNs));
    EXPECT_FALSE(traces_.ask(qp(3), kSecondNs));
    EXPECT_TRUE(traces_.ask(qp(2), 2 * kSecondNs)) << "it has its place";
    EXPECT_FALSE(traces_.forget_late(QpTraces::kPatienceNs));
    EXPECT_TRUE(traces_.forget_late(QpTraces::kPatienceNs + 1));
    EXPECT_EQ(traces_.wanted(), WantedTraces{qp(2)});
    EXPECT_TRUE(traces_.ask(qp(3), QpTraces::kPatienceNs + 1));
    EXPECT_FALSE(traces_.is_empty());
}

TEST_F(QpTracesTest, OneThatIsRefusedGivesItsPlaceBack) {
    EXPECT_TRUE(traces_.ask(qp(1), 0));
    EXPECT_TRUE(traces_.ask(qp(2), 0));
    EXPECT_TRUE(traces_.answer(qp(1), {}, 0).problem.empty()) << "the control thread has not answered yet";
    RunningTrace refused;
    refused.qp = qp(1);
    refused.problem = "there is no such QP";
    EXPECT_EQ(traces_.answer(qp(1), {refused}, 0).problem, "there is no such QP");
    EXPECT_TRUE(traces_.ask(qp(3), 0));
    EXPECT_EQ(traces_.answer(qp(1), {refused}, 0).text, nullptr) << "nobody asks for it any more";
}

}  // namespace
}  // namespace urnic::daemon
