// The filters of the daemon's threads against somebody who runs code inside it: a child for each system call.
#include "daemon/syscalls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

namespace urnic::daemon {
namespace {

using AddRules = void (*)(SyscallFilter&, const Config&);

Config with_port(PortKind kind) {
    Config config;
    config.rnics.emplace_back();
    config.rnics.back().port = kind;
    return config;
}

/// How a child ends that calls `function` behind the rules; its exit status is what that returns.
int status_behind(AddRules add_rules, const Config& config, const std::function<int()>& function) {
    const pid_t child = ::fork();
    if (child == 0) {
        SyscallFilter filter;
        add_rules(filter, config);
        ::_exit(filter.install(SyscallFilter::Scope::kProcess) == 0 ? function() : 99);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
}

int errno_of(long result) { return result >= 0 ? 0 : errno; }

/// errno of a call behind the rules; -1: it ended the process as the kernel ends those that make it.
int answer(AddRules add_rules, const Config& config, const std::function<long()>& call) {
    const int status = status_behind(add_rules, config, [&] { return errno_of(call()); });
    if (WIFSIGNALED(status)) {
        EXPECT_EQ(WTERMSIG(status), SIGSYS);
        return -1;
    }
    return WEXITSTATUS(status);
}

struct Call {
    const char* name;
    long number;
};
/// Arguments that a kernel without filters answers with an error, whoever asks.
long call_badly(const Call& call) { return ::syscall(call.number, -1L, -1L, -1L, -1L, -1L, -1L); }

constexpr Call kIntruders[] = {
    {"execve", SYS_execve},
    {"execveat", SYS_execveat},
    {"ptrace", SYS_ptrace},
    {"process_vm_readv", SYS_process_vm_readv},
    {"process_vm_writev", SYS_process_vm_writev},
    {"pidfd_getfd", SYS_pidfd_getfd},
    {"kill", SYS_kill},
    {"setuid", SYS_setuid},
    {"setresuid", SYS_setresuid},
    {"setgroups", SYS_setgroups},
    {"unshare", SYS_unshare},
    {"setns", SYS_setns},
    {"mount", SYS_mount},
    {"move_mount", SYS_move_mount},
    {"pivot_root", SYS_pivot_root},
    {"chroot", SYS_chroot},
    {"init_module", SYS_init_module},
    {"finit_module", SYS_finit_module},
    {"kexec_load", SYS_kexec_load},
    {"bpf", SYS_bpf},
    {"perf_event_open", SYS_perf_event_open},
    {"io_uring_setup", SYS_io_uring_setup},
    {"userfaultfd", SYS_userfaultfd},
    {"keyctl", SYS_keyctl},
    {"open_by_handle_at", SYS_open_by_handle_at},
    {"mknod", SYS_mknod},
    {"personality", SYS_personality},
    {"settimeofday", SYS_settimeofday},
    {"reboot", SYS_reboot},
};

constexpr PortKind kAllKinds[] = {PortKind::kFabric,   PortKind::kPci,   PortKind::kVdev,
                                  PortKind::kAfPacket, PortKind::kAfXdp, PortKind::kMemif};

class EachThread : public testing::TestWithParam<AddRules> {};

TEST_P(EachThread, WhatOnlyIntrudersDoEndsTheDaemon) {
    for (const PortKind kind : kAllKinds) {
        for (const Call& call : kIntruders) {
            // With AF_XDP the control thread loads the kernel's part of it.
            const bool is_needed =
                call.number == SYS_bpf && kind == PortKind::kAfXdp && GetParam() == add_control_rules;
            EXPECT_EQ(answer(GetParam(), with_port(kind), [&] { return call_badly(call); }) == -1, !is_needed)
                << call.name << " with ports of kind " << static_cast<int>(kind);
        }
    }
}

TEST_P(EachThread, NothingThatIsWrittenIsExecuted) {
    const Config config = with_port(PortKind::kFabric);
    const auto map = [](int protection) {
        return ::syscall(SYS_mmap, nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    };
    EXPECT_EQ(answer(GetParam(), config, [&] { return map(PROT_READ | PROT_WRITE); }), 0);
    EXPECT_EQ(answer(GetParam(), config, [&] { return map(PROT_READ | PROT_EXEC); }), EPERM);
    EXPECT_EQ(answer(GetParam(), config,
                     [&] { return ::syscall(SYS_mprotect, map(PROT_READ), 4096, PROT_READ | PROT_EXEC); }),
              EPERM);
    EXPECT_EQ(
        answer(GetParam(), config, [&] { return ::syscall(SYS_pkey_mprotect, map(PROT_READ), 4096, 4, -1); }),
        ENOSYS);
}

TEST_P(EachThread, NoLimitIsRaised) {
    const rlimit limit{1, 1};
    EXPECT_EQ(answer(GetParam(), with_port(PortKind::kFabric),
                     [&] { return ::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &limit, nullptr); }),
              ENOSYS);
}

INSTANTIATE_TEST_SUITE_P(Threads, EachThread, testing::Values(add_control_rules, add_worker_rules),
                         [](const auto& info) {
                             return info.param == add_control_rules ? "Control" : "Worker";
                         });

TEST(ControlThread, NoProcessIsStarted) {
    const Config config = with_port(PortKind::kFabric);
    EXPECT_EQ(answer(add_control_rules, config, [] { return ::syscall(SYS_fork); }), -1);
    EXPECT_EQ(answer(add_control_rules, config, [] { return ::syscall(SYS_vfork); }), -1);
    EXPECT_EQ(answer(add_control_rules, config, [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }),
              -1);
    EXPECT_EQ(answer(add_control_rules, config, [] { return ::syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
}

TEST(ControlThread, AThreadInItsOwnNamespaceIsNone) {
    constexpr long kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_NEWNET;
    EXPECT_EQ(answer(add_control_rules, with_port(PortKind::kFabric),
                     [] { return ::syscall(SYS_clone, kFlags, 0, 0, 0, 0); }),
              ENOSYS);
}

TEST(ControlThread, SocketsOfTheConfiguredPortsAlone) {
    const auto opens = [](PortKind kind, int family, int type) {
        return answer(add_control_rules, with_port(kind),
                      [=] { return ::syscall(SYS_socket, family, type, 0); }) != ENOSYS;
    };
    for (const PortKind kind : kAllKinds) {
        SCOPED_TRACE(static_cast<int>(kind));
        const bool is_drivers = kind == PortKind::kPci || kind == PortKind::kVdev;
        EXPECT_TRUE(opens(kind, AF_UNIX, SOCK_DGRAM));
        EXPECT_EQ(opens(kind, AF_INET, SOCK_STREAM), is_drivers);
        EXPECT_FALSE(opens(kind, AF_INET6, SOCK_DGRAM));
        EXPECT_FALSE(opens(kind, AF_VSOCK, SOCK_STREAM));
        EXPECT_FALSE(opens(kind, AF_ALG, SOCK_SEQPACKET));
        const bool asks_kernel = is_drivers || kind == PortKind::kAfPacket || kind == PortKind::kAfXdp;
        EXPECT_EQ(opens(kind, AF_PACKET, SOCK_RAW), asks_kernel);
        EXPECT_EQ(opens(kind, AF_NETLINK, SOCK_RAW), asks_kernel);
        EXPECT_EQ(opens(kind, AF_XDP, SOCK_RAW), kind == PortKind::kAfXdp);
    }
    EXPECT_NE(answer(add_control_rules, with_port(PortKind::kAfXdp),
                     [] { return ::syscall(SYS_bpf, -1, nullptr, 0); }),
              -1);
}

TEST(ControlThread, ServesBehindIt) {
    const std::filesystem::path dir =
        std::filesystem::temp_directory_path() / ("urnic-syscalls-" + std::to_string(::getpid()));
    const int status = status_behind(add_control_rules, with_port(PortKind::kFabric), [&] {
        int done = 0;
        std::thread([&done] { done = 1; }).join();
        std::filesystem::create_directories(dir / "sys/class");
        std::ofstream(dir / "sys/class/name") << "urnic0";
        std::filesystem::create_symlink("/dev/null", dir / "null");
        const int memory = ::memfd_create("x", MFD_ALLOW_SEALING);
        std::array<int, 2> sockets{};
        const bool ok = ::fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0 &&
                        ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()) == 0 &&
                        ::prctl(PR_SET_TIMERSLACK, 1UL) == 0;
        return std::filesystem::remove_all(dir) == 5 && ok && done == 1 ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
    std::filesystem::remove_all(dir);
}

TEST(Worker, OpensNothingAndStartsNothing) {
    for (const PortKind kind : kAllKinds) {
        const Config config = with_port(kind);
        EXPECT_EQ(answer(add_worker_rules, config,
                         [] { return ::syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY, 0); }),
                  ENOSYS);
        EXPECT_EQ(
            answer(add_worker_rules, config, [] { return ::syscall(SYS_socket, AF_UNIX, SOCK_DGRAM, 0); }),
            ENOSYS);
        EXPECT_EQ(answer(add_worker_rules, config, [] { return ::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }),
                  ENOSYS);
        EXPECT_EQ(answer(add_worker_rules, config, [] { return ::syscall(SYS_unlink, "/nothing"); }), ENOSYS);
        EXPECT_EQ(answer(add_worker_rules, config, [] { return ::syscall(SYS_connect, 0, nullptr, 0); }),
                  ENOSYS);
    }
}

TEST(Worker, SendsBehindIt) {
    std::array<int, 2> sockets{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets.data()), 0);
    const int status = status_behind(add_worker_rules, with_port(PortKind::kFabric), [&] {
        char byte = 0;
        const bool ok = ::send(sockets[0], "x", 1, 0) == 1 && ::recv(sockets[1], &byte, 1, 0) == 1 &&
                        ::sched_yield() == 0 && byte == 'x';
        return ok ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
    ::close(sockets[0]);
    ::close(sockets[1]);
}

}  // namespace
}  // namespace urnic::daemon
