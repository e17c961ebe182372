// Clients that break the protocol, use up what they can, or die: the error goes to the one who caused it, and
// the others notice nothing.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/unit/daemon/control_fixture.h"

namespace urnic::daemon {
namespace {

using abi::Op;

std::size_t open_descriptors() {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        (void)entry;
        ++count;
    }
    return count;
}

/// What a client owned ends on a thread of its own, which may take a moment.
bool descriptors_become(std::size_t count) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (open_descriptors() != count && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::yield();
    }
    return open_descriptors() == count;
}

unsigned test_seed() {
    const char* given = std::getenv("URNIC_TEST_SEED");
    return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10))
                            : std::random_device{}();
}

/// Sends a message with a header of its own making.
Answer send_raw(const TestClient& client, Op op, std::size_t bytes, std::size_t said_length,
                const std::vector<int>& fds = {}) {
    std::vector<std::byte> message(std::max(bytes, sizeof(abi::RequestHeader)));
    const abi::RequestHeader header{abi::kControlMagic, op, 7, static_cast<std::uint32_t>(said_length)};
    std::memcpy(message.data(), &header, sizeof header);
    EXPECT_TRUE(client.send(message.data(), bytes, fds));
    return client.receive();
}

const std::vector<std::pair<Op, std::size_t>>& exact_lengths() {
    static const std::vector<std::pair<Op, std::size_t>> lengths{
        {Op::kHello, sizeof(abi::HelloRequest)},
        {Op::kAttachMemory, sizeof(abi::AttachMemoryRequest)},
        {Op::kAttachProcess, sizeof(abi::AttachProcessRequest)},
        {Op::kOpenDevice, sizeof(abi::OpenDeviceRequest)},
        {Op::kCloseDevice, sizeof(abi::HandleRequest)},
        {Op::kQueryPort, sizeof(abi::QueryPortRequest)},
        {Op::kAllocPd, sizeof(abi::ContextRequest)},
        {Op::kDeallocPd, sizeof(abi::HandleRequest)},
        {Op::kRegMr, sizeof(abi::RegMrRequest)},
        {Op::kDeregMr, sizeof(abi::HandleRequest)},
        {Op::kCreateChannel, sizeof(abi::ContextRequest)},
        {Op::kDestroyChannel, sizeof(abi::HandleRequest)},
        {Op::kCreateCq, sizeof(abi::CreateCqRequest)},
        {Op::kResizeCq, sizeof(abi::ResizeCqRequest)},
        {Op::kDestroyCq, sizeof(abi::HandleRequest)},
        {Op::kCreateQp, sizeof(abi::CreateQpRequest)},
        {Op::kModifyQp, sizeof(abi::ModifyQpRequest)},
        {Op::kCmAccept, sizeof(abi::CmAcceptRequest)},
        {Op::kQueryQp, sizeof(abi::HandleRequest)},
        {Op::kDestroyQp, sizeof(abi::HandleRequest)},
        {Op::kStatus, sizeof(abi::StatusRequest)},
        {Op::kCreateAh, sizeof(abi::CreateAhRequest)},
        {Op::kDestroyAh, sizeof(abi::HandleRequest)},
        {Op::kAllocMw, sizeof(abi::AllocMwRequest)},
        {Op::kDeallocMw, sizeof(abi::HandleRequest)},
        {Op::kReregMr, sizeof(abi::ReregMrRequest)},
        {Op::kAllocNullMr, sizeof(abi::HandleRequest)},
        {Op::kAllocDm, sizeof(abi::AllocDmRequest)},
        {Op::kFreeDm, sizeof(abi::HandleRequest)},
        {Op::kRegDmMr, sizeof(abi::RegDmMrRequest)},
        {Op::kImportDevice, sizeof(abi::ImportDeviceRequest)},
        {Op::kImportPd, sizeof(abi::ImportRequest)},
        {Op::kImportMr, sizeof(abi::ImportRequest)},
        {Op::kImportDm, sizeof(abi::ImportRequest)},
        {Op::kModifyCq, sizeof(abi::ModifyCqRequest)},
        {Op::kAttachMcast, sizeof(abi::McastRequest)},
        {Op::kDetachMcast, sizeof(abi::McastRequest)},
        {Op::kCreateSrq, sizeof(abi::CreateSrqRequest)},
        {Op::kModifySrq, sizeof(abi::ModifySrqRequest)},
        {Op::kQuerySrq, sizeof(abi::HandleRequest)},
        {Op::kDestroySrq, sizeof(abi::HandleRequest)},
        {Op::kOpenXrcd, sizeof(abi::OpenXrcdRequest)},
        {Op::kOpenXrcdOfFile, sizeof(abi::OpenXrcdRequest)},
        {Op::kCloseXrcd, sizeof(abi::HandleRequest)},
        {Op::kOpenQp, sizeof(abi::OpenQpRequest)},
    };
    return lengths;
}

