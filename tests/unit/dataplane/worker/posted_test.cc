// What was posted before a QP stops sending goes out first, and what has arrived by then is taken in. The
// post and the change come between two rounds of the worker, which has seen neither.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "rnic/qp/limits.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using rig::TestClient;
using rig::TestCq;
using rig::TestQp;

constexpr std::uint32_t kMessageBytes = 64 * 1024;
constexpr std::uint32_t kPathMtu = 4096;

class PostedSends : public testing::Test {
  protected:
    /// `b_number`: 33 puts the receiver on the sender's worker, 32 on the other one.
    explicit PostedSends(std::uint32_t b_number = 33)
        : a_(rig_, *client_, 0, 31, 3, cq_a_), b_(rig_, *client_, 1, b_number, 70, cq_b_) {
        EXPECT_EQ(a_.connect(b_), 0);
        EXPECT_EQ(b_.connect(a_), 0);
    }
    void post_send(std::uint64_t wr_id, std::uint32_t length, WrOpcode opcode = WrOpcode::kSend) {
        SendRequest request;
        request.opcode = opcode;
        request.wr_id = wr_id;
        request.sge = {rig::sge(memory_a_, 0, length, key_a_)};
        request.remote_addr = reinterpret_cast<std::uint64_t>(memory_b_.data());
        request.rkey = key_b_;
        a_.post_send(request);
    }
    void post_recv(std::uint64_t wr_id) {
        b_.post_recv(wr_id, {rig::sge(memory_b_, 0, kMessageBytes, key_b_)});
    }
    /// On the worker, with what `before` does in front of it.
    template <typename Before>
    void change(TestQp& qp, QpState state, Before&& before) {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState;
        attr.state = state;
        int error = -1;
        rig_.call(qp.worker(), [&] {
            before();
            error = rig_.worker(qp.worker()).modify_qp(qp.slot(), attr, {});
        });
        EXPECT_EQ(error, 0);
    }
    void expect(TestCq& cq, std::uint64_t wr_id, WcStatus status) {
        const std::optional<Completion> completion = cq.wait();
        ASSERT_TRUE(completion.has_value()) << "nothing came, but should have: " << wr_id;
        EXPECT_EQ(completion->wr_id, wr_id);
        EXPECT_EQ(completion->status, status);
    }

    Rig rig_{{.num_workers = 2}};
    TestCq cq_a_{2, 512};
    TestCq cq_b_{2, 512};
    std::unique_ptr<TestClient> client_ = rig_.make_client();
    rig::PageMemory memory_a_{kMessageBytes};
    rig::PageMemory memory_b_{kMessageBytes};
    std::uint32_t key_a_ = rig_.register_memory(0, memory_a_);
    std::uint32_t key_b_ = rig_.register_memory(1, memory_b_);
    TestQp a_;
    TestQp b_;
};

class PostedSendsElsewhere : public PostedSends {
  protected:
    PostedSendsElsewhere() : PostedSends(32) {}
};

TEST_F(PostedSends, GoOutBeforeTheQpIsInError) {
    post_recv(10);
    change(a_, QpState::kErr, [&] { post_send(1, 100); });
    expect(cq_b_, 10, WcStatus::kSuccess);
    // It was sent, and nobody waited for the acknowledgement.
    expect(cq_a_, 1, WcStatus::kWrFlushErr);
}

TEST_F(PostedSendsElsewhere, GoOutBeforeTheQpIsInError) {
    ASSERT_NE(a_.worker(), b_.worker());
    post_recv(10);
    change(a_, QpState::kErr, [&] { post_send(1, 100); });
    expect(cq_b_, 10, WcStatus::kSuccess);
    expect(cq_a_, 1, WcStatus::kWrFlushErr);
}

TEST_F(PostedSends, GoOutBeforeTheQpIsReset) {
    post_recv(10);
    change(a_, QpState::kReset, [&] { post_send(1, 100); });
    expect(cq_b_, 10, WcStatus::kSuccess);
    EXPECT_FALSE(cq_a_.poll().has_value()) << "a QP in RESET completes nothing";
}

// More than the send window: the answers that come meanwhile open it.
TEST_F(PostedSends, GoOnWithTheAnswersThatCome) {
    constexpr std::uint64_t kMessages = 100;
    static_assert(kMessages * (kMessageBytes / kPathMtu) > 4 * kMaxInFlightPackets);
    for (std::uint64_t i = 0; i < kMessages; ++i) {
        post_recv(i);
    }
    change(a_, QpState::kErr, [&] {
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            post_send(i, kMessageBytes);
        }
    });
    for (std::uint64_t i = 0; i < kMessages; ++i) {
        expect(cq_b_, i, WcStatus::kSuccess);
    }
    std::uint64_t acknowledged = 0;
    for (std::uint64_t i = 0; i < kMessages; ++i) {
        const std::optional<Completion> completion = cq_a_.wait();
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->wr_id, i);
        acknowledged += completion->status == WcStatus::kSuccess ? 1 : 0;
        EXPECT_EQ(completion->status, acknowledged > i ? WcStatus::kSuccess : WcStatus::kWrFlushErr);
    }
    EXPECT_GT(acknowledged, 0U);
}

// A receiver that has no receive: nobody waits for it.
TEST_F(PostedSends, WaitForNobody) {
    change(a_, QpState::kErr, [&] {
        post_send(1, 100);
        post_send(2, 100);
    });
    expect(cq_a_, 1, WcStatus::kWrFlushErr);
    expect(cq_a_, 2, WcStatus::kWrFlushErr);
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::out_of_buffer) != 0; }))
        << "one was sent";
}

// However much was posted, the worker has others to look after.
TEST_F(PostedSends, AreBounded) {
    std::uint64_t sent = 0;
    change(a_, QpState::kErr, [&] {
        const std::uint64_t before = rig_.count(0, &Counters::sent_pkts);
        // A WRITE of 64 KB takes 16 packets, and all 128 of them 2048: more go than the window has, not all.
        for (std::uint64_t i = 0; i < TestQp::kEntries; ++i) {
            post_send(i, kMessageBytes, WrOpcode::kWrite);
        }
        rig_.worker(a_.worker()).send_posted(a_.slot());
        sent = rig_.count(0, &Counters::sent_pkts) - before;
    });
    EXPECT_GT(sent, kMaxInFlightPackets);
    EXPECT_LE(sent, 64U * 32);
    for (std::uint64_t i = 0; i < TestQp::kEntries; ++i) {
        ASSERT_TRUE(cq_a_.wait().has_value());
    }
}

// The other side: a message that has come in time is received, and acknowledged, though its QP is in ERR
// next.
TEST_F(PostedSends, ThatHaveArrivedAreReceivedFirst) {
    post_recv(10);
    change(b_, QpState::kErr, [&] {
        post_send(1, 100);
        rig_.worker(a_.worker()).send_posted(a_.slot());
        EXPECT_FALSE(cq_b_.poll().has_value()) << "it lies in the port";
    });
    expect(cq_b_, 10, WcStatus::kSuccess);
    expect(cq_a_, 1, WcStatus::kSuccess);
}

}  // namespace
}  // namespace urnic::dataplane
