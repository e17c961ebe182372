// Workers, the in-process wire and RC QPs together: data arrives, idle workers sleep and are woken,
// applications are told, and bad applications harm nobody else.
#include "dataplane/worker/worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <ctime>
#include <memory>
#include <thread>

#include "dataplane/worker/client_doorbells.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::SendRequest;
using rig::TestClient;
using rig::TestCq;
using rig::TestQp;

constexpr std::uint32_t kBytes = 256 * 1024;

void fill(const rig::PageMemory& memory, std::uint32_t salt) {
    for (std::size_t i = 0; i < memory.size(); ++i) {
        memory.data()[i] = static_cast<std::byte>((i * 2654435761U + salt) >> 13U);
    }
}

/// Two connected QPs on two devices, on the workers that the parameters say.
struct Pair {
    Pair(Rig& rig, std::uint32_t qp_num_a, std::uint32_t qp_num_b, std::uint32_t device_b = 1)
        : cq_a(rig.num_workers(), 256),
          cq_b(rig.num_workers(), 256),
          client(rig.make_client()),
          key_a(rig.register_memory(0, memory_a)),
          key_b(rig.register_memory(device_b, memory_b)),
          a(rig, *client, 0, qp_num_a, 3, cq_a),
          b(rig, *client, device_b, qp_num_b, 70, cq_b) {
        EXPECT_EQ(a.connect(b), 0);
        EXPECT_EQ(b.connect(a), 0);
    }

    TestCq cq_a;
    TestCq cq_b;
    std::unique_ptr<TestClient> client;
    rig::PageMemory memory_a{kBytes};
    rig::PageMemory memory_b{kBytes};
    std::uint32_t key_a;
    std::uint32_t key_b;
    TestQp a;
    TestQp b;

    SendRequest request(WrOpcode opcode, std::uint32_t length) const {
        SendRequest request;
        request.opcode = opcode;
        request.sge = {rig::sge(memory_a, 0, length, key_a)};
        request.remote_addr = reinterpret_cast<std::uint64_t>(memory_b.data());
        request.rkey = key_b;
        return request;
    }
    bool same(std::uint32_t length) const {
        return std::memcmp(memory_a.data(), memory_b.data(), length) == 0;
    }
};

void expect_success(const std::optional<Completion>& completion, std::uint64_t wr_id) {
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, WcStatus::kSuccess);
    EXPECT_EQ(completion->wr_id, wr_id);
}

void send_and_check(Pair& pair) {
    std::uint64_t wr_id = 1;
    for (const std::uint32_t length : {0U, 1U, 63U, 4096U, 4097U, 65536U, kBytes}) {
        fill(pair.memory_a, length);
        SendRequest write = pair.request(WrOpcode::kWrite, length);
        write.wr_id = ++wr_id;
        pair.a.post_send(write);
        expect_success(pair.cq_a.wait(), wr_id);
        EXPECT_TRUE(pair.same(length)) << "WRITE of " << length;

        fill(pair.memory_a, length + 1);
        pair.b.post_recv(1000 + wr_id, {rig::sge(pair.memory_b, 0, kBytes, pair.key_b)});
        SendRequest send = pair.request(WrOpcode::kSend, length);
        send.wr_id = ++wr_id;
        pair.a.post_send(send);
        const std::optional<Completion> received = pair.cq_b.wait();
        expect_success(received, 1000 + wr_id - 1);
        EXPECT_EQ(received->byte_len, length);
        EXPECT_TRUE(pair.same(length)) << "SEND of " << length;
        expect_success(pair.cq_a.wait(), wr_id);

        fill(pair.memory_b, length + 2);
        SendRequest read = pair.request(WrOpcode::kRead, length);
        read.wr_id = ++wr_id;
        pair.a.post_send(read);
        expect_success(pair.cq_a.wait(), wr_id);
        EXPECT_TRUE(pair.same(length)) << "READ of " << length;
    }
}

