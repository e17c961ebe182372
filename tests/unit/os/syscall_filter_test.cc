#include "os/syscall_filter.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>

namespace urnic {
namespace {

/// How a child ends that calls `function` behind the filter; its exit status is what that returns.
int status_of_child(const std::function<void(SyscallFilter&)>& add_rules,
                    const std::function<int()>& function) {
    const pid_t child = ::fork();
    if (child == 0) {
        SyscallFilter filter;
        filter.allow("exit_group");
        add_rules(filter);
        ::_exit(filter.install(SyscallFilter::Scope::kThread) == 0 ? function() : 99);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
}

int exit_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
int ending_signal(int status) { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }

int errno_of(long result) { return result >= 0 ? 0 : errno; }

TEST(SyscallFilter, WhatNoRuleNamesIsNotThere) {
    const int status = status_of_child([](SyscallFilter& filter) { filter.allow("getpid"); },
                                       [] { return errno_of(::syscall(SYS_getppid)); });
    EXPECT_EQ(exit_status(status), ENOSYS);
}

TEST(SyscallFilter, WhatIsAllowedWorks) {
    const int status = status_of_child([](SyscallFilter& filter) { filter.allow("getppid"); },
                                       [] { return errno_of(::syscall(SYS_getppid)); });
    EXPECT_EQ(exit_status(status), 0);
}

TEST(SyscallFilter, WhatKillsEndsTheProcess) {
    const int status = status_of_child([](SyscallFilter& filter) { filter.kill("getppid"); },
                                       [] { return errno_of(::syscall(SYS_getppid)); });
    EXPECT_EQ(ending_signal(status), SIGSYS);
}

TEST(SyscallFilter, ArgumentsDecide) {
    const auto add_rules = [](SyscallFilter& filter) {
        filter.allow_if("mmap", 2, PROT_EXEC, 0);
        filter.refuse_if("mmap", 2, PROT_EXEC, PROT_EXEC, EPERM);
    };
    const auto map = [](int protection) {
        return errno_of(::syscall(SYS_mmap, nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    };
    EXPECT_EQ(exit_status(status_of_child(add_rules, [&] { return map(PROT_READ | PROT_WRITE); })), 0);
    EXPECT_EQ(exit_status(status_of_child(add_rules, [&] { return map(PROT_READ | PROT_EXEC); })), EPERM);
}

TEST(SyscallFilter, TheStricterOfTwoCounts) {
    const auto both = [](SyscallFilter& filter) {
        filter.allow("getppid");
        filter.allow("prctl");
        filter.allow("seccomp");
    };
    const int status = status_of_child(both, [] {
        SyscallFilter stricter;
        stricter.allow("exit_group");
        stricter.refuse("getppid", EACCES);
        return stricter.install(SyscallFilter::Scope::kThread) == 0 ? errno_of(::syscall(SYS_getppid)) : 98;
    });
    EXPECT_EQ(exit_status(status), EACCES);
}

TEST(SyscallFilter, ANameThatIsUnknownIsLeftOut) {
    const int status =
        status_of_child([](SyscallFilter& filter) { filter.allow("a_call_of_next_year"); }, [] { return 0; });
    EXPECT_EQ(exit_status(status), 0);
}

}  // namespace
}  // namespace urnic
