#include "tests/unit/verbs_provider/fake_daemon.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace urnic::test {

SharedPart::SharedPart(std::size_t bytes, std::size_t offset) : bytes_(bytes + offset), offset_(offset) {
    fd_ = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    URNIC_CHECK(fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes_)) == 0);
    URNIC_CHECK(fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    URNIC_CHECK(memory != MAP_FAILED);
    data_ = static_cast<std::byte*>(memory);
}

SharedPart::~SharedPart() {
    munmap(data_, bytes_);
    close(fd_);
}

/// A reply being made: room for the largest, its length, and fds that are closed once sent if they are `own`.
struct FakeDaemon::Reply {
    alignas(8) std::byte data[abi::kMaxMessageBytes] = {};
    std::size_t length = sizeof(abi::ReplyHeader);
    int error = 0;
    std::vector<int> fds;
    std::vector<int> own;

    template <class T>
    T& as() {
        length = sizeof(T);
        return *reinterpret_cast<T*>(data);
    }
};

FakeDaemon::FakeDaemon() {
    const char* run_dir = getenv("URNIC_RUN_DIR");
    URNIC_CHECK(run_dir != nullptr);
    path_ = std::string(run_dir) + "/control.sock";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    URNIC_CHECK(path_.size() < sizeof address.sun_path);
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    unlink(path_.c_str());
    listen_fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    URNIC_CHECK(bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    URNIC_CHECK(listen(listen_fd_, 8) == 0);
    for (int& fd : wake_fds_) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    daemon_state_->alive.store(1);
    daemon_state_->cores_shared.store(1);
    threads_.emplace_back([this] { accept_clients(); });
}

void FakeDaemon::die() {
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) {
            return;
        }
        stopping_ = true;
        shutdown(listen_fd_, SHUT_RDWR);
        for (const int fd : sockets_) {
            shutdown(fd, SHUT_RDWR);
        }
    }
    threads_.front().join();  // no thread is added after this one
    for (std::size_t i = 1; i < threads_.size(); ++i) {
        threads_[i].join();
    }
    close(listen_fd_);
    unlink(path_.c_str());
    for (const int fd : wake_fds_) {
        close(fd);
    }
    if (event_fd_ >= 0) {
        close(event_fd_);
    }
    for (auto& [handle, channel] : channels_) {
        close(channel.write_fd);
    }
}

void FakeDaemon::accept_clients() {
    for (;;) {
        const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
        const std::lock_guard lock(mutex_);
        if (fd < 0 || stopping_) {
            if (fd >= 0) {
                close(fd);
            }
            return;
        }
        sockets_.push_back(fd);
        ++clients;
        threads_.emplace_back([this, fd] { serve(fd); });
    }
}

void FakeDaemon::serve(int socket) {
    alignas(8) std::byte request[abi::kMaxMessageBytes];
    for (;;) {
        const ssize_t got = recv(socket, request, sizeof request, 0);
        if (got < static_cast<ssize_t>(sizeof(abi::RequestHeader))) {
            break;
        }
        abi::RequestHeader header{};
        std::memcpy(&header, request, sizeof header);
        Reply reply;
        {
            const std::lock_guard lock(mutex_);
            if (header.op != abi::Op::kHello) {
                reply.error = next_error.exchange(0);
            }
            if (reply.error == 0) {
                answer(request, reply);
            }
        }
        const abi::ReplyHeader head{abi::kControlMagic,
                                    header.op,
                                    header.cookie,
                                    reply.error,
                                    static_cast<std::uint32_t>(reply.length),
                                    0};
        std::memcpy(reply.data, &head, sizeof head);
        if (spoil) {
            Sent sent{reply.data, reply.length, reply.fds, reply.own};
            spoil(header.op, sent);
        }
        iovec data{reply.data, reply.length};
        std::vector<std::byte> control(CMSG_SPACE(sizeof(int) * (reply.fds.size() + 1)));
        msghdr message{};
        message.msg_iov = &data;
        message.msg_iovlen = 1;
        if (!reply.fds.empty()) {
            message.msg_control = control.data();
            message.msg_controllen = CMSG_SPACE(sizeof(int) * reply.fds.size());
            cmsghdr* cmsg = CMSG_FIRSTHDR(&message);
            cmsg->cmsg_level = SOL_SOCKET;
            cmsg->cmsg_type = SCM_RIGHTS;
            cmsg->cmsg_len = CMSG_LEN(sizeof(int) * reply.fds.size());
            std::memcpy(CMSG_DATA(cmsg), reply.fds.data(), sizeof(int) * reply.fds.size());
        }
        (void)sendmsg(socket, &message, MSG_NOSIGNAL);
        for (const int fd : reply.own) {
            close(fd);
        }
    }
    const std::lock_guard lock(mutex_);
    std::erase(sockets_, socket);
    close(socket);
    --clients;
}

