#include "verbs_provider/memory/calls.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <mutex>

#include "verbs_provider/memory/process.h"

namespace urnic::memory {
namespace {

using Stretch = Registry::Stretch;
using Stretches = Registry::Stretches;

// Newer than Debian 12's <sys/mman.h>.
constexpr int kDontneedLocked = 24;  // MADV_DONTNEED_LOCKED, Linux 5.18
constexpr int kGuardInstall = 102;   // MADV_GUARD_INSTALL, Linux 6.13

/// How often memory is looked at again that is converted at the very time.
constexpr int kAdviceAttempts = 100;

/// Looks at the registry while nothing moves.
class AdviceLock {
  public:
    explicit AdviceLock(FairMutex& mutex) : mutex_(mutex), locked_(mutex.lock_for_advice()) {}
    ~AdviceLock() {
        if (locked_) {
            mutex_.unlock_after_advice();
        }
    }
    AdviceLock(const AdviceLock&) = delete;
    AdviceLock& operator=(const AdviceLock&) = delete;

  private:
    FairMutex& mutex_;
    bool locked_;
};

/// After it the memory reads as zeros, or may.
bool discards(int advice) {
    return advice == MADV_DONTNEED || advice == kDontneedLocked || advice == MADV_FREE ||
           advice == kGuardInstall;
}

/// Sets a flag of the mapping, which the mapping that comes home shall have, too.
bool sets_a_flag(int advice) {
    switch (advice) {
        case MADV_NORMAL:
        case MADV_RANDOM:
        case MADV_SEQUENTIAL:
        case MADV_HUGEPAGE:
        case MADV_NOHUGEPAGE:
        case MADV_MERGEABLE:
        case MADV_UNMERGEABLE:
        case MADV_DONTDUMP:
        case MADV_DODUMP:
            return true;
        default:
            return false;
    }
}

/// Acts alike on private anonymous memory and on the memory file: all that is not named here.
bool acts_otherwise(int advice) {
    return discards(advice) || sets_a_flag(advice) || advice == MADV_REMOVE || advice == MADV_WIPEONFORK ||
           advice == MADV_KEEPONFORK;
}

int fail(int error) {
    errno = error;
    return -1;
}

void* pointer_to(std::uint64_t addr) {
    return reinterpret_cast<void*>(addr);  // NOLINT(performance-no-int-to-ptr)
}

/// Whole pages; empty where the kernel would refuse it or has nothing to do.
Range pages_of(const void* addr, std::size_t length) {
    const auto start = reinterpret_cast<std::uint64_t>(addr);
    const std::uint64_t end = start + length + kPageBytes - 1;
    return start % kPageBytes != 0 || end < start ? Range{} : Range{start, page_floor(end)};
}

bool is_the_files(const Stretch& stretch) {
    return stretch.kind == Stretch::Kind::kConverted || stretch.kind == Stretch::Kind::kInherited;
}

class Adviser {
  public:
    Adviser(Process& process, int advice, RealMadvise real)
        : process_(process), advice_(advice), real_(real) {}

    int advise(Range range) {
        Stretches stretches;
        {
            const AdviceLock lock(process_.lock);
            moves_ = process_.registry.moves();
            process_.registry.list_stretches(range, stretches);
        }
        if (stretches.empty()) {
            return advise_others(range);
        }
        // As the kernel does it: in order, until one refuses; but a hole is passed over and told at the end.
        bool has_hole = false;
        for (const Stretch& stretch : stretches) {
            const int result = is_the_files(stretch) ? advise_file(stretch) : advise_others(stretch.range);
            if (result != 0 && errno != ENOMEM) {
                return result;
            }
            has_hole = has_hole || result != 0;
        }
        return has_hole ? fail(ENOMEM) : 0;
    }

  private:
    int call(Range range, int advice) const {
        return real_(pointer_to(range.start), range.end - range.start, advice);
    }

    int advise_others(Range range) {
        const int result = call(range, advice_);
        if (result == 0) {
            discard(range, false);
        } else if (advice_ == MADV_FREE && errno == EINVAL && has_moved() && attempts_ < kAdviceAttempts) {
            ++attempts_;
            return advise(range);  // it has just been converted
        }
        return result;
    }

