// The requests of each RC capture, replayed against our responder: the same answers as the real peer gave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "tests/sim/captures/allowed.h"
#include "tests/sim/captures/capture_host.h"

namespace urnic::sim {
namespace {

/// Whether requests are handed to the QP one by one, or all that came before the real peer's next answer as
/// one burst, as a worker takes them from its port.
enum class Pace { kOneByOne, kBursts };

class ResponderReplay {
  public:
    ResponderReplay(const Conversation& conversation, int self, Pace pace)
        : conversation_(conversation), self_(self), pace_(pace), host_(net_, conversation, self) {
        host_.register_named_memory();
        answers_ = conversation.sent_by(self, false);
        receive_buffer_ = &host_.add_region(kReceiveBytes);
    }

    /// Our answers. Requests behind the real peer's last answer are left out: the capture ends before theirs.
    Frames run() {
        bool pending = false;
        for (const CapturedFrame& frame : conversation_.frames()) {
            if (frame.time > answers_.back()->time) {
                left_out_ += frame.sender != self_ && frame.is_request() ? 1 : 0;
                continue;
            }
            if (frame.sender == self_) {
                pending = frame.is_request() && pending;
                if (!frame.is_request()) {
                    host_.progress();
                }
            } else if (frame.is_request()) {
                if (!pending) {
                    net_.run_until(frame.time);
                }
                take(frame);
                pending = pace_ == Pace::kBursts;
                if (!pending) {
                    host_.progress();
                }
            }
        }
        host_.progress();
        return frames_of(net_, false);
    }

    [[nodiscard]] std::size_t left_out() const { return left_out_; }
    [[nodiscard]] std::vector<Done> received() { return host_.poll_recv(); }
    [[nodiscard]] Frames theirs() const {
        Frames frames;
        for (const CapturedFrame* answer : answers_) {
            frames.push_back(answer->bytes);
        }
        return frames;
    }

  private:
    static constexpr std::size_t kReceiveBytes = 8192;

    void take(const CapturedFrame& frame) {
        const wire::PacketHeader& header = frame.view.header;
        const bool is_new = header.psn == host_.expected_psn();
        bool executes = is_new;
        if (is_new && (frame.info().flags & wire::kIsSend) != 0 &&
            (frame.info().flags & wire::kStarts) != 0) {
            executes = peer_had_a_receive(header.psn);
            if (executes) {
                host_.post_recv(next_receive_++, {receive_buffer_->sge(0, kReceiveBytes)});
                message_ = {receive_buffer_->data(), kReceiveBytes};
            }
        }
        if (is_new) {
            set_memory_to_what_was_answered(frame);
        }
        host_.deliver(frame.view);
        if (executes) {
            check_effect(frame);
        }
    }

    /// The capture does not show when receives were posted, but the answers do.
    bool peer_had_a_receive(Psn psn) {
        for (; next_answer_ < answers_.size(); ++next_answer_) {
            const wire::PacketHeader& answer = answers_[next_answer_]->view.header;
            const std::uint8_t kind = answer.aeth.syndrome & wire::kSyndromeKindMask;
            if (kind == wire::kSyndromeRnrNak && answer.psn == psn) {
                ++next_answer_;
                return false;
            }
            if (kind == wire::kSyndromeAck && answer.psn >= psn) {
                return true;
            }
        }
        return true;
    }

    /// What a READ brings and what an atomic finds was in the peer's memory at that time.
    void set_memory_to_what_was_answered(const CapturedFrame& frame) {
        const wire::PacketHeader& header = frame.view.header;
        for (const CapturedFrame* answer : answers_) {
            const std::int32_t position = answer->view.header.psn.distance(header.psn);
            if ((frame.info().flags & wire::kIsAtomic) != 0 && position == 0) {
                const std::span<std::byte> word = host_.named_memory(header.atomic.va, header.atomic.rkey, 8);
                std::memcpy(word.data(), &answer->view.header.atomic_ack, word.size());
            }
            const std::uint64_t offset = static_cast<std::uint64_t>(position) * conversation_.mtu_bytes();
            if ((frame.info().flags & wire::kIsRead) != 0 && position >= 0 &&
                offset < header.reth.dma_length) {
                const std::span<const std::byte> payload = answer->view.payload;
                const std::span<std::byte> memory =
                    host_.named_memory(header.reth.va + offset, header.reth.rkey, payload.size());
                std::copy(payload.begin(), payload.end(), memory.begin());
            }
        }
    }