class Hostile : public ControlTest {
  protected:
    using ControlTest::ControlTest;
    void expect_service() const {
        TestClient good = client();
        (void)good.cq(good.open());
    }
};

TEST_F(Hostile, GarbageIsHungUpOn) {
    std::mt19937 random(test_seed());
    for (const std::size_t bytes : {1U, 4U, 15U, 16U, 64U, 1000U, 1024U}) {
        const TestClient bad = connect();
        std::vector<std::uint8_t> garbage(bytes);
        std::generate(garbage.begin(), garbage.end(),
                      [&] { return static_cast<std::uint8_t>(random() | 1U); });
        ASSERT_TRUE(bad.send(garbage.data(), garbage.size()));
        EXPECT_TRUE(bad.receive().closed) << bytes;
    }
    const TestClient empty = connect();
    ASSERT_TRUE(empty.send("", 0));
    EXPECT_TRUE(empty.receive().closed);
    expect_service();
}

TEST_F(Hostile, EveryWrongLengthOfEveryOperation) {
    const TestClient bad = client();
    for (const auto& [op, exact] : exact_lengths()) {
        for (std::size_t bytes = sizeof(abi::RequestHeader); bytes <= abi::kMaxMessageBytes; bytes += 4) {
            if (bytes != exact) {
                const int error = send_raw(bad, op, bytes, bytes).error();
                EXPECT_TRUE(error == EINVAL || (op == Op::kHello && error == EEXIST))
                    << static_cast<int>(op) << " with " << bytes << " bytes: " << error;
            }
        }
        EXPECT_EQ(send_raw(bad, op, exact, exact + 1).error(), EINVAL) << "the header lies";
        EXPECT_EQ(send_raw(bad, op, exact, 0).error(), EINVAL) << "the header lies";
    }
    expect_service();
}

TEST_F(Hostile, HelloOfAWrongLengthMakesNoClient) {
    const TestClient bad = connect();
    EXPECT_EQ(send_raw(bad, Op::kHello, 20, 20).error(), EINVAL);
    EXPECT_EQ(bad.on_handle(Op::kDestroyQp, 1), EPROTO);
}

TEST_F(Hostile, UnknownOperations) {
    const TestClient bad = client();
    for (const std::uint32_t op : {0U, 999U, 1000U, ~0U}) {
        EXPECT_EQ(send_raw(bad, static_cast<Op>(op), 64, 64).error(), EOPNOTSUPP) << op;
    }
}

TEST_F(Hostile, MessagesThatAreTooLarge) {
    const TestClient bad = client();
    EXPECT_EQ(send_raw(bad, Op::kOpenDevice, abi::kMaxMessageBytes + 1, abi::kMaxMessageBytes + 1).error(),
              EMSGSIZE);
    EXPECT_EQ(send_raw(bad, Op::kOpenDevice, 60000, 60000).error(), EMSGSIZE);
    expect_service();
}

TEST_F(Hostile, DescriptorsThatNobodyAskedForAreClosed) {
    const TestClient bad = client();
    const std::size_t before = open_descriptors();
    for (const auto& [op, exact] : exact_lengths()) {
        if (op != Op::kAttachMemory && op != Op::kHello && op != Op::kImportDevice &&
            op != Op::kOpenXrcdOfFile) {
            EXPECT_EQ(send_raw(bad, op, exact, exact, {0}).error(), EINVAL) << static_cast<int>(op);
        }
    }
    EXPECT_EQ(send_raw(bad, Op::kHello, sizeof(abi::HelloRequest), sizeof(abi::HelloRequest), {0}).error(),
              EEXIST);
    EXPECT_EQ(send_raw(bad, static_cast<Op>(77), 64, 64, {0, 1, 2}).error(), EOPNOTSUPP);
    const TestClient worse = connect();
    ASSERT_TRUE(worse.send("not a request at all", 20, {0, 1, 2}));
    EXPECT_TRUE(worse.receive().closed);
    wait_for_connections(1);
    EXPECT_TRUE(descriptors_become(before + 1)) << "only our own end of the second connection";
}

TEST_F(Hostile, ManyDescriptors) {
    const TestClient bad = client();
    const std::size_t before = open_descriptors();
    const std::vector<int> bomb(250, 0);
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(
            send_raw(bad, Op::kStatus, sizeof(abi::StatusRequest), sizeof(abi::StatusRequest), bomb).error(),
            EMSGSIZE);
    }
    EXPECT_TRUE(descriptors_become(before));
    expect_service();
}

