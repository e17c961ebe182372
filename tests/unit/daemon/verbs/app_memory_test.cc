#include "daemon/verbs/app_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "abi/control.h"

namespace urnic::daemon {
namespace {

constexpr int kGoodSeals = F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::uint64_t kGiB = 1ULL << 30U;

UniqueFd memory_file(int seals, std::uint64_t bytes = abi::kMemoryFileBytes, unsigned flags = 0) {
    UniqueFd file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
    EXPECT_EQ(::ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
    EXPECT_EQ(::fcntl(file.get(), F_ADD_SEALS, seals), 0);
    return file;
}

std::unique_ptr<AppMemory> attached() {
    auto memory = std::make_unique<AppMemory>();
    EXPECT_EQ(memory->attach(memory_file(kGoodSeals)), 0);
    return memory;
}

TEST(AppMemoryFile, TakesAProperOneOnce) {
    AppMemory memory;
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals)), 0);
    UniqueFd another = memory_file(kGoodSeals);
    EXPECT_EQ(memory.attach(std::move(another)), EEXIST);
    // NOLINTNEXTLINE(bugprone-use-after-move): it is moved from when it is taken
    EXPECT_TRUE(another) << "it is the caller's to close, who knows where";
}

TEST(AppMemoryFile, RefusesWhatCouldRaiseSigbus) {
    AppMemory memory;
    EXPECT_EQ(memory.attach(memory_file(0)), EINVAL) << "it can shrink";
    EXPECT_EQ(memory.attach(memory_file(F_SEAL_GROW)), EINVAL) << "it can shrink";
    EXPECT_EQ(memory.attach(memory_file(F_SEAL_SHRINK)), EINVAL) << "it can grow";
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals, abi::kMemoryFileBytes - 4096)), EINVAL) << "too short";
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals, 4096)), EINVAL) << "much too short";
    EXPECT_EQ(memory.attach(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC))), EINVAL) << "a device";
    EXPECT_EQ(memory.attach(UniqueFd(::open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC))), EINVAL);
    EXPECT_EQ(memory.attach(UniqueFd(::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600))), EINVAL);
    EXPECT_EQ(memory.attach(UniqueFd()), EINVAL) << "no descriptor";
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    EXPECT_EQ(memory.attach(UniqueFd(ends[0])), EINVAL) << "a pipe";
    ::close(ends[1]);
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals)), 0) << "afterwards a proper one";
}

TEST(AppMemoryFile, AFileThatCannotBeWrittenIsAnErrorNotACrash) {
    AppMemory memory;
    const UniqueFd writable = memory_file(kGoodSeals);
    const std::string path = "/proc/self/fd/" + std::to_string(writable.get());
    ASSERT_EQ(memory.attach(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))), 0);
    AppMemory::Window* window = nullptr;
    EXPECT_EQ(memory.acquire(kGiB, 4096, window), EACCES);
    EXPECT_EQ(memory.window_count(), 0U);
}

TEST(AppMemoryFile, SealedAgainstWritingIsAnErrorNotACrash) {
    AppMemory memory;
    ASSERT_EQ(memory.attach(memory_file(kGoodSeals | F_SEAL_WRITE)), 0);
    AppMemory::Window* window = nullptr;
    EXPECT_NE(memory.acquire(kGiB, 4096, window), 0);
    EXPECT_EQ(memory.window_count(), 0U);
}

TEST(AppMemoryWindows, RegionsShareAWindow) {
    const std::unique_ptr<AppMemory> owned = attached();
    AppMemory& memory = *owned;
    AppMemory::Window* first = nullptr;
    AppMemory::Window* second = nullptr;
    ASSERT_EQ(memory.acquire(5 * kGiB + 100, 4096, first), 0);
    ASSERT_EQ(memory.acquire(6 * kGiB - 4096, 4096, second), 0);
    EXPECT_EQ(first, second);
    EXPECT_EQ(AppMemory::at(*first, 5 * kGiB + 100) - first->mapping.data(), 100);
    EXPECT_EQ(memory.window_count(), 1U);
    memory.release(first, 5 * kGiB + 100, 4096);
    EXPECT_EQ(memory.window_count(), 1U) << "the second region is in it";
    memory.release(second, 6 * kGiB - 4096, 4096);
    EXPECT_EQ(memory.window_count(), 0U);
}

