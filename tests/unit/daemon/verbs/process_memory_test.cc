#include "daemon/verbs/process_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace urnic::daemon {
namespace {

UniqueFd open_file(const std::string& path, int flags) {
    UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC));
    EXPECT_TRUE(fd) << path << ": " << std::strerror(errno);
    return fd;
}
UniqueFd directory_of(pid_t pid) { return open_file("/proc/" + std::to_string(pid), O_PATH | O_DIRECTORY); }
UniqueFd memory_of(pid_t pid) { return open_file("/proc/" + std::to_string(pid) + "/mem", O_RDWR); }

/// A child that waits to be killed, or to become another program.
class OtherProcess : public testing::Test {
  public:
    ~OtherProcess() override {
        end();
        ::munmap(page_, 4096);
    }

  protected:
    OtherProcess() {
        // Low, where the kernel puts nothing by itself: what follows stays unmapped.
        void* const low = reinterpret_cast<void*>(0x20'0000);
        void* const page = ::mmap(low, 4096, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        EXPECT_EQ(page, low) << std::strerror(errno);
        page_ = static_cast<char*>(page);
        std::memcpy(page_, "in the child", 13);
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, go_.data()), 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            char byte = 0;
            (void)!::read(go_[1], &byte, 1);
            ::dup2(go_[1], STDIN_FILENO);
            ::dup2(go_[1], STDOUT_FILENO);
            ::execlp("cat", "cat", nullptr);
            ::_exit(1);
        }
        ::close(go_[1]);
        std::memcpy(page_, "in the parent", 14);
        UniqueFd memory = memory_of(pid_);
        EXPECT_EQ(memory_.attach(pid_, directory_of(pid_), memory), 0);
    }
    void end() {
        if (pid_ > 0) {
            ::kill(pid_, SIGKILL);
            ::waitpid(pid_, nullptr, 0);
            ::close(go_[0]);
            pid_ = -1;
        }
    }
    /// Returns when it is cat, which answers.
    void become_another_program() {
        ASSERT_EQ(::write(go_[0], "gx", 2), 2);
        char byte = 0;
        ASSERT_EQ(::read(go_[0], &byte, 1), 1);
        ASSERT_EQ(byte, 'x');
    }
    [[nodiscard]] std::uint64_t va() const { return reinterpret_cast<std::uint64_t>(page_); }

    char* page_;
    std::array<int, 2> go_{};
    pid_t pid_;
    ProcessMemory memory_;
};

TEST_F(OtherProcess, ReadAndWrite) {
    std::array<std::byte, 12> bytes{};
    ASSERT_TRUE(memory_.read(va(), bytes.data(), bytes.size()));
    EXPECT_EQ(std::memcmp(bytes.data(), "in the child", 12), 0);
    bytes[0] = std::byte{'I'};
    ASSERT_TRUE(memory_.write(va(), bytes.data(), bytes.size()));
    ASSERT_TRUE(memory_.read(va(), bytes.data(), bytes.size()));
    EXPECT_EQ(std::memcmp(bytes.data(), "In the child", 12), 0);
}