void FakeDaemon::answer(const std::byte* request, Reply& reply) {
    const auto op = reinterpret_cast<const abi::RequestHeader*>(request)->op;
    const auto handle = reinterpret_cast<const abi::HandleRequest*>(request)->handle;
    switch (op) {
        case abi::Op::kHello:
            return hello(*reinterpret_cast<const abi::HelloRequest*>(request), reply);
        case abi::Op::kOpenDevice:
            return open_device(reply);
        case abi::Op::kQueryPort: {
            auto& port = reply.as<abi::QueryPortReply>();
            port.state = 4;
            port.max_mtu = port.active_mtu = 5;
            port.gid_table_len = 16;
            port.pkey_table_len = 1;
            port.link_layer = 2;
            port.max_msg_sz = 1U << 31U;
            return;
        }
        case abi::Op::kImportPd:
        case abi::Op::kAllocPd:
            reply.as<abi::HandleReply>().handle = next_handle_++;
            return;
        case abi::Op::kRegMr:
            last_reg_mr = *reinterpret_cast<const abi::RegMrRequest*>(request);
            reply.as<abi::RegMrReply>() = {{}, next_handle_++, 0x1234, 0x5678, 0};
            return;
        case abi::Op::kCreateAh:
            last_create_ah = *reinterpret_cast<const abi::CreateAhRequest*>(request);
            reply.as<abi::CreateAhReply>() = {{}, next_handle_++, 0xabcd};
            return;
        case abi::Op::kCreateChannel:
            return create_channel(reply);
        case abi::Op::kCreateCq:
            return create_cq(*reinterpret_cast<const abi::CreateCqRequest*>(request), reply);
        case abi::Op::kModifyCq:
            last_modify_cq = *reinterpret_cast<const abi::ModifyCqRequest*>(request);
            return;
        case abi::Op::kResizeCq:
            return resize_cq(*reinterpret_cast<const abi::ResizeCqRequest*>(request), reply);
        case abi::Op::kCreateQp:
            return create_qp(*reinterpret_cast<const abi::CreateQpRequest*>(request), reply);
        case abi::Op::kModifyQp:
            return modify_qp(*reinterpret_cast<const abi::ModifyQpRequest*>(request));
        case abi::Op::kQueryQp:
            reply.as<abi::QueryQpReply>().attr = qps_.at(handle).attr;
            return;
        case abi::Op::kDestroySrq:
        case abi::Op::kDestroyCq:
        case abi::Op::kDestroyQp:
        case abi::Op::kDestroyChannel:
            return destroy(op, handle, reply);
        default:
            return answer_rare(op, request, reply);
    }
}

