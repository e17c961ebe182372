// Histograms of messages: what QPs count that are measured, and what they do not (docs/adr/0029).
#include "rnic/device/message_histograms.h"

#include <array>
#include <memory>
#include <random>

#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;

constexpr TimeNs kRoundTripNs = 2 * SimNetwork::kDelayNs;

template <typename Histogram>
std::uint64_t total(const Histogram& histogram) {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i <= Histogram::kBounds; ++i) {
        sum += histogram.count(i);
    }
    return sum;
}

class Measured : public RcPair {
  protected:
    void start(QpType type, const ConnectOptions& options = {}, SimHost::Options host = {}) {
        host.type = type;
        histograms_ = std::make_unique<MessageHistograms>();
        SimHost::Options measured = host;
        measured.histograms = histograms_.get();
        connect_pair(options, measured, host);
    }
    MessageHistograms::OfOperation& of(MessageOperation operation) { return histograms_->of(operation); }
    /// Messages with their bytes; of a reliable QP as many have a latency.
    void expect(MessageOperation operation, std::uint64_t messages, std::uint64_t bytes,
                bool is_acknowledged = true) {
        SCOPED_TRACE(static_cast<int>(operation));
        EXPECT_EQ(total(of(operation).size_bytes), messages);
        EXPECT_EQ(of(operation).size_bytes.sum(), bytes);
        EXPECT_EQ(total(of(operation).latency_ns), is_acknowledged ? messages : 0);
    }
    static SendRequest unsignaled(SendRequest request) {
        request.flags = 0;
        return request;
    }
    SendRequest datagram(std::uint64_t wr_id, std::uint32_t length, std::uint32_t handle) {
        SendRequest request = send(wr_id, length);
        request.address_handle = handle;
        request.remote_qp_num = 2;
        request.remote_qkey = kQkey;
        return request;
    }

    std::unique_ptr<MessageHistograms> histograms_;
};

TEST_F(Measured, EveryOperationOfRcWithItsBytesAndRoundTrip) {
    constexpr std::uint32_t kFlushAccess = kAllAccess | kAccessFlushGlobal;
    start(QpType::kRc, {.mtu = 256, .access = kFlushAccess});
    const SimRegion& persistent = b_->add_region(4096, {.access = kFlushAccess});
    post_receives(2, 4096);
    a_->post_send(unsignaled(send(1, 65)));
    SendRequest with_immediate = send(2, 0);
    with_immediate.opcode = WrOpcode::kSendWithImm;
    a_->post_send(with_immediate);
    a_->post_send(unsignaled(write(3, 1000)));
    a_->post_send(unsignaled(write(4, 64)));
    a_->post_send(unsignaled(read(5, 700)));
    a_->post_send(fetch_add(6, 1));
    SendRequest atomic_write = write(7, 8);
    atomic_write.opcode = WrOpcode::kAtomicWrite;
    a_->post_send(atomic_write);
    a_->post_send({.opcode = WrOpcode::kFlush,
                   .wr_id = 8,
                   .remote_addr = persistent.addr(),
                   .rkey = persistent.key(),
                   .compare_add = 4096,
                   .swap = 1});  // to global visibility
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(2), ok(6), ok(7), ok(8)));
    expect(MessageOperation::kSend, 2, 65);
    expect(MessageOperation::kWrite, 2, 1064);
    expect(MessageOperation::kRead, 1, 700);
    expect(MessageOperation::kAtomic, 2, 16);
    expect(MessageOperation::kFlush, 1, 0);
    // Bounds belong to their buckets: 0 and 64 to the first, 65 to the second, 1000 to that of 1024.
    EXPECT_EQ(of(MessageOperation::kSend).size_bytes.count(0), 1U);
    EXPECT_EQ(of(MessageOperation::kSend).size_bytes.count(1), 1U);
    EXPECT_EQ(of(MessageOperation::kWrite).size_bytes.count(0), 1U);
    EXPECT_EQ(of(MessageOperation::kWrite).size_bytes.count(4), 1U);
    // All were begun at once, and answered one round trip later.
    EXPECT_EQ(of(MessageOperation::kWrite).latency_ns.sum(), 2 * kRoundTripNs);
    EXPECT_EQ(of(MessageOperation::kRead).latency_ns.sum(), kRoundTripNs);
    EXPECT_EQ(of(MessageOperation::kAtomic).latency_ns.count(1), 2U) << "above 1.024 us, to 2.048 us";
}

