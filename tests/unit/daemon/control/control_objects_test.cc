// What well-behaved clients ask for, and mistakes that any program can make.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "tests/unit/daemon/control_objects.h"

namespace urnic::daemon {
namespace {

using abi::Op;

abi::AllocMwReply make_window(const TestClient& client, std::uint32_t pd) {
    abi::AllocMwRequest request{};
    request.pd = pd;
    request.type = static_cast<std::uint32_t>(WindowType::kType2);
    return client.ask(Op::kAllocMw, request).as<abi::AllocMwReply>();
}

TEST_F(Control, HelloGivesTheSharedPages) {
    const TestClient other = connect();
    const Answer answer = other.hello();
    const auto reply = answer.as<abi::HelloReply>();
    EXPECT_EQ(reply.abi_version, abi::kAbiVersion);
    EXPECT_EQ(reply.num_workers, kWorkers);
    EXPECT_EQ(reply.daemon_pid, getpid());
    ASSERT_EQ(answer.fds.size(), 2U + kWorkers);
    struct stat status {};
    ASSERT_EQ(fstat(answer.fds[1].get(), &status), 0);
    EXPECT_EQ(static_cast<std::size_t>(status.st_size), abi::doorbell_bytes(kWorkers));
}

TEST_F(Control, TheStateIsReadOnlyEvenIfOpenedAgain) {
    const TestClient other = connect();
    const Answer answer = other.hello();
    const std::string path = "/proc/self/fd/" + std::to_string(answer.fds[0].get());
    for (const int fd : {answer.fds[0].get(), open(path.c_str(), O_RDWR | O_CLOEXEC)}) {
        EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
        EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
        void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
        EXPECT_NE(page, MAP_FAILED);
        EXPECT_NE(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
        munmap(page, 4096);
    }
}

TEST_F(Control, AnotherAbiVersionIsToldOurs) {
    const TestClient other = connect();
    abi::HelloRequest request{};
    request.abi_version = abi::kAbiVersion + 1;
    const Answer answer = other.ask(Op::kHello, request);
    EXPECT_EQ(answer.error(), EPROTO);
    EXPECT_EQ(answer.as<abi::HelloReply>().abi_version, abi::kAbiVersion);
    EXPECT_EQ(other.hello().error(), 0) << "it may try again";
}

TEST_F(Control, HelloOnce) { EXPECT_EQ(client_.hello().error(), EEXIST); }

TEST_F(Control, NothingBeforeHello) {
    const TestClient other = connect();
    EXPECT_EQ(other.on_handle(Op::kDestroyQp, 1), EPROTO);
    EXPECT_EQ(other.ask(Op::kAllocPd, abi::ContextRequest{}).error(), EPROTO);
}

TEST_F(Control, AWorkerThatCannotTakeAClientIsAnError) {
    dataplane::worker_record().attach_error = ENOSPC;
    const TestClient other = connect();
    EXPECT_EQ(other.hello().error(), ENOSPC);
    dataplane::worker_record().attach_error = 0;
    EXPECT_EQ(other.hello().error(), 0);
}

TEST_F(Control, OpenNamesTheDevice) {
    abi::OpenDeviceRequest request{};
    std::memcpy(request.name, "urnic7", 7);
    EXPECT_EQ(client_.ask(Op::kOpenDevice, request).error(), ENODEV);
    std::memset(request.name, 'x', sizeof request.name);  // no NUL anywhere
    EXPECT_EQ(client_.ask(Op::kOpenDevice, request).error(), ENODEV);
}

TEST_F(Control, QueryPort) {
    abi::QueryPortRequest request{};
    request.context = context_;
    request.port_num = 1;
    const auto reply = client_.ask(Op::kQueryPort, request).as<abi::QueryPortReply>();
    EXPECT_EQ(reply.state, 4);
    EXPECT_EQ(reply.link_layer, 2);
    EXPECT_EQ(reply.active_mtu, 5);
    EXPECT_EQ(reply.gid_table_len, dataplane::Device::kGidTableLength);
    request.port_num = 2;
    EXPECT_EQ(client_.ask(Op::kQueryPort, request).error(), EINVAL);
    request.port_num = 1;
    request.context = 99;
    EXPECT_EQ(client_.ask(Op::kQueryPort, request).error(), ENOENT);
}

TEST_F(Control, WhatIsInUseCannotGo) {
    const auto qp = client_.qp(pd_, cq_);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDestroyCq, cq_), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDestroyQp, qp.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kDestroyQp, qp.handle), ENOENT) << "a second time";
    EXPECT_EQ(client_.on_handle(Op::kDestroyCq, cq_), 0);
    const auto mr = reg_mr(mr_request()).as<abi::RegMrReply>();
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), EBUSY);
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, mr.handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kDeallocPd, pd_), 0);
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Control, HandlesOfAnotherClientDoNotExist) {
    const auto qp = client_.qp(pd_, cq_);
    const auto mr = reg_mr(mr_request()).as<abi::RegMrReply>();
    const auto mw = make_window(client_, pd_);
    TestClient other = client();
    EXPECT_EQ(other.on_handle(Op::kDestroyQp, qp.handle), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kQueryQp, qp.handle), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kDestroyCq, cq_), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kDeregMr, mr.handle), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kDeallocMw, mw.handle), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kDeallocPd, pd_), ENOENT);
    EXPECT_EQ(other.on_handle(Op::kCloseDevice, context_), ENOENT);
    EXPECT_EQ(other.ask(Op::kCreateQp, qp_request(pd_, cq_)).error(), ENOENT);
    EXPECT_EQ(other.ask(Op::kRegMr, mr_request()).error(), ENOENT);
    EXPECT_EQ(client_.on_handle(Op::kQueryQp, qp.handle), 0) << "untouched";
    EXPECT_EQ(client_.on_handle(Op::kDeallocMw, mw.handle), 0) << "untouched";
}