TEST(WorkerData, ArrivesBetweenTwoDevicesOfOneWorker) {
    Rig rig({});
    Pair pair(rig, 17, 18);
    send_and_check(pair);
    EXPECT_EQ(rig.count(1, &Counters::drop_unknown_qp), 0U);
    EXPECT_EQ(rig.count(0, &Counters::sent_pkts), rig.count(1, &Counters::rcvd_pkts));
}

TEST(WorkerData, ArrivesBetweenWorkers) {
    Rig rig({.num_workers = 2});
    Pair pair(rig, 40, 41);
    ASSERT_NE(pair.a.worker(), pair.b.worker());
    send_and_check(pair);
    EXPECT_GT(rig.device(0).counters[0].sent_pkts.value(), 0U);
    EXPECT_GT(rig.device(1).counters[1].rcvd_pkts.value(), 0U);
}

TEST(WorkerData, ArrivesOnTheSendersOwnDevice) {
    Rig rig({.num_devices = 1});
    Pair pair(rig, 100, 101, 0);
    send_and_check(pair);
}

TEST(WorkerData, ManyQpsOfBothWorkersAtOnce) {
    Rig rig({.num_workers = 2});
    std::vector<std::unique_ptr<Pair>> pairs;
    for (std::uint32_t i = 0; i < 8; ++i) {
        // The last pairs have both ends on one worker, the first on different ones. Numbers far apart.
        const std::uint32_t base = 0x100000 * (i + 1);
        pairs.push_back(
            std::make_unique<Pair>(rig, base + (i & 1U), base + (i < 4 ? 3 - (i & 1U) : 2 + (i & 1U))));
        fill(pairs.back()->memory_a, i);
    }
    constexpr std::uint32_t kEach = 64;
    constexpr std::uint32_t kLength = 4096 * 3 + 5;
    for (std::uint32_t n = 0; n < kEach; ++n) {
        for (const auto& pair : pairs) {
            SendRequest write = pair->request(WrOpcode::kWrite, kLength);
            write.wr_id = n;
            pair->a.post_send(write);
        }
    }
    for (const auto& pair : pairs) {
        for (std::uint32_t n = 0; n < kEach; ++n) {
            expect_success(pair->cq_a.wait(), n);
        }
        EXPECT_TRUE(pair->same(kLength));
    }
}

/// A NIC with one receive queue: everything arrives at worker 0.
class OneQueuePort final : public Port {
  public:
    OneQueuePort(Port& port, std::uint32_t num_queues) : port_(port), num_queues_(num_queues) {}
    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        std::uint16_t got = 0;
        for (std::uint32_t q = 0; queue == 0 && q < num_queues_; ++q) {
            got = static_cast<std::uint16_t>(
                got + port_.rx_burst(q, frames + got, static_cast<std::uint16_t>(count - got)));
        }
        return got;
    }
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        return port_.tx_burst(queue, frames, count);
    }
    void set_multicast(std::span<const wire::Mac> groups) override { port_.set_multicast(groups); }
    [[nodiscard]] int wait_fd(std::uint32_t /*queue*/) const override { return -1; }
    [[nodiscard]] bool must_be_polled(std::uint32_t queue) const override { return queue == 0; }

  private:
    Port& port_;
    std::uint32_t num_queues_;
};

TEST(WorkerHandoffTest, FramesReachTheQpsOfAnotherWorker) {
    constexpr std::uint32_t kWorkers = 3;
    std::vector<std::unique_ptr<OneQueuePort>> ports;
    Rig rig({.num_workers = kWorkers, .port = [&](std::uint32_t, Port& port) {
                 ports.push_back(std::make_unique<OneQueuePort>(port, kWorkers));
                 return ports.back().get();
             }});
    Pair pair(rig, 31, 32);
    ASSERT_EQ(pair.a.worker(), 1U);
    ASSERT_EQ(pair.b.worker(), 2U);
    send_and_check(pair);
    EXPECT_EQ(rig.device(1).counters[0].rcvd_pkts.value(), 0U);
    EXPECT_GT(rig.device(1).counters[2].rcvd_pkts.value(), 0U);
}

double cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST(WorkerIdle, UsesNoCpuAndWakesForADoorbell) {
    Rig rig({.num_workers = 2});
    Pair pair(rig, 6, 7);
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(rig::wait_for([&] { return rig.asleep(0) && rig.asleep(1); }));
        // Timers of the last round may still wake them; then nothing does.
        std::this_thread::sleep_for(std::chrono::milliseconds(150));
        const double before = cpu_seconds();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_LT(cpu_seconds() - before, 0.1);
        // Wakes worker 0 by its doorbell, which wakes worker 1 by a frame.
        SendRequest write = pair.request(WrOpcode::kWrite, 100);
        write.wr_id = static_cast<std::uint64_t>(round);
        pair.a.post_send(write);
        expect_success(pair.cq_a.wait(), write.wr_id);
    }
}

TEST(WorkerIdle, NoDoorbellIsLostAtTheMomentOfFallingAsleep) {
    Rig rig({.num_workers = 2});
    Pair pair(rig, 6, 7);
    std::uint32_t random = 12345;
    std::uint32_t found_asleep = 0;
    for (std::uint64_t n = 0; n < 2000 || (found_asleep == 0 && n < 2100); ++n) {
        // Around the time after which a worker goes to sleep, so that some doorbells meet it half asleep. A
        // busy machine with sanitizers may keep it awake for longer.
        random = random * 1664525 + 1013904223;
        const std::uint32_t longest_ns = n < 2000 ? 500'000 : 500'000'000;
        const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(random % longest_ns);
        while (std::chrono::steady_clock::now() < until && !(rig.asleep(0) && random % 2 == 0)) {
        }
        found_asleep += rig.asleep(0) ? 1 : 0;
        SendRequest write = pair.request(WrOpcode::kWrite, 8);
        write.wr_id = n;
        pair.a.post_send(write);
        const std::optional<Completion> completion = pair.cq_a.wait();
        ASSERT_TRUE(completion.has_value()) << "lost at " << n;
        ASSERT_EQ(completion->wr_id, n);
    }
    EXPECT_GT(found_asleep, 0U);
}

TEST(WorkerIdle, AWorkerWithItsOwnCoreSleepsToo) {
    cpu_set_t set;
    ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &set)) {
        ++cpu;
    }
    Rig rig({.cpus = {cpu}});
    EXPECT_EQ(rig.state().cores_shared.load(), 0U);
    EXPECT_TRUE(rig::wait_for([&] { return rig.asleep(0); }));
    bool ran = false;
    rig.worker(0).call([&] { ran = true; });
    EXPECT_TRUE(ran);
}

TEST(WorkerIdle, SaysThatItSharesItsCore) {
    Rig rig({});
    EXPECT_EQ(rig.state().cores_shared.load(), 1U);
}

TEST(WorkerTimers, APeerThatIsGoneEndsInRetryExceeded) {
    Rig rig({});
    Pair pair(rig, 8, 9);
    rig.worker(0).call([&] { rig.worker(0).remove_qp(pair.b.slot()); });
    ASSERT_EQ(pair.a.modify([] {
        abi::QpAttr attr{};
        attr.mask = kQpAttrState;
        attr.state = QpState::kReset;
        return attr;
    }()),
              0);
    ASSERT_EQ(pair.a.connect(pair.b, 5, 1), 0);  // 8 us and seven retries
    pair.a.post_send(pair.request(WrOpcode::kWrite, 5000));
    const std::optional<Completion> completion = pair.cq_a.wait();
    ASSERT_TRUE(completion.has_value());
    EXPECT_EQ(completion->status, WcStatus::kRetryExcErr);
    EXPECT_GE(rig.count(1, &Counters::drop_unknown_qp), 8U);
    EXPECT_TRUE(rig::wait_for([&] { return rig.asleep(0); }));
}

