#include "tests/e2e/tenants/stalled_memory.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace urnic::e2e {

namespace {

[[noreturn]] void give_up_stalling(const char* what) {
    std::fprintf(stderr, "stalled memory: %s: %s\n", what, std::strerror(errno));
    std::_Exit(1);
}

}  // namespace

StalledMemory::StalledMemory(std::size_t length_bytes)
    : length_bytes_(length_bytes),
      file_(memfd_create("stalled", MFD_CLOEXEC)),
      userfault_(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC))) {
    uffdio_api api{};
    api.api = UFFD_API;
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(length_bytes)) != 0 ||
        ioctl(userfault_, UFFDIO_API, &api) != 0) {
        give_up_stalling("userfaultfd");
    }
    data_ = mmap(nullptr, length_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (data_ == MAP_FAILED) {
        give_up_stalling("mmap");
    }
}

void StalledMemory::stall() const {
    uffdio_register range{};
    range.range = {reinterpret_cast<std::uintptr_t>(data_), length_bytes_};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (ioctl(userfault_, UFFDIO_REGISTER, &range) != 0 ||
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(length_bytes_)) !=
            0) {
        give_up_stalling("UFFDIO_REGISTER");
    }
}

void StalledMemory::wait_for_victim() const {
    uffd_msg message{};
    if (read(userfault_, &message, sizeof message) != sizeof message) {
        give_up_stalling("read");
    }
}

}  // namespace urnic::e2e
