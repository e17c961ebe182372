// A program whose memory makes its worker wait is known to be the one.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

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
        wait();
        std::memset(to, 0, length_bytes);
        return true;
    }
    bool write(std::uint64_t /*va*/, const std::byte* /*from*/, std::size_t /*length_bytes*/) override {
        wait();
        return true;
    }
    [[nodiscard]] std::uint32_t register_with(KeyTable& keys) {
        MemoryRegion region;
        region.iova = region.va = kAddress;
        region.length_bytes = kBytes;
        region.space = this;
        region.pd = Rig::kPd;
        region.access = kAccessLocalWrite | kAccessRemoteWrite;
        return keys.add(region, 99);
    }
    static constexpr std::uint64_t kAddress = 4096;
    static constexpr std::uint32_t kBytes = 4096;

  private:
    static void wait() {
        const auto come =
            std::chrono::steady_clock::now() + std::chrono::nanoseconds(2 * RoundWatch::kLongNs);
        std::this_thread::sleep_until(come);
    }
};

/// Two programs with a QP each, of which one writes into the other one's memory.
class LongRounds : public testing::Test {
  protected:
    LongRounds() {
        from_->on_worker(0).share().id = kFrom;
        to_->on_worker(0).share().id = kTo;
        EXPECT_EQ(a_.connect(b_), 0);
        EXPECT_EQ(b_.connect(a_), 0);
    }
    void write_to_late_memory(bool from_late) {
        const std::uint32_t device = from_late ? 0 : 1;
        const std::uint32_t late_key = late_.register_with(rig_.device(device).keys);
        const std::uint32_t key = rig_.register_memory(1 - device, memory_);
        SendRequest write;
        write.opcode = WrOpcode::kWrite;
        write.sge = from_late ? std::vector<abi::Sge>{{LateMemory::kAddress, 8, late_key}}
                              : std::vector<abi::Sge>{rig::sge(memory_, 0, LateMemory::kBytes, key)};
        write.remote_addr =
            from_late ? reinterpret_cast<std::uint64_t>(memory_.data()) : LateMemory::kAddress;
        write.rkey = from_late ? key : late_key;
        a_.post_send(write);
        ASSERT_TRUE(cq_.wait());
    }
    /// A machine that is busy can make other rounds long, too.
    void expect_round_of(ProgramId program, ProgramId sender) {
        LongRound round;
        EXPECT_TRUE(rig::wait_for([&] {
            return rig_.worker(0).take_long_round(round) && round.program.pid == program.pid &&
                   round.sender.pid == sender.pid && round.longest_turn_ns >= RoundWatch::kLongNs;
        }));
        EXPECT_EQ(round.program.uid, program.uid);
        EXPECT_EQ(round.sender.uid, sender.uid);
        EXPECT_GE(round.took_ns, round.longest_turn_ns);
        EXPECT_GE(rig_.worker(0).long_rounds(), 1U);
    }

    static constexpr ProgramId kFrom{200, 2000};
    static constexpr ProgramId kTo{100, 1000};
    bool is_offloaded_ = std::getenv("URNIC_RIG_OFFLOAD") != nullptr;
    Rig rig_{{.offload = is_offloaded_}};
    std::unique_ptr<TestClient> from_ = rig_.make_client();
    std::unique_ptr<TestClient> to_ = rig_.make_client();
    TestCq cq_{rig_.num_workers(), 256};
    TestQp a_{rig_, *from_, 0, 17, 3, cq_};
    TestQp b_{rig_, *to_, 1, 18, 70, cq_};
    rig::PageMemory memory_{LateMemory::kBytes};
    LateMemory late_;
};

TEST_F(LongRounds, AreOfTheProgramWhoseMemoryMadeTheWorkerWait) {
    write_to_late_memory(true);
    expect_round_of(kFrom, {});
}

// The receiver copies from the sender's memory into its own: either may come late. With frames it is its own.
TEST_F(LongRounds, OfACopyNameBoth) {
    write_to_late_memory(false);
    expect_round_of(kTo, is_offloaded_ ? kFrom : ProgramId{});
}

}  // namespace
}  // namespace urnic::dataplane
