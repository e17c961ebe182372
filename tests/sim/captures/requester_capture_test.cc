// The operations of each RC capture, posted to our requester while it hears the answers that the real peer
// gave: the same requests as the real requester sent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "tests/sim/captures/allowed.h"
#include "tests/sim/captures/capture_host.h"

namespace urnic::sim {
namespace {

wire::PacketView view_of(const std::vector<std::byte>& frame) {
    wire::PacketView view;
    EXPECT_EQ(wire::parse_frame(frame, view), wire::ParseError::kNone);
    return view;
}

class RequesterReplay {
  public:
    RequesterReplay(const Conversation& conversation, int self)
        : conversation_(conversation),
          self_(self),
          operations_(conversation.operations_of(self)),
          host_(net_, conversation, self) {
        for (const CapturedOperation& operation : operations_) {
            regions_.push_back(&host_.add_region(std::max<std::size_t>(operation.length_bytes, 1)));
            post(operation, *regions_.back());
        }
    }

    void run() {
        for (const CapturedFrame& frame : conversation_.frames()) {
            // The application of a conversation posts later than ours does; what it waits for comes all the
            // same.
            run_until(frame.time);
            if (frame.sender != self_ && !frame.is_request()) {
                host_.deliver(frame.view);
                expect_repetition(frame);
                run_until(frame.time);
            }
        }
    }

    /// The first `count` operations succeeded, in order, and brought what the real ones brought; the others
    /// go on.
    void check_completions(std::size_t count) {
        EXPECT_EQ(host_.qp().state(), QpState::kRts);
        const std::vector<Done> done = host_.poll_send();
        ASSERT_EQ(done.size(), count);
        for (std::size_t i = 0; i < done.size(); ++i) {
            EXPECT_EQ(done[i], (Done{i, WcStatus::kSuccess}));
            check_result(operations_[i], *regions_[i]);
        }
    }
    [[nodiscard]] Frames ours() const { return frames_of(net_, true); }
    [[nodiscard]] int repetitions() const { return repetitions_; }

  private:
    void post(const CapturedOperation& operation, SimRegion& region) {
        std::copy(operation.data.begin(), operation.data.end(), region.data());
        const bool is_swap = operation.opcode == WrOpcode::kCompareSwap;
        const bool is_atomic = is_swap || operation.opcode == WrOpcode::kFetchAdd;
        SendRequest request;
        request.opcode = operation.opcode;
        request.wr_id = posted_++;
        request.flags =
            static_cast<std::uint16_t>(kSendSignaled | (operation.solicited ? kSendSolicited : 0));
        request.sge = {region.sge(0, operation.length_bytes)};
        request.remote_addr = is_atomic ? operation.atomic.va : operation.reth.va;
        request.rkey = is_atomic ? operation.atomic.rkey : operation.reth.rkey;
        request.compare_add = is_swap ? operation.atomic.compare : operation.atomic.swap_or_add;
        request.swap = operation.atomic.swap_or_add;
        host_.post_send(request);
    }

    /// A NAK says which packet goes out next (IBA 9.7.5.1.2); after an RNR NAK it waits first.
    void expect_repetition(const CapturedFrame& answer) {
        const std::uint8_t kind = answer.view.header.aeth.syndrome & wire::kSyndromeKindMask;
        if ((answer.info().headers & wire::kHasAeth) != 0 && kind != wire::kSyndromeAck) {
            ++repetitions_;
            next_psn_ = answer.view.header.psn;
        }
    }

    void run_until(TimeNs time) {
        const auto before = static_cast<std::ptrdiff_t>(net_.packets().size());
        net_.run_until(time);
        const auto next = std::find_if(net_.packets().begin() + before, net_.packets().end(),
                                       [](const SentPacket& packet) { return packet.is_request(); });
        if (next_psn_ && next != net_.packets().end()) {
            EXPECT_EQ(next->header.psn, *next_psn_);
            next_psn_.reset();
        }
    }

    void check_result(const CapturedOperation& operation, SimRegion& region) const {
        for (const CapturedFrame* answer : conversation_.sent_by(1 - self_, false)) {
            const std::int32_t position = answer->view.header.psn.distance(operation.first_psn);
            const std::uint64_t offset = static_cast<std::uint64_t>(position) * conversation_.mtu_bytes();
            if (position < 0 || offset >= operation.length_bytes) {
                continue;
            }
            if (operation.opcode == WrOpcode::kRead) {
                const std::span<const std::byte> payload = answer->view.payload;
                EXPECT_TRUE(std::equal(payload.begin(), payload.end(), region.data() + offset));
            } else if (operation.opcode == WrOpcode::kCompareSwap && position == 0) {
                EXPECT_EQ(std::memcmp(region.data(), &answer->view.header.atomic_ack, sizeof(std::uint64_t)),
                          0);
            }
        }
    }

