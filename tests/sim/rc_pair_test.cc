// Two RC QPs together, where the interplay is what is tested; what each side has to do is in scripts/.
#include <random>

#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

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

}  // namespace
}  // namespace urnic::sim
