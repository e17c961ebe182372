#include "os/mapping.h"

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

}  // namespace urnic