// A key is good for QPs of its PD alone: another client's have other numbers.
TEST_F(Control, PdsOfTwoClientsAreDifferentOnes) {
    std::vector<std::uint32_t> numbers;
    const std::function<void(const QpConfig&)> note = [&](const QpConfig& qp) { numbers.push_back(qp.pd); };
    make_qp_hook = &note;
    (void)client_.qp(pd_, cq_);
    TestClient other = client();
    const std::uint32_t context = other.open();
    (void)other.qp(other.pd(context), other.cq(context));
    make_qp_hook = nullptr;
    ASSERT_EQ(numbers.size(), 2U);
    EXPECT_NE(numbers[0], numbers[1]);
}

TEST_F(Control, PdsAndCqsOfTwoDevicesDoNotMix) {
    const std::uint32_t other_context = client_.open("urnic1");
    const std::uint32_t other_cq = client_.cq(other_context);
    EXPECT_EQ(client_.ask(Op::kCreateQp, qp_request(pd_, other_cq)).error(), EINVAL);
}

TEST_F(Control, ChannelsAndTheirCqs) {
    abi::ContextRequest request{};
    request.context = context_;
    Answer answer = client_.ask(Op::kCreateChannel, request);
    const std::uint32_t channel = answer.as<abi::HandleReply>().handle;
    ASSERT_EQ(answer.fds.size(), 2U);
    EXPECT_EQ(fcntl(answer.fds[0].get(), F_GETFL) & O_NONBLOCK, 0) << "whether it blocks, its owner decides";
    const std::uint64_t element = 7;
    EXPECT_LT(::send(answer.fds[0].get(), &element, sizeof element, MSG_NOSIGNAL), 0) << "it receives";
    EXPECT_EQ(::send(answer.fds[1].get(), &element, sizeof element, 0), static_cast<ssize_t>(sizeof element));
    abi::CreateCqRequest cq{};
    cq.context = context_;
    cq.entries = 1;
    cq.channel = channel;
    const std::uint32_t handle = client_.ask(Op::kCreateCq, cq).as<abi::CreateCqReply>().handle;
    EXPECT_EQ(client_.on_handle(Op::kDestroyChannel, channel), EBUSY);
    cq.channel = channel + 1;
    EXPECT_EQ(client_.ask(Op::kCreateCq, cq).error(), ENOENT);
    EXPECT_EQ(client_.on_handle(Op::kDestroyCq, handle), 0);
    EXPECT_EQ(client_.on_handle(Op::kDestroyChannel, channel), 0);
    EXPECT_EQ(client_.on_handle(Op::kDestroyChannel, channel), ENOENT);
}

