#include "tests/unit/daemon/control_fixture.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "daemon/cm/mad_listener.h"
#include "daemon/verbs/make_qp.h"
#include "tests/unit/daemon/own_neighbours.h"

namespace urnic::daemon {

namespace {

/// A server that does not answer fails the test instead of holding it up.
constexpr time_t kPatienceSeconds = 40;

/// Remembers its attributes, has unsent requests in RTS, and refuses a state of 77 as a real one refuses a
/// wrong transition.
class PlainQp final : public Qp {
  public:
    using Qp::Qp;
    int modify(TimeNs, const abi::QpAttr& attr, const wire::Path&, Outbox&) override {
        if (static_cast<int>(attr.state) == 77) {
            return EINVAL;
        }
        attr_ = attr;
        return 0;
    }
    void query(abi::QpAttr& attr) const override { attr = attr_; }
    [[nodiscard]] QpPsns psns() const override { return {attr_.rq_psn, attr_.sq_psn}; }
    void handle_packet(TimeNs, const wire::PacketView&, Outbox&) override {}
    void handle_timeout(TimeNs, Outbox&) override {}
    void forget_srq(const SharedRecvQueue& srq) override {
        dataplane::worker_record().last_forgotten_srq = srq.identity().number;
    }
    bool progress(TimeNs, std::uint32_t, Outbox&) override { return false; }
    [[nodiscard]] TimeNs deadline() const override { return kNever; }
    [[nodiscard]] const wire::Path& path() const override { return path_; }
    [[nodiscard]] QpState state() const override { return attr_.state; }
    [[nodiscard]] bool has_unsent() const override { return attr_.state == QpState::kRts; }

  private:
    abi::QpAttr attr_{};
    wire::Path path_{};
};

abi::DeviceCaps test_caps() {
    abi::DeviceCaps caps{};
    caps.max_mr_size = abi::kMemoryFileBytes;
    caps.max_qp = 5000;
    caps.max_qp_wr = abi::kMaxQueueEntries;
    caps.max_sge = abi::kMaxSge;
    caps.max_inline = abi::kMaxInlineBytes;
    caps.max_cq = 5000;
    caps.max_cqe = abi::kMaxCqEntries - 1;
    caps.max_mr = 65536;
    caps.max_mw = 65536;
    caps.max_dm_bytes = 1U << 20U;
    caps.max_pd = 100;
    caps.max_ah = AddressHandles::kSlots;
    caps.max_srq = 5000;
    caps.max_srq_wr = abi::kMaxQueueEntries;
    caps.max_srq_sge = abi::kMaxSge;
    caps.gid_table_len = dataplane::Device::kGidTableLength;
    caps.pkey_table_len = PkeyTable::kEntries;
    caps.num_ports = 1;
    return caps;
}

}  // namespace

abi::ReplyHeader Answer::as_header() const {
    abi::ReplyHeader header{};
    EXPECT_FALSE(closed) << "the server hung up";
    EXPECT_GE(bytes.size(), sizeof header);
    std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof header));
    EXPECT_EQ(header.magic, abi::kControlMagic);
    EXPECT_EQ(header.length, bytes.size());
    if (header.error != 0) {
        EXPECT_TRUE(fds.empty()) << "an error reply carries descriptors";
    }
    return header;
}

