// userfaultfd: holds back threads that touch given pages while those are being moved.
#pragma once

#include <cstdint>

#include "verbs_provider/memory/range_counts.h"

namespace urnic::memory {

/// What this kernel and this process's privileges allow; found out once.
struct UserfaultSupport {
    bool available = false;           // write protection of anonymous memory and of memfd pages (Linux 5.19)
    bool protects_untouched = false;  // Linux 6.4; without it pages are touched before they are protected
    bool can_block_kernel = false;    // false: a system call that writes to the pages fails with EFAULT
};
[[nodiscard]] UserfaultSupport probe_userfault();

/// The process's userfaultfd, kept between moves: when one is closed the kernel visits every mapping that the
/// process has. Whoever watches a range therefore ends that, by forget() or by mapping something else there.
/// Uses raw system calls alone.
class Userfault {
  public:
    Userfault() = default;
    ~Userfault() { close(); }
    Userfault(const Userfault&) = delete;
    Userfault& operator=(const Userfault&) = delete;

    /// Must precede everything else. Makes it, unless it is there: programs that close every descriptor close
    /// this one too. Returns whether it could be opened.
    [[nodiscard]] bool open(const UserfaultSupport& support);
    /// In a forked child, before anything else: what is open there watches the parent's memory.
    void close();
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
    [[nodiscard]] bool is_open() const;

    int fd_ = -1;
    std::uint64_t inode_ = 0;
    bool protects_untouched_ = false;
};

}  // namespace urnic::memory