TEST_F(Control, CqSizes) {
    abi::CreateCqRequest request{};
    request.context = context_;
    for (const std::uint32_t entries : {0U, abi::kMaxCqEntries, ~0U}) {
        request.entries = entries;
        EXPECT_EQ(client_.ask(Op::kCreateCq, request).error(), EINVAL) << entries;
    }
    request.entries = abi::kMaxCqEntries - 1;  // what the device reports
    const auto largest = client_.ask(Op::kCreateCq, request).as<abi::CreateCqReply>();
    EXPECT_EQ(largest.entries, abi::kMaxCqEntries);
    request.entries = 17;
    const auto odd = client_.ask(Op::kCreateCq, request).as<abi::CreateCqReply>();
    EXPECT_EQ(odd.entries, 32U);
    EXPECT_GE(odd.memory_offset, largest.memory_offset + abi::cq_bytes(kWorkers, largest.entries));
}

TEST_F(Control, ResizeCarriesTheArmOver) {
    abi::CreateCqRequest request{};
    request.context = context_;
    request.entries = 4;
    Answer answer = client_.ask(Op::kCreateCq, request);
    const auto made = answer.as<abi::CreateCqReply>();
    const auto map = [&](std::uint64_t offset) {
        return static_cast<abi::CqHeader*>(mmap(nullptr, abi::kCqHeaderBytes, PROT_READ | PROT_WRITE,
                                                MAP_SHARED, answer.fds[0].get(), static_cast<off_t>(offset)));
    };
    abi::CqHeader* before = map(made.memory_offset);
    before->arm = abi::kCqArmedSolicited;
    abi::ResizeCqRequest resize{};
    resize.cq = made.handle;
    resize.entries = 100;
    const auto resized = client_.ask(Op::kResizeCq, resize).as<abi::CreateCqReply>();
    EXPECT_EQ(resized.entries, 128U);
    EXPECT_NE(resized.memory_offset, made.memory_offset);
    abi::CqHeader* after = map(resized.memory_offset);
    EXPECT_EQ(after->arm, abi::kCqArmedSolicited);
    EXPECT_EQ(before->arm, abi::kCqDisarmed);
    resize.entries = 0;
    EXPECT_EQ(client_.ask(Op::kResizeCq, resize).error(), EINVAL);
    resize.entries = abi::kMaxCqEntries;
    EXPECT_EQ(client_.ask(Op::kResizeCq, resize).error(), EINVAL);
    resize.entries = 4;
    resize.cq = 99;
    EXPECT_EQ(client_.ask(Op::kResizeCq, resize).error(), ENOENT);
    resize.cq = made.handle;
    resize.unpolled = 5;
    EXPECT_EQ(client_.ask(Op::kResizeCq, resize).error(), EINVAL) << "no room for those of earlier rings";
    resize.unpolled = 4;
    EXPECT_EQ(client_.ask(Op::kResizeCq, resize).error(), 0);
    munmap(before, abi::kCqHeaderBytes);
    munmap(after, abi::kCqHeaderBytes);
}

