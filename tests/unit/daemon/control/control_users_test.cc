// What all processes of one user may have together, and connections that are refused to him.
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "daemon/ipc/fd_closer.h"
#include "daemon/verbs/client.h"
#include "dataplane/worker/client_doorbells.h"
#include "tests/unit/daemon/control_fixture.h"
#include "tests/unit/daemon/lingering.h"

namespace urnic::daemon {
namespace {

using abi::Op;

ClientLimits user_limits(const std::vector<std::pair<Resource, std::uint32_t>>& limits) {
    ClientLimits made;
    made.per_uid.most.fill(1000);
    made.copied_memory_for_all = true;
    for (const auto& [resource, most] : limits) {
        made.per_uid[resource] = most;
    }
    return made;
}

class UserLimitsTest : public ControlTest {
  protected:
    UserLimitsTest(const std::vector<std::pair<Resource, std::uint32_t>>& limits,
                   ControlServer::Options options = {})
        : ControlTest(options, user_limits(limits)) {
        // Nobody is root here, nor the daemon's own.
        on_control_thread([this] { control.is_privileged = [](uid_t) { return false; }; });
    }
};

class TwoOfEach : public UserLimitsTest {
  protected:
    TwoOfEach()
        : UserLimitsTest({{Resource::kQps, 2},
                          {Resource::kCqs, 3},
                          {Resource::kSrqs, 2},
                          {Resource::kMrs, 2},
                          {Resource::kMws, 2},
                          {Resource::kDms, 2},
                          {Resource::kPds, 3},
                          {Resource::kAhs, 2},
                          {Resource::kChannels, 2},
                          {Resource::kXrcds, 2},
                          {Resource::kContexts, 4},
                          {Resource::kMcastGroups, 2},
                          {Resource::kMcastAttachments, 3}}) {}

