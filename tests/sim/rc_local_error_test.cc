// Work requests that fail at home, and applications that lie about their rings (IBA 9.9.2.2, 10.10).
#include <random>

#include "rnic/qp/limits.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;

class RcLocalError : public RcPair {
  protected:
    // Posts a good WRITE, the request under test and another WRITE; the first is to succeed, the last to be
    // flushed.
    void expect_failure(const SendRequest& request, WcStatus status) {
        a_->post_send(write(request.wr_id - 1, 8));
        a_->post_send(request);
        a_->post_send(write(request.wr_id + 1, 8));
        a_->post_recv(60, {});
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(request.wr_id - 1), Done{request.wr_id, status},
                                                 flushed(request.wr_id + 1)));
        EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(60)));
        EXPECT_EQ(a_->qp().state(), QpState::kErr);
        EXPECT_EQ(b_->qp().state(), QpState::kRts);
    }
    // A WRITE that is on the wire and not acknowledged.
    void start_write(std::uint32_t length) {
        connect_pair({.timeout = 1});
        net_.lose = [](const SentPacket& packet) { return packet.from == "B"; };
        a_->post_send(write(1, length));
        net_.run_for(2000);
    }
};

TEST_F(RcLocalError, UnknownKey) {
    connect_pair();
    SendRequest request = write(5, 8);
    request.sge[0].lkey ^= 0x10000000;
    expect_failure(request, WcStatus::kLocProtErr);
}

TEST_F(RcLocalError, KeyOfAnotherPd) {
    connect_pair();
    SendRequest request = write(5, 8);
    request.sge = {a_->add_region(64, {.pd = 9}).sge(0, 8)};
    expect_failure(request, WcStatus::kLocProtErr);
}

TEST_F(RcLocalError, BeyondTheRegion) {
    connect_pair();
    expect_failure(write(5, 9, kRegionBytes - 8), WcStatus::kLocProtErr);
}

TEST_F(RcLocalError, SecondSgeIsBad) {
    connect_pair();
    SendRequest request = write(5, 8);
    request.sge.push_back({a_mem_->addr(), 8, 0});
    expect_failure(request, WcStatus::kLocProtErr);
}

TEST_F(RcLocalError, BadSgeOfALaterPacket) {
    connect_pair();
    SendRequest request = write(5, 1024);
    request.sge.push_back({a_mem_->addr(), 8, 0});
    expect_failure(request, WcStatus::kLocProtErr);
}

TEST_F(RcLocalError, ReadIntoMemoryThatMayNotBeWritten) {
    connect_pair();
    SendRequest request = read(5, 8);
    request.sge = {a_->add_region(64, {.access = 0}).sge(0, 8)};
    expect_failure(request, WcStatus::kLocProtErr);
    for (const SentPacket& packet : net_.take_packets()) {
        EXPECT_NE(packet.header.opcode, wire::kReadRequest);
    }
}

TEST_F(RcLocalError, ReadBufferRevokedBeforeTheResponse) {
    connect_pair();
    SimRegion& region = a_->add_region(64);
    SendRequest request = read(5, 8);
    request.sge = {region.sge(0, 8)};
    a_->post_send(request);
    net_.run_until(0);
    region.revoke();
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{5, WcStatus::kLocProtErr}));
}

TEST_F(RcLocalError, OwnProcessIsGone) {
    connect_pair();
    SimRegion& region = a_->add_region(64, {.mapped = false});
    region.space.gone = true;
    SendRequest request = write(5, 8);
    request.sge = {region.sge(0, 8)};
    expect_failure(request, WcStatus::kLocProtErr);
}

TEST_F(RcLocalError, MessageOverTheLimit) {
    connect_pair();
    SendRequest request = write(5, 8);
    request.sge = {{a_mem_->addr(), kMaxMessageBytes, a_mem_->key()}, {a_mem_->addr(), 1, a_mem_->key()}};
    expect_failure(request, WcStatus::kLocLenErr);
}

TEST_F(RcLocalError, AtomicWithoutRoomForItsResult) {
    connect_pair();
    SendRequest request = fetch_add(5, 1);
    request.sge[0].length = 7;
    expect_failure(request, WcStatus::kLocLenErr);
}

TEST_F(RcLocalError, InlineRead) {
    connect_pair();
    SendRequest request = read(5, 8);
    request.flags |= kSendInline;
    request.inline_data.resize(8);
    expect_failure(request, WcStatus::kLocQpOpErr);
}

TEST_F(RcLocalError, OpcodesThatRcDoesNotOffer) {
    for (int opcode = 0; opcode < 256; ++opcode) {
        if (opcode <= 5 || opcode == static_cast<int>(WrOpcode::kFetchAdd) ||
            (opcode >= static_cast<int>(WrOpcode::kLocalInvalidate) &&
             opcode <= static_cast<int>(WrOpcode::kSendWithInvalidate)) ||
            opcode == static_cast<int>(WrOpcode::kFlush) ||
            opcode == static_cast<int>(WrOpcode::kAtomicWrite)) {
            continue;
        }
        net_ = SimNetwork();
        connect_pair();
        SendRequest request = write(5, 8);
        request.opcode = static_cast<WrOpcode>(opcode);
        a_->post_send(request);
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(Done{5, WcStatus::kLocQpOpErr})) << opcode;
    }
}

