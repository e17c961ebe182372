// Descriptors whose close() waits for somebody: the client who gave them waits, and nobody else.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <thread>

#include "daemon/ipc/fd_closer.h"
#include "tests/unit/daemon/control_fixture.h"
#include "tests/unit/daemon/lingering.h"

namespace urnic::daemon {
namespace {

using abi::Op;

class Closing : public ControlTest {
  protected:
    using ControlTest::ControlTest;

    /// Calls `meanwhile` while the server is in the middle of another client's request.
    void while_the_server_is_busy(const std::function<void()>& meanwhile) {
        TestClient other = client();
        while_the_server_is_busy_with(other, meanwhile);
    }
    void while_the_server_is_busy_with(TestClient& other, const std::function<void()>& meanwhile) {
        const std::uint32_t context = other.open();
        const std::uint32_t pd = other.pd(context);
        const std::uint32_t cq = other.cq(context);
        std::promise<void> busy;
        std::promise<void> go_on;
        const std::function<void(const QpConfig&)> hook = [&](const QpConfig&) {
            busy.set_value();
            go_on.get_future().wait();
        };
        make_qp_hook = &hook;
        std::thread asks([&] { (void)other.qp(pd, cq); });
        busy.get_future().wait();
        meanwhile();
        go_on.set_value();
        asks.join();
        make_qp_hook = nullptr;
    }
    /// Sends the descriptor with a request that does not exist. The message has the last reference to it
    /// then.
    static void give(const TestClient& client, Lingering& lingering) {
        const abi::RequestHeader header{abi::kControlMagic, static_cast<Op>(77), 1, sizeof header};
        EXPECT_TRUE(client.send(&header, sizeof header, {lingering.end.get()}));
        lingering.end.reset();
    }
    static bool has_answer(const TestClient& client) {
        pollfd poll{client.socket(), POLLIN, 0};
        return ::poll(&poll, 1, 0) == 1;
    }
    void expect_service() const {
        TestClient good = client();
        (void)good.cq(good.open());
    }
};

TEST_F(Closing, OnlyTheClientThatGaveItWaits) {
    Lingering lingering = make_lingering();
    const TestClient bad = client();
    while_the_server_is_busy([&] { give(bad, lingering); });
    // The answer to this one comes after the other was looked at.
    expect_service();
    expect_service();
    EXPECT_FALSE(has_answer(bad));
    lingering.peer.reset();
    EXPECT_EQ(bad.receive().error(), EOPNOTSUPP);
    EXPECT_EQ(bad.on_handle(Op::kDestroyQp, 1), ENOENT) << "it is served again";
}

TEST_F(Closing, AClientThatEndsMeanwhileLeavesNothingElseBehind) {
    Lingering lingering = make_lingering();
    TestClient bad = client();
    while_the_server_is_busy([&] { give(bad, lingering); });
    expect_service();
    bad.close();
    expect_service();
    lingering.peer.reset();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Closing, OneThatSpeaksSomethingElse) {
    Lingering lingering = make_lingering();
    const TestClient bad = client();
    while_the_server_is_busy([&] {
        EXPECT_TRUE(bad.send("not a request at all", 20, {lingering.end.get()}));
        lingering.end.reset();
    });
    expect_service();
    EXPECT_FALSE(has_answer(bad)) << "it is not hung up on before";
    lingering.peer.reset();
    EXPECT_TRUE(bad.receive().closed);
}

/// More of them at once than one message of ours ever has: the kernel must not close the rest in recvmsg().
TEST_F(Closing, AsManyAsAMessageCarries) {
    Lingering lingering = make_lingering();
    const TestClient bad = client();
    while_the_server_is_busy([&] {
        std::vector<int> bomb(kMaxReceivedFds, 0);
        bomb.back() = lingering.end.get();
        const abi::RequestHeader header{abi::kControlMagic, Op::kStatus, 1, sizeof(abi::StatusRequest)};
        abi::StatusRequest request{};
        request.header = header;
        EXPECT_TRUE(bad.send(&request, sizeof request, bomb));
        lingering.end.reset();
    });
    expect_service();
    EXPECT_FALSE(has_answer(bad));
    lingering.peer.reset();
    EXPECT_EQ(bad.receive().error(), EMSGSIZE);
}

class ClosingRefused : public Closing {
  protected:
    ClosingRefused() : Closing({.max_connections = 2}) {}
};

/// What lies unread in a connection is closed with it.
TEST_F(ClosingRefused, UnreadInAConnectionThatIsRefused) {
    Lingering lingering = make_lingering();
    TestClient first = client();
    TestClient second = client();
    std::unique_ptr<TestClient> refused;
    while_the_server_is_busy_with(second, [&] {
        refused = std::make_unique<TestClient>(connect());
        give(*refused, lingering);
    });
    wait_for_connections(3);  // those two, and what is left of the refused one
    (void)first.cq(first.open());
    lingering.peer.reset();
    wait_for_connections(2);
}

TEST(MemoryFiles, AreKnown) {
    const UniqueFd memory = make_memory_file(F_SEAL_SHRINK);
    EXPECT_TRUE(is_memory_file(memory.get()));
    const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    EXPECT_FALSE(is_memory_file(file.get()));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    EXPECT_FALSE(is_memory_file(ends[0]));
    EXPECT_FALSE(is_small_memory_file(ends[0]));
    ::close(ends[0]);
    ::close(ends[1]);
}

// Of holes there is nothing to free.
TEST(MemoryFiles, AreSmallByTheirPages) {
    const UniqueFd memory = make_memory_file(F_SEAL_SHRINK);
    EXPECT_TRUE(is_small_memory_file(memory.get()));
    const auto fill = [&](std::uint64_t bytes) {
        EXPECT_EQ(::fallocate(memory.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)), 0);
    };
    fill(kMostSmallFileBytes);
    EXPECT_TRUE(is_small_memory_file(memory.get()));
    fill(kMostSmallFileBytes + 1);
    EXPECT_FALSE(is_small_memory_file(memory.get()));
}

}  // namespace
}  // namespace urnic::daemon