    bool has_moved() {
        const AdviceLock lock(process_.lock);
        return moves_ != process_.registry.moves();
    }

    int advise_file(const Stretch& stretch) {
        if (discards(advice_)) {
            // The kernel takes MADV_FREE for anonymous memory alone. What it takes and refuses is the same.
            const int result = call(stretch.range, advice_ == MADV_FREE ? MADV_DONTNEED : advice_);
            if (result == 0) {
                discard(stretch.range, true);
            }
            return result;
        }
        if (advice_ == MADV_REMOVE) {
            return fail(EINVAL);
        }
        if (stretch.kind == Stretch::Kind::kInherited) {
            return call(stretch.range, advice_);
        }
        if (advice_ == MADV_WIPEONFORK || advice_ == MADV_KEEPONFORK) {
            const std::lock_guard guard(process_.lock);
            if (!process_.registry.wipe_on_fork(stretch.range, advice_ == MADV_WIPEONFORK)) {
                return fail(EAGAIN);
            }
            process_.registry.advise_parked(stretch.range, advice_);
            return 0;
        }
        // Advice on how pages are read means nothing to a memory file, and where it lies is ours to keep
        // apart.
        const bool is_on_reading =
            advice_ == MADV_NORMAL || advice_ == MADV_RANDOM || advice_ == MADV_SEQUENTIAL;
        const int result = is_on_reading ? 0 : call(stretch.range, advice_);
        if (result == 0) {
            const AdviceLock lock(process_.lock);
            process_.registry.advise_parked(stretch.range, advice_);
        }
        return result;
    }

    /// What was converted, or has been moved meanwhile, so that the kernel's call may have missed it.
    void discard(Range range, bool is_the_files) {
        if (!discards(advice_)) {
            return;
        }
        const int saved = errno;
        const AdviceLock lock(process_.lock);
        const bool has_moved = moves_ != process_.registry.moves();
        if (is_the_files || has_moved) {
            process_.registry.discard(range, has_moved);
        }
        errno = saved;
    }

    Process& process_;
    const int advice_;
    const RealMadvise real_;
    std::uint64_t moves_ = 0;
    int attempts_ = 0;
};

int madvise_by_kernel(void* addr, std::size_t length, int advice) {
    const long result = raw_syscall(SYS_madvise, addr, length, advice);
    return result < 0 ? fail(static_cast<int>(-result)) : 0;
}

}  // namespace

int advise(void* addr, std::size_t length, int advice, RealMadvise real) {
    Process* process = existing_process();
    const Range range = pages_of(addr, length);
    if (process == nullptr || range.empty() || !acts_otherwise(advice) || !process->registry.may_map(range)) {
        return real(addr, length, advice);
    }
    return Adviser(*process, advice, real).advise(range);
}

ssize_t process_advise(int pidfd, const iovec* ranges, std::size_t count, int advice, unsigned flags,
                       RealProcessMadvise real) {
    Process* process = existing_process();
    const bool concerns_us =
        process != nullptr && ranges != nullptr && count > 0 && acts_otherwise(advice) &&
        std::any_of(ranges, ranges + std::min<std::size_t>(count, IOV_MAX), [&](const iovec& range) {
            return process->registry.may_map(pages_of(range.iov_base, range.iov_len));
        });
    // Since Linux 6.13 a process may give itself this advice; of another one it is refused, even for nothing.
    if (!concerns_us || count > IOV_MAX || real(pidfd, ranges, 0, MADV_DONTNEED, flags) != 0) {
        return real(pidfd, ranges, count, advice, flags);
    }
    ssize_t done = 0;
    for (std::size_t i = 0; i < count; ++i) {
        if (advise(ranges[i].iov_base, ranges[i].iov_len, advice, &madvise_by_kernel) != 0) {
            return done > 0 ? done : -1;
        }
        done += static_cast<ssize_t>(ranges[i].iov_len);
    }
    return done;
}

}  // namespace urnic::memory