    struct Process {
        TestClient client;
        std::uint32_t context = 0;
        std::uint32_t pd = 0;
        std::uint32_t cq = 0;
    };
    [[nodiscard]] Process process() const {
        Process made{client()};
        made.context = made.client.open();
        made.pd = made.client.pd(made.context);
        made.cq = made.client.cq(made.context);
        return made;
    }
    /// The errors of a request of each kind.
    static std::array<int, 8> take_one_of_each(const Process& process) {
        abi::RegMrRequest mr{};
        mr.pd = process.pd;
        mr.addr = 4096;
        mr.length = 100;
        abi::AllocMwRequest mw{};
        mw.pd = process.pd;
        mw.type = 2;
        abi::AllocDmRequest dm{};
        dm.context = process.context;
        dm.length = 1;
        abi::CreateSrqRequest srq{};
        srq.pd = process.pd;
        srq.max_wr = 1;
        srq.max_sge = 1;
        abi::OpenXrcdRequest xrcd{};
        xrcd.context = process.context;
        abi::ContextRequest in_context{};
        in_context.context = process.context;
        const TestClient& client = process.client;
        return {client.ask(Op::kCreateQp, qp_request(process.pd, process.cq)).error(),
                client.ask(Op::kRegMr, mr).error(),
                client.ask(Op::kAllocMw, mw).error(),
                client.ask(Op::kAllocDm, dm).error(),
                client.ask(Op::kCreateSrq, srq).error(),
                client.ask(Op::kOpenXrcd, xrcd).error(),
                client.ask(Op::kCreateAh, ah_request(process.pd)).error(),
                client.ask(Op::kCreateChannel, in_context).error()};
    }
    static constexpr std::array<int, 8> kAllGiven{};
    static std::array<int, 8> all_refused() {
        std::array<int, 8> errors{};
        errors.fill(ENOMEM);
        return errors;
    }
    static int join(const Process& process, std::uint32_t qp, std::uint8_t group, Op op = Op::kAttachMcast) {
        abi::McastRequest request{};
        request.qp = qp;
        request.gid[10] = request.gid[11] = 0xff;
        request.gid[12] = 239;
        request.gid[15] = group;
        return process.client.ask(op, request).error();
    }
};

TEST_F(TwoOfEach, ProcessesOfOneUserShareHisQuota) {
    Process first = process();
    const Process second = process();
    EXPECT_EQ(take_one_of_each(first), kAllGiven);
    EXPECT_EQ(take_one_of_each(second), kAllGiven);
    EXPECT_EQ(take_one_of_each(second), all_refused());
    EXPECT_EQ(take_one_of_each(first), all_refused());
    const Process third = process();
    EXPECT_EQ(take_one_of_each(third), all_refused()) << "a new process brings nothing";
    abi::ContextRequest in_context{};
    in_context.context = third.context;
    EXPECT_EQ(third.client.ask(Op::kAllocPd, in_context).error(), ENOMEM);
    abi::CreateCqRequest cq{};
    cq.context = third.context;
    cq.entries = 1;
    EXPECT_EQ(third.client.ask(Op::kCreateCq, cq).error(), ENOMEM);
    first.client.close();
    wait_for_connections(2);
    EXPECT_EQ(take_one_of_each(third), kAllGiven) << "what the first had is free again";
    EXPECT_EQ(take_one_of_each(third), all_refused());
}

TEST_F(TwoOfEach, TheDeviceReportsTheQuota) {
    TestClient any = client();
    abi::OpenDeviceRequest request{};
    std::strncpy(request.name, "urnic0", sizeof request.name - 1);
    const auto caps = any.ask(Op::kOpenDevice, request).as<abi::OpenDeviceReply>().caps;
    EXPECT_EQ(caps.max_qp, 2U);
    EXPECT_EQ(caps.max_cq, 3U);
    EXPECT_EQ(caps.max_mr, 2U);
    EXPECT_EQ(caps.max_pd, 3U);
    EXPECT_EQ(caps.max_ah, 2U);
}

TEST_F(TwoOfEach, GroupsAreCountedOnceForAllMembersOfAUser) {
    const Process one = process();
    abi::CreateQpRequest request = qp_request(one.pd, one.cq);
    request.type = static_cast<std::uint8_t>(QpType::kUd);
    const std::uint32_t a = one.client.ask(Op::kCreateQp, request).as<abi::CreateQpReply>().handle;
    const std::uint32_t b = one.client.ask(Op::kCreateQp, request).as<abi::CreateQpReply>().handle;
    EXPECT_EQ(join(one, a, 1), 0);
    EXPECT_EQ(join(one, a, 2), 0);
    EXPECT_EQ(join(one, a, 3), ENOMEM) << "a third group";
    EXPECT_EQ(join(one, b, 1), 0) << "one that he is in";
    EXPECT_EQ(join(one, b, 2), ENOMEM) << "a fourth membership";
    EXPECT_EQ(join(one, a, 2, Op::kDetachMcast), 0);
    EXPECT_EQ(join(one, b, 3), 0) << "group 2 has gone";
}

TEST_F(TwoOfEach, RootHasNoQuota) {
    on_control_thread([this] { control.is_privileged = is_root_or_daemon; });
    const Process any = process();  // of this test's user, whose daemon it is
    abi::CreateQpRequest request = qp_request(any.pd, any.cq);
    request.type = static_cast<std::uint8_t>(QpType::kUd);
    abi::ModifyQpRequest modify{};
    modify.qp = any.client.ask(Op::kCreateQp, request).as<abi::CreateQpReply>().handle;
    modify.attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey;
    modify.attr.state = QpState::kInit;
    modify.attr.port_num = 1;
    modify.attr.qkey = 0x8001'0000;
    EXPECT_EQ(any.client.ask(Op::kModifyQp, modify).error(), 0) << "a controlled Q_Key";
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(take_one_of_each(any), kAllGiven);
    }
}

TEST_F(TwoOfEach, ControlledQkeysAreForThePrivileged) {
    const auto set = [](const Process& process, std::uint32_t qkey) {
        abi::CreateQpRequest request = qp_request(process.pd, process.cq);
        request.type = static_cast<std::uint8_t>(QpType::kUd);
        abi::ModifyQpRequest modify{};
        modify.qp = process.client.ask(Op::kCreateQp, request).as<abi::CreateQpReply>().handle;
        modify.attr.mask = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrQkey;
        modify.attr.state = QpState::kInit;
        modify.attr.port_num = 1;
        modify.attr.qkey = qkey;
        const int error = process.client.ask(Op::kModifyQp, modify).error();
        EXPECT_EQ(process.client.on_handle(Op::kDestroyQp, modify.qp), 0);
        return error;
    };
    const Process anybody = process();
    EXPECT_EQ(set(anybody, 0x8001'0000), EPERM) << "that of QP1";
    EXPECT_EQ(set(anybody, 0xffff'ffff), EPERM);
    EXPECT_EQ(set(anybody, 0x7fff'ffff), 0);
}

/// Of each kind what one process takes, and two bytes or pages less than twice as much.
class FewBytes : public UserLimitsTest {
  protected:
    static constexpr std::uint64_t kRegistered = 1000;
    static constexpr std::uint64_t kDeviceMemory = 8192;

    FewBytes() : UserLimitsTest({}) {
        on_control_thread([this] {
            UserLimits& limits = control.limits.per_uid;
            limits[ByteResource::kRegistered] = 2 * kRegistered - 1;
            limits[ByteResource::kDeviceMemory] = 2 * kDeviceMemory - 1;
        });
    }
    struct Process {
        TestClient client;
        std::uint32_t context = 0;
        std::uint32_t pd = 0;
    };
    [[nodiscard]] Process process() const {
        Process made{client()};
        made.context = made.client.open();
        made.pd = made.client.pd(made.context);
        return made;
    }
    static Answer allocate_dm(const Process& process, std::uint64_t length) {
        abi::AllocDmRequest request{};
        request.context = process.context;
        request.length = length;
        return process.client.ask(Op::kAllocDm, request);
    }
    static Answer register_bytes(const Process& process, std::uint64_t length) {
        abi::RegMrRequest request{};
        request.pd = process.pd;
        request.addr = 4096;
        request.length = length;
        return process.client.ask(Op::kRegMr, request);
    }
    [[nodiscard]] std::uint64_t bytes(ByteResource resource) {
        std::uint64_t found = 0;
        on_control_thread([&] { found = control.user(::getuid()).bytes(resource); });
        return found;
    }
};

TEST_F(FewBytes, RegisteredBytesOfAllProcessesCount) {
    Process first = process();
    const Process second = process();
    EXPECT_EQ(register_bytes(first, kRegistered).error(), 0);
    EXPECT_EQ(register_bytes(second, kRegistered).error(), ENOMEM);
    const auto smaller = register_bytes(second, kRegistered - 1);
    EXPECT_EQ(smaller.error(), 0);
    EXPECT_EQ(register_bytes(second, 1).error(), ENOMEM);
    EXPECT_EQ(second.client.on_handle(Op::kDeregMr, smaller.as<abi::RegMrReply>().handle), 0);
    EXPECT_EQ(register_bytes(second, 1).error(), 0);
    first.client.close();
    wait_for_connections(1);
    EXPECT_EQ(bytes(ByteResource::kRegistered), 1U);
    EXPECT_EQ(register_bytes(second, 2 * kRegistered - 2).error(), 0) << "what the first had is free again";
}

TEST_F(FewBytes, AnotherPlaceForARegionCountsWhatItAdds) {
    const Process one = process();
    const auto region = register_bytes(one, kRegistered);
    ASSERT_EQ(region.error(), 0);
    abi::ReregMrRequest request{};
    request.mr = region.as<abi::RegMrReply>().handle;
    request.changes = abi::kReregMrTranslation;
    request.addr = 4096;
    request.length = 2 * kRegistered - 1;
    EXPECT_EQ(one.client.ask(Op::kReregMr, request).error(), 0);
    request.length += 1;
    EXPECT_EQ(one.client.ask(Op::kReregMr, request).error(), ENOMEM);
    request.length = 1;
    EXPECT_EQ(one.client.ask(Op::kReregMr, request).error(), 0);
    EXPECT_EQ(bytes(ByteResource::kRegistered), 1U);
}

TEST_F(FewBytes, DeviceMemoryOfAllProcessesCounts) {
    Process first = process();
    const Process second = process();
    EXPECT_EQ(allocate_dm(first, kDeviceMemory).error(), 0);
    EXPECT_EQ(allocate_dm(second, kDeviceMemory).error(), ENOMEM);
    const auto smaller = allocate_dm(second, kDeviceMemory / 2);
    EXPECT_EQ(smaller.error(), 0);
    EXPECT_EQ(allocate_dm(second, 1).error(), ENOMEM) << "in pages";
    EXPECT_EQ(second.client.on_handle(Op::kFreeDm, smaller.as<abi::DmReply>().handle), 0);
    first.client.close();
    wait_for_connections(1);
    EXPECT_EQ(bytes(ByteResource::kDeviceMemory), 0U);
    EXPECT_EQ(allocate_dm(second, kDeviceMemory).error(), 0);
}

TEST_F(FewBytes, RingsOfAllProcessesCountAsLongAsTheirPagesStay) {
    Process first = process();
    const Process second = process();
    const std::uint32_t cq = first.client.cq(first.context);
    const std::uint64_t of_one = bytes(ByteResource::kRings);
    EXPECT_GT(of_one, 0U);
    on_control_thread([&] { control.limits.per_uid[ByteResource::kRings] = 2 * of_one - 1; });
    abi::CreateCqRequest request{};
    request.context = second.context;
    request.entries = 1;
    EXPECT_EQ(second.client.ask(Op::kCreateCq, request).error(), ENOMEM);
    EXPECT_EQ(first.client.on_handle(Op::kDestroyCq, cq), 0);
    EXPECT_EQ(second.client.ask(Op::kCreateCq, request).error(), ENOMEM)
        << "its pages are there for its next";
    first.client.close();
    wait_for_connections(1);
    EXPECT_EQ(second.client.ask(Op::kCreateCq, request).error(), 0);
    EXPECT_EQ(bytes(ByteResource::kRings), of_one);
}

class FewDescriptors : public UserLimitsTest {
  protected:
    /// Two connections, and three more.
    FewDescriptors() : UserLimitsTest({{Resource::kDescriptors, 2 * 16 + 2 + 1}}) {}
};

TEST_F(FewDescriptors, AreCountedOverAllProcesses) {
    TestClient one = client();
    const TestClient other = client();
    EXPECT_EQ(connect().receive().error(), EUSERS);
    abi::ContextRequest in_context{};
    in_context.context = one.open();
    EXPECT_EQ(one.ask(Op::kCreateChannel, in_context).error(), 0);
    EXPECT_EQ(one.ask(Op::kCreateChannel, in_context).error(), ENOMEM);
    abi::OpenDeviceRequest open{};
    std::strncpy(open.name, "urnic1", sizeof open.name - 1);
    EXPECT_EQ(other.ask(Op::kOpenDevice, open).error(), ENOMEM);
    EXPECT_EQ(one.on_handle(Op::kCloseDevice, in_context.context), 0);
    EXPECT_EQ(other.ask(Op::kOpenDevice, open).error(), 0);
}

class TurnsOfUsers : public UserLimitsTest {
  protected:
    TurnsOfUsers() : UserLimitsTest({}) {}

    /// As a program of that user says Hello; the workers have it then. On the control thread.
    std::unique_ptr<ClientState> client_of(uid_t uid) {
        abi::HelloRequest body{};
        body.abi_version = abi::kAbiVersion;
        Request request;
        request.length = sizeof body;
        std::memcpy(request.bytes.data(), &body, sizeof body);
        Reply reply;
        std::unique_ptr<ClientState> made;
        EXPECT_EQ(hello(control, Peer{::getpid(), uid, {}}, ++id_, request, reply, made), 0);
        return made;
    }
    static const dataplane::UserShare* turns(const ClientState& client, std::uint32_t worker) {
        return client.on_worker.at(worker)->share().user;
    }

  private:
    std::uint32_t id_ = 1000;
};

// Who starts many programs has no more turns for that. A share is one worker's alone, which has no locks.
TEST_F(TurnsOfUsers, AllProgramsOfAUserHaveTheSameOnAWorker) {
    constexpr uid_t kUid = 4000;
    on_control_thread([this] {
        const auto first = client_of(kUid);
        const auto second = client_of(kUid);
        const auto another = client_of(kUid + 1);
        ASSERT_TRUE(first && second && another);
        std::set<const dataplane::UserShare*> shares;
        for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
            EXPECT_EQ(turns(*first, worker), turns(*second, worker));
            EXPECT_NE(turns(*first, worker), turns(*another, worker));
            shares.insert({turns(*first, worker), turns(*another, worker)});
        }
        EXPECT_EQ(shares.size(), 2 * kWorkers);
    });
}

class FewConnectionsOfAUser : public UserLimitsTest {
  protected:
    FewConnectionsOfAUser() : UserLimitsTest({{Resource::kConnections, 2}}) {}
};

TEST_F(FewConnectionsOfAUser, OneMoreIsRefused) {
    const TestClient one = client();
    TestClient other = client();
    EXPECT_EQ(connect().receive().error(), EUSERS);
    other.close();
    wait_for_connections(1);
    EXPECT_EQ(connect().hello().error(), 0);
}

std::size_t threads() {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

/// The server is held up until the connections have descriptors in them: those that come later nobody takes.
TEST_F(FewConnectionsOfAUser, RefusedOnesThatLingerHaveOneThread) {
    constexpr std::size_t kRefused = 8;
    TestClient one = client();
    TestClient other = client();
    const std::size_t threads_before = threads();
    std::vector<Lingering> lingering;
    std::vector<TestClient> refused;
    on_control_thread([&] {
        for (std::size_t i = 0; i < kRefused; ++i) {
            lingering.push_back(make_lingering());
            refused.push_back(connect());
            // The message has the last reference.
            EXPECT_TRUE(refused.back().send("", 1, {lingering.back().end.get()}));
            lingering.back().end.reset();
        }
    });
    EXPECT_EQ(connect().receive().error(), EUSERS) << "taken after those, and told at once";
    (void)other.open();  // served
    EXPECT_LE(threads(), threads_before + 1);
    EXPECT_EQ(connections(), 3U) << "two clients, and what waits for the thread";
    lingering.clear();
    wait_for_connections(2);
    for (const TestClient& each : refused) {
        EXPECT_TRUE(each.receive().closed);
    }
}

struct Pair {
    TestClient theirs;
    UniqueFd ours;
};

Pair connected() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    return {TestClient(UniqueFd(ends[0])), UniqueFd(ends[1])};
}

TEST(Draining, FindsDescriptorsWhereverTheyAre) {
    const UniqueFd file = make_memory_file(0, 4096);
    const Pair empty = connected();
    EXPECT_TRUE(drain(empty.ours.get()));
    EXPECT_FALSE(empty.theirs.send("late", 4)) << "nothing comes any more";
    const Pair honest = connected();
    EXPECT_TRUE(honest.theirs.send("hello", 5));
    EXPECT_TRUE(drain(honest.ours.get()));
    const Pair in_first = connected();
    EXPECT_TRUE(in_first.theirs.send("hello", 5, {file.get()}));
    EXPECT_FALSE(drain(in_first.ours.get()));
    const Pair behind_others = connected();
    EXPECT_TRUE(behind_others.theirs.send("hello", 5));
    EXPECT_TRUE(behind_others.theirs.send("", 0));
    EXPECT_TRUE(behind_others.theirs.send("", 0, {file.get()}));
    EXPECT_FALSE(drain(behind_others.ours.get()));
    const Pair gone = connected();
    EXPECT_TRUE(gone.theirs.send("", 0));
    EXPECT_EQ(::shutdown(gone.theirs.socket(), SHUT_RDWR), 0);
    EXPECT_TRUE(drain(gone.ours.get()));
}

}  // namespace
}  // namespace urnic::daemon
