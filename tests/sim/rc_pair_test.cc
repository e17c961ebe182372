// Two RC QPs together, where the interplay is what is tested; what each side has to do is in scripts/.
#include <random>

#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using RcPairTest = RcPair;

// An application that overwrites its own rings at any time (its own memory: it cannot be stopped from it).
TEST_F(RcPairTest, RandomScribblingNeverHarmsThePeerOrTheEngine) {
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
            const std::span<std::byte> ring =
                &liar == a_.get() ? liar.send_ring().bytes() : liar.recv_ring().bytes();
            for (std::uint64_t n = random() % 8; n != 0; --n) {
                ring[random() % ring.size()] = static_cast<std::byte>(random());
            }
            net_.run_for(random() % 3000);
        }
        (void)a_->to_state(QpState::kErr);
        (void)b_->to_state(QpState::kErr);
        net_.run_for(1'000'000);
        EXPECT_TRUE(std::equal(before.begin(), before.end(), guarded.data()));
    }
}

TEST_F(RcPairTest, RoomInTheOutboxIsRespected) {
    connect_pair({.mtu = 256});
    a_->set_room(3);
    b_->set_room(2);
    a_->post_send(write(1, 4096));
    a_->post_send(read(2, 4096, 8192));
    EXPECT_TRUE(a_->qp().progress(0, 64, *a_));
    EXPECT_EQ(net_.take_packets().size(), 3U);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_TRUE(same(8192, 4096));
}

TEST_F(RcPairTest, MegabyteInEveryDirectionAndMtu) {
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

TEST_F(RcPairTest, MemoryBehindAnAddressSpace) {
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

TEST_F(RcPairTest, TalksToItself) {
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

TEST_F(RcPairTest, PsnWrapUnderLoss) {
    connect_pair({.mtu = 256, .psn_a = 0xfffff0, .timeout = 6});
    net_.lose = [count = 0](const SentPacket&) mutable { return ++count % 7 == 0; };
    a_->post_send(write(1, 20'000));
    a_->post_send(read(2, 20'000, 32'768));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), ok(2)));
    EXPECT_TRUE(same(0, 20'000));
    EXPECT_TRUE(same(32'768, 20'000));
}

TEST_F(RcPairTest, CorruptFramesAreCaughtByTheIcrc) {
    connect_pair({.timeout = 6});
    net_.faults.corrupt = 300;
    for (std::uint64_t i = 0; i < 40; ++i) {
        a_->post_send(write(i, 2000, 2048 * i));
    }
    ASSERT_TRUE(net_.run());
    EXPECT_EQ(a_->poll_send().size(), 40U);
    EXPECT_GT(net_.frames_corrupted(), 10U);
    for (std::size_t i = 0; i < 40; ++i) {
        EXPECT_TRUE(same(2048 * i, 2000)) << i;
    }
}

}  // namespace
}  // namespace urnic::sim