TEST_F(Measured, ALossIsPartOfTheLatencyAndNoMessageOfItsOwn) {
    start(QpType::kRc, {.timeout = 8});
    lose("A", {1});
    a_->post_send(write(1, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    expect(MessageOperation::kWrite, 1, 64);
    EXPECT_GE(of(MessageOperation::kWrite).latency_ns.sum(), 4096U << 8U) << "the ACK timeout";
}

TEST_F(Measured, MoreMessagesThanTheWindowHolds) {
    start(QpType::kRc, {}, {.send_entries = 1024});
    for (std::uint64_t i = 0; i < 1000; ++i) {
        a_->post_send(unsignaled(write(i, 100)));
    }
    ASSERT_TRUE(net_.run());
    expect(MessageOperation::kWrite, 1000, 100'000);
    EXPECT_EQ(of(MessageOperation::kWrite).latency_ns.sum(), 1000 * kRoundTripNs)
        << "each from when it came into the window";
}

TEST_F(Measured, WhatFailsOrIsFlushedDoesNotCount) {
    start(QpType::kRc);
    a_->post_send(unsignaled(write(1, 64)));
    SendRequest refused = write(2, 64);
    refused.rkey ^= 0xff00U;
    a_->post_send(refused);
    a_->post_send(write(3, 64));
    a_->post_send(write(4, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{2, WcStatus::kRemAccessErr}, flushed(3), flushed(4)));
    expect(MessageOperation::kWrite, 1, 64);
    // The next connection of the QP begins anew.
    ASSERT_EQ(a_->to_state(QpState::kReset), 0);
    ASSERT_EQ(b_->to_state(QpState::kReset), 0);
    connect(*a_, *b_);
    a_->post_send(write(5, 10));
    ASSERT_TRUE(net_.run());
    expect(MessageOperation::kWrite, 2, 74);
}

TEST_F(Measured, WhatSendsNothingIsNoMessage) {
    for (const QpType type : {QpType::kRc, QpType::kUc}) {
        SCOPED_TRACE(static_cast<int>(type));
        net_ = SimNetwork();
        start(type);
        SimRegion& region = a_->add_region(4096, {.access = kAccessLocalWrite | kAccessMwBind});
        MemoryWindow window(WindowType::kType2, 1);
        const std::uint32_t key = a_->keys().add_window(window, 0x77777777);
        a_->post_send(write(1, 64));
        a_->post_send({.opcode = WrOpcode::kBindMw,
                       .wr_id = 2,
                       .remote_addr = region.addr(),
                       .rkey = key,
                       .compare_add = 4096,
                       .region_key = region.key(),
                       .window_access = kAccessRemoteWrite});
        a_->post_send({.opcode = WrOpcode::kLocalInvalidate, .wr_id = 3, .imm_or_rkey = key});
        a_->post_send(write(4, 64));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3), ok(4)));
        expect(MessageOperation::kWrite, 2, 128, type == QpType::kRc);
        expect(MessageOperation::kAtomic, 0, 0);
    }
}

TEST_F(Measured, UcMessagesCountWhenTheirLastPacketHasGone) {
    start(QpType::kUc, {.mtu = 256});
    a_->packets_per_progress = 2;
    post_receives(1, 4096);
    a_->post_send(unsignaled(write(1, 1000)));
    a_->post_send(send(2, 300));
    EXPECT_TRUE(a_->progress_once());
    expect(MessageOperation::kWrite, 0, 0, false);
    ASSERT_TRUE(net_.run());
    expect(MessageOperation::kWrite, 1, 1000, false);
    expect(MessageOperation::kSend, 1, 300, false);
    EXPECT_EQ(b_->poll_recv().size(), 1U);
}

