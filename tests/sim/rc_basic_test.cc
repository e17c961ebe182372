// RC without loss: what goes over the wire for each operation, and what it leaves behind.
#include "rnic/qp/limits.h"
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcBasic : public RcPair {};

TEST_F(RcBasic, WriteOfOnePacket) {
    connect_pair();
    a_->post_send(write(7, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=64 ackreq",  //
                                               "1us B Acknowledge psn=1000 msn=1"));
    EXPECT_TRUE(same(0, 64));
    EXPECT_FALSE(same(64, 64));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(7)));
    EXPECT_THAT(b_->poll_recv(), IsEmpty());
}

TEST_F(RcBasic, WriteIsCutIntoPacketsOfThePathMtu) {
    connect_pair({.mtu = 256, .psn_a = 0xfffffe});
    a_->post_send(write(7, 1025));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE First psn=16777214 len=256",          //
                                               "0us A WRITE Middle psn=16777215 len=256 ackreq",  //
                                               "0us A WRITE Middle psn=0 len=256",                //
                                               "0us A WRITE Middle psn=1 len=256",                //
                                               "0us A WRITE Last psn=2 len=1 ackreq",             //
                                               "1us B Acknowledge psn=2 msn=1"));
    EXPECT_TRUE(same(0, 1025));
    EXPECT_FALSE(same(0, 1026));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(7)));
}

TEST_F(RcBasic, MessageOfExactlyTwoPathMtusIsTwoPackets) {
    connect_pair({.mtu = 4096});
    a_->post_send(write(7, 8192));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE First psn=1000 len=4096",        //
                                               "0us A WRITE Last psn=1001 len=4096 ackreq",  //
                                               "1us B Acknowledge psn=1001 msn=1"));
    EXPECT_TRUE(same(0, 8192));
}

TEST_F(RcBasic, SendFillsReceivesInOrder) {
    connect_pair();
    b_->post_recv(100, {b_mem_->sge(0, 100)});
    b_->post_recv(101, {b_mem_->sge(5000, 700), b_mem_->sge(9000, 2000)});
    SendRequest second = send(8, 2500, 0);
    second.opcode = WrOpcode::kSendWithImm;
    second.imm_or_rkey = 0x11223344;
    second.flags = kSendSignaled | kSendSolicited;
    a_->post_send(send(7, 64));
    a_->post_send(second);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(),
                ElementsAre("0us A SEND Only psn=1000 len=64 ackreq",                     //
                            "0us A SEND First psn=1001 len=1024",                         //
                            "0us A SEND Middle psn=1002 len=1024",                        //
                            "0us A SEND Last with Immediate psn=1003 len=452 ackreq se",  //
                            "1us B Acknowledge psn=1003 msn=2"));
    const auto received = b_->poll_raw(true);
    ASSERT_EQ(received.size(), 2U);
    EXPECT_EQ(received[0]->wr_id, 100U);
    EXPECT_EQ(received[0]->byte_len, 64U);
    EXPECT_EQ(received[0]->wc_flags, 0U);
    EXPECT_EQ(received[0]->opcode, static_cast<std::uint8_t>(WcOpcode::kRecv));
    EXPECT_EQ(received[1]->wr_id, 101U);
    EXPECT_EQ(received[1]->byte_len, 2500U);
    EXPECT_EQ(received[1]->wc_flags, kWcWithImm);
    EXPECT_EQ(received[1]->imm_or_rkey, 0x11223344U);
    EXPECT_EQ(received[1]->wqe_index, 1U);
    EXPECT_EQ(b_->solicited, 1U);
    EXPECT_TRUE(std::equal(a_mem_->data(), a_mem_->data() + 700, b_mem_->data() + 5000));
    EXPECT_TRUE(std::equal(a_mem_->data() + 700, a_mem_->data() + 2500, b_mem_->data() + 9000));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(7), ok(8)));
}

TEST_F(RcBasic, WriteWithImmediateTakesAReceiveButLeavesItsBuffer) {
    connect_pair();
    b_->post_recv(100, {});
    SendRequest request = rdma(WrOpcode::kWriteWithImm, 7, 2000);
    request.imm_or_rkey = 42;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE First psn=1000 len=1024",                      //
                                               "0us A WRITE Last with Immediate psn=1001 len=976 ackreq",  //
                                               "1us B Acknowledge psn=1001 msn=1"));
    const auto received = b_->poll_raw(true);
    ASSERT_EQ(received.size(), 1U);
    EXPECT_EQ(received[0]->opcode, static_cast<std::uint8_t>(WcOpcode::kRecvRdmaWithImm));
    EXPECT_EQ(received[0]->byte_len, 2000U);
    EXPECT_EQ(received[0]->imm_or_rkey, 42U);
    EXPECT_TRUE(same(0, 2000));
}