/// A completion channel's sockets, which do not block; the second is the daemon's.
struct Channel {
    Channel() {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0);
        channel.socket.fd = fds[1];
    }
    ~Channel() {
        close_reader();
        close(fds[1]);
    }
    void close_reader() {
        if (fds[0] >= 0) {
            close(fds[0]);
            fds[0] = -1;
        }
    }
    std::optional<std::uint64_t> read_one() const {
        std::uint64_t handle = 0;
        return read(fds[0], &handle, sizeof(handle)) == sizeof(handle) ? std::optional(handle) : std::nullopt;
    }
    std::optional<std::uint64_t> wait_one() const {
        std::optional<std::uint64_t> handle;
        (void)rig::wait_for([&] { return (handle = read_one()).has_value(); });
        return handle;
    }
    std::array<int, 2> fds{-1, -1};
    CompletionChannel channel;
};

TEST(WorkerNotification, OnlyAnArmedCqWritesToItsChannel) {
    Channel channel;
    Rig rig({});
    Pair pair(rig, 10, 11);
    pair.cq_a.cq().channel = &channel.channel;
    pair.cq_a.cq().user_handle = 0xfeedface12345678;

    pair.a.post_send(pair.request(WrOpcode::kWrite, 8));
    expect_success(pair.cq_a.wait(), 0);
    rig.worker(0).call([] {});
    EXPECT_FALSE(channel.read_one().has_value());

    pair.cq_a.arm(abi::kCqArmedAny);
    pair.a.post_send(pair.request(WrOpcode::kWrite, 8));
    EXPECT_EQ(channel.wait_one(), 0xfeedface12345678);
    expect_success(pair.cq_a.wait(), 0);
    EXPECT_EQ(pair.cq_a.cq().completion_events.load(), 1U);

    pair.a.post_send(pair.request(WrOpcode::kWrite, 8));
    expect_success(pair.cq_a.wait(), 0);
    rig.worker(0).call([] {});
    EXPECT_FALSE(channel.read_one().has_value());
}

TEST(WorkerNotification, AFullChannelIsTriedAgain) {
    Channel channel;
    Rig rig({});
    Pair pair(rig, 10, 11);
    pair.cq_a.cq().channel = &channel.channel;
    pair.cq_a.cq().user_handle = 77;
    const std::uint64_t filler = 5;
    std::size_t fillers = 0;
    while (write(channel.fds[1], &filler, sizeof(filler)) == sizeof(filler)) {
        ++fillers;
    }
    pair.cq_a.arm(abi::kCqArmedAny);
    pair.a.post_send(pair.request(WrOpcode::kWrite, 8));
    expect_success(pair.cq_a.wait(), 0);
    std::uint32_t events = 99;
    rig.worker(0).call([&] { events = pair.cq_a.cq().completion_events.load(); });
    EXPECT_EQ(events, 0U);
    while (fillers-- != 0) {
        ASSERT_EQ(channel.wait_one(), filler);
    }
    EXPECT_EQ(channel.wait_one(), 77U);
    EXPECT_TRUE(rig::wait_for([&] { return pair.cq_a.cq().completion_events.load() == 1; }));
}

TEST(WorkerNotification, AReleasedCqIsForgottenAndAClosedChannelHarmsNobody) {
    Channel channel;
    Rig rig({});
    Pair pair(rig, 10, 11);
    pair.cq_a.cq().channel = &channel.channel;
    channel.close_reader();
    pair.cq_a.arm(abi::kCqArmedAny);
    pair.a.post_send(pair.request(WrOpcode::kWrite, 8));  // SIGPIPE would end the test
    expect_success(pair.cq_a.wait(), 0);
    rig.worker(0).call([&] { rig.worker(0).release_cq(pair.cq_a.cq()); });
    EXPECT_EQ(pair.cq_a.cq().completion_events.load(), 0U);
}

