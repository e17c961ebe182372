// What an RC requester makes of responses when indexes of its send queue come round, without a QP around it;
// tests/sim/scripts has the rest packet by packet.
#include "rnic/qp/rc/rc_completer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "rnic/qp/rc/rc_qp.h"
#include "rnic/wire/opcodes.h"
#include "tests/support/ring_memory.h"

namespace urnic {
namespace {

class RcCompleterTest : public ::testing::Test, public Outbox {
  protected:
    static constexpr std::uint32_t kBytes = 8;  // of each READ

    RcCompleterTest() {
        MemoryRegion region;
        region.length_bytes = sizeof memory;
        region.direct = memory.data();
        region.access = kAccessLocalWrite;
        key_ = keys_.add(region, 0x12345678);
    }

    [[nodiscard]] std::uint32_t room() const override { return 0; }
    [[nodiscard]] bool transmit(const wire::Path& /*path*/, const wire::PacketHeader& /*header*/,
                                std::span<const MemoryPiece> /*pieces*/) override {
        return true;
    }
    [[nodiscard]] bool complete(CompletionQueue& /*cq*/, const Completion& completion) override {
        completions.push_back(completion);
        return true;
    }
    void event(Qp& /*qp*/, AsyncEventType /*type*/) override {}

    /// A READ into memory[offset], the first WQE of a queue whose indexes begin.
    void post_read(std::uint64_t wr_id, std::size_t offset, Psn psn) {
        auto& wqe = *reinterpret_cast<abi::SendWqe*>(ring_.get());
        wqe.opcode = static_cast<std::uint8_t>(WrOpcode::kRead);
        wqe.num_sge = 1;
        *reinterpret_cast<abi::Sge*>(&wqe + 1) = {offset, kBytes, key_};
        wqe.seq.store(1);
        state.window.reset(psn);
        (void)state.window.add({.wr_id = wr_id,
                                .length_bytes = kBytes,
                                .psn_count = 1,
                                .opcode = wqe.opcode,
                                .signaled = true,
                                .has_response = true});
        state.window.advance_cursor();
    }
    void answer(Psn psn, std::byte fill) {
        std::array<std::byte, kBytes> data{};
        data.fill(fill);
        wire::PacketView packet;
        packet.header.opcode = wire::kReadResponseOnly;
        packet.header.psn = psn;
        packet.header.aeth = {wire::kSyndromeAck | wire::kCreditsUnlimited, 1};
        packet.payload = data;
        completer.handle_response(0, packet, wire::opcode_info(packet.header.opcode), *this);
    }

    std::array<std::byte, 256> memory{};
    std::vector<Completion> completions;

  private:
    static constexpr std::uint32_t kStride = abi::send_stride(1, 0);
    RingMemory ring_ = zeroed_memory(std::size_t{4} * kStride);
    RingMemory cq_memory_ = zeroed_memory(abi::cq_bytes(1, 4));
    CompletionQueue cq_{cq_memory_.get(), 4};
    KeyTable keys_;
    std::uint32_t key_ = 0;
    Counters counters_;
    QpConfig config_{.sq = SendQueue(ring_.get(), 4, kStride, 1, 0),
                     .send_cq = &cq_,
                     .recv_cq = &cq_,
                     .keys = &keys_,
                     .counters = &counters_};
    RcQp qp_{config_, QpType::kRc};
    RcCommon common_{config_, qp_, QpType::kRc};

  protected:
    RcSendState state{common_};
    RcCompleter completer{common_, state};
};

// Between two READs a queue can have as many WRITEs as there are indexes.
TEST_F(RcCompleterTest, AReadHasItsOwnListThoughTheIndexIsThatOfTheReadBefore) {
    post_read(1, 0, Psn(100));
    answer(Psn(100), std::byte{1});
    post_read(2, 64, Psn(200));
    answer(Psn(200), std::byte{2});
    ASSERT_EQ(completions.size(), 2U);
    EXPECT_EQ(completions[1].wr_id, 2U);
    EXPECT_EQ(completions[1].status, WcStatus::kSuccess);
    EXPECT_EQ(memory[0], std::byte{1});
    EXPECT_EQ(memory[64], std::byte{2});
}

}  // namespace
}  // namespace urnic