TestClient::TestClient(const std::string& path)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    const timeval patience{kPatienceSeconds, 0};
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    EXPECT_EQ(::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    EXPECT_EQ(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

bool TestClient::send(const void* data, std::size_t bytes, const std::vector<int>& fds) const {
    iovec part{const_cast<void*>(data), bytes};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * fds.size()));
    if (!fds.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
        std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
    }
    return ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

Answer TestClient::receive() const {
    Answer answer;
    answer.bytes.resize(4096);
    iovec part{answer.bytes.data(), answer.bytes.size()};
    alignas(cmsghdr) std::byte control[1024];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t received = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    EXPECT_FALSE(received < 0 && errno == EAGAIN) << "no answer in " << kPatienceSeconds << " s";
    answer.closed = received <= 0;
    if (answer.closed) {
        return answer;
    }
    answer.bytes.resize(static_cast<std::size_t>(received));
    for (cmsghdr* cmsg = CMSG_FIRSTHDR(&message); cmsg != nullptr; cmsg = CMSG_NXTHDR(&message, cmsg)) {
        for (std::size_t i = 0; i < (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
            answer.fds.emplace_back(fd);
        }
    }
    return answer;
}

Answer TestClient::hello() const {
    abi::HelloRequest request{};
    request.abi_version = abi::kAbiVersion;
    std::memcpy(request.program, "control_test", 13);
    return ask(abi::Op::kHello, request);
}

std::uint32_t TestClient::open(const char* name) {
    abi::OpenDeviceRequest request{};
    std::strncpy(request.name, name, sizeof request.name - 1);
    Answer answer = ask(abi::Op::kOpenDevice, request);
    EXPECT_EQ(answer.error(), 0);
    EXPECT_EQ(answer.fds.size(), 2U);
    async_fds.push_back(std::move(answer.fds.at(0)));
    tokens.push_back(std::move(answer.fds.at(1)));
    return answer.as<abi::OpenDeviceReply>().context;
}

std::uint32_t TestClient::pd(std::uint32_t context) const {
    abi::ContextRequest request{};
    request.context = context;
    const Answer answer = ask(abi::Op::kAllocPd, request);
    EXPECT_EQ(answer.error(), 0);
    return answer.as<abi::HandleReply>().handle;
}

std::uint32_t TestClient::cq(std::uint32_t context, std::uint32_t entries) const {
    abi::CreateCqRequest request{};
    request.context = context;
    request.entries = entries;
    const Answer answer = ask(abi::Op::kCreateCq, request);
    EXPECT_EQ(answer.error(), 0);
    return answer.as<abi::CreateCqReply>().handle;
}

abi::CreateQpRequest qp_request(std::uint32_t pd, std::uint32_t cq) {
    abi::CreateQpRequest request{};
    request.pd = pd;
    request.send_cq = request.recv_cq = cq;
    request.type = static_cast<std::uint8_t>(QpType::kRc);
    request.max_send_wr = request.max_recv_wr = 4;
    request.max_send_sge = request.max_recv_sge = 1;
    return request;
}

abi::CreateQpReply TestClient::qp(std::uint32_t pd, std::uint32_t cq) const {
    const Answer answer = ask(abi::Op::kCreateQp, qp_request(pd, cq));
    EXPECT_EQ(answer.error(), 0);
    return answer.as<abi::CreateQpReply>();
}

int TestClient::on_handle(abi::Op op, std::uint32_t handle) const {
    abi::HandleRequest request{};
    request.handle = handle;
    return ask(op, request).error();
}

abi::CreateAhRequest ah_request(std::uint32_t pd) {
    abi::CreateAhRequest request{};
    request.pd = pd;
    request.av.is_global = 1;
    request.av.port_num = 1;
    request.av.sgid_index = 1;
    const std::uint8_t gid[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 18, 0, 2};
    std::copy(std::begin(gid), std::end(gid), request.av.dgid);
    return request;
}

UniqueFd make_memory_file(int seals, std::uint64_t bytes) {
    UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    if (seals != 0) {
        EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    }
    return file;
}

void TestClient::attach_memory() {
    memory_file_ = make_memory_file(F_SEAL_SHRINK | F_SEAL_GROW);
    EXPECT_EQ(ask(abi::Op::kAttachMemory, abi::AttachMemoryRequest{}, {memory_file_.get()}).error(), 0);
}

std::unique_ptr<Qp> make_qp(QpType /*type*/, const QpConfig& config) {
    if (const auto* hook = make_qp_hook.load()) {
        (*hook)(config);
    }
    return std::make_unique<PlainQp>(config);
}

ControlTest::ControlTest(ControlServer::Options options, ClientLimits limits)
    : dir_("/tmp/urnic-control-XXXXXX") {
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    neighbours_ = std::make_unique<OwnNeighbours>(devices_);
    EXPECT_EQ(create_memfd("state", sizeof(abi::DaemonState), Sharing::kReadOnlyForClients,
                           control.daemon_state_memfd),
              0);
    for (std::uint32_t i = 0; i < 2; ++i) {
        auto device = std::make_unique<dataplane::Device>();
        device->name = "urnic" + std::to_string(i);
        device->index = i;
        device->mac = {2, 0, 0, 0, 0, static_cast<std::uint8_t>(i + 1)};
        device->gids[0] = link_local_gid(device->mac);
        device->gids[1] = {0, 0, 0,    0,    0,   0,  0, 0,
                           0, 0, 0xff, 0xff, 198, 18, 0, static_cast<std::uint8_t>(i + 1)};
        device->caps = test_caps();
        device->congestion.fill(congestion::default_settings());
        device->neighbours = neighbours_.get();
        device->port = &ports_.at(i);
        control.devices.push_back(std::make_unique<RnicState>(*device, kWorkers));
        devices_.push_back(std::move(device));
    }
    dataplane::WorkerConfig config;
    config.num_workers = kWorkers;
    for (config.index = 0; config.index < kWorkers; ++config.index) {
        control.workers.push_back(std::make_unique<dataplane::Worker>(config));
    }
    control.worker_cpus.assign(kWorkers, -1);
    control.worker_qps.assign(kWorkers, 0);
    listen_for_mads(control, [this](RnicState& device, const ReceivedMad& mad) {
        if (const auto* hook = mad_hook.load()) {
            (*hook)(device, mad);
        }
    });
    watch_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    control.event_loop.add(watch_fd_.get(), [this] {
        eventfd_t count = 0;
        EXPECT_EQ(::eventfd_read(watch_fd_.get(), &count), 0);
        (*watched_.load())();
        watched_ = nullptr;
    });
    dataplane::worker_record().qps = 0;
    dataplane::worker_record().attach_error = 0;
    control.limits = limits;
    server_ = std::make_unique<ControlServer>(control, options);
    UniqueFd socket;
    EXPECT_EQ(ControlServer::bind(socket_path(), 0600, static_cast<gid_t>(-1), socket), 0);
    EXPECT_EQ(server_->listen(std::move(socket)), 0);
    stop_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    thread_ = std::thread([this] {
        const int stop[] = {stop_fd_.get()};
        server_->run(stop, [this] {
            connections_ = server_->num_connections();
            ++rounds_;
        });
    });
}

void ControlTest::stop() {
    if (thread_.joinable()) {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(stop_fd_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
        thread_.join();
        server_.reset();
    }
}

void ControlTest::let_server_change() const {
    for (const auto& worker : control.workers) {
        worker->call([] {});
    }
}

void ControlTest::on_control_thread(const std::function<void()>& function) {
    watched_ = &function;
    ASSERT_EQ(::eventfd_write(watch_fd_.get(), 1), 0);
    while (watched_ != nullptr) {
        std::this_thread::yield();
    }
}

ControlTest::~ControlTest() {
    stop();
    std::filesystem::remove_all(dir_);
}

void ControlTest::wait_for_connections(std::size_t count) const {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (connections_ != count && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(connections_, count);
}

bool ControlTest::nothing_is_left() {
    stop();
    bool nothing = dataplane::worker_record().qps == 0;
    for (const auto& entry : control.devices) {
        nothing = nothing && entry->num_qps == 0 && entry->num_cqs == 0 && entry->num_mrs == 0 &&
                  entry->num_pds == 0 && entry->num_ahs == 0 && entry->num_mws == 0 && entry->num_dms == 0 &&
                  entry->num_srqs == 0 && entry->xrc_domains.empty() && entry->device->keys.size() == 0 &&
                  entry->device->handles.size() == 0 && entry->groups.num_groups() == 0 &&
                  entry->groups.num_memberships() == 0;
    }
    return nothing && control.contexts.empty();
}

}  // namespace urnic::daemon