TEST_F(OtherProcess, UnmappedMemoryIsFalseAlsoInPart) {
    std::array<std::byte, 64> bytes{};
    EXPECT_FALSE(memory_.read(va() + 4096, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory_.read(va() + 4096 - 32, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory_.write(va() + 4096 - 32, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory_.read(0, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory_.read(~0ULL - 31, bytes.data(), bytes.size()));
}

TEST_F(OtherProcess, AProcessThatIsGoneIsFalse) {
    std::array<std::byte, 4> bytes{};
    ASSERT_TRUE(memory_.read(va(), bytes.data(), bytes.size()));
    end();
    EXPECT_FALSE(memory_.read(va(), bytes.data(), bytes.size()));
    EXPECT_FALSE(memory_.write(va(), bytes.data(), bytes.size()));
}

// The number and the pidfd stay the same.
TEST_F(OtherProcess, AProcessThatBecameAnotherProgramIsFalse) {
    std::array<std::byte, 4> bytes{};
    ASSERT_TRUE(memory_.read(va(), bytes.data(), bytes.size()));
    become_another_program();
    // Wherever that program has its memory.
    const UniqueFd now = memory_of(pid_);
    FILE* maps = std::fopen(("/proc/" + std::to_string(pid_) + "/maps").c_str(), "re");
    unsigned long long start = 0;
    ASSERT_TRUE(maps != nullptr && std::fscanf(maps, "%llx", &start) == 1);
    std::fclose(maps);
    ASSERT_EQ(::pread(now.get(), bytes.data(), bytes.size(), static_cast<off_t>(start)), 4)
        << "it has none there";
    EXPECT_FALSE(memory_.read(start, bytes.data(), bytes.size()));
    EXPECT_FALSE(memory_.read(va(), bytes.data(), bytes.size()));
}

TEST_F(OtherProcess, OnlyOnce) {
    UniqueFd memory = memory_of(::getpid());
    EXPECT_EQ(memory_.attach(::getpid(), directory_of(::getpid()), memory), EEXIST);
    EXPECT_TRUE(memory) << "the caller closes it";
}

TEST(ProcessMemoryFiles, NothingElseIsTaken) {
    const pid_t self = ::getpid();
    ProcessMemory process;
    const auto refuses = [&](const UniqueFd& directory, UniqueFd memory) {
        return process.attach(self, directory, memory) == EINVAL && memory;
    };
    const std::string self_path = "/proc/" + std::to_string(self) + "/";
    const UniqueFd directory = directory_of(self);
    for (const char* const name : {"maps", "environ", "oom_score_adj", "pagemap"}) {
        EXPECT_TRUE(refuses(directory, open_file(self_path + name, O_RDONLY))) << name;
    }
    EXPECT_TRUE(refuses(directory, UniqueFd(::memfd_create("mem", MFD_CLOEXEC))));
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    EXPECT_TRUE(refuses(directory, memory_of(child))) << "another process's than the directory's";
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(refuses(open_file("/tmp", O_PATH | O_DIRECTORY), memory_of(self)));
    EXPECT_TRUE(refuses(open_file("/proc/sys/kernel", O_PATH | O_DIRECTORY), memory_of(self)));
    EXPECT_TRUE(refuses(open_file("/proc", O_PATH | O_DIRECTORY), memory_of(self)));
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd reading(ends[0]);
    EXPECT_TRUE(refuses(directory, UniqueFd(ends[1])));
    EXPECT_TRUE(refuses(reading, memory_of(self)));
    std::byte byte{};
    EXPECT_FALSE(process.read(reinterpret_cast<std::uint64_t>(&byte), &byte, 1)) << "nothing was taken";
    UniqueFd memory = memory_of(self);
    EXPECT_EQ(process.attach(self, directory, memory), 0) << "afterwards the right one";
    EXPECT_TRUE(process.read(reinterpret_cast<std::uint64_t>(&byte), &byte, 1));
}

// A file system of the user's that has a private file "mem" in a directory.
TEST(ProcessMemoryFiles, AFileThatLooksLikeItIsNotTaken) {
    std::string path = "/tmp/urnic-process-memory-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    const UniqueFd directory = open_file(path, O_PATH | O_DIRECTORY);
    UniqueFd memory(::openat(directory.get(), "mem", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ProcessMemory process;
    EXPECT_EQ(process.attach(::getpid(), directory, memory), EINVAL);
    ::unlinkat(directory.get(), "mem", 0);
    ::rmdir(path.c_str());
}

/// As behind systemd's RestrictSUIDSGID=, or an old container's filter.
bool forbid_openat2() {
    std::array<sock_filter, 4> code{{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                                     BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                                     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog program{code.size(), code.data()};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
           ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// In a child: filters stay.
TEST(ProcessMemoryFiltered, ADaemonThatMayNotAskSaysSo) {
    const pid_t child = ::fork();
    if (child == 0) {
        UniqueFd memory = memory_of(::getpid());
        const UniqueFd directory = directory_of(::getpid());
        ProcessMemory process;
        ::_exit(forbid_openat2() ? process.attach(::getpid(), directory, memory) : 99);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), ENOSYS);
}

}  // namespace
}  // namespace urnic::daemon
