#include "daemon/verbs/app_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "abi/control.h"
#include "base/check.h"
#include "os/rollback.h"

namespace urnic::daemon {

namespace {

/// The control thread serves everybody, so a request is to take no more than 2 ms of it: the workers fault in
/// the rest on first use. 4 MiB take 0.6 ms; in a virtual machine whose host shadows its page tables, now and
/// then ten times that.
constexpr std::uint64_t kMaxPopulateBytes = 4ULL << 20U;
constexpr TimeNs kMaxPopulateNs = 500'000;
constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kBlockBytes = 512;  // of st_blocks

/// Access through a mapping raises SIGBUS where the file ends or cannot give a page. A memfd (tmpfs, not
/// hugetlbfs, whose pool can run dry; not on a mounted tmpfs, whose size limit can be hit, and whose files
/// cannot be sealed) that is sealed against shrinking always gives one: holes punched by the client read as
/// zeros.
bool is_safe_memory_file(int fd) {
    struct stat status {};
    struct statfs filesystem {};
    const int seals = ::fcntl(fd, F_GET_SEALS);
    constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW;
    return seals >= 0 && (seals & kNeeded) == kNeeded && ::fstat(fd, &status) == 0 &&
           S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) == abi::kMemoryFileBytes &&
           ::fstatfs(fd, &filesystem) == 0 && filesystem.f_type == TMPFS_MAGIC;
}

/// Bytes of the file that are there. None: mincore() takes every page of it for there, as it does for those
/// who could not open the file for writing, and whoever made the file has seen to that (fchmod).
std::optional<std::uint64_t> present_bytes(int file) {
    constexpr mode_t kWritable = S_IWUSR | S_IWGRP | S_IWOTH;
    struct stat status {};
    if (::fstat(file, &status) != 0 || (status.st_mode & kWritable) != kWritable) {
        return std::nullopt;
    }
    return static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
}

/// Brings runs of pages that are there into our page tables. Returns how many bytes that were.
std::uint64_t map_runs(std::byte* base, std::span<const unsigned char> is_present) {
    std::uint64_t mapped_bytes = 0;
    for (std::size_t page = 0; page < is_present.size();) {
        const std::size_t begin = page;
        while (page < is_present.size() && (is_present[page] & 1U) != 0) {
            ++page;
        }
        if (page == begin) {
            ++page;
            continue;
        }
        const std::uint64_t bytes = (page - begin) * kPageBytes;
        // Whatever it says: faulting later is only slower.
        (void)::madvise(base + begin * kPageBytes, bytes, MADV_POPULATE_WRITE);
        mapped_bytes += bytes;
    }
    return mapped_bytes;
}

/// Brings those pages of a mapping into our page tables that the file has. Holes stay holes: who fills one
/// pays for it (in his cgroup), and who fills it here would be the daemon. A file that grows by that has lied
/// for a moment; what its program fills meanwhile may look so, and then is only faulted in later.
void map_present_pages(int file, std::byte* first_page, std::uint64_t bytes, TimeNs (*clock)()) {
    constexpr std::uint64_t kPagesAtOnce = 64;
    const TimeNs until = clock() + kMaxPopulateNs;
    std::array<unsigned char, kPagesAtOnce> is_present{};
    const std::uint64_t num_pages = (bytes + kPageBytes - 1) / kPageBytes;
    for (std::uint64_t done = 0; done < num_pages && clock() < until; done += kPagesAtOnce) {
        const std::uint64_t count = std::min(num_pages - done, kPagesAtOnce);
        std::byte* const base = first_page + done * kPageBytes;
        const auto before = present_bytes(file);
        if (!before || ::mincore(base, count * kPageBytes, is_present.data()) != 0) {
            return;
        }
        const std::uint64_t mapped = map_runs(base, std::span(is_present).first(count));
        const auto after = present_bytes(file);
        if (mapped != 0 && (!after || *after >= *before + mapped / 2)) {
            return;
        }
    }
}

}  // namespace

int AppMemory::attach(UniqueFd&& file) {
    if (file_) {
        return EEXIST;
    }
    if (!is_safe_memory_file(file.get())) {
        return EINVAL;
    }
    file_ = std::move(file);
    return 0;
}

int AppMemory::acquire(std::uint64_t addr, std::uint64_t length_bytes, Window*& window) {
    if (!file_ || length_bytes == 0 || length_bytes > abi::kMemoryFileBytes ||
        addr > abi::kMemoryFileBytes - length_bytes) {
        return EINVAL;
    }
    const std::uint64_t end = addr + length_bytes;
    const auto holds = [&](const auto& candidate) {
        return candidate->start <= addr && end <= candidate->start + candidate->mapping.size();
    };
    auto found = std::find_if(windows_.begin(), windows_.end(), holds);
    if (found == windows_.end()) {
        auto made = std::make_unique<Window>();
        made->start = addr / kWindowBytes * kWindowBytes;
        const std::uint64_t bytes = (end - made->start + kWindowBytes - 1) / kWindowBytes * kWindowBytes;
        if (windows_.size() >= kMaxWindows || bytes > kMaxMappedBytes - mapped_bytes_->load()) {
            return ENOMEM;
        }
        if (const int error = made->mapping.map(file_.get(), made->start, bytes); error != 0) {
            return error;
        }
        mapped_bytes_->fetch_add(bytes);
        made->mapped_bytes = mapped_bytes_;
        windows_.push_back(std::move(made));
        found = std::prev(windows_.end());
    }
    window = found->get();
    ++window->users;
    Rollback undo([&] { give_up(*std::exchange(window, nullptr)); });
    std::uint32_t& holders = held_[{addr, length_bytes}];
    if (holders == 0) {
        // Before the program continues: a page that it discards in between would come back, and no
        // userfaultfd of its own would be asked for it.
        const std::uint64_t first_page = addr / kPageBytes * kPageBytes;
        map_present_pages(file_.get(), at(*window, first_page), std::min(end - first_page, kMaxPopulateBytes),
                          clock_);
    }
    ++holders;
    undo.keep();
    return 0;
}

void AppMemory::release(Window* window, std::uint64_t addr, std::uint64_t length_bytes) {
    const auto held = held_.find({addr, length_bytes});
    URNIC_CHECK(held != held_.end());
    if (--held->second == 0) {
        held_.erase(held);
    }
    give_up(*window);
}

void AppMemory::give_up(Window& window) {
    if (--window.users > 0) {
        return;
    }
    const auto found = std::find_if(windows_.begin(), windows_.end(),
                                    [&](const auto& candidate) { return candidate.get() == &window; });
    URNIC_CHECK(found != windows_.end());
    std::unique_ptr<Window> unused = std::move(*found);
    windows_.erase(found);
    // Unmapping gigabytes takes seconds.
    if (disposer_ != nullptr) {
        disposer_->take(std::move(unused));
    }
}

bool AppMemory::read(std::uint64_t va, std::byte* to, std::size_t length_bytes) {
    return process_.read(va, to, length_bytes);
}

bool AppMemory::write(std::uint64_t va, const std::byte* from, std::size_t length_bytes) {
    return process_.write(va, from, length_bytes);
}

}  // namespace urnic::daemon
