#include "daemon/ipc/fd_closer.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <utility>

#include "base/check.h"

namespace urnic::daemon {

struct FdCloser::Done {
    UniqueFd event{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    std::atomic<Job*> first{nullptr};

    ~Done() {
        for (Job* job = first; job != nullptr;) {
            delete std::exchange(job, job->next_);
        }
    }
};

bool is_memory_file(int fd) { return ::fcntl(fd, F_GET_SEALS) >= 0; }

bool is_small_memory_file(int fd) {
    constexpr std::uint64_t kBlockBytes = 512;  // of st_blocks
    struct stat status {};
    return is_memory_file(fd) && ::fstat(fd, &status) == 0 &&
           static_cast<std::uint64_t>(status.st_blocks) <= kMostSmallFileBytes / kBlockBytes;
}

bool drain(int socket) {
    constexpr int kMostMessages = 16;
    // With its sender's credentials a message without bytes differs from the end. There is no room for
    // descriptors, so that none is taken: the kernel only says that there are some.
    const int on = 1;
    if (::shutdown(socket, SHUT_RDWR) != 0 ||
        ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
        return false;
    }
    for (int i = 0; i < kMostMessages; ++i) {
        char byte = 0;
        alignas(cmsghdr) char credentials[CMSG_SPACE(sizeof(ucred))];
        const auto receive = [&](int flags, msghdr& message) {
            iovec part{&byte, sizeof byte};
            message = {};
            message.msg_iov = &part;
            message.msg_iovlen = 1;
            message.msg_control = credentials;
            message.msg_controllen = sizeof credentials;
            return ::recvmsg(socket, &message, flags | MSG_DONTWAIT);
        };
        msghdr message;
        const ssize_t bytes = receive(MSG_PEEK, message);
        if (bytes <= 0 && message.msg_controllen == 0) {
            return bytes == 0;
        }
        if ((message.msg_flags & MSG_CTRUNC) != 0) {
            return false;
        }
        (void)receive(0, message);
    }
    return false;
}

FdCloser::FdCloser() : done_(std::make_shared<Done>()) { URNIC_CHECK(done_->event); }

FdCloser::~FdCloser() {
    while (next_closed() != nullptr) {
    }
}

int FdCloser::fd() const { return done_->event.get(); }

bool FdCloser::close(std::unique_ptr<Job>& job) {
    job->done_ = done_;
    // Signals are for the thread that runs the daemon.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    bool started = pthread_attr_init(&attributes) == 0;
    if (started) {
        pthread_t thread{};
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
        pthread_attr_setstacksize(&attributes, std::size_t{256} << 10U);
        started = pthread_create(&thread, &attributes, run, job.get()) == 0;
        pthread_attr_destroy(&attributes);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (started) {
        (void)job.release();  // the thread's now
    }
    return started;
}

void* FdCloser::run(void* argument) {
    auto* job = static_cast<Job*>(argument);
    job->fds.clear();
    // Keeps what the job is handed over through: the job may be destroyed right after.
    const std::shared_ptr<Done> done = std::move(job->done_);
    job->next_ = done->first.load();
    while (!done->first.compare_exchange_weak(job->next_, job)) {
    }
    const std::uint64_t one = 1;
    (void)!::write(done->event.get(), &one, sizeof one);
    return nullptr;
}

std::unique_ptr<FdCloser::Job> FdCloser::next_closed() {
    if (taken_ == nullptr) {
        std::uint64_t count = 0;
        (void)!::read(done_->event.get(), &count,
                      sizeof count);  // before looking: what comes later tells again
        taken_ = done_->first.exchange(nullptr);
    }
    if (taken_ == nullptr) {
        return nullptr;
    }
    return std::unique_ptr<Job>(std::exchange(taken_, taken_->next_));
}

}  // namespace urnic::daemon