void FakeDaemon::answer_rare(abi::Op op, const std::byte* request, Reply& reply) {
    switch (op) {
        case abi::Op::kImportDevice:
            return import_device(reply);
        case abi::Op::kCloseDevice:
            ++contexts_closed;
            return;
        case abi::Op::kDeallocPd:
            ++pds_ended;
            return;
        case abi::Op::kCreateSrq: {
            const auto& wanted = *reinterpret_cast<const abi::CreateSrqRequest*>(request);
            srqs_[next_handle_].user_handle = wanted.user_handle;
            return make_srq_memory(next_handle_++, wanted.max_wr, reply);
        }
        case abi::Op::kModifySrq: {
            const auto& wanted = *reinterpret_cast<const abi::ModifySrqRequest*>(request);
            return make_srq_memory(wanted.srq, wanted.max_wr, reply);
        }
        case abi::Op::kAllocMw:
            reply.as<abi::AllocMwReply>() = {{}, next_handle_++, 0x4200};
            return;
        case abi::Op::kAllocDm:
            return alloc_dm(*reinterpret_cast<const abi::AllocDmRequest*>(request), reply);
        case abi::Op::kFreeDm:
            dms_.erase(reinterpret_cast<const abi::HandleRequest*>(request)->handle);
            return;
        default:
            return;  // nothing to do but say yes
    }
}

void FakeDaemon::hello(const abi::HelloRequest& request, Reply& reply) {
    auto& hello = reply.as<abi::HelloReply>();
    hello.abi_version = version;
    hello.num_workers = kWorkers;
    hello.client_id = client_id_ = next_handle_++;
    hello.daemon_pid = getpid();
    if (request.abi_version != version) {
        reply.error = EPROTO;
        return;
    }
    reply.fds = {state_.fd(), bells_.fd()};
    for (const int fd : wake_fds_) {
        reply.fds.push_back(fd);
    }
}

void FakeDaemon::open_device(Reply& reply) {
    int pair[2];
    URNIC_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    if (event_fd_ >= 0) {
        close(event_fd_);
    }
    event_fd_ = pair[0];
    const int token = memfd_create(abi::kContextTokenName, MFD_CLOEXEC);
    URNIC_CHECK(token >= 0);
    reply.fds = reply.own = {pair[1], token};
    auto& opened = reply.as<abi::OpenDeviceReply>();
    opened.context = next_handle_++;
    opened.caps.node_guid = 0x0102;
    opened.caps.max_qp = 100;
    opened.caps.max_cqe = 1024;
    opened.caps.max_dm_bytes = 1U << 20U;
    opened.caps.num_ports = 1;
    opened.caps.pkey_table_len = 1;
}

void FakeDaemon::import_device(Reply& reply) {
    auto& imported = reply.as<abi::ImportDeviceReply>();
    imported.context = next_handle_++;
    imported_name.copy(imported.name, sizeof imported.name - 1);
    if (imports_with_event_socket) {
        reply.fds = reply.own = {eventfd(0, EFD_CLOEXEC)};
    }
}

void FakeDaemon::create_channel(Reply& reply) {
    int ends[2];
    URNIC_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    const int second = fcntl(ends[1], F_DUPFD_CLOEXEC, 0);
    URNIC_CHECK(second >= 0);
    const std::uint32_t handle = next_handle_++;
    channels_[handle].write_fd = ends[1];
    reply.fds = reply.own = {ends[0], second};
    reply.as<abi::HandleReply>().handle = handle;
}

void FakeDaemon::create_cq(const abi::CreateCqRequest& request, Reply& reply) {
    last_create_cq = request;
    const std::uint32_t handle = next_handle_++;
    FakeCq& cq = cqs_[handle];
    const std::uint32_t entries = std::bit_ceil(request.entries);
    cq.memory.push_back(std::make_unique<SharedPart>(abi::cq_bytes(kWorkers, entries)));
    cq.queue = std::make_unique<CompletionQueue>(cq.memory.back()->data(), entries);
    cq.channel = request.channel;
    cq.user_handle = request.user_handle;
    reply.fds = {cq.memory.back()->fd()};
    reply.as<abi::CreateCqReply>() = {{}, handle, entries, SharedPart::kOffset};
}