TEST_F(Hostile, AMemoryFileMustBeOneAndSealed) {
    const TestClient bad = client();
    const std::size_t before = open_descriptors();
    const auto attach = [&](const std::vector<int>& fds) {
        return bad.ask(Op::kAttachMemory, abi::AttachMemoryRequest{}, fds).error();
    };
    {
        const UniqueFd shrinkable = make_memory_file(F_SEAL_GROW);
        const UniqueFd unsealed = make_memory_file(0);
        const UniqueFd small = make_memory_file(F_SEAL_SHRINK | F_SEAL_GROW, 1 << 20);
        const UniqueFd good = make_memory_file(F_SEAL_SHRINK | F_SEAL_GROW);
        EXPECT_EQ(attach({shrinkable.get()}), EINVAL);
        EXPECT_EQ(attach({unsealed.get()}), EINVAL);
        EXPECT_EQ(attach({small.get()}), EINVAL);
        EXPECT_EQ(attach({0}), EINVAL);
        EXPECT_EQ(attach({bad.socket()}), EINVAL) << "our own socket";
        EXPECT_EQ(attach({}), EINVAL);
        EXPECT_EQ(attach({good.get(), good.get()}), EINVAL);
        EXPECT_TRUE(descriptors_become(before + 4));
        EXPECT_EQ(attach({good.get()}), 0);
        EXPECT_EQ(attach({good.get()}), EEXIST);
    }
    EXPECT_TRUE(descriptors_become(before + 1)) << "the server keeps one";
}

TEST_F(Hostile, AClientThatNeverReadsIsHungUpOn) {
    const TestClient bad = client();
    const abi::RequestHeader header{abi::kControlMagic, static_cast<Op>(99), 1, sizeof header};
    // Requests stop being taken once the replies cannot be sent; then the connection ends.
    bool ended = false;
    for (int i = 0; i < 20'000 && !ended; ++i) {
        ended = !bad.send(&header, sizeof header);
    }
    EXPECT_TRUE(ended);
    wait_for_connections(0);
    expect_service();
}

TEST_F(Hostile, AFloodDoesNotKeepOthersOut) {
    TestClient good = client();
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> flooded{0};
    std::vector<std::thread> floods;
    floods.reserve(2);
    for (int i = 0; i < 2; ++i) {
        floods.emplace_back([&] {
            const TestClient bad = client();
            const abi::RequestHeader header{abi::kControlMagic, static_cast<Op>(99), 1, sizeof header};
            while (!stop) {
                // Eight requests at a time, so that there always is one to be served.
                for (int k = 0; k < 8; ++k) {
                    (void)bad.send(&header, sizeof header);
                }
                for (int k = 0; k < 8; ++k) {
                    (void)bad.receive();
                    ++flooded;
                }
            }
        });
    }
    while (flooded < 1000) {
        std::this_thread::yield();
    }
    for (int i = 0; i < 50; ++i) {
        (void)good.pd(good.open());
    }
    stop = true;
    for (std::thread& flood : floods) {
        flood.join();
    }
}

/// In a child process: a client with one of everything, which then waits to be killed. With `heir` a
/// grandchild keeps the socket open.
pid_t start_doomed_client(const std::string& path, bool heir, int ready) {
    const pid_t pid = ::fork();
    if (pid != 0) {
        return pid;
    }
    TestClient client(path);
    (void)client.hello();
    const std::uint32_t context = client.open();
    const std::uint32_t pd = client.pd(context);
    const std::uint32_t cq = client.cq(context);
    (void)client.qp(pd, cq);
    client.attach_memory();
    abi::RegMrRequest mr{};
    mr.pd = pd;
    mr.access = kAccessLocalWrite;
    mr.addr = 1ULL << 40U;
    mr.length = 4096;
    mr.flags = abi::kRegMrConverted;
    (void)client.ask(Op::kRegMr, mr);
    const pid_t grandchild = heir ? ::fork() : 1;
    if (grandchild != 0) {
        (void)!::write(ready, &grandchild, sizeof grandchild);
    }
    ::pause();
    ::_exit(0);
}

class DoomedClients : public Hostile {
  public:
    ~DoomedClients() override {
        ::close(ready_[0]);
        ::close(ready_[1]);
    }