TEST(AppMemoryWindows, ARegionOverABoundaryGetsALargerWindow) {
    const std::unique_ptr<AppMemory> owned = attached();
    AppMemory& memory = *owned;
    AppMemory::Window* small = nullptr;
    AppMemory::Window* large = nullptr;
    AppMemory::Window* inside = nullptr;
    ASSERT_EQ(memory.acquire(7 * kGiB, 4096, small), 0);
    ASSERT_EQ(memory.acquire(8 * kGiB - 4096, 2 * kGiB, large), 0);
    EXPECT_NE(small, large);
    EXPECT_EQ(large->start, 7 * kGiB);
    EXPECT_EQ(large->mapping.size(), 3 * kGiB);
    ASSERT_EQ(memory.acquire(9 * kGiB, 4096, inside), 0);
    EXPECT_EQ(inside, large);
    std::memcpy(AppMemory::at(*large, 8 * kGiB - 2), "abcd", 4);
    memory.release(small, 7 * kGiB, 4096);
    memory.release(large, 8 * kGiB - 4096, 2 * kGiB);
    EXPECT_EQ(std::memcmp(AppMemory::at(*inside, 8 * kGiB - 2), "abcd", 4), 0);
    memory.release(inside, 9 * kGiB, 4096);
}

TEST(AppMemoryWindows, OutsideTheFile) {
    const std::unique_ptr<AppMemory> owned = attached();
    AppMemory& memory = *owned;
    AppMemory::Window* window = nullptr;
    EXPECT_EQ(memory.acquire(abi::kMemoryFileBytes - 4096, 8192, window), EINVAL);
    EXPECT_EQ(memory.acquire(~0ULL - 4095, 4096, window), EINVAL);
    EXPECT_EQ(memory.acquire(0, ~0ULL, window), EINVAL);
    EXPECT_EQ(memory.acquire(4096, 0, window), EINVAL);
    EXPECT_EQ(memory.acquire(abi::kMemoryFileBytes - 4096, 4096, window), 0) << "the last page";
    memory.release(window, abi::kMemoryFileBytes - 4096, 4096);
    EXPECT_EQ(memory.acquire(0, abi::kMemoryFileBytes, window), ENOMEM) << "more than one client may map";
    AppMemory none;
    EXPECT_EQ(none.acquire(4096, 4096, window), EINVAL) << "no memory file";
}

TEST(AppMemoryWindows, TheirNumberIsBounded) {
    const std::unique_ptr<AppMemory> owned = attached();
    AppMemory& memory = *owned;
    std::vector<AppMemory::Window*> windows(AppMemory::kMaxWindows);
    for (std::size_t i = 0; i < windows.size(); ++i) {
        ASSERT_EQ(memory.acquire((i + 1) * kGiB, 1, windows[i]), 0) << i;
    }
    AppMemory::Window* one_more = nullptr;
    EXPECT_EQ(memory.acquire(9999 * kGiB, 1, one_more), ENOMEM);
    EXPECT_EQ(memory.acquire(kGiB + 4096, 1, one_more), 0) << "into an existing one";
    memory.release(one_more, kGiB + 4096, 1);
    memory.release(windows.back(), windows.size() * kGiB, 1);
    windows.pop_back();
    EXPECT_EQ(memory.acquire(9999 * kGiB, 1, one_more), 0);
    memory.release(one_more, 9999 * kGiB, 1);
    for (std::size_t i = 0; i < windows.size(); ++i) {
        memory.release(windows[i], (i + 1) * kGiB, 1);
    }
}