TEST_F(Control, CqFlagsAndModeration) {
    abi::CreateCqRequest request{};
    request.context = context_;
    request.entries = 4;
    request.flags = abi::kCqIgnoreOverrun | abi::kCqTimestamps;
    const auto made = client_.ask(Op::kCreateCq, request).as<abi::CreateCqReply>();
    request.flags = 1U << 2U;
    EXPECT_EQ(client_.ask(Op::kCreateCq, request).error(), EINVAL);
    abi::ModifyCqRequest modify{};
    modify.cq = made.handle;
    modify.count = modify.period_us = 0xffff;
    EXPECT_EQ(client_.ask(Op::kModifyCq, modify).error(), 0);
    modify.cq += 50;
    EXPECT_EQ(client_.ask(Op::kModifyCq, modify).error(), ENOENT);
}

TEST_F(Control, MrArguments) {
    const auto error_of = [&](auto change) {
        abi::RegMrRequest request = mr_request();
        change(request);
        return reg_mr(request).error();
    };
    EXPECT_EQ(error_of([](auto& r) { r.length = 0; }), 0) << "as ibv_rc_pingpong -s 0 does";
    EXPECT_EQ(error_of([](auto& r) { r.addr = ~0ULL - 10; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.iova = ~0ULL - 10; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.length = ~0ULL; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.access = kAccessRemoteWrite; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.access = kAccessRemoteAtomic | kAccessRemoteRead; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.access = 1U << 31U; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.access = 1U << 6U; }), EINVAL) << "on-demand paging";
    EXPECT_EQ(error_of([](auto& r) { r.flags = 2; }), EINVAL);
    EXPECT_EQ(error_of([](auto& r) { r.pd = 77; }), ENOENT);
    EXPECT_EQ(error_of([](auto& r) { r.flags = abi::kRegMrConverted; }), EINVAL) << "no memory file";
    EXPECT_EQ(error_of([](auto& r) { r.access |= kAccessRelaxedOrdering; }), 0);
}

TEST_F(Control, AConvertedMrIsReachedThroughTheMemoryFile) {
    client_.attach_memory();
    abi::RegMrRequest request = mr_request();
    request.addr += 100;
    request.flags = abi::kRegMrConverted;
    ASSERT_EQ(pwrite(client_.memory_file(), "hello", 5, static_cast<off_t>(request.addr)), 5);
    const auto reply = reg_mr(request).as<abi::RegMrReply>();
    EXPECT_EQ(reply.lkey, reply.rkey);
    const MemoryRegion* region = control.devices[0]->device->keys.find(reply.lkey);
    ASSERT_NE(region, nullptr);
    EXPECT_EQ(std::memcmp(region->direct, "hello", 5), 0);
    EXPECT_EQ(control.devices[1]->device->keys.find(reply.lkey), nullptr) << "not on the other device";
    EXPECT_EQ(client_.on_handle(Op::kDeregMr, reply.handle), 0);
    EXPECT_EQ(control.devices[0]->device->keys.find(reply.lkey), nullptr);
}

TEST_F(Control, KeysAreNotGuessable) {
    const auto expect_random = [](auto&& make_key) {
        std::set<std::uint32_t> differences;
        std::uint32_t previous = 0;
        for (int i = 0; i < 64; ++i) {
            const std::uint32_t key = make_key();
            differences.insert(key - previous);
            previous = key;
        }
        EXPECT_GE(differences.size(), 60U);
    };
    expect_random([this] { return reg_mr(mr_request()).as<abi::RegMrReply>().rkey; });
    expect_random([this] { return make_window(client_, pd_).rkey; });
}