void FakeDaemon::resize_cq(const abi::ResizeCqRequest& request, Reply& reply) {
    last_resize_cq = request;
    FakeCq& cq = cqs_.at(request.cq);
    const std::uint32_t entries = std::bit_ceil(request.entries);
    const auto& old_header = *reinterpret_cast<abi::CqHeader*>(cq.memory.back()->data());
    cq.memory.push_back(std::make_unique<SharedPart>(abi::cq_bytes(kWorkers, entries)));
    std::byte* memory = cq.memory.back()->data();
    reinterpret_cast<abi::CqHeader*>(memory)->arm.store(old_header.arm.load());
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        cq.queue->switch_worker(worker, memory, entries);
    }
    reply.fds = {cq.memory.back()->fd()};
    reply.as<abi::CreateCqReply>() = {{}, request.cq, entries, SharedPart::kOffset};
}

void FakeDaemon::create_qp(const abi::CreateQpRequest& request, Reply& reply) {
    const std::uint32_t handle = next_handle_++;
    FakeQp& qp = qps_[handle];
    auto& made = reply.as<abi::CreateQpReply>();
    made.handle = handle;
    made.qp_num = kQpNum + static_cast<std::uint32_t>(qps_.size()) - 1;
    made.worker = qp.worker = 1;
    made.doorbell_slot = qp.slot = 77;
    made.sq_entries = std::bit_ceil(request.max_send_wr);
    made.rq_entries = std::bit_ceil(request.max_recv_wr);
    made.sq_stride = abi::send_stride(kMaxSge, kMaxInline);
    made.rq_stride = abi::recv_stride(kMaxSge);
    made.max_send_sge = made.max_recv_sge = kMaxSge;
    made.max_inline = kMaxInline;
    made.rq_offset = std::uint64_t{made.sq_entries} * made.sq_stride;
    made.memory_bytes = abi::round_up(made.rq_offset + std::uint64_t{made.rq_entries} * made.rq_stride, 4096);
    made.memory_offset = SharedPart::kOffset;
    qp.memory = std::make_unique<SharedPart>(made.memory_bytes);
    qp.sq = SendQueue(qp.memory->data(), made.sq_entries, made.sq_stride, kMaxSge, kMaxInline);
    qp.rq = RecvQueue(qp.memory->data() + made.rq_offset, made.rq_entries, made.rq_stride, kMaxSge);
    qp.user_handle = request.user_handle;
    reply.fds = {qp.memory->fd()};
}

void FakeDaemon::make_srq_memory(std::uint32_t handle, std::uint32_t max_wr, Reply& reply) {
    auto& made = reply.as<abi::SrqReply>();
    made.handle = handle;
    made.entries = std::bit_ceil(max_wr);
    made.stride = abi::recv_stride(kMaxSge);
    made.max_sge = kMaxSge;
    made.memory_offset = SharedPart::kOffset;
    made.memory_bytes = abi::round_up(abi::srq_bytes(made.entries, made.stride), 4096);
    auto& memory = srqs_[handle].memory;
    memory.push_back(std::make_unique<SharedPart>(made.memory_bytes));
    reply.fds = {memory.back()->fd()};
    if (spoil_srq) {
        spoil_srq(made);
    }
}

void FakeDaemon::alloc_dm(const abi::AllocDmRequest& request, Reply& reply) {
    const std::uint32_t handle = next_handle_++;
    auto& memory = dms_[handle];
    memory = std::make_unique<SharedPart>(abi::round_up(request.length, 4096), 0);
    auto& made = reply.as<abi::DmReply>();
    made.handle = handle;
    made.length = request.length;
    reply.fds = {memory->fd()};
    if (spoil_dm) {
        spoil_dm(made);
    }
}