// A client that punches holes under a mapping takes its own data away and nothing else.
TEST(AppMemoryWindows, AHoleReadsAsZeros) {
    UniqueFd file = memory_file(kGoodSeals);
    const UniqueFd clients(::dup(file.get()));
    AppMemory memory;
    ASSERT_EQ(memory.attach(std::move(file)), 0);
    AppMemory::Window* window = nullptr;
    ASSERT_EQ(memory.acquire(kGiB, 4096, window), 0);
    volatile std::byte* page = AppMemory::at(*window, kGiB);
    page[5] = std::byte{7};
    ASSERT_EQ(::fallocate(clients.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kGiB, 4096), 0);
    EXPECT_TRUE(page[5] == std::byte{0});
    EXPECT_NE(::ftruncate(clients.get(), 0), 0) << "the seal holds";
    page[5] = std::byte{1};
    memory.release(window, kGiB, 4096);
}

std::int64_t blocks_of(const UniqueFd& file) {
    struct stat status {};
    EXPECT_EQ(::fstat(file.get(), &status), 0);
    return status.st_blocks;
}

/// Returns whether our page tables have the page.
bool is_mapped(const std::byte* page) {
    const UniqueFd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
    std::uint64_t entry = 0;
    EXPECT_EQ(::pread(pagemap.get(), &entry, sizeof entry, reinterpret_cast<std::intptr_t>(page) / 4096 * 8),
              8);
    return (entry >> 63U) != 0;
}

void write_pages(const UniqueFd& file, std::uint64_t offset, std::size_t bytes) {
    const std::vector<char> data(bytes, 'd');
    ASSERT_EQ(::pwrite(file.get(), data.data(), bytes, static_cast<off_t>(offset)),
              static_cast<ssize_t>(bytes));
}

// Pages are looked for once while a range is held.
TEST(AppMemoryWindows, ARangeThatIsHeldIsNotWalkedAgain) {
    UniqueFd file = memory_file(kGoodSeals);
    write_pages(file, kGiB, 8192);
    AppMemory memory;
    ASSERT_EQ(memory.attach(std::move(file)), 0);
    AppMemory::Window* first = nullptr;
    AppMemory::Window* second = nullptr;
    ASSERT_EQ(memory.acquire(kGiB, 8192, first), 0);
    std::byte* const page = AppMemory::at(*first, kGiB);
    const auto forget = [&] { ASSERT_EQ(::madvise(page, 8192, MADV_DONTNEED), 0); };
    EXPECT_TRUE(is_mapped(page) && is_mapped(page + 4096));
    forget();
    ASSERT_EQ(memory.acquire(kGiB, 8192, second), 0);
    EXPECT_EQ(second, first);
    EXPECT_FALSE(is_mapped(page)) << "the same range is held";
    memory.release(first, kGiB, 8192);
    ASSERT_EQ(memory.acquire(kGiB, 4096, first), 0);
    EXPECT_TRUE(is_mapped(page)) << "another range";
    EXPECT_FALSE(is_mapped(page + 4096)) << "another range";
    memory.release(first, kGiB, 4096);
    memory.release(second, kGiB, 8192);
    EXPECT_EQ(memory.window_count(), 0U);
    ASSERT_EQ(memory.acquire(kGiB, 8192, first), 0);
    EXPECT_TRUE(is_mapped(AppMemory::at(*first, kGiB))) << "nobody held it any more";
    memory.release(first, kGiB, 8192);
}

TimeNs slow_clock_ns = 0;
TimeNs slow_clock() {
    constexpr TimeNs kStepNs = 250'000;
    return slow_clock_ns += kStepNs;
}

