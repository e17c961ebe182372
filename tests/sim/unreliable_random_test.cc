// UC and UD over a link that loses, doubles, reorders and corrupts; and applications that write anything into
// their rings. URNIC_TEST_SEED=N replays one run.
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "rnic/qp/unreliable/ud_qp.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

constexpr std::uint32_t kMessages = 200;
constexpr std::uint32_t kSlotBytes = 2048;

class UnreliableRandom : public RcPair, public ::testing::WithParamInterface<QpType> {
  protected:
    struct Message {
        bool is_write = false;
        std::size_t from = 0;
        std::uint32_t bytes = 0;
    };

    void start(std::uint64_t seed, const SimHost::Options& options) {
        a_.reset();
        b_.reset();
        net_ = SimNetwork(seed);
        random_.seed(seed);
        messages_.clear();
        connect_pair({.mtu = 256, .psn_a = static_cast<std::uint32_t>(random_())}, options);
        to_b_ = a_->address(*b_);
    }
    [[nodiscard]] std::uint32_t below(std::uint32_t limit) {
        return static_cast<std::uint32_t>(random_() % limit);
    }
    [[nodiscard]] bool is_ud() const { return GetParam() == QpType::kUd; }

    // Message n lands in slot n of B's memory if it is a WRITE, otherwise where a receive says; its number
    // travels as immediate data.
    void post_message(std::uint32_t n) {
        Message& message = messages_[n];
        message.is_write = !is_ud() && below(2) == 0;
        message.bytes = below(1500);
        message.from = below(kRegionBytes - 2000);
        SendRequest request = send(n, message.bytes, message.from);
        request.opcode = message.is_write ? WrOpcode::kWriteWithImm : WrOpcode::kSendWithImm;
        request.imm_or_rkey = n;
        request.remote_addr = b_writes_->addr(std::size_t{n} * kSlotBytes);
        request.rkey = b_writes_->key();
        if (is_ud()) {
            request.address_handle = to_b_;
            request.remote_qp_num = 2;
            request.remote_qkey = kQkey;
        }
        a_->post_send(request);
    }

    // What was reported has to be there in full; how many messages were, twice or not.
    std::size_t check_received() {
        std::set<std::uint32_t> whole;
        for (const abi::Cqe* cqe : b_->poll_raw(true)) {
            EXPECT_EQ(cqe->status, static_cast<std::uint8_t>(WcStatus::kSuccess));
            const Message& message = messages_.at(cqe->imm_or_rkey);
            const std::uint32_t front = is_ud() ? kGrhBytes : 0;
            EXPECT_EQ(cqe->byte_len, message.bytes + front);
            const std::byte* at = message.is_write
                                      ? b_writes_->data() + std::size_t{cqe->imm_or_rkey} * kSlotBytes
                                      : b_mem_->data() + cqe->wr_id * kSlotBytes + front;
            EXPECT_TRUE(std::equal(at, at + message.bytes, a_mem_->data() + message.from));
            whole.insert(cqe->imm_or_rkey);
        }
        return whole.size();
    }

    // One run; how many of kMessages arrived.
    std::size_t run(std::uint64_t seed, const LinkOptions& faults) {
        start(seed, {.recv_entries = 512, .type = GetParam()});
        net_.keep_trace = false;
        net_.faults = faults;
        b_writes_ = &b_->add_region(std::size_t{kMessages + 1} * kSlotBytes);
        for (std::uint32_t i = 0; i < 2 * kMessages; ++i) {
            b_->post_recv(i, {b_mem_->sge(std::size_t{i} * kSlotBytes, kSlotBytes)});
        }
        for (std::uint32_t n = 0; n < kMessages; ++n) {
            post_message(n);
            net_.run_for(below(2000));
        }
        EXPECT_TRUE(net_.run());
        EXPECT_EQ(a_->poll_send().size(), kMessages);
        const std::size_t whole = check_received();
        // Whatever happened, the next message arrives.
        net_.faults = {};
        post_message(kMessages);
        EXPECT_TRUE(net_.run());
        EXPECT_EQ(check_received(), 1U);
        EXPECT_EQ(b_->qp().state(), QpState::kRts);
        return whole;
    }

    std::mt19937_64 random_;
    std::map<std::uint32_t, Message> messages_;
    SimRegion* b_writes_ = nullptr;
    std::uint32_t to_b_ = 0;
};

TEST_P(UnreliableRandom, WhatArrivesIsWhole) {
    const char* replay = std::getenv("URNIC_TEST_SEED");
    const std::uint64_t first = replay != nullptr ? std::strtoull(replay, nullptr, 0) : 1;
    const std::uint64_t count = replay != nullptr ? 1 : 12;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        SCOPED_TRACE("replay with URNIC_TEST_SEED=" + std::to_string(seed));
        EXPECT_EQ(run(seed, {}), kMessages);
        const std::size_t some = run(seed, {.loss = 50, .duplicate = 30, .corrupt = 10, .reorder = 50});
        EXPECT_GT(some, kMessages / 8);
        EXPECT_LT(some, kMessages);
        if (HasFailure()) {
            return;
        }
    }
}

// Rings of random bytes: every entry completes, one way or another, and nothing that is not the application's
// own changes.
TEST_P(UnreliableRandom, RingsOfGarbage) {
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        start(seed, {.send_entries = 16, .recv_entries = 16, .max_sge = 2, .type = GetParam()});
        SimRegion& guarded = b_->add_region(4096, {.access = 0});
        guarded.fill(0x5a);
        for (std::uint32_t i = 0; i < 16; ++i) {
            b_->post_recv(i, {b_mem_->sge(0, 4096)});
            a_->post_send(send(i, 8));
            auto* slot = reinterpret_cast<std::uint8_t*>(&a_->send_ring().slot(i));
            // Behind the sequence number; sometimes an entry is nearly good.
            for (std::size_t at = 4; at < sizeof(abi::SendWqe) + 2 * sizeof(abi::Sge); ++at) {
                slot[at] = below(3) == 0 ? slot[at] : static_cast<std::uint8_t>(random_());
            }
            abi::SendWqe& wqe = a_->send_ring().slot(i);
            wqe.opcode = below(2) == 0 ? static_cast<std::uint8_t>(WrOpcode::kSend) : wqe.opcode;
            wqe.wr.ud.address_handle = below(2) == 0 ? to_b_ : wqe.wr.ud.address_handle;
            if (below(4) == 0) {
                b_->recv_ring().slot(i).num_sge = static_cast<std::uint32_t>(random_());
            }
        }
        std::size_t done = 0;
        for (int round = 0; round < 40 && done < 16; ++round) {
            ASSERT_TRUE(net_.run());
            done += a_->poll_send().size();
            if (a_->qp().state() == QpState::kSqe) {
                ASSERT_EQ(a_->to_state(QpState::kRts), 0);
            }
        }
        (void)a_->to_state(QpState::kErr);
        (void)b_->to_state(QpState::kErr);
        const std::byte* data = guarded.data();
        EXPECT_TRUE(std::all_of(data, data + 4096, [](std::byte byte) { return byte == std::byte{0x5a}; }));
    }
}

INSTANTIATE_TEST_SUITE_P(Services, UnreliableRandom, ::testing::Values(QpType::kUc, QpType::kUd),
                         [](const auto& info) { return info.param == QpType::kUc ? "Uc" : "Ud"; });

}  // namespace
}  // namespace urnic::sim
