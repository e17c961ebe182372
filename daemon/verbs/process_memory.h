// Memory of a client process that is not mapped here, reached by copying through the kernel.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "os/unique_fd.h"

namespace urnic::daemon {

/// Memory belongs to an address space, not to a process number: a number passes to another process, and to
/// another program when its process calls execve(). /proc/PID/mem, once opened, stays with the address space
/// that it was opened for. The client opens its own, so the kernel has asked whether it may, and the daemon
/// needs no right over processes of other users. When that address space ends, access fails.
class ProcessMemory {
  public:
    /// Takes the client's descriptors of /proc/self (`directory`, O_PATH will do) and of /proc/self/mem
    /// (`memory`); asks nothing of them that a file system could keep waiting for an answer. EEXIST: there is
    /// one already; EINVAL: they are something else; ENOSYS: openat2(2), which tells, is refused to the
    /// daemon; then they stay the caller's. `pid` is the client's, as seen from here: it tells which file
    /// systems the client sees as procfs.
    [[nodiscard]] int attach(pid_t pid, const UniqueFd& directory, UniqueFd& memory);

    /// Any thread. Returns whether all of it could be copied. May wait for what lies at these addresses.
    [[nodiscard]] bool read(std::uint64_t va, std::byte* to, std::size_t length_bytes) const;
    [[nodiscard]] bool write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) const;

  private:
    UniqueFd memory_;
    std::atomic<int> fd_{-1};  // memory_'s, for workers
};

}  // namespace urnic::daemon