TEST_F(RcLocalError, TooManySges) {
    connect_pair({}, {.max_sge = 2});
    a_->post_send(write(4, 8));
    a_->send_slot(0).num_sge = 255;
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{4, WcStatus::kLocQpOpErr}));
}

TEST_F(RcLocalError, TooMuchInlineData) {
    connect_pair();
    a_->post_send(write(4, 8));
    a_->send_slot(0).flags = kSendInline | kSendSignaled;
    a_->send_slot(0).inline_length = 0xffff'ffff;
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{4, WcStatus::kLocQpOpErr}));
}

// --- The ring changes under way
// -------------------------------------------------------------------------------

TEST_F(RcLocalError, LengthGrowsBeforeTheRetransmission) {
    start_write(8);
    a_->send_sge(0)->length = 4096;
    a_->post_send(write(2, 8));  // makes the requester look at another WQE in between
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kLocQpOpErr}, flushed(2)));
    EXPECT_FALSE(same(8, 8));
}

TEST_F(RcLocalError, OpcodeChangesBeforeTheRetransmission) {
    start_write(8);
    a_->send_slot(0).opcode = static_cast<std::uint8_t>(WrOpcode::kFetchAdd);
    a_->post_send(write(2, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kLocQpOpErr}, flushed(2)));
}

TEST_F(RcLocalError, SlotIsTakenBackBeforeTheRetransmission) {
    start_write(8);
    a_->send_slot(0).seq.store(77);
    a_->post_send(write(2, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kLocQpOpErr}, flushed(2)));
}

TEST_F(RcLocalError, ReadListShrinksBeforeTheResponse) {
    connect_pair();
    a_->post_send(read(1, 4096));
    net_.run_until(0);
    a_->send_sge(0)->length = 100;
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kLocQpOpErr}));
}

TEST_F(RcLocalError, RandomScribblingNeverHarmsThePeerOrTheEngine) {
    const char* replay = std::getenv("URNIC_TEST_SEED");
    const std::uint64_t first = replay != nullptr ? std::strtoull(replay, nullptr, 0) : 1;
    for (std::uint64_t seed = first; seed < first + (replay != nullptr ? 1 : 200); ++seed) {
        SCOPED_TRACE("replay with URNIC_TEST_SEED=" + std::to_string(seed));
        std::mt19937_64 random(seed);
        net_ = SimNetwork(seed);
        net_.keep_trace = false;
        net_.faults.loss = 50;
        connect_pair({.timeout = 3},
                     {.send_entries = 16, .recv_entries = 16, .max_sge = 4, .max_inline = 64});
        SimRegion& guarded = b_->add_region(4096, {.access = kAccessLocalWrite});
        guarded.fill_pattern(6);
        const std::vector<std::byte> before(guarded.data(), guarded.data() + guarded.size());
        for (std::uint64_t i = 0; i < 40; ++i) {
            const std::size_t offset = random() % 8192 & ~7ULL;
            const WrOpcode opcodes[] = {WrOpcode::kWrite, WrOpcode::kSend, WrOpcode::kRead,
                                        WrOpcode::kFetchAdd};
            a_->post_send(
                rdma(opcodes[random() % 4], i, static_cast<std::uint32_t>(random() % 3000), offset));
            b_->post_recv(i, {b_mem_->sge(0, 4000)});
            net_.run_for(random() % 3000);
            SimHost& liar = random() % 2 == 0 ? *a_ : *b_;
            auto* bytes = &liar == a_.get() ? reinterpret_cast<std::byte*>(&liar.send_slot(0))
                                            : reinterpret_cast<std::byte*>(&liar.recv_slot(0));
            const std::size_t ring =
                16U * (&liar == a_.get() ? abi::send_stride(4, 64) : abi::recv_stride(4));
            for (std::uint64_t n = random() % 8; n != 0; --n) {
                bytes[random() % ring] = static_cast<std::byte>(random());
            }
            net_.run_for(random() % 3000);
        }
        (void)a_->to_state(QpState::kErr);
        (void)b_->to_state(QpState::kErr);
        net_.run_for(1'000'000);
        EXPECT_TRUE(std::equal(before.begin(), before.end(), guarded.data()));
    }
}

TEST_F(RcLocalError, CompletionQueueOverrun) {
    connect_pair({}, {.cq_entries = 4});
    for (std::uint64_t i = 0; i < 6; ++i) {
        a_->post_send(write(i, 8));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 4U);
    EXPECT_EQ(a_->qp().state(), QpState::kErr);
    EXPECT_THAT(a_->events, ElementsAre(AsyncEventType::kQpFatal));
}

TEST_F(RcLocalError, ReceiveCompletionQueueOverrun) {
    connect_pair({}, {.cq_entries = 4});
    post_receives(6, 64);
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_->post_send(send(i, 8));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 3U);
    for (std::uint64_t i = 0; i < 3; ++i) {
        a_->post_send(send(i, 8));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(b_->poll_recv().size(), 4U);
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpFatal));
}

}  // namespace
}  // namespace urnic::sim
