#include "verbs_provider/core/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "verbs_provider/core/deferred_modifies.h"
#include "verbs_provider/core/verbs.h"

namespace urnic::provider {

namespace {

constexpr const char* kDefaultRunDir = "/run/urnic";
/// As the firmware of a NIC gets (mlx5_core's command timeout). In steps: time in which this process did not
/// run either (a debugger, a frozen container) counts as one of them at most.
constexpr std::uint64_t kAnswerTimeoutNs = 60'000'000'000;
constexpr std::uint64_t kAnswerStepNs = 1'000'000'000;
constexpr std::int32_t kMaxErrno = 4095;  // MAX_ERRNO of Linux

std::uint64_t nanoseconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

/// Where the daemon listens. A program that changed its identity must not be led elsewhere by its
/// environment.
void socket_path(char* path, std::size_t size) {
    const char* run_dir = secure_getenv("URNIC_RUN_DIR");
    snprintf(path, size, "%s/control.sock",
             run_dir != nullptr && run_dir[0] != '\0' ? run_dir : kDefaultRunDir);
}

/// Fills the address; a path that is too long for it is reached through its directory.
bool socket_address(const char* path, sockaddr_un& address, int& directory_fd) {
    address.sun_family = AF_UNIX;
    directory_fd = -1;
    if (strlen(path) < sizeof address.sun_path) {
        memcpy(address.sun_path, path, strlen(path) + 1);
        return true;
    }
    char directory[4096];
    const char* slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", static_cast<int>(slash - path), path);
    directory_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d%s", directory_fd, slash);
    return directory_fd >= 0;
}

void report_unreachable(const char* path, int error) {
    const char* advice = "start urnicd, or run the program under `urnic run`";
    if (error == EACCES || error == EPERM) {
        advice =
            "ask for permission on that socket (see `socket_mode` and `socket_group` of urnicd.toml), or use "
            "`urnic run --standalone`";
    }
    fprintf(stderr, "urnic: cannot reach the RNIC daemon at %s: %s; %s\n", path, strerror(error), advice);
}

void program_name(char (&name)[32]) { snprintf(name, sizeof name, "%s", program_invocation_short_name); }

}  // namespace

int ReplyFds::take(std::uint32_t i) {
    if (i >= count_) {
        return -1;
    }
    const int fd = fds_[i];
    fds_[i] = -1;
    return fd;
}

void ReplyFds::clear() {
    for (std::uint32_t i = 0; i < count_; ++i) {
        if (fds_[i] >= 0) {
            close(fds_[i]);
        }
    }
    count_ = 0;
}

void ReplyFds::add(int fd) {
    if (count_ < abi::kMaxMessageFds) {
        fds_[count_++] = fd;
    } else {
        close(fd);
    }
}

int Session::connect_daemon(const char* path) {
    sockaddr_un address{};
    int directory_fd = -1;
    if (!socket_address(path, address, directory_fd)) {
        return errno;
    }
    int error = 0;
    socket_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const timeval step{static_cast<time_t>(kAnswerStepNs / 1'000'000'000), 0};
    if (socket_ < 0 || setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &step, sizeof step) != 0 ||
        connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        error = errno;
    }
    if (directory_fd >= 0) {
        close(directory_fd);
    }
    return error;
}

int Session::hello() {
    abi::HelloRequest request{};
    request.abi_version = abi::kAbiVersion;
    program_name(request.program);
    abi::HelloReply reply{};
    ReplyFds fds;
    const int error = call(abi::Op::kHello, request, reply, &fds);
    if (error == EPROTO) {
        fprintf(
            stderr,
            "urnic: the RNIC daemon speaks version %u of the provider's protocol, this provider version %u; "
            "install the same release of both and restart urnicd\n",
            reply.abi_version, abi::kAbiVersion);
    }
    if (error != 0) {
        return error;
    }
    if (reply.num_workers == 0 || reply.num_workers > abi::kMaxWorkers ||
        fds.count() != 2 + reply.num_workers) {
        return EPROTO;
    }
    num_workers_ = reply.num_workers;
    client_id_ = reply.client_id;
    daemon_ =
        static_cast<const abi::DaemonState*>(map_shared(fds.peek(0), sizeof(abi::DaemonState), 0, false));
    doorbells_ = static_cast<abi::WorkerDoorbell*>(
        map_shared(fds.peek(1), abi::doorbell_bytes(num_workers_), 0, true));
    if (daemon_ == nullptr || doorbells_ == nullptr) {
        return errno;
    }
    for (std::uint32_t worker = 0; worker < num_workers_; ++worker) {
        wake_fds_[worker] = fds.take(2 + worker);
    }
    return 0;
}

int Session::abandon(const char* what_it_does) {
    SessionState live = SessionState::kLive;
    if (state_.compare_exchange_strong(live, SessionState::kDead)) {
        if (what_it_does != nullptr) {
            fprintf(stderr, "urnic: the RNIC daemon %s: its connection is closed\n", what_it_does);
        }
        (void)shutdown(socket_, SHUT_RDWR);
        kick_service();  // which tells the application
    }
    return EIO;
}

ssize_t Session::receive_message(msghdr& message) {
    std::uint64_t now_ns = nanoseconds();
    std::uint64_t waited_ns = 0;
    spin_.begin(now_ns);
    for (;;) {
        const int flags = spin_.should_poll(now_ns) ? MSG_DONTWAIT : 0;
        const ssize_t got = recvmsg(socket_, &message, MSG_CMSG_CLOEXEC | flags);
        if (got >= 0 || (errno != EINTR && errno != EAGAIN)) {
            spin_.on_progress();
            return got;
        }
        const std::uint64_t before_ns = now_ns;
        now_ns = nanoseconds();
        waited_ns += now_ns - before_ns < kAnswerStepNs ? now_ns - before_ns : kAnswerStepNs;
        if (waited_ns >= kAnswerTimeoutNs) {
            (void)abandon("does not answer");
            return -1;
        }
    }
}

int Session::receive(abi::ReplyHeader* reply, std::size_t reply_bytes, ReplyFds& fds) {
    iovec data{reply, reply_bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * abi::kMaxMessageFds)];
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = receive_message(message);
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); got >= 0 && header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
            const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            for (std::size_t i = 0; i < count; ++i) {
                int fd = -1;
                memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
                fds.add(fd);
            }
        }
    }
    if (got <= 0) {
        return abandon(nullptr);  // it is dead
    }
    // Some errors come with the whole reply, others with its header alone.
    const auto length = static_cast<std::size_t>(got);
    const bool whole = length == reply_bytes && (message.msg_flags & MSG_TRUNC) == 0;
    const bool header_alone = length == sizeof *reply && reply->error != 0;
    return whole || header_alone ? 0 : abandon("sends replies of a wrong length");
}