TEST_F(RcBasic, ReadResponsesTakeThePsnsOfTheRequest) {
    connect_pair();
    SendRequest request = read(7, 2500);
    request.sge = {a_mem_->sge(0, 1000), a_mem_->sge(1000, 1500)};
    a_->post_send(request);
    a_->post_send(write(8, 8, 4096));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A READ Request psn=1000 dma=2500 ackreq",        //
                                               "0us A WRITE Only psn=1003 len=8 ackreq",             //
                                               "1us B READ Response First psn=1000 len=1024 msn=2",  //
                                               "1us B READ Response Middle psn=1001 len=1024",       //
                                               "1us B READ Response Last psn=1002 len=452 msn=2",    //
                                               "1us B Acknowledge psn=1003 msn=2"));
    EXPECT_TRUE(same(0, 2500));
    EXPECT_FALSE(same(2500, 10));
    const auto done = a_->poll_raw(false);
    ASSERT_EQ(done.size(), 2U);
    EXPECT_EQ(done[0]->wr_id, 7U);
    EXPECT_EQ(done[0]->opcode, static_cast<std::uint8_t>(WcOpcode::kRdmaRead));
    EXPECT_EQ(done[0]->byte_len, 2500U);
    EXPECT_EQ(done[1]->wr_id, 8U);
}

TEST_F(RcBasic, AReadResponseAcknowledgesWhatCameBefore) {
    connect_pair();
    a_->post_send(write(7, 8));
    a_->post_send(read(8, 8, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A WRITE Only psn=1000 len=8 ackreq",    //
                                               "0us A READ Request psn=1001 dma=8 ackreq",  //
                                               "1us B READ Response Only psn=1001 len=8 msn=2"));
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(7), ok(8)));
}

TEST_F(RcBasic, Atomics) {
    connect_pair();
    word(*b_mem_, 0) = 40;
    word(*b_mem_, 8) = 5;
    a_->post_send(fetch_add(1, 2, 0));
    a_->post_send(compare_swap(2, 5, 77, 8));
    a_->post_send(compare_swap(3, 5, 99, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(net_.take_trace(), ElementsAre("0us A FetchAdd psn=1000 ackreq",           //
                                               "0us A CmpSwap psn=1001 ackreq",            //
                                               "0us A CmpSwap psn=1002 ackreq",            //
                                               "1us B ATOMIC Acknowledge psn=1000 msn=3",  //
                                               "1us B ATOMIC Acknowledge psn=1001 msn=3",  //
                                               "1us B ATOMIC Acknowledge psn=1002 msn=3"));
    EXPECT_EQ(word(*b_mem_, 0), 42U);
    EXPECT_EQ(word(*b_mem_, 8), 77U);
    EXPECT_EQ(word(*a_mem_, 0), 40U);
    EXPECT_EQ(word(*a_mem_, 8), 77U);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3)));
}

TEST_F(RcBasic, ABurstIsAcknowledgedOnce) {
    connect_pair();
    for (std::uint64_t i = 0; i < 50; ++i) {
        a_->post_send(write(i, 8, 64 * i));
    }
    ASSERT_TRUE(net_.run());
    const auto packets = net_.take_packets();
    ASSERT_EQ(packets.size(), 51U);
    EXPECT_EQ(packets.back().header.psn.value(), 1049U);
    EXPECT_EQ(packets.back().header.aeth.msn, 50U);
    EXPECT_EQ(a_->poll_send().size(), 50U);
}

TEST_F(RcBasic, UnsignaledRequestsCompleteInSilence) {
    connect_pair();
    for (std::uint64_t i = 0; i < 10; ++i) {
        SendRequest request = write(i, 8);
        request.flags = i == 9 ? kSendSignaled : 0;
        a_->post_send(request);
    }
    ASSERT_TRUE(net_.run());
    const auto done = a_->poll_raw(false);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0]->wr_id, 9U);
    EXPECT_EQ(done[0]->wqe_index, 9U);
}

TEST_F(RcBasic, SqSigAllSignalsEverything) {
    connect_pair({}, {.sq_sig_all = true});
    SendRequest request = write(3, 8);
    request.flags = 0;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(3)));
}

