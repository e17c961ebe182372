// A worker charges the runs of QPs: who has many QPs has no more turns than who has one.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using rig::TestClient;
using rig::TestCq;
using rig::TestQp;

/// A program's payload. Each packet's takes longer than the most that a QP is charged for one run
/// (kMostChargedNs of the worker), so that each run costs the same, whatever the machine.
class SlowPayload final : public AddressSpace {
  public:
    /// `reads`: whose payload was read, in that order.
    SlowPayload(Rig& rig, std::vector<const SlowPayload*>& reads) : reads_(reads) {
        MemoryRegion region;
        region.iova = region.va = kAddress;
        region.length_bytes = kBytes;
        region.space = this;
        region.pd = Rig::kPd;
        region.access = kAccessLocalWrite;
        key_ = rig.device(0).keys.add(region, 77);
    }
    bool read(std::uint64_t /*va*/, std::byte* to, std::size_t length_bytes) override {
        const auto come = std::chrono::steady_clock::now() + std::chrono::microseconds(400);
        std::fill_n(to, length_bytes, std::byte{1});
        reads_.push_back(this);
        std::this_thread::sleep_until(come);
        return true;
    }
    bool write(std::uint64_t /*va*/, const std::byte* /*from*/, std::size_t /*length_bytes*/) override {
        return false;
    }
    [[nodiscard]] abi::Sge sge() const { return {kAddress, kBytes, key_}; }

    static constexpr std::uint32_t kBytes = 8;

  private:
    static constexpr std::uint64_t kAddress = 4096;
    std::vector<const SlowPayload*>& reads_;
    std::uint32_t key_ = 0;
};

/// Two programs, each of another user, and somebody who receives what they write.
class FairTurns : public testing::Test {
  protected:
    static constexpr std::uint32_t kWrites = 64;  // of each program

    struct Program {
        Program(Rig& rig, std::vector<const SlowPayload*>& reads)
            : payload(rig, reads), client(rig.make_client()) {}
        SlowPayload payload;
        std::unique_ptr<TestClient> client;
        TestCq cq{1, 256};
        std::deque<TestQp> qps;
    };

    void add_qps(Program& program, std::uint32_t count) {
        for (std::uint32_t slot = 0; slot < count; ++slot) {
            TestQp& qp = program.qps.emplace_back(rig_, *program.client, 0, ++last_qp_num_, slot, program.cq);
            const auto peer_slot = static_cast<std::uint32_t>(peers_.size());
            TestQp& peer = peers_.emplace_back(rig_, *receiver_, 1, qp.qp_num(), peer_slot, peer_cq_);
            ASSERT_EQ(qp.connect(peer), 0);
            ASSERT_EQ(peer.connect(qp), 0);
        }
    }
    /// On the worker. Whatever was posted, a QP has a turn after a change of its attributes.
    void post(Program& program) {
        SendRequest write;
        write.opcode = WrOpcode::kWrite;
        write.sge = {program.payload.sge()};
        write.remote_addr = reinterpret_cast<std::uint64_t>(target_.data());
        write.rkey = target_key_;
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrMinRnrTimer;
        attr.state = QpState::kRts;
        attr.min_rnr_timer = 2;
        for (TestQp& qp : program.qps) {
            for (std::size_t i = 0; i < kWrites / program.qps.size(); ++i) {
                qp.post_send(write, false);
            }
            EXPECT_EQ(rig_.worker(0).modify_qp(qp.slot(), attr, {}), 0);
        }
    }
    static void expect_completions(Program& program) {
        for (std::uint32_t i = 0; i < kWrites; ++i) {
            const std::optional<Completion> completion = program.cq.wait();
            ASSERT_TRUE(completion.has_value());
            ASSERT_EQ(completion->status, WcStatus::kSuccess);
        }
    }

    // With frames the payload is read in the sender's turn, else when it is received.
    Rig rig_{{.offload = false}};
    std::vector<const SlowPayload*> reads_;
    std::unique_ptr<TestClient> receiver_ = rig_.make_client();
    TestCq peer_cq_{1, 256};
    std::deque<TestQp> peers_;
    rig::PageMemory target_{SlowPayload::kBytes};
    std::uint32_t target_key_ = rig_.register_memory(1, target_);
    Program many_{rig_, reads_};
    Program one_{rig_, reads_};
    std::uint32_t last_qp_num_ = 100;
};

TEST_F(FairTurns, OneQpHasAsManyAsAllOfAnotherUser) {
    add_qps(many_, 16);
    add_qps(one_, 1);
    rig_.call(0, [this] {
        post(many_);
        post(one_);
    });
    expect_completions(many_);
    expect_completions(one_);
    // In turn, the one QP has done all it has to do while the others have run a few times each way. Without,
    // who comes first does everything first.
    const auto last_of_one = std::find(reads_.rbegin(), reads_.rend(), &one_.payload).base();
    const auto of_many_before = std::count(reads_.begin(), last_of_one, &many_.payload);
    EXPECT_GT(of_many_before, 0);
    EXPECT_LT(of_many_before, kWrites / 2);
}

}  // namespace
}  // namespace urnic::dataplane
