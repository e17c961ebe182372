#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "verbs_provider/core/session.h"

namespace urnic::provider {

namespace {

/// linux/magic.h; a memfd of huge pages is none, and a fault in it can end the program.
constexpr decltype(statfs::f_type) kTmpfs = 0x01021994;

}  // namespace

void* map_shared(int fd, std::size_t bytes, std::uint64_t offset, bool writable) {
    struct stat status {};
    struct statfs system {};
    if (fstat(fd, &status) != 0 || fstatfs(fd, &system) != 0) {
        return nullptr;
    }
    // A mapping past the end of the file, now or later, would end the program with SIGBUS.
    const int seals = fcntl(fd, F_GET_SEALS);
    if (system.f_type != kTmpfs || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
        errno = EPROTO;
        return nullptr;
    }
    if (offset > static_cast<std::uint64_t>(status.st_size) ||
        bytes > static_cast<std::uint64_t>(status.st_size) - offset) {
        errno = EPROTO;
        return nullptr;
    }
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* memory = mmap(nullptr, bytes, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
    return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace urnic::provider