TEST_F(RcBasic, InlineDataIsTakenFromTheRing) {
    connect_pair();
    SendRequest request = write(3, 0);
    request.sge.clear();
    request.flags = kSendSignaled | kSendInline;
    request.inline_data.assign(200, std::byte{0x5a});
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(3)));
    EXPECT_TRUE(
        std::all_of(b_mem_->data(), b_mem_->data() + 200, [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_F(RcBasic, ZeroLengthNeedsNoKey) {
    connect_pair();
    post_receives(3, 0);
    SendRequest empty_send = send(1, 0);
    empty_send.sge.clear();
    SendRequest empty_send_with_bad_key = send(2, 0);
    empty_send_with_bad_key.sge = {{0x1234, 0, 0xdead}};
    SendRequest empty_write = write(3, 0);
    empty_write.rkey = 0xdead;
    empty_write.sge.clear();
    SendRequest empty_write_imm = empty_write;
    empty_write_imm.opcode = WrOpcode::kWriteWithImm;
    empty_write_imm.wr_id = 4;
    SendRequest empty_read = empty_write;
    empty_read.opcode = WrOpcode::kRead;
    empty_read.wr_id = 5;
    for (const SendRequest& request :
         {empty_send, empty_send_with_bad_key, empty_write, empty_write_imm, empty_read}) {
        a_->post_send(request);
    }
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2), ok(3), ok(4), ok(5)));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100), ok(101), ok(102)));
}

TEST_F(RcBasic, SixteenSges) {
    connect_pair({.mtu = 256});
    SendRequest request = write(1, 0);
    request.sge.clear();
    for (std::size_t i = 0; i < 16; ++i) {
        request.sge.push_back(a_mem_->sge(i * 1000, 77));
    }
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1)));
    for (std::size_t i = 0; i < 16; ++i) {
        EXPECT_TRUE(
            std::equal(a_mem_->data() + i * 1000, a_mem_->data() + i * 1000 + 77, b_mem_->data() + i * 77));
    }
}

TEST_F(RcBasic, LongMessageKeepsToTheWindow) {
    connect_pair({.mtu = 256});
    net_.lose = [](const SentPacket& packet) { return packet.from == "B"; };
    a_->post_send(write(1, 1U << 20U));
    net_.run_for(1000);
    const auto packets = net_.take_packets();
    EXPECT_EQ(
        std::count_if(packets.begin(), packets.end(), [](const SentPacket& p) { return p.from == "A"; }),
        kMaxInFlightPackets);
}

TEST_F(RcBasic, MegabyteInEveryDirectionAndMtu) {
    for (const std::uint32_t mtu : {256U, 512U, 1024U, 2048U, 4096U}) {
        net_ = SimNetwork();
        connect_pair({.mtu = mtu});
        a_->post_send(write(1, kRegionBytes));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1))) << mtu;
        EXPECT_TRUE(same(0, kRegionBytes)) << mtu;
        b_mem_->fill_pattern(9);
        a_->post_send(read(2, kRegionBytes));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(ok(2))) << mtu;
        EXPECT_TRUE(same(0, kRegionBytes)) << mtu;
    }
}

TEST_F(RcBasic, MemoryBehindAnAddressSpace) {
    connect_pair();
    SimRegion& a_far = a_->add_region(8192, {.mapped = false});
    SimRegion& b_far = b_->add_region(8192, {.mapped = false, .iova_offset = 0x1000'0000'0000});
    a_far.fill_pattern(3);
    SendRequest request = write(1, 0);
    request.sge = {a_far.sge(0, 5000)};
    request.remote_addr = b_far.addr();
    request.rkey = b_far.key();
    a_->post_send(request);
    request.opcode = WrOpcode::kFetchAdd;
    request.wr_id = 2;
    request.sge = {a_far.sge(6000, 8)};
    request.remote_addr = b_far.addr(5000);
    request.compare_add = 3;
    a_->post_send(request);
    word(b_far, 5000) = 9;
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_TRUE(std::equal(a_far.data(), a_far.data() + 5000, b_far.data()));
    EXPECT_EQ(word(b_far, 5000), 12U);
    EXPECT_EQ(word(a_far, 6000), 9U);
}

TEST_F(RcBasic, TalksToItself) {
    connect_pair();
    SimHost c(net_, "C", 3, {});
    SimRegion& region = c.add_region(4096);
    region.fill_pattern(4);
    c.to_init();
    c.to_rtr(c, {}, 500);
    c.to_rts({}, 500);
    c.post_send({.opcode = WrOpcode::kWrite,
                 .wr_id = 1,
                 .sge = {region.sge(0, 2000)},
                 .remote_addr = region.addr(2000),
                 .rkey = region.key()});
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(c.poll_send(), ElementsAre(ok(1)));
    EXPECT_TRUE(std::equal(region.data(), region.data() + 2000, region.data() + 2000));
}

}  // namespace
}  // namespace urnic::sim
