#include "verbs_provider/memory/userfault.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "verbs_provider/memory/raw_syscall.h"

namespace urnic::memory {
namespace {

// Newer than Debian 12's <linux/userfaultfd.h>.
constexpr std::uint64_t kFeatureWpShmem = 1U << 12U;        // UFFD_FEATURE_WP_HUGETLBFS_SHMEM
constexpr std::uint64_t kFeatureWpUnpopulated = 1U << 13U;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr std::uint64_t kFeaturesNeeded = UFFD_FEATURE_PAGEFAULT_FLAG_WP | kFeatureWpShmem;
constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;

/// Best first. The system call alone is refused to ordinary users while vm.unprivileged_userfaultfd is 0; the
/// device obeys file permissions. What is left then holds back user code only: a system call of the
/// application that writes to a page just being moved fails with EFAULT (docs/memory.md).
int open_userfault(bool* can_block_kernel = nullptr) {
    if (can_block_kernel != nullptr) {
        *can_block_kernel = true;
    }
    const long plain = raw_syscall(SYS_userfaultfd, kFlags);
    if (plain >= 0) {
        return static_cast<int>(plain);
    }
    const long device = raw_syscall(SYS_openat, AT_FDCWD, "/dev/userfaultfd", O_RDWR | O_CLOEXEC);
    if (device >= 0) {
        const long made = raw_syscall(SYS_ioctl, device, USERFAULTFD_IOC_NEW, kFlags);
        raw_syscall(SYS_close, device);
        if (made >= 0) {
            return static_cast<int>(made);
        }
    }
    if (can_block_kernel != nullptr) {
        *can_block_kernel = false;
    }
    return static_cast<int>(raw_syscall(SYS_userfaultfd, kFlags | UFFD_USER_MODE_ONLY));
}

/// 0: not an open descriptor.
std::uint64_t inode_of(int fd) {
    struct stat status {};
    return raw_syscall(SYS_fstat, fd, &status) == 0 ? status.st_ino : 0;
}

int register_range(int fd, Range range, std::uint64_t mode) {
    uffdio_register request{{range.start, range.end - range.start}, mode, 0};
    return static_cast<int>(raw_syscall(SYS_ioctl, fd, UFFDIO_REGISTER, &request));
}

int write_protect(int fd, Range range, std::uint64_t mode) {
    uffdio_writeprotect request{{range.start, range.end - range.start}, mode};
    return static_cast<int>(raw_syscall(SYS_ioctl, fd, UFFDIO_WRITEPROTECT, &request));
}

}  // namespace

UserfaultSupport probe_userfault() {
    UserfaultSupport support;
    const int fd = open_userfault(&support.can_block_kernel);
    if (fd < 0) {
        return support;
    }
    uffdio_api api{UFFD_API, 0, 0};
    if (raw_syscall(SYS_ioctl, fd, UFFDIO_API, &api) == 0) {
        support.available = (api.features & kFeaturesNeeded) == kFeaturesNeeded;
        support.protects_untouched = (api.features & kFeatureWpUnpopulated) != 0;
    }
    raw_syscall(SYS_close, fd);
    return support;
}

bool Userfault::open(const UserfaultSupport& support) {
    if (is_open() && protects_untouched_ == support.protects_untouched) {
        return true;
    }
    close();
    const int made = open_userfault();
    if (made < 0) {
        return false;
    }
    uffdio_api api{UFFD_API, kFeaturesNeeded | (support.protects_untouched ? kFeatureWpUnpopulated : 0), 0};
    if (raw_syscall(SYS_ioctl, made, UFFDIO_API, &api) < 0) {
        raw_syscall(SYS_close, made);
        return false;
    }
    fd_ = made;
    inode_ = inode_of(made);
    protects_untouched_ = support.protects_untouched;
    return true;
}

/// The number may be another file's by now. Since Linux 5.12 each userfaultfd has an inode of its own.
bool Userfault::is_open() const { return fd_ >= 0 && inode_of(fd_) == inode_; }

void Userfault::close() {
    if (is_open()) {
        raw_syscall(SYS_close, fd_);
    }
    fd_ = -1;
}

int Userfault::watch_writes(Range range) const { return register_range(fd_, range, UFFDIO_REGISTER_MODE_WP); }
int Userfault::watch_everything(Range range) const {
    return register_range(fd_, range, UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING);
}
int Userfault::protect(Range range) const { return write_protect(fd_, range, UFFDIO_WRITEPROTECT_MODE_WP); }
int Userfault::unprotect(Range range) const { return write_protect(fd_, range, 0); }
int Userfault::forget(Range range) const {
    uffdio_range request{range.start, range.end - range.start};
    return static_cast<int>(raw_syscall(SYS_ioctl, fd_, UFFDIO_UNREGISTER, &request));
}
int Userfault::wake(Range range) const {
    uffdio_range request{range.start, range.end - range.start};
    return static_cast<int>(raw_syscall(SYS_ioctl, fd_, UFFDIO_WAKE, &request));
}

}  // namespace urnic::memory
