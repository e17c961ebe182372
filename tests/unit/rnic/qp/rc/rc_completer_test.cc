// What an RC requester makes of responses when indexes of its send queue come round, without a QP around it;
// tests/sim/scripts has the rest packet by packet.
#include "rnic/qp/rc/rc_completer.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "rnic/wire/opcodes.h"
#include "tests/sim/sim_host.h"

namespace urnic {
namespace {

class RcCompleterTest : public ::testing::Test {
  protected:
    static constexpr std::uint32_t kBytes = 8;  // of each READ

    /// A READ into memory[offset], the first WQE of a queue whose indexes begin.
    void post_read(std::uint64_t wr_id, std::size_t offset, Psn psn) {
        host_.send_ring().restart();
        host_.post_send({.opcode = WrOpcode::kRead, .sge = {memory.sge(offset, kBytes)}});
        state.window.reset(psn);
        (void)state.window.add({.wr_id = wr_id,
                                .length_bytes = kBytes,
                                .psn_count = 1,
                                .opcode = static_cast<std::uint8_t>(WrOpcode::kRead),
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
        completer.handle_response(0, packet, wire::opcode_info(packet.header.opcode), host_);
    }
    [[nodiscard]] std::vector<sim::Done> completions() { return host_.poll_send(); }

  private:
    sim::SimClock clock_;
    sim::SimHost host_{clock_, "A", 1, {}};
    QpConfig config_ = host_.qp().config();
    RcCommon common_{config_, host_.qp(), QpType::kRc};

  protected:
    sim::SimRegion& memory = host_.add_region(256);
    RcSendState state{common_};
    RcCompleter completer{common_, state};
};

// Between two READs a queue can have as many WRITEs as there are indexes.
TEST_F(RcCompleterTest, AReadHasItsOwnListThoughTheIndexIsThatOfTheReadBefore) {
    post_read(1, 0, Psn(100));
    answer(Psn(100), std::byte{1});
    post_read(2, 64, Psn(200));
    answer(Psn(200), std::byte{2});
    EXPECT_EQ(completions(), (std::vector<sim::Done>{{1, WcStatus::kSuccess}, {2, WcStatus::kSuccess}}));
    EXPECT_EQ(memory.data()[0], std::byte{1});
    EXPECT_EQ(memory.data()[64], std::byte{2});
}

}  // namespace
}  // namespace urnic