  protected:
    DoomedClients() { EXPECT_EQ(::pipe2(ready_.data(), O_CLOEXEC), 0); }
    /// Starts a client and kills it; gives the grandchild's pid.
    pid_t kill_one(bool heir) {
        const pid_t pid = start_doomed_client(socket_path(), heir, ready_[1]);
        pid_t grandchild = -1;
        EXPECT_EQ(::read(ready_[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
        EXPECT_EQ(dataplane::worker_record().qps, 1);
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        wait_for_connections(0);
        EXPECT_EQ(dataplane::worker_record().qps, 0);
        return grandchild;
    }
    std::array<int, 2> ready_{};
};

TEST_F(DoomedClients, EverythingGoesWithTheProcess) {
    const std::size_t before = open_descriptors();
    for (int i = 0; i < 50; ++i) {
        (void)kill_one(false);
    }
    EXPECT_TRUE(descriptors_become(before));
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(DoomedClients, AForkedChildDoesNotKeepAClientAlive) {
    const pid_t grandchild = kill_one(true);
    EXPECT_EQ(::kill(grandchild, 0), 0) << "it still holds the socket";
    ::kill(grandchild, SIGKILL);
    EXPECT_TRUE(nothing_is_left());
}

/// Lowers the limit on descriptors to what is open, and puts it back.
class NoDescriptors {
  public:
    NoDescriptors() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        rlimit none = before_;
        // The lowest free number is the first that cannot be given out.
        const int lowest_free = ::dup(0);
        ::close(lowest_free);
        none.rlim_cur = static_cast<rlim_t>(lowest_free);
        EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    rlimit before_{};
};

TEST_F(Hostile, WithoutDescriptorsNewProgramsWaitAndOldOnesGoOn) {
    TestClient old = client();
    const std::uint32_t context = old.open();
    const TestClient half_open = connect();
    wait_for_connections(2);
    const UniqueFd socket_made_before(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    abi::ContextRequest request{};
    request.context = context;
    UniqueFd waiting;
    {
        const NoDescriptors none;
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = socket_path();
        std::memcpy(address.sun_path, path.c_str(), path.size());
        ASSERT_EQ(
            ::connect(socket_made_before.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
        EXPECT_EQ(half_open.hello().error(), EMFILE);
        EXPECT_EQ(old.ask(Op::kCreateChannel, request).error(), EMFILE);
        EXPECT_EQ(old.ask(Op::kStatus, abi::StatusRequest{}).error(), EMFILE);
        EXPECT_EQ(old.ask(Op::kAllocPd, request).error(), 0) << "what needs no descriptor continues";
        const std::uint64_t rounds_before = rounds();
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
        EXPECT_LT(rounds() - rounds_before, 50U) << "the listener is polled in a spin";
    }
    wait_for_connections(3);
    EXPECT_EQ(half_open.hello().error(), 0);
    EXPECT_EQ(TestClient(UniqueFd(::dup(socket_made_before.get()))).hello().error(), 0);
}

// Random requests with random contents from several clients; the worker stand-in checks what the control side
// promises, and at the end nothing is left.
TEST_F(Hostile, RandomRequests) {
    const unsigned seed = test_seed();
    SCOPED_TRACE("URNIC_TEST_SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    // Handles are small numbers: so are most random ones, and now and then anything.
    const auto number = [&] { return random() % 16 == 0 ? random() : random() % 6; };
    std::vector<TestClient> clients;
    std::uint64_t succeeded = 0;
    for (int step = 0; step < 30'000; ++step) {
        if (clients.size() < 4) {
            clients.push_back(client());
            (void)clients.back().open();
            clients.back().attach_memory();
        }
        const std::size_t index = random() % clients.size();
        TestClient& client = clients[index];
        const auto& [op, length] = exact_lengths()[random() % exact_lengths().size()];
        std::vector<std::uint32_t> message(length / 4);
        std::generate(message.begin(), message.end(), number);
        if (op == Op::kCreateQp && random() % 2 == 0) {
            const abi::CreateQpRequest request = qp_request(1, 1);
            std::memcpy(message.data(), &request, sizeof request);
        } else if (op == Op::kCreateAh && random() % 2 == 0) {
            const abi::CreateAhRequest request = ah_request(number());
            std::memcpy(message.data(), &request, sizeof request);
        } else if (op == Op::kOpenDevice) {
            std::memcpy(message.data() + 4, "urnic0\0", 8);
        }
        const abi::RequestHeader header{abi::kControlMagic, op, 1, static_cast<std::uint32_t>(length)};
        std::memcpy(message.data(), &header, sizeof header);
        ASSERT_TRUE(client.send(message.data(), length));
        const Answer answer = client.receive();
        ASSERT_FALSE(answer.closed);
        succeeded += answer.error() == 0 ? 1 : 0;
        if (random() % 200 == 0) {
            std::swap(clients[index], clients.back());
            clients.pop_back();
        }
    }
    EXPECT_GT(succeeded, 2000U) << "too few requests get past the checks to say much";
    clients.clear();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace urnic::daemon