void FakeDaemon::modify_qp(const abi::ModifyQpRequest& request) {
    FakeQp& qp = qps_.at(request.qp);
    qp.attr = request.attr;
    if ((request.attr.mask & kQpAttrState) != 0 && request.attr.state == QpState::kReset) {
        qp.sq.clear();
        qp.rq.clear();
    }
}

void FakeDaemon::destroy(abi::Op op, std::uint32_t handle, Reply& reply) {
    if (op == abi::Op::kDestroyChannel) {
        close(channels_.at(handle).write_fd);
        channels_.erase(handle);
        return;
    }
    auto& destroyed = reply.as<abi::DestroyReply>();
    if (op == abi::Op::kDestroySrq) {
        srqs_.erase(handle);
        return;
    }
    if (op == abi::Op::kDestroyCq) {
        destroyed.async_events = cqs_.at(handle).async_events;
        destroyed.completion_events = cqs_.at(handle).completion_events;
        cqs_.erase(handle);
    } else {
        destroyed.async_events = qps_.at(handle).async_events;
        qps_.erase(handle);
    }
}

void FakeDaemon::complete(const Completion& completion, std::uint32_t worker, std::uint64_t timestamp_ns) {
    URNIC_CHECK(cq().queue->push(worker, completion, timestamp_ns));
}

bool FakeDaemon::notify(std::uint32_t worker) {
    const std::lock_guard lock(mutex_);
    FakeCq& cq = this->cq();
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!cq.queue->take_notification(worker)) {
        return false;
    }
    const ssize_t written = write(channels_.at(cq.channel).write_fd, &cq.user_handle, sizeof cq.user_handle);
    URNIC_CHECK(written == sizeof cq.user_handle);
    ++cq.completion_events;
    return true;
}

std::uint32_t FakeDaemon::wake_sleepers() {
    const std::lock_guard lock(mutex_);
    const std::uint32_t sleepers = cq().queue->take_sleepers(0);
    std::atomic<std::uint32_t>& word = daemon_state_->wake_words[client_id_ % abi::kWakeWords];
    word.fetch_add(1);
    (void)syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, INT_MAX, nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
    return sleepers;
}

void FakeDaemon::send_async(AsyncEventType type, std::uint64_t element) {
    const std::lock_guard lock(mutex_);
    const abi::AsyncEvent event{element, static_cast<std::uint32_t>(type), 0};
    URNIC_CHECK(send(event_fd_, &event, sizeof event, MSG_NOSIGNAL) == sizeof event);
    for (auto& [handle, qp] : qps_) {
        qp.async_events += qp.user_handle == element ? 1 : 0;
    }
    for (auto& [handle, cq] : cqs_) {
        cq.async_events += cq.user_handle == element ? 1 : 0;
    }
}

void FakeDaemon::send_completion_event(std::uint64_t element) {
    const std::lock_guard lock(mutex_);
    URNIC_CHECK(send(channels_.at(cq().channel).write_fd, &element, sizeof element, MSG_NOSIGNAL) ==
                sizeof element);
}

bool FakeDaemon::doorbell_rang(const FakeQp& qp) {
    abi::WorkerDoorbell& bell = doorbells_[qp.worker];
    const std::uint32_t word = qp.slot / 64;
    const std::uint64_t summary = bell.summary[word / 64].exchange(0);
    const std::uint64_t bits = bell.words[word].exchange(0);
    return summary == std::uint64_t{1} << (word % 64) && bits == std::uint64_t{1} << (qp.slot % 64);
}

std::uint64_t FakeDaemon::wakeups(std::uint32_t worker) {
    std::uint64_t count = 0;
    return read(wake_fds_[worker], &count, sizeof count) == sizeof count ? count : 0;
}

void FakeDaemon::set_sleeping(std::uint32_t worker, bool sleeping) {
    daemon_state_->workers[worker].sleeping.store(sleeping ? 1 : 0);
}

}  // namespace urnic::test
