// MigReq of everything that a QP sends: 1 where no path migrates (IBA 9.2.1), or 0 as some NICs have it.
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

class MigReq : public RcPair, public testing::WithParamInterface<bool> {
  protected:
    void connect_as(QpType type) { connect_pair({}, {.sends_mig_req = GetParam(), .type = type}); }
    void expect_in_each_packet(std::size_t least_packets) {
        ASSERT_TRUE(net_.run());
        const auto packets = net_.take_packets();
        EXPECT_GE(packets.size(), least_packets);
        for (const SentPacket& packet : packets) {
            EXPECT_EQ(packet.header.mig_req, GetParam())
                << packet.from << ' ' << unsigned{packet.header.opcode};
        }
    }
};
INSTANTIATE_TEST_SUITE_P(Each, MigReq, testing::Bool());

TEST_P(MigReq, OfRequestsAndAnswers) {
    connect_as(QpType::kRc);
    post_receives(1, 5000);
    a_->post_send(send(1, 3000));
    a_->post_send(write(2, 3000));
    a_->post_send(read(3, 3000));
    a_->post_send(fetch_add(4, 1));
    expect_in_each_packet(12);
    EXPECT_EQ(a_->poll_send(), (std::vector{ok(1), ok(2), ok(3), ok(4)}));
}

TEST_P(MigReq, OfNaksAndWhatIsSentAgain) {
    connect_as(QpType::kRc);
    lose("A", {2});
    a_->post_send(write(1, 5000));
    SendRequest unanswered = send(2, 100);  // RNR NAKs until there is a receive
    a_->post_send(unanswered);
    net_.run_for(1'000'000);
    post_receives(1, 5000);
    expect_in_each_packet(9);
    EXPECT_EQ(a_->poll_send(), (std::vector{ok(1), ok(2)}));
    EXPECT_GE(a_->counters.rcvd_rnr_err.value(), 1U);
}

TEST_P(MigReq, OfUnreliableConnections) {
    connect_as(QpType::kUc);
    a_->post_send(write(1, 3000));
    expect_in_each_packet(3);
}

TEST_P(MigReq, OfDatagrams) {
    connect_as(QpType::kUd);
    a_->post_send({.opcode = WrOpcode::kSend,
                   .wr_id = 1,
                   .sge = {a_mem_->sge(0, 100)},
                   .address_handle = a_->address(*b_),
                   .remote_qp_num = 2,
                   .remote_qkey = kQkey});
    expect_in_each_packet(1);
}

}  // namespace
}  // namespace urnic::sim
