// Closes descriptors that clients sent us, on threads of its own. close() can block: on a file system in user
// space (FUSE flushes at each close) and on the peer of a socket that lingers; closing a socket also closes
// the descriptors that lie unread in it. The control thread must not block.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "daemon/ipc/message.h"

namespace urnic::daemon {

/// Returns whether the file lies in memory alone (memfd): no call on it blocks, though the close() of the
/// last descriptor frees its pages, which takes a second for gigabytes.
[[nodiscard]] bool is_memory_file(int fd);
/// Returns whether close() takes no time: it is such a file, with kMostSmallFileBytes of pages at most.
[[nodiscard]] bool is_small_memory_file(int fd);
inline constexpr std::uint64_t kMostSmallFileBytes = 1ULL << 20U;

/// For a Unix socket that is to be closed: lets nobody send any more, and takes out what lies in it. Returns
/// whether it is empty then, so that close() does not wait; otherwise there are descriptors in it, or more
/// messages than an honest client sends, and FdCloser is to close it.
[[nodiscard]] bool drain(int socket);

class FdCloser {
    struct Done;  // shared with the threads

  public:
    /// What is to be closed, and for whom. Made in good time, so that closing needs no memory.
    struct Job {
        std::uint32_t id = 0;
        Fds<UniqueFd> fds;

      private:
        friend class FdCloser;
        std::shared_ptr<Done> done_;
        Job* next_ = nullptr;
    };

    FdCloser();
    FdCloser(const FdCloser&) = delete;
    FdCloser& operator=(const FdCloser&) = delete;
    /// Threads that still wait go on by themselves.
    ~FdCloser();

    /// Readable after something was closed.
    [[nodiscard]] int fd() const;
    /// Takes the job and closes its descriptors; next_closed() gives it back afterwards, without them.
    /// Returns whether there was a thread for it; otherwise `job` is as it was.
    [[nodiscard]] bool close(std::unique_ptr<Job>& job);
    /// nullptr: nothing more was closed since.
    [[nodiscard]] std::unique_ptr<Job> next_closed();

  private:
    static void* run(void* job);

    std::shared_ptr<Done> done_;
    Job* taken_ = nullptr;  // what next_closed() gives next
};

}  // namespace urnic::daemon
