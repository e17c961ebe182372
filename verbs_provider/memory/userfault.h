// userfaultfd: holds back threads that touch given pages while those are being moved.
#pragma once

#include <cstdint>

#include "verbs_provider/memory/range_counts.h"

namespace urnic::memory {

/// What this kernel and this process's privileges allow; found out once.
struct UserfaultSupport {
    bool available = false;           // write protection of anonymous memory and of memfd pages (Linux 5.19)
    bool protects_untouched = false;  // Linux 6.4; without it pages are touched before they are protected
    bool holds_back_the_kernel = false;  // false: a system call that writes to the pages fails with EFAULT
};
[[nodiscard]] UserfaultSupport probe_userfault();

/// One userfaultfd; threads it holds back go on when it is destroyed. Uses raw system calls alone.
class Userfault {
  public:
    explicit Userfault(const UserfaultSupport& support);
    ~Userfault();
    Userfault(const Userfault&) = delete;
    Userfault& operator=(const Userfault&) = delete;

    [[nodiscard]] bool ok() const { return fd_ >= 0; }
    // All answer 0 or a negative errno value.
    /// Watches for writes to protected pages.
    int watch_writes(Range range) const;
    /// From now on every access to a page that is not there waits too.
    int watch_everything(Range range) const;
    int protect(Range range) const;
    int unprotect(Range range) const;
    int forget(Range range) const;
    /// Lets the threads that wait in this range try again.
    int wake(Range range) const;

  private:
    int fd_ = -1;
};

}  // namespace urnic::memory