TEST(WorkerNotification, AnOverrunCqIsReportedOnceAndItsQpFails) {
    std::array<int, 2> events{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, events.data()), 0);
    {
        Rig rig({});
        const auto client = rig.make_client();
        TestCq small(1, 2);
        TestCq other(1, 256);
        small.cq().async.fd = events[1];
        small.cq().user_handle = 4242;
        TestQp a(rig, *client, 0, 1, 0, small);
        TestQp b(rig, *client, 1, 2, 1, other);
        ASSERT_EQ(a.connect(b), 0);
        ASSERT_EQ(b.connect(a), 0);
        for (int i = 0; i < 8; ++i) {
            a.post_send({.opcode = WrOpcode::kWrite});
        }
        abi::AsyncEvent event{};
        ASSERT_TRUE(
            rig::wait_for([&] { return recv(events[0], &event, sizeof(event), 0) == sizeof(event); }));
        EXPECT_EQ(event.element, 4242U);
        EXPECT_EQ(event.event_type, static_cast<std::uint32_t>(AsyncEventType::kCqErr));
        EXPECT_TRUE(rig::wait_for([&] {
            QpState state{};
            rig.worker(0).call([&] { state = a.slot().qp->state(); });
            return state == QpState::kErr;
        }));
        EXPECT_EQ(small.cq().async_events.load(), 1U);
        EXPECT_GE(rig.count(0, &Counters::cq_overrun), 1U);
    }
    abi::AsyncEvent event{};
    while (recv(events[0], &event, sizeof(event), 0) == sizeof(event)) {
        EXPECT_NE(event.event_type, static_cast<std::uint32_t>(AsyncEventType::kCqErr));
    }
    close(events[0]);
    close(events[1]);
}

TEST(WorkerDoorbells, AClientThatRingsForEverythingStarvesNobody) {
    Rig rig({});
    Pair pair(rig, 12, 13);
    const auto hostile = rig.make_client();
    std::atomic<bool> stop{false};
    std::thread ringer([&] {
        while (!stop.load()) {
            abi::WorkerDoorbell& bell = hostile->doorbell(0);
            for (std::atomic<std::uint64_t>& word : bell.words) {
                word.store(~0ULL);
            }
            for (std::atomic<std::uint64_t>& word : bell.summary) {
                word.store(~0ULL);
            }
            hostile->wake(0);
            std::this_thread::yield();
        }
    });
    for (std::uint64_t n = 0; n < 50; ++n) {
        SendRequest write = pair.request(WrOpcode::kWrite, 20'000);
        write.wr_id = n;
        pair.a.post_send(write);
        expect_success(pair.cq_a.wait(), n);
    }
    stop.store(true);
    ringer.join();
    EXPECT_TRUE(rig::wait_for([&] { return rig.asleep(0); }));
}

TEST(WorkerControl, CallsRunOnTheWorkerUnlessItSleepsOrIsStopped) {
    Rig rig({});
    const std::thread::id here = std::this_thread::get_id();
    std::thread::id there;
    const auto call = [&] { rig.worker(0).call([&] { there = std::this_thread::get_id(); }); };
    const std::unique_ptr<TestClient> client = rig.make_client();
    EXPECT_TRUE(rig::wait_for([&] { return call(), there == here; })) << "it has nothing to do";
    EXPECT_TRUE(rig::wait_for([&] { return client->wake(0), call(), there != here; })) << "it was woken";
    rig.worker(0).stop();
    call();
    EXPECT_EQ(there, here);
    rig.worker(0).start();
    EXPECT_TRUE(rig::wait_for([&] { return client->wake(0), call(), there != here; }));
}

TEST(WorkerControl, WhatACallLeavesToASleeperIsDone) {
    Rig rig({});
    Pair pair(rig, 2, 3);
    for (std::uint64_t wr_id = 1; wr_id <= 20; ++wr_id) {
        ASSERT_TRUE(rig::wait_for([&] { return rig.state().workers[0].sleeping.load() != 0; }));
        SendRequest write = pair.request(WrOpcode::kWrite, 64);
        write.wr_id = wr_id;
        pair.a.post_send(write, false);
        // Nobody has rung: the change of attributes lets the QP look.
        abi::QpAttr attr{};
        attr.mask = kQpAttrState | kQpAttrMinRnrTimer;
        attr.state = QpState::kRts;
        attr.min_rnr_timer = 2;
        ASSERT_EQ(pair.a.modify(attr), 0);
        expect_success(pair.cq_a.wait(), wr_id);
    }
}

TEST(WorkerControl, ACpuThatDoesNotExistIsAnError) { EXPECT_THROW(Rig({.cpus = {1000}}), std::system_error); }

}  // namespace
}  // namespace urnic::dataplane
