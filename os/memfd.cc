#include "os/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

namespace urnic {

Mapping& Mapping::operator=(Mapping&& other) noexcept {
    if (this != &other) {
        reset();
        data_ = std::exchange(other.data_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

int Mapping::map(int fd, std::uint64_t offset, std::size_t bytes) {
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
                        static_cast<off_t>(offset));
    if (data == MAP_FAILED) {
        return errno;
    }
    reset();
    data_ = static_cast<std::byte*>(data);
    bytes_ = bytes;
    // A crash dump of the daemon has no business with application data.
    (void)::madvise(data, bytes, MADV_DONTDUMP);
    return 0;
}

void Mapping::reset() {
    if (data_ != nullptr) {
        ::munmap(data_, bytes_);
        data_ = nullptr;
        bytes_ = 0;
    }
}

int create_shared_file(const char* name, std::size_t bytes, Sharing sharing, SharedFile& file) {
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
    const int write_seal = sharing == Sharing::kReadOnlyThere ? F_SEAL_FUTURE_WRITE : 0;
    if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | write_seal) != 0) {
        return errno;
    }
    file.fd = std::move(fd);
    file.mapping = std::move(mapping);
    return 0;
}

}  // namespace urnic
