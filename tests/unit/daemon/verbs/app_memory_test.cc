#include "daemon/verbs/app_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
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

UniqueFd pidfd_of(pid_t pid) { return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

AppMemory attached() {
    AppMemory memory(0, -1);
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals)), 0);
    return memory;
}

TEST(AppMemoryFile, TakesAProperOneOnce) {
    AppMemory memory(0, -1);
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals)), 0);
    EXPECT_EQ(memory.attach(memory_file(kGoodSeals)), EEXIST);
}

TEST(AppMemoryFile, RefusesWhatCouldRaiseSigbus) {
    AppMemory memory(0, -1);
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
    AppMemory memory(0, -1);
    const UniqueFd writable = memory_file(kGoodSeals);
    const std::string path = "/proc/self/fd/" + std::to_string(writable.get());
    ASSERT_EQ(memory.attach(UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC))), 0);
    AppMemory::Window* window = nullptr;
    EXPECT_EQ(memory.acquire(kGiB, 4096, window), EACCES);
    EXPECT_EQ(memory.window_count(), 0U);
}

TEST(AppMemoryFile, SealedAgainstWritingIsAnErrorNotACrash) {
    AppMemory memory(0, -1);
    ASSERT_EQ(memory.attach(memory_file(kGoodSeals | F_SEAL_WRITE)), 0);
    AppMemory::Window* window = nullptr;
    EXPECT_NE(memory.acquire(kGiB, 4096, window), 0);
    EXPECT_EQ(memory.window_count(), 0U);
}

TEST(AppMemoryWindows, RegionsShareAWindow) {
    AppMemory memory = attached();
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
    AppMemory memory = attached();
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
    AppMemory memory = attached();
    AppMemory::Window* window = nullptr;
    EXPECT_EQ(memory.acquire(abi::kMemoryFileBytes - 4096, 8192, window), EINVAL);
    EXPECT_EQ(memory.acquire(~0ULL - 4095, 4096, window), EINVAL);
    EXPECT_EQ(memory.acquire(0, ~0ULL, window), EINVAL);
    EXPECT_EQ(memory.acquire(4096, 0, window), EINVAL);
    EXPECT_EQ(memory.acquire(abi::kMemoryFileBytes - 4096, 4096, window), 0) << "the last page";
    memory.release(window, abi::kMemoryFileBytes - 4096, 4096);
    EXPECT_EQ(memory.acquire(0, abi::kMemoryFileBytes, window), ENOMEM) << "more than one client may map";
    AppMemory none(0, -1);
    EXPECT_EQ(none.acquire(4096, 4096, window), EINVAL) << "no memory file";
}

TEST(AppMemoryWindows, TheirNumberIsBounded) {
    AppMemory memory = attached();
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
    AppMemory memory(0, -1);
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

// Pages are looked for once while a range is held; a hole shows whether somebody looked.
TEST(AppMemoryWindows, ARangeThatIsHeldIsNotWalkedAgain) {
    UniqueFd file = memory_file(kGoodSeals);
    const UniqueFd clients(::dup(file.get()));
    AppMemory memory(0, -1);
    ASSERT_EQ(memory.attach(std::move(file)), 0);
    const auto punch = [&] {
        ASSERT_EQ(::fallocate(clients.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, kGiB, 8192), 0);
        ASSERT_EQ(blocks_of(clients), 0);
    };
    AppMemory::Window* first = nullptr;
    AppMemory::Window* second = nullptr;
    ASSERT_EQ(memory.acquire(kGiB, 8192, first), 0);
    EXPECT_NE(blocks_of(clients), 0);
    punch();
    ASSERT_EQ(memory.acquire(kGiB, 8192, second), 0);
    EXPECT_EQ(second, first);
    EXPECT_EQ(blocks_of(clients), 0) << "the same range is held";
    memory.release(first, kGiB, 8192);
    ASSERT_EQ(memory.acquire(kGiB, 4096, first), 0);
    EXPECT_NE(blocks_of(clients), 0) << "another range";
    memory.release(first, kGiB, 4096);
    memory.release(second, kGiB, 8192);
    EXPECT_EQ(memory.window_count(), 0U);
    punch();
    ASSERT_EQ(memory.acquire(kGiB, 8192, first), 0);
    EXPECT_NE(blocks_of(clients), 0) << "nobody held it any more";
    memory.release(first, kGiB, 8192);
}

class OtherProcess : public testing::Test {
  public:
    ~OtherProcess() override {
        end();
        ::munmap(page_, 4096);
    }

  protected:
    OtherProcess() {
        const std::size_t bytes = 8192;
        page_ = static_cast<char*>(
            ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_EQ(::munmap(page_ + 4096, 4096), 0);
        std::memcpy(page_, "in the child", 13);
        pid_ = ::fork();
        if (pid_ == 0) {
            ::pause();
            ::_exit(0);
        }
        pidfd_ = pidfd_of(pid_);
        std::memcpy(page_, "in the parent", 14);
    }
    void end() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
            pid_ = -1;
        }
    }
    [[nodiscard]] std::uint64_t va() const { return reinterpret_cast<std::uint64_t>(page_); }

    char* page_;
    pid_t pid_;
    UniqueFd pidfd_;
};

TEST_F(OtherProcess, ReadAndWrite) {
    AppMemory memory(pid_, pidfd_.get());
    std::array<std::byte, 12> bytes{};
    ASSERT_TRUE(memory.read(va(), bytes.data(), bytes.size()));
    EXPECT_EQ(std::memcmp(bytes.data(), "in the child", 12), 0);
    bytes[0] = std::byte{'I'};
    ASSERT_TRUE(memory.write(va(), bytes.data(), bytes.size()));
    ASSERT_TRUE(memory.read(va(), bytes.data(), bytes.size()));
    EXPECT_EQ(std::memcmp(bytes.data(), "In the child", 12), 0);
}

TEST_F(OtherProcess, UnmappedMemoryIsFalseAlsoInPart) {
    AppMemory memory(pid_, pidfd_.get());
    std::array<std::byte, 64> bytes{};
    EXPECT_FALSE(memory.read(va() + 4096, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory.read(va() + 4096 - 32, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory.write(va() + 4096 - 32, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory.read(0, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory.read(~0ULL - 31, bytes.data(), bytes.size()));
}

TEST_F(OtherProcess, AProcessThatIsGoneIsFalse) {
    AppMemory memory(pid_, pidfd_.get());
    std::array<std::byte, 4> bytes{};
    ASSERT_TRUE(memory.read(va(), bytes.data(), bytes.size()));
    end();
    EXPECT_FALSE(memory.read(va(), bytes.data(), bytes.size()));
    EXPECT_FALSE(memory.write(va(), bytes.data(), bytes.size()));
}

// The pid may be somebody else's by now: the pidfd, not the pid, says whether the client lives.
TEST_F(OtherProcess, ARecycledPidIsNotTouched) {
    const pid_t dead = pid_;
    end();
    AppMemory memory(::getpid(), pidfd_.get());
    std::array<std::byte, 4> bytes{};
    EXPECT_FALSE(memory.read(va(), bytes.data(), bytes.size())) << "pid " << dead;
    AppMemory unknown(0, -1);
    EXPECT_FALSE(unknown.read(va(), bytes.data(), bytes.size()));
}

}  // namespace
}  // namespace urnic::daemon
