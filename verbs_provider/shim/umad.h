// The umad and issm devices: sockets of the daemon (abi/umad.h) that behave as the character devices do.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>

namespace urnic::shim {

/// After an open() of `path` that failed, errno as it left it: connects where the daemon has a socket there,
/// which the kernel does not open. The descriptor, or -1 and errno.
[[nodiscard]] int open_umad(const char* path, int flags);

/// Of one that this process has opened. Others cost a load, as long as there is none.
[[nodiscard]] bool is_umad(int fd);
/// As read() of the device: a message longer than the buffer stays where it is (ENOSPC, with its header in
/// the buffer); without a daemon ENODEV.
[[nodiscard]] ssize_t read_umad(int fd, void* buffer, std::size_t size);
[[nodiscard]] ssize_t write_umad(int fd, const void* buffer, std::size_t size);
[[nodiscard]] int ioctl_umad(int fd, unsigned long request, void* argument);

}  // namespace urnic::shim
