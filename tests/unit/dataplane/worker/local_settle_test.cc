// Packets that are no frames and have left their outbox, on a worker among many (docs/adr/0035).
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::PageMemory;
using rig::Rig;
using rig::SendRequest;
using rig::TestCq;
using rig::TestQp;

constexpr std::uint32_t kWriteBytes = 4096;

// A round takes its bursts from the rings of all workers in turn, and those of the others are full.
TEST(LocalOffloadOfManyWorkers, AllThatHaveLeftAreHandledBeforeSomebodyLooks) {
    constexpr std::uint32_t kWorkers = 12;
    constexpr std::uint32_t kRequests = 60;
    std::vector<Port*> ports;
    Rig rig({.num_workers = kWorkers, .offload = true, .port = [&](std::uint32_t /*device*/, Port& port) {
                 ports.push_back(&port);
                 return &port;
             }});
    const std::unique_ptr<rig::TestClient> client = rig.make_client();
    const PageMemory from(kWriteBytes);
    const PageMemory to(kWriteBytes);
    SendRequest write;
    write.opcode = WrOpcode::kWrite;
    write.sge = {rig::sge(from, 0, kWriteBytes, rig.register_memory(0, from))};
    write.remote_addr = reinterpret_cast<std::uint64_t>(to.data());
    write.rkey = rig.register_memory(1, to);
    // QP n is of worker n modulo 12; those that receive are all of worker 0.
    TestCq cq(kWorkers, 4096);
    std::vector<std::unique_ptr<TestQp>> senders;
    std::vector<std::unique_ptr<TestQp>> receivers;
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
        senders.push_back(std::make_unique<TestQp>(rig, *client, 0, 60 + i, 1 + i, cq));
        receivers.push_back(std::make_unique<TestQp>(rig, *client, 1, 120 + kWorkers * i, 21 + i, cq));
        ASSERT_EQ(senders.back()->connect(*receivers.back()), 0);
        ASSERT_EQ(receivers.back()->connect(*senders.back()), 0);
    }
    rig.call(0, [&] {
        for (std::uint32_t i = 0; i < kRequests; ++i) {
            for (const auto& sender : senders) {
                sender->post_send(write);
            }
        }
        rig.worker(0).catch_up();
        EXPECT_GT(ports[1]->local_waiting(0), 32U);
        EXPECT_TRUE(rig::wait_for(
            [&] { return rig.count(0, &Counters::sent_pkts) >= std::uint64_t{kRequests} * kWorkers; }));
        rig.worker(0).begin_observation();
        EXPECT_EQ(ports[1]->local_waiting(0), 0U);
        rig.worker(0).end_observation();
    });
}

}  // namespace
}  // namespace urnic::dataplane
