#include "os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace urnic {

int create_memfd(const char* name, std::size_t bytes, Sharing sharing, Memfd& file) {
    UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
        return errno;
    }
    Mapping mapping;
    if (const int error = mapping.map(fd.get(), 0, bytes); error != 0) {
        return error;
    }
    // The mode of a memfd's inode lets anybody who holds it open it again for writing through /proc; only a
    // seal keeps them from it.
    const int write_seal = sharing == Sharing::kReadOnlyForClients ? F_SEAL_FUTURE_WRITE : 0;
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | write_seal) != 0) {
        return errno;
    }
    file.fd = std::move(fd);
    file.mapping = std::move(mapping);
    return 0;
}

}  // namespace urnic
