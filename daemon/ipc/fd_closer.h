// Closes what clients gave us, on threads of its own. close() can wait for somebody: for a file system in
// user space that is told of it (FUSE flushes at each close), for the peer of a socket that lingers, and
// closing a socket closes the descriptors that lie unread in it. Whoever waits, it shall not be the control
// thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "daemon/ipc/message.h"

namespace urnic::dataplane {

/// A file that lies in memory alone (memfd): nothing that is asked of it, close() included, waits for
/// anybody.
[[nodiscard]] bool is_memory_file(int fd);

class Closer {
    struct Done;  // shared with the threads

  public:
    /// What is to be closed, and for whom. Made in good time, so that closing needs no memory.
    struct Job {
        std::uint32_t id = 0;
        Fds<UniqueFd> fds;

      private:
        friend class Closer;
        std::shared_ptr<Done> done_;
        Job* next_ = nullptr;
    };

    Closer();
    Closer(const Closer&) = delete;
    Closer& operator=(const Closer&) = delete;
    /// Threads that still wait go on by themselves.
    ~Closer();

    /// Readable after something was closed.
    [[nodiscard]] int fd() const;
    /// Takes the job and closes its descriptors; next_closed() gives it back afterwards, without them. False:
    /// there is no thread for it now, and `job` is as it was.
    [[nodiscard]] bool close(std::unique_ptr<Job>& job);
    /// nullptr: nothing more was closed since.
    [[nodiscard]] std::unique_ptr<Job> next_closed();

  private:
    static void* run(void* job);

    std::shared_ptr<Done> done_;
    Job* taken_ = nullptr;  // what next_closed() gives next
};

}  // namespace urnic::dataplane