// The control thread has others to serve: a machine that is slow at it leaves the rest to the workers'
// faults.
TEST(AppMemoryWindows, PagesAreMappedForHalfAMillisecondAtMost) {
    constexpr std::uint64_t kStepBytes = 64 * 4096;
    for (const bool is_slow : {false, true}) {
        UniqueFd file = memory_file(kGoodSeals);
        write_pages(file, kGiB, 4 * kStepBytes);
        TimeNs (*const never)() = [] { return TimeNs{0}; };
        AppMemory memory(nullptr, is_slow ? slow_clock : never);
        ASSERT_EQ(memory.attach(std::move(file)), 0);
        AppMemory::Window* window = nullptr;
        ASSERT_EQ(memory.acquire(kGiB, 4 * kStepBytes, window), 0);
        const std::byte* const page = AppMemory::at(*window, kGiB);
        EXPECT_TRUE(is_mapped(page) && is_mapped(page + kStepBytes - 4096)) << "one step is always made";
        EXPECT_EQ(is_mapped(page + kStepBytes), !is_slow);
        EXPECT_EQ(is_mapped(page + 4 * kStepBytes - 4096), !is_slow);
        memory.release(window, kGiB, 4 * kStepBytes);
    }
}

// Who touches a page first is who pays for it.
TEST(AppMemoryWindows, HolesAreNotFilled) {
    UniqueFd file = memory_file(kGoodSeals);
    const UniqueFd clients(::dup(file.get()));
    write_pages(clients, kGiB + 4096, 4096);
    write_pages(clients, kGiB + 3 * 4096, 8192);
    AppMemory memory;
    ASSERT_EQ(memory.attach(std::move(file)), 0);
    AppMemory::Window* window = nullptr;
    ASSERT_EQ(memory.acquire(kGiB + 100, 256 << 20, window), 0);
    EXPECT_EQ(blocks_of(clients) * 512, 3 * 4096);
    for (const std::size_t page : {0, 1, 2, 3, 4, 5}) {
        EXPECT_EQ(is_mapped(AppMemory::at(*window, kGiB) + page * 4096), page == 1 || page == 3 || page == 4)
            << page;
    }
    memory.release(window, kGiB + 100, 256 << 20);
}

/// Registers holes of the file as another user, until pages of it have come a few times. Returns whether none
/// of these registrations brought more than one step.
bool gains_one_step_each(AppMemory& memory, const UniqueFd& file) {
    constexpr std::int64_t kStepBytes = 64 * 4096;
    constexpr std::uint64_t kMostTries = 3000;
    constexpr int kGains = 3;
    constexpr uid_t kOther = 65533;
    if (::setresgid(kOther, kOther, kOther) != 0 || ::setresuid(kOther, kOther, kOther) != 0) {
        return false;
    }
    int gains = 0;
    for (std::uint64_t i = 1; i <= kMostTries && gains < kGains; ++i) {
        const std::int64_t before = blocks_of(file) * 512;
        AppMemory::Window* window = nullptr;
        if (memory.acquire(i * kGiB, 64 << 20, window) != 0) {
            return false;
        }
        memory.release(window, i * kGiB, 64 << 20);
        const std::int64_t gained = blocks_of(file) * 512 - before;
        gains += gained != 0 ? 1 : 0;
        if (gained > kStepBytes) {
            return false;
        }
    }
    return true;
}

// Of a file that we could not open for writing mincore() says that every page is there. Who changes that at
// the right moment gains one step of a registration.
TEST(AppMemoryWindows, NorAreThoseOfAFileWhoseModeComesAndGoes) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "a second user needs root";
    }
    UniqueFd file = memory_file(kGoodSeals);
    const UniqueFd clients(::dup(file.get()));
    AppMemory memory;
    ASSERT_EQ(memory.attach(std::move(file)), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(gains_one_step_each(memory, clients) ? 0 : 1);
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
        ASSERT_EQ(::fchmod(clients.get(), 0), 0);
        ASSERT_EQ(::fchmod(clients.get(), 0777), 0);
    }
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace urnic::daemon