    /// The data of a SEND or WRITE packet lies where it belongs; an atomic did what it says.
    void check_effect(const CapturedFrame& frame) {
        const wire::PacketHeader& header = frame.view.header;
        const std::span<const std::byte> payload = frame.view.payload;
        const auto flags = frame.info().flags;
        if ((flags & (wire::kIsWrite | wire::kStarts)) == (wire::kIsWrite | wire::kStarts)) {
            message_ = host_.named_memory(header.reth.va, header.reth.rkey, header.reth.dma_length);
        }
        if ((flags & (wire::kIsWrite | wire::kIsSend)) != 0) {
            ASSERT_LE(payload.size(), message_.size());
            EXPECT_TRUE(std::equal(payload.begin(), payload.end(), message_.begin())) << header.psn.value();
            message_ = message_.subspan(payload.size());
        }
        if ((flags & wire::kIsAtomic) != 0) {
            std::uint64_t after = 0;
            std::memcpy(&after, host_.named_memory(header.atomic.va, header.atomic.rkey, 8).data(),
                        sizeof after);
            std::uint64_t before = 0;
            for (const CapturedFrame* answer : answers_) {
                before = answer->view.header.psn == header.psn ? answer->view.header.atomic_ack : before;
            }
            EXPECT_EQ(after, before == header.atomic.compare ? header.atomic.swap_or_add : before);
        }
    }

    const Conversation& conversation_;
    int self_;
    Pace pace_;
    SimNetwork net_;
    CaptureHost host_;
    std::vector<const CapturedFrame*> answers_;
    std::size_t next_answer_ = 0;
    std::size_t left_out_ = 0;
    SimRegion* receive_buffer_ = nullptr;
    std::uint64_t next_receive_ = 0;
    std::span<std::byte> message_;  // what is left of the memory that the message in progress fills
};

std::size_t count_sends(const std::vector<CapturedOperation>& operations) {
    return static_cast<std::size_t>(std::count_if(
        operations.begin(), operations.end(),
        [](const CapturedOperation& operation) { return operation.opcode == WrOpcode::kSend; }));
}

/// Packets of a capture: answers that the real peers gave, and requests behind them that nobody answered.
struct Expected {
    std::size_t answers;
    std::size_t left_out;
};
const std::map<std::string, Expected> kExpected = {
    {"atomic_cas", {5, 0}},     {"mtu4096_write", {5, 0}}, {"rc_read", {40, 0}}, {"rc_send", {8, 0}},
    {"rc_send_ll6", {8, 0}},    {"rc_write", {5, 0}},      {"rnr", {38, 0}},     {"rping", {12, 0}},
    {"send_odd_sizes", {5, 0}}, {"write_loss", {8, 20}},
};

/// Replays every direction of a capture and counts what it met.
void replay(const std::string& name, Pace pace, UsedDifferences& used, Expected& met) {
    const Conversation conversation(name);
    for (const int self : {0, 1}) {
        if (!conversation.requests_of(1 - self)) {
            continue;
        }
        SCOPED_TRACE("answers of peer " + std::to_string(self));
        ResponderReplay responder(conversation, self, pace);
        const Frames ours = responder.run();
        const Frames theirs = responder.theirs();
        met.answers += theirs.size();
        met.left_out += responder.left_out();
        EXPECT_THAT(answer_differences(ours, theirs, pace == Pace::kBursts, used), testing::IsEmpty());
        const std::vector<Done> received = responder.received();
        EXPECT_EQ(received.size(), count_sends(conversation.operations_of(1 - self)));
        for (const Done& done : received) {
            EXPECT_EQ(done.status, WcStatus::kSuccess);
        }
    }
}

class ResponderCapture : public testing::TestWithParam<std::string> {};

TEST_P(ResponderCapture, AnswersAsTheRealPeerDid) {
    UsedDifferences used;
    Expected met{};
    replay(GetParam(), Pace::kOneByOne, used, met);
    EXPECT_EQ(met.answers, kExpected.at(GetParam()).answers);
    EXPECT_EQ(met.left_out, kExpected.at(GetParam()).left_out);
}

TEST_P(ResponderCapture, AnswersBurstsWithFewerPackets) {
    UsedDifferences used;
    Expected met{};
    replay(GetParam(), Pace::kBursts, used, met);
    EXPECT_EQ(met.answers, kExpected.at(GetParam()).answers);
    EXPECT_EQ(met.left_out, kExpected.at(GetParam()).left_out);
}

std::string capture_name(const testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Rxe, ResponderCapture, testing::ValuesIn(rc_captures()), capture_name);

/// A row that nothing makes use of would hide an error one day.
TEST(AllowedDifferences, EachIsMet) {
    UsedDifferences used;
    Expected met{};
    for (const std::string& name : rc_captures()) {
        replay(name, Pace::kOneByOne, used, met);
        replay(name, Pace::kBursts, used, met);
    }
    for (const std::string& row : allowed_answer_differences()) {
        EXPECT_GT(used[row], 0) << row;
    }
    for (const std::string& row : allowed_field_differences()) {
        if (row != "BTH.ack_req") {  // of requests
            EXPECT_GT(used[row], 0) << row;
        }
    }
}

}  // namespace
}  // namespace urnic::sim
