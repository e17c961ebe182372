// A program whose memory makes its worker wait is known to be the one.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "dataplane/worker/round_watch.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using rig::TestClient;
using rig::TestCq;
using rig::TestQp;

/// Its pages come late, as those of memory that is being punched do.
class LateMemory final : public AddressSpace {
  public:
    bool read(std::uint64_t /*va*/, std::byte* to, std::size_t length_bytes) override {
        const auto come =
            std::chrono::steady_clock::now() + std::chrono::nanoseconds(2 * RoundWatch::kLongNs);
        std::this_thread::sleep_until(come);
        std::memset(to, 0, length_bytes);
        return true;
    }
    bool write(std::uint64_t /*va*/, const std::byte* /*from*/, std::size_t /*length_bytes*/) override {
        return true;
    }
};

TEST(LongRounds, AreOfTheProgramWhoseMemoryMadeTheWorkerWait) {
    Rig rig({});
    const std::unique_ptr<TestClient> victim = rig.make_client();
    const std::unique_ptr<TestClient> slow = rig.make_client();
    victim->on_worker(0).share().id = {100, 1000};
    slow->on_worker(0).share().id = {200, 2000};
    TestCq cq(rig.num_workers(), 256);
    TestQp a(rig, *slow, 0, 17, 3, cq);
    TestQp b(rig, *victim, 1, 18, 70, cq);
    ASSERT_EQ(a.connect(b), 0);
    ASSERT_EQ(b.connect(a), 0);
    const rig::PageMemory memory(4096);
    LateMemory late;
    MemoryRegion region;
    region.iova = region.va = 4096;
    region.length_bytes = 4096;
    region.space = &late;
    region.pd = Rig::kPd;
    region.access = kAccessLocalWrite;
    SendRequest write;
    write.opcode = WrOpcode::kWrite;
    write.sges = {{4096, 8, rig.device(0).keys.add(region, 99)}};
    write.remote_addr = reinterpret_cast<std::uint64_t>(memory.data());
    write.rkey = rig.register_memory(1, memory);
    a.post_send(write);
    ASSERT_TRUE(cq.wait());
    // A machine that is busy can make other rounds long, too.
    LongRound round;
    EXPECT_TRUE(rig::wait_for([&] {
        return rig.worker(0).take_long_round(round) && round.program.pid == 200 &&
               round.longest_turn_ns >= RoundWatch::kLongNs;
    }));
    EXPECT_EQ(round.program.uid, 2000U);
    EXPECT_GE(round.took_ns, round.longest_turn_ns);
    EXPECT_GE(rig.worker(0).long_rounds(), 1U);
}

}  // namespace
}  // namespace urnic::dataplane