    const Conversation& conversation_;
    int self_;
    std::vector<CapturedOperation> operations_;
    SimNetwork net_;
    CaptureHost host_;
    std::vector<SimRegion*> regions_;
    std::uint64_t posted_ = 0;
    int repetitions_ = 0;
    std::optional<Psn> next_psn_;  // what a NAK asked for and has not gone out yet
};

/// Each of our packets equals, field by field, the one that the real requester sent with that PSN.
void compare_by_psn(const Frames& ours, const std::vector<const CapturedFrame*>& theirs,
                    UsedDifferences& used) {
    std::map<std::uint32_t, const CapturedFrame*> by_psn;
    for (const CapturedFrame* frame : theirs) {
        by_psn.emplace(frame->view.header.psn.value(), frame);
    }
    std::set<std::uint32_t> seen;
    for (const std::vector<std::byte>& frame : ours) {
        const std::uint32_t psn = view_of(frame).header.psn.value();
        ASSERT_EQ(by_psn.count(psn), 1U) << psn;
        seen.insert(psn);
        EXPECT_THAT(field_differences(frame, by_psn.at(psn)->bytes, used), testing::IsEmpty()) << psn;
    }
    EXPECT_EQ(seen.size(), by_psn.size());
}

/// What the real requester sent: each packet once, or some again, on a link where some got lost before the
/// capture.
enum class Requests { kOnce, kRepeated };
struct Expected {
    Requests kind;
    std::size_t requests;   // packets in the capture
    std::size_t completed;  // operations, until the capture ends
    int repetitions;        // NAKs and RNR NAKs
};
const std::map<std::string, Expected> kExpected = {
    {"atomic_cas", {Requests::kOnce, 5, 5, 0}},      {"mtu4096_write", {Requests::kOnce, 20, 5, 0}},
    {"rc_read", {Requests::kOnce, 5, 5, 0}},         {"rc_send", {Requests::kOnce, 32, 8, 0}},
    {"rc_send_ll6", {Requests::kOnce, 32, 8, 0}},    {"rc_write", {Requests::kOnce, 40, 5, 0}},
    {"rnr", {Requests::kRepeated, 110, 20, 18}},     {"rping", {Requests::kOnce, 12, 12, 0}},
    {"send_odd_sizes", {Requests::kOnce, 10, 5, 0}}, {"write_loss", {Requests::kRepeated, 220, 5, 3}},
};

void replay(const std::string& name, UsedDifferences& used) {
    const Conversation conversation(name);
    const Expected& expected = kExpected.at(name);
    std::size_t requests = 0;
    std::size_t completed = 0;
    int repetitions = 0;
    for (const int self : {0, 1}) {
        const std::vector<const CapturedFrame*> theirs = conversation.sent_by(self, true);
        if (theirs.empty()) {
            continue;
        }
        SCOPED_TRACE("requests of peer " + std::to_string(self));
        RequesterReplay requester(conversation, self);
        requester.run();
        const std::size_t count =
            expected.kind == Requests::kOnce ? conversation.operations_of(self).size() : expected.completed;
        requester.check_completions(count);
        completed += count;
        repetitions += requester.repetitions();
        requests += theirs.size();
        if (expected.kind == Requests::kRepeated) {
            compare_by_psn(requester.ours(), theirs, used);
            continue;
        }
        const Frames ours = requester.ours();
        ASSERT_EQ(ours.size(), theirs.size());
        for (std::size_t i = 0; i < theirs.size(); ++i) {
            EXPECT_THAT(field_differences(ours[i], theirs[i]->bytes, used), testing::IsEmpty()) << i;
        }
    }
    EXPECT_EQ(requests, expected.requests);
    EXPECT_EQ(completed, expected.completed);
    EXPECT_EQ(repetitions, expected.repetitions);
}

class RequesterCapture : public testing::TestWithParam<std::string> {};

TEST_P(RequesterCapture, SendsWhatTheRealRequesterSent) {
    UsedDifferences used;
    replay(GetParam(), used);
}

std::string capture_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Rxe, RequesterCapture, testing::ValuesIn(rc_captures()), capture_name);

TEST(AllowedDifferences, AckReqInsideAMessageIsMet) {
    UsedDifferences used;
    for (const std::string& name : rc_captures()) {
        replay(name, used);
    }
    EXPECT_GT(used["BTH.ack_req"], 0);
}

}  // namespace
}  // namespace urnic::sim
