// Workers never allocate: every allocation on a worker's thread fails here, and nobody notices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/support/allocation_hook.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using rig::TestCq;
using rig::TestQp;

std::atomic<std::uint64_t> tried{0};

bool fails_on_workers() {
    std::array<char, 16> name{};
    ::prctl(PR_GET_NAME, name.data());
    const bool on_worker = std::strncmp(name.data(), "urnic-worker", 12) == 0 || rig::is_worker;
    tried += on_worker ? 1 : 0;
    return on_worker;
}

class WorkerMemory : public testing::Test {
  protected:
    void SetUp() override {
        for (std::uint32_t w = 0; w < rig_.num_workers(); ++w) {
            // It has begun, which takes memory.
            ASSERT_TRUE(rig::wait_for([&] { return rig_.state().workers[w].sleeping.load() != 0; }));
        }
        tried = 0;
        allocation_fails = fails_on_workers;
    }
    void TearDown() override {
        allocation_fails = nullptr;
        EXPECT_EQ(tried.load(), 0U) << "allocations on worker threads";
    }
    Rig rig_{{.num_workers = 2}};
};

TEST_F(WorkerMemory, TheHookSeesAllocationsThere) {
    bool failed = false;
    rig_.call(1, [&] {
        try {
            const auto memory = std::make_unique<std::vector<int>>(100);
            failed = memory == nullptr;
        } catch (const std::bad_alloc&) {
            failed = true;
        }
    });
    EXPECT_TRUE(failed);
    EXPECT_EQ(tried.exchange(0), 1U);
}

TEST_F(WorkerMemory, ClientsAndQpsComeAndGoAndTransfer) {
    const auto memory = std::make_unique<rig::PageMemory>(4096);
    const std::uint32_t key_a = rig_.register_memory(0, *memory);
    const std::uint32_t key_b = rig_.register_memory(1, *memory);
    for (std::uint32_t round = 0; round < 20; ++round) {
        const auto client = rig_.make_client();
        TestCq cq_a(2, 256);
        TestCq cq_b(2, 256);
        // Numbers and doorbell slots that need a page of the tables which no one has needed before.
        TestQp a(rig_, *client, 0, 100'000 * (round + 1), 700 * round, cq_a);
        TestQp b(rig_, *client, 1, 100'000 * (round + 1) + 1, 700 * round + 1, cq_b);
        ASSERT_EQ(a.connect(b), 0);
        ASSERT_EQ(b.connect(a), 0);
        SendRequest write;
        write.opcode = WrOpcode::kWrite;
        write.sge = {rig::sge(*memory, 0, 1000, key_a)};
        write.remote_addr = reinterpret_cast<std::uint64_t>(memory->data()) + 2000;
        write.rkey = key_b;
        a.post_send(write);
        const auto completion = cq_a.wait();
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->status, WcStatus::kSuccess);
    }
}

TEST_F(WorkerMemory, ChannelsThatNobodyReads) {
    // More CQs with a full channel than a worker remembers completions of in one round.
    constexpr std::uint32_t kCqs = 600;
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    CompletionChannel channel;
    channel.socket.fd = ends[1];
    const std::uint64_t filler = ~0ULL;
    while (::write(ends[1], &filler, sizeof filler) == sizeof filler) {
    }
    const auto client = rig_.make_client();
    std::vector<std::unique_ptr<TestCq>> cqs;
    std::vector<std::unique_ptr<TestQp>> qps;
    for (std::uint32_t i = 0; i < kCqs; ++i) {
        cqs.push_back(std::make_unique<TestCq>(2, 16));
        cqs[i]->cq().channel = &channel;
        cqs[i]->cq().user_handle = i;
        cqs[i]->arm(abi::kCqArmedAny);
        qps.push_back(std::make_unique<TestQp>(rig_, *client, 0, 1000 + 2 * i, i, *cqs[i]));
        // A QP in ERR flushes what is posted: a completion without a peer.
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccessFlags;
        attr.state = QpState::kInit;
        attr.port_num = 1;
        ASSERT_EQ(qps[i]->modify(attr), 0);
        attr.mask = kQpAttrState;
        attr.state = QpState::kErr;
        ASSERT_EQ(qps[i]->modify(attr), 0);
        qps[i]->post_send({.opcode = WrOpcode::kWrite});
    }
    for (const auto& cq : cqs) {
        ASSERT_TRUE(cq->wait().has_value());
    }
    // Each gets its notification once there is room, in the order in which they came.
    std::vector<std::uint64_t> told;
    EXPECT_TRUE(rig::wait_for([&] {
        for (std::uint64_t handle = 0; ::read(ends[0], &handle, sizeof handle) == sizeof handle;) {
            if (handle != filler) {
                told.push_back(handle);
            }
        }
        return told.size() >= kCqs;
    }));
    std::vector<bool> seen(kCqs);
    for (const std::uint64_t handle : told) {
        ASSERT_LT(handle, kCqs);
        EXPECT_FALSE(seen[handle]) << handle;
        seen[handle] = true;
    }
    for (const auto& cq : cqs) {
        for (std::uint32_t w = 0; w < rig_.num_workers(); ++w) {
            rig_.call(w, [&] { rig_.worker(w).release_cq(cq->cq()); });
        }
    }
    qps.clear();
    ::close(ends[0]);
    ::close(ends[1]);
}

}  // namespace
}  // namespace urnic::dataplane