int Session::exchange(abi::Op op, abi::RequestHeader* request, std::size_t request_bytes,
                      abi::ReplyHeader* reply, std::size_t reply_bytes, ReplyFds* fds,
                      const SentFds& fds_to_send) {
    // Programs look at errno after a call that failed, and may have made others, which succeeded, meanwhile.
    const struct KeepErrno {
        int saved = errno;
        ~KeepErrno() { errno = saved; }
    } keep;
    if (DeferredModifies& deferred = deferred_modifies(); deferred.count != 0) [[unlikely]] {
        if (const int error = deferred.flush(); error != 0) {
            return error;
        }
    }
    ReplyFds unwanted;
    Guard guard(request_mutex_);
    if (state() != SessionState::kLive) {
        return EIO;
    }
    *request = {abi::kControlMagic, op, ++cookie_, static_cast<std::uint32_t>(request_bytes)};
    iovec data{request, request_bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds_to_send.fds)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    if (fds_to_send.count > 0) {
        const std::size_t bytes = fds_to_send.count * sizeof(int);
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(bytes);
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(header), fds_to_send.fds, bytes);
    }
    ssize_t sent = 0;
    do {
        sent = sendmsg(socket_, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        return errno == ETOOMANYREFS ? EMFILE : EIO;
    }
    const int error = receive(reply, reply_bytes, fds != nullptr ? *fds : unwanted);
    if (error != 0) {
        return error;
    }
    if (reply->magic != abi::kControlMagic || reply->op != op || reply->cookie != cookie_) {
        return abandon("answers what was not asked");
    }
    if (reply->error < 0 || reply->error > kMaxErrno) {
        return abandon("answers with errors that do not exist");
    }
    return reply->error;
}

bool Session::attach_memory() {
    Guard guard(memory_mutex_);
    if (!memory_attached_) {
        abi::AttachMemoryRequest request{};
        abi::EmptyReply reply{};
        const int fd = memory::memory_file();
        install_memory_calls();
        memory_attached_ = fd >= 0 && call(abi::Op::kAttachMemory, request, reply, nullptr, fd) == 0;
    }
    return memory_attached_;
}

int Session::attach_process() {
    Guard guard(memory_mutex_);
    if (process_attached_) {
        return 0;
    }
    const int directory = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    int error = 0;
    if (directory < 0 || memory < 0) {
        error = errno;
        fprintf(
            stderr,
            "urnic: cannot open /proc/self/mem: %s; memory that cannot be converted is copied through it, so "
            "this "
            "program needs /proc, and must be dumpable (prctl(PR_SET_DUMPABLE)) when it registers memory\n",
            strerror(error));
    } else {
        abi::AttachProcessRequest request{};
        abi::EmptyReply reply{};
        error = call(abi::Op::kAttachProcess, request, reply, nullptr, {directory, memory});
    }
    for (const int fd : {directory, memory}) {
        if (fd >= 0) {
            close(fd);
        }
    }
    process_attached_ = error == 0;
    return error;
}

