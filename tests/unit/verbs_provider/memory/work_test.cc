// What one registration costs beside many others: the system calls of a convert() and a release() are
// counted, and none of them may be one for which the kernel visits all of the process's memory.
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <csignal>
#include <string>
#include <vector>

#include "support.h"

namespace urnic::memory {
namespace {

struct Call {
    std::uint64_t number = 0;
    std::uint64_t arguments[6] = {};
};

/// The child's system calls between its first and its second getppid().
std::vector<Call> calls_between_marks(pid_t child) {
    std::vector<Call> calls;
    int status = 0;
    int marks = 0;
    bool entering = true;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
    while (::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0 && ::waitpid(child, &status, 0) == child &&
           WIFSTOPPED(status)) {
        if (WSTOPSIG(status) != (SIGTRAP | 0x80)) {
            continue;
        }
        __ptrace_syscall_info info{};
        if (entering && ::ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) > 0) {
            if (info.entry.nr == SYS_getppid) {
                ++marks;
            } else if (marks == 1) {
                Call call{info.entry.nr};
                std::copy(std::begin(info.entry.args), std::end(info.entry.args), std::begin(call.arguments));
                calls.push_back(call);
            }
        }
        entering = !entering;
    }
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(marks, 2);
    return calls;
}

enum class Layout { kAdjacent, kApart };

/// The system calls of registering a page and deregistering it, in the middle of `others` registered pages.
std::vector<Call> calls_beside(std::uint64_t others, Layout layout) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        const std::uint64_t distance = (layout == Layout::kAdjacent ? 1 : 2) * kPageBytes;
        const Area area((others + 1) * distance);
        area.fill(3);
        const std::uint64_t middle = area.address() + others / 2 * distance;
        bool good = true;
        for (std::uint64_t at = area.address(); at < area.address() + area.size(); at += distance) {
            good = good && (at == middle || convert(at, kPageBytes, true).converted);
        }
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::raise(SIGSTOP);
        ::syscall(SYS_getppid);
        const Registration registration = convert(middle, kPageBytes, true);
        release(registration);
        ::syscall(SYS_getppid);
        ::_exit(good && registration.converted && area.holds(3) ? 0 : 1);
    }
    return calls_between_marks(child);
}

/// Memory that an allocator, the sanitizers' above all, gets and gives back as it sees fit.
bool is_the_allocators(const Call& call) {
    return call.number == SYS_munmap || call.number == SYS_brk ||
           (call.number == SYS_mmap && (call.arguments[3] & (MAP_ANONYMOUS | MAP_FIXED)) == MAP_ANONYMOUS);
}

std::string numbers_of(const std::vector<Call>& calls) {
    std::string text;
    for (const Call& call : calls) {
        text += is_the_allocators(call) ? "" : std::to_string(call.number) + ' ';
    }
    return text;
}

class WorkOfOne : public testing::TestWithParam<Layout> {};

TEST_P(WorkOfOne, DoesNotGrowWithTheOthers) {
    const std::vector<Call> few = calls_beside(16, GetParam());
    const std::vector<Call> many = calls_beside(2048, GetParam());
    EXPECT_EQ(numbers_of(few), numbers_of(many));
    EXPECT_LE(many.size(), 64U);
    for (const Call& call : many) {
        // Walks every page of the file up to the next hole, however far away that is.
        EXPECT_FALSE(call.number == SYS_lseek && call.arguments[2] == SEEK_HOLE);
        // Closing one visits every mapping of the process: it is made once and kept.
        EXPECT_NE(call.number, static_cast<std::uint64_t>(SYS_userfaultfd));
        // Whatever has a range is asked about the page alone.
        if (call.number == SYS_mincore || call.number == SYS_fallocate || call.number == SYS_pread64) {
            EXPECT_EQ(call.arguments[call.number == SYS_mincore   ? 1
                                     : call.number == SYS_pread64 ? 2
                                                                  : 3],
                      kPageBytes);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Layouts, WorkOfOne, testing::Values(Layout::kAdjacent, Layout::kApart),
                         [](const auto& info) {
                             return info.param == Layout::kAdjacent ? "adjacent" : "apart";
                         });

/// Pages that were never touched stay so: giving memory back must not make zeros of them.
TEST(WorkOfOne, HolesStayHoles) {
    const Area area(64 * kPageBytes);
    for (const std::size_t page : {3U, 4U, 20U, 63U}) {
        area[page * kPageBytes] = 'x';
    }
    const Registration registration = convert(area.address(), area.size(), true);
    ASSERT_TRUE(registration.converted);
    area[40 * kPageBytes] = 'y';
    release(registration);
    std::vector<unsigned char> resident(64);
    ASSERT_EQ(::mincore(area.data(), area.size(), resident.data()), 0);
    for (std::size_t page = 0; page < 64; ++page) {
        const bool touched = page == 3 || page == 4 || page == 20 || page == 63 || page == 40;
        EXPECT_EQ((resident[page] & 1U) != 0, touched) << page;
        EXPECT_EQ(area[page * kPageBytes], page == 40 ? 'y' : touched ? 'x' : 0) << page;
    }
}

}  // namespace
}  // namespace urnic::memory