TEST_F(Control, FourThousandQpsAnd65536Mrs) {
    for (int i = 0; i < 4096; ++i) {
        ASSERT_EQ(client_.ask(Op::kCreateQp, qp_request(pd_, cq_)).error(), 0) << i;
    }
    for (int i = 0; i < 65536; ++i) {
        ASSERT_EQ(reg_mr(mr_request()).error(), 0) << i;
    }
    EXPECT_EQ(reg_mr(mr_request()).error(), ENOMEM) << "more than the device reports";
    client_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Control, ClosingADeviceEndsWhatIsInIt) {
    const std::uint32_t other = client_.open("urnic0");
    const std::uint32_t other_pd = client_.pd(other);
    const std::uint32_t other_cq = client_.cq(other);
    const auto kept = client_.qp(other_pd, other_cq);
    const auto gone = client_.qp(pd_, cq_);
    EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0);
    EXPECT_EQ(client_.on_handle(Op::kQueryQp, gone.handle), ENOENT);
    EXPECT_EQ(client_.on_handle(Op::kQueryQp, kept.handle), 0);
    client_.close();
    wait_for_connections(0);
    EXPECT_TRUE(nothing_is_left());
}

// More of them than have their turn in one call, on both workers, and one that has nothing to send.
TEST_F(Control, WhatAClientHasPostedIsSentWhenItIsGone) {
    constexpr std::uint32_t kSenders = 40;
    const auto send_and = [&](auto&& end) {
        for (std::uint32_t i = 0; i <= kSenders; ++i) {
            abi::ModifyQpRequest request = rtr_request(client_.qp(pd_, cq_).handle);
            request.attr.state = i == kSenders ? QpState::kRtr : QpState::kRts;
            ASSERT_EQ(client_.ask(Op::kModifyQp, request).error(), 0);
        }
        const std::uint32_t before = dataplane::worker_record().last_sends;
        end();
        EXPECT_EQ(dataplane::worker_record().last_sends - before, kSenders);
    };
    send_and([&] { EXPECT_EQ(client_.on_handle(Op::kCloseDevice, context_), 0); });
    context_ = client_.open("urnic0");
    pd_ = client_.pd(context_);
    cq_ = client_.cq(context_);
    send_and([&] {
        client_.close();
        wait_for_connections(0);
    });
    EXPECT_TRUE(nothing_is_left());
}

TEST_F(Control, StatusShowsWhatThereIsAndNeedsNoHello) {
    const auto qp = client_.qp(pd_, cq_);
    EXPECT_EQ(client_.ask(Op::kModifyQp, rtr_request(qp.handle)).error(), 0);
    EXPECT_EQ(reg_mr(mr_request()).error(), 0);
    const TestClient other = connect();
    const Answer answer = other.ask(Op::kStatus, abi::StatusRequest{});
    ASSERT_EQ(answer.error(), 0);
    std::string text(1 << 20, '\0');
    text.resize(static_cast<std::size_t>(pread(answer.fds.at(0).get(), text.data(), text.size(), 0)));
    const auto status = nlohmann::json::parse(text);
    EXPECT_EQ(status["daemon"]["pid"], getpid());
    EXPECT_EQ(status["devices"][0]["name"], "urnic0");
    EXPECT_EQ(status["devices"][0]["qps"], 1);
    EXPECT_EQ(status["devices"][0]["counters"]["duplicate_request"], 0);
    EXPECT_EQ(status["workers"].size(), kWorkers);
    EXPECT_GT(status["control_thread"]["requests"]["number"], 0);
    EXPECT_GT(status["control_thread"]["requests"]["longest_cpu_ns"], 0);
    EXPECT_GT(status["control_thread"]["rounds"]["longest_ns"], 0);
    EXPECT_EQ(status["control_thread"]["steps"]["number"], 0);
    EXPECT_EQ(status["control_thread"]["steps"]["over_2_ms"], 0);
    const auto& shown = status["clients"][0];
    EXPECT_EQ(shown["pid"], getpid());
    EXPECT_EQ(shown["program"], "control_test");
    EXPECT_EQ(shown["qps"][0]["qpn"], qp.qp_num);
    EXPECT_EQ(shown["qps"][0]["state"], "RTR");
    EXPECT_EQ(shown["qps"][0]["peer_qpn"], 0x123456);
    EXPECT_EQ(shown["mrs"][0]["length"], 8192);
    EXPECT_EQ(shown["mrs"][0]["converted"], false);
}

}  // namespace
}  // namespace urnic::daemon