int Session::call_handle(abi::Op op, std::uint32_t handle) {
    abi::HandleRequest request{};
    request.handle = handle;
    abi::EmptyReply reply{};
    return call(op, request, reply);
}

void Session::give_back(abi::Op op, std::uint32_t handle) {
    abi::HandleRequest request{};
    request.handle = handle;
    abi::DestroyReply reply{};
    (void)call(op, request, reply);
}

namespace {

Mutex session_mutex;
Session* current_session = nullptr;  // live, or the last that was
Session* all_sessions = nullptr;     // dead ones stay until their contexts are closed

}  // namespace

Session* Session::acquire() {
    Guard guard(session_mutex);
    if (current_session != nullptr && current_session->state() == SessionState::kLive) {
        ++current_session->references_;
        return current_session;
    }
    void* memory = malloc(sizeof(Session));
    if (memory == nullptr) {
        errno = ENOMEM;
        return nullptr;
    }
    auto* session = new (memory) Session();
    memset(session->wake_fds_, 0xff, sizeof session->wake_fds_);
    char path[4096];
    socket_path(path, sizeof path);
    int error = session->connect_daemon(path);
    if (error != 0) {
        report_unreachable(path, error);
    } else {
        error = session->hello();
        if (error == 0) {
            error = session->start_service();
        }
        if (error != 0 && error != EPROTO) {
            fprintf(stderr, "urnic: the RNIC daemon at %s refused this program: %s\n", path, strerror(error));
        }
    }
    if (error != 0) {
        session->close_all();
        session->~Session();
        free(session);
        errno = error;
        return nullptr;
    }
    session->references_ = 1;
    session->next = all_sessions;
    all_sessions = session;
    current_session = session;
    return session;
}

void Session::release(Session* session) {
    {
        Guard guard(session_mutex);
        if (--session->references_ != 0) {
            return;
        }
        unlink(all_sessions, session);
        if (current_session == session) {
            current_session = nullptr;
        }
    }
    session->stop_service();
    session->close_all();
    session->~Session();
    free(session);
}

void Session::close_all() {
    for (int* fd : {&socket_, &service_wake_}) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
    for (int& fd : wake_fds_) {
        if (fd >= 0) {
            close(fd);
            fd = -1;
        }
    }
    if (daemon_ != nullptr) {
        munmap(const_cast<abi::DaemonState*>(daemon_), sizeof(abi::DaemonState));
        daemon_ = nullptr;
    }
    if (doorbells_ != nullptr) {
        munmap(doorbells_, abi::doorbell_bytes(num_workers_));
        doorbells_ = nullptr;
    }
}

void Session::install_fork_handlers() {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void Session::before_fork() {
    hooks_mutex().lock();
    session_mutex.lock();
    for (Session* session = all_sessions; session != nullptr; session = session->next) {
        session->contexts_mutex_.lock();
        session->request_mutex_.lock();
    }
}

void Session::after_fork_in_parent() {
    for (Session* session = all_sessions; session != nullptr; session = session->next) {
        session->request_mutex_.unlock();
        session->contexts_mutex_.unlock();
    }
    session_mutex.unlock();
    hooks_mutex().unlock();
}

void Session::after_fork_in_child() {
    hooks_mutex().reset();
    session_mutex.reset();
    current_session = nullptr;  // the child makes a connection of its own when it opens a device
    for (Session* session = all_sessions; session != nullptr; session = session->next) {
        session->request_mutex_.reset();
        session->memory_mutex_.reset();
        session->contexts_mutex_.reset();
        session->disown_after_fork();
    }
}

void Session::disown_after_fork() {
    state_.store(SessionState::kForkedChild);
    for (Context* context = contexts_; context != nullptr; context = context->next) {
        context->event_mutex.reset();
        context->objects_mutex.reset();
        for (int* fd : {&context->event_in, &context->event_out, &context->verbs.context.async_fd}) {
            if (*fd >= 0) {
                close(*fd);
                *fd = -1;
            }
        }
        for (Channel* channel = context->channels; channel != nullptr; channel = channel->next) {
            channel->close_fds();
        }
    }
    for (int* fd : {&socket_, &service_wake_}) {
        if (*fd >= 0) {
            close(*fd);
            *fd = -1;
        }
    }
    for (int& fd : wake_fds_) {
        if (fd >= 0) {
            close(fd);
            fd = -1;
        }
    }
}

}  // namespace urnic::provider