TEST_F(Measured, DatagramsCountAndTheErrorOfTheSendQueueDoesNot) {
    start(QpType::kUd);
    const std::uint32_t to_b = a_->address(*b_);
    a_->post_send(unsignaled(datagram(1, 100, to_b)));
    a_->post_send(datagram(2, 0, to_b));
    a_->post_send(datagram(3, 50, to_b + 1));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(2), Done{3, WcStatus::kLocQpOpErr}));
    a_->post_send(datagram(4, 50, to_b));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(flushed(4)));
    expect(MessageOperation::kSend, 2, 100, false);
}

/// What completions say, each of which is signaled.
struct Completed {
    std::array<std::uint64_t, kMessageOperations> messages{};
    std::array<std::uint64_t, kMessageOperations> bytes{};

    void add(const std::vector<abi::Cqe*>& completions) {
        for (const abi::Cqe* cqe : completions) {
            if (static_cast<WcStatus>(cqe->status) == WcStatus::kSuccess) {
                const auto at =
                    static_cast<std::size_t>(message_operation(static_cast<WcOpcode>(cqe->opcode)));
                ++messages.at(at);
                bytes.at(at) += cqe->byte_len;
            }
        }
    }
};

// Losses, retransmissions, waits for receives, and connections that break.
TEST_F(Measured, CountsAreThoseOfTheCompletionsWhateverIsLost) {
    const char* replay = std::getenv("URNIC_TEST_SEED");
    const std::uint64_t first = replay != nullptr ? std::strtoull(replay, nullptr, 0) : 1;
    for (std::uint64_t seed = first; seed < first + (replay != nullptr ? 1 : 60); ++seed) {
        SCOPED_TRACE("replay with URNIC_TEST_SEED=" + std::to_string(seed));
        std::mt19937_64 random(seed);
        net_ = SimNetwork(seed);
        net_.keep_trace = false;
        net_.faults = {.loss = 50, .duplicate = 20, .reorder = 50};
        const QpType type = random() % 3 == 0 ? QpType::kUc : QpType::kRc;
        start(type, {.mtu = 256, .timeout = 3, .retry_cnt = 5},
              {.sq_sig_all = true, .holds_early_packets = random() % 2 == 0});
        Completed expected;
        const std::uint64_t wrong_at = random() % 200;
        for (std::uint64_t i = 0; i < 100; ++i) {
            const WrOpcode opcodes[] = {WrOpcode::kWrite, WrOpcode::kSend, WrOpcode::kRead,
                                        WrOpcode::kFetchAdd};
            const WrOpcode opcode = opcodes[random() % (type == QpType::kRc ? 4 : 2)];
            const std::uint32_t length =
                opcode == WrOpcode::kFetchAdd ? 8 : static_cast<std::uint32_t>(random() % 3000);
            SendRequest request = rdma(opcode, i, length, random() % 8192 & ~7ULL);
            request.rkey ^= i == wrong_at ? 0xff00U : 0U;
            a_->post_send(request);
            if (random() % 4 != 0) {
                b_->post_recv(i, {b_mem_->sge(0, 4000)});
            }
            net_.run_for(random() % 20'000);
            expected.add(a_->poll_raw(false));
        }
        net_.run_for(1'000'000'000);
        expected.add(a_->poll_raw(false));
        for (std::size_t i = 0; i < kMessageOperations; ++i) {
            expect(static_cast<MessageOperation>(i), expected.messages.at(i), expected.bytes.at(i),
                   type == QpType::kRc);
        }
    }
}

}  // namespace
}  // namespace urnic::sim
