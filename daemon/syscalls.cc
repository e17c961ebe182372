#include "daemon/syscalls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "base/check.h"
#include "daemon/run_dir.h"
#include "os/log.h"

namespace urnic::daemon {

namespace {

/// Of every thread: memory, locks, time, descriptors that it has, its end, and that of the process by
/// abort().
constexpr const char* kOfAll[] = {
    "brk",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "exit",
    "exit_group",
    "fcntl",
    "futex",
    "getcpu",
    "getpid",
    "getrandom",
    "getsockopt",
    "gettid",
    "gettimeofday",
    "madvise",
    "mremap",
    "munmap",
    "nanosleep",
    "poll",
    "ppoll",
    "pread64",
    "pwrite64",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_getaffinity",
    "sched_yield",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "set_robust_list",
    "sigaltstack",
    "tgkill",
    "time",
    "write",
    "writev",
};

/// Of the control thread and its helpers: files below the run directory, sockets of clients, threads.
constexpr const char* kOfControl[] = {
    "accept",
    "accept4",
    "access",
    "bind",
    "capget",
    "capset",
    "chmod",
    "connect",
    "dup",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "eventfd2",
    "faccessat",
    "faccessat2",
    "fallocate",
    "fchmod",
    "fchmodat",
    "flock",
    "fstat",
    "fstatfs",
    "ftruncate",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getpeername",
    "getresgid",
    "getresuid",
    "getsockname",
    "getuid",
    "listen",
    "lseek",
    "lstat",
    "membarrier",
    "memfd_create",
    "mincore",
    "mkdir",
    "mkdirat",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pidfd_open",
    "pipe2",
    "readlink",
    "readlinkat",
    "rmdir",
    "sched_getattr",
    "sched_setaffinity",
    "sched_setattr",
    "seccomp",
    "setsockopt",
    "shutdown",
    "signalfd4",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sysinfo",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "umask",
    "uname",
    "unlink",
    "unlinkat",
};

/// Other programs, other users, other processes, the machine: nothing here ever does that.
constexpr const char* kOfIntruders[] = {
    "acct",
    "add_key",
    "adjtimex",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "delete_module",
    "execve",
    "execveat",
    "finit_module",
    "fork",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "kill",
    "mknod",
    "mknodat",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pidfd_send_signal",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "quotactl",
    "reboot",
    "request_key",
    "setdomainname",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "sethostname",
    "setns",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "settimeofday",
    "setuid",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vfork",
};

/// prctl() of ours, of libcap-ng and of libc.
constexpr int kPrctlOfControl[] = {
    PR_CAPBSET_READ,     PR_SET_KEEPCAPS, PR_SET_NAME,    PR_GET_NAME,
    PR_SET_TIMERSLACK,   PR_SET_SECCOMP,  PR_GET_SECCOMP, PR_SET_NO_NEW_PRIVS,
    PR_GET_NO_NEW_PRIVS, PR_GET_DUMPABLE, PR_CAP_AMBIENT, 0x53564d41,  // PR_SET_VMA
};

/// What is asked of interfaces, and whether stderr is a terminal.
constexpr unsigned kIoctlOfControl[] = {
    SIOCGIFINDEX, SIOCGIFHWADDR, SIOCGIFMTU, SIOCGIFFLAGS, SIOCETHTOOL, TCGETS,
};

constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
constexpr std::uint64_t kIntBits = 0xffff'ffff;
constexpr std::uint64_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

bool has_port(const Config& config, PortKind kind) {
    return std::any_of(config.rnics.begin(), config.rnics.end(),
                       [kind](const RnicConfig& rnic) { return rnic.port == kind; });
}

/// Drivers of DPDK's ask their devices in ways of their own.
bool has_drivers(const Config& config) {
    return has_port(config, PortKind::kPci) || has_port(config, PortKind::kVdev);
}

/// Nothing that is written is executed.
void add_memory_rules(SyscallFilter& filter) {
    for (const char* const name : {"mmap", "mprotect"}) {
        filter.allow_if(name, 2, PROT_EXEC, 0);
        filter.refuse_if(name, 2, PROT_EXEC, PROT_EXEC, EPERM);
    }
}

void add_kills(SyscallFilter& filter) {
    for (const char* const name : kOfIntruders) {
        filter.kill(name);
    }
}

/// Threads of this process alone. The flags of clone3() are in memory, where a filter does not look; without
/// it libc uses clone().
void add_thread_rules(SyscallFilter& filter) {
    filter.allow_if("clone", 0, CLONE_THREAD | kNamespaces, CLONE_THREAD);
    filter.kill_if("clone", 0, CLONE_THREAD, 0);
    filter.refuse("clone3", ENOSYS);
}

void add_socket_rules(SyscallFilter& filter, const Config& config) {
    filter.allow_if("socket", 0, kIntBits, AF_UNIX);
    filter.allow_if("socketpair", 0, kIntBits, AF_UNIX);
    const bool has_xdp = has_port(config, PortKind::kAfXdp);
    if (has_xdp || has_port(config, PortKind::kAfPacket) || has_drivers(config)) {
        filter.allow_if("socket", 0, kIntBits, AF_PACKET);
        filter.allow_if("socket", 0, kIntBits, AF_NETLINK);
    }
    if (has_xdp) {
        filter.allow_if("socket", 0, kIntBits, AF_XDP);
        filter.allow("bpf");
    } else {
        filter.kill("bpf");
    }
    if (has_drivers(config)) {
        filter.allow_if("socket", 0, kIntBits, AF_INET);
    }
}

void add_ioctl_rules(SyscallFilter& filter, const Config& config) {
    if (has_drivers(config)) {
        filter.allow("ioctl");
        return;
    }
    for (const unsigned request : kIoctlOfControl) {
        filter.allow_if("ioctl", 1, kIntBits, request);
    }
}

std::mutex& load_mutex() {
    static std::mutex mutex;
    return mutex;
}

int load(const Config& config, void (*add_rules)(SyscallFilter&, const Config&), SyscallFilter::Scope scope) {
    // libseccomp finds out what the kernel can when it is first used.
    const std::lock_guard lock(load_mutex());
    SyscallFilter filter;
    add_rules(filter, config);
    return filter.install(scope);
}

}  // namespace

bool has_syscall_filters() {
#ifdef URNIC_INSTRUMENTED
    return false;
#else
    return true;
#endif
}

void add_control_rules(SyscallFilter& filter, const Config& config) {
    for (const char* const name : kOfAll) {
        filter.allow(name);
    }
    for (const char* const name : kOfControl) {
        filter.allow(name);
    }
    for (const int option : kPrctlOfControl) {
        filter.allow_if("prctl", 0, kIntBits, static_cast<std::uint64_t>(option));
    }
    // To ask for a limit, not to set one.
    filter.allow_if("prlimit64", 2, kAllBits, 0);
    filter.allow("getrlimit");
    add_memory_rules(filter);
    add_thread_rules(filter);
    add_socket_rules(filter, config);
    add_ioctl_rules(filter, config);
    add_kills(filter);
}

void add_worker_rules(SyscallFilter& filter, const Config& config) {
    for (const char* const name : kOfAll) {
        filter.allow(name);
    }
    add_memory_rules(filter);
    if (has_drivers(config)) {
        filter.allow("ioctl");
    }
    filter.kill("bpf");
    add_kills(filter);
}

bool filter_control_calls(const Config& config) {
    const int error = load(config, add_control_rules, SyscallFilter::Scope::kProcess);
    if (error == 0) {
        return true;
    }
    const std::string problem =
        fmt::format("the kernel takes no filters of system calls (seccomp): {}", std::strerror(error));
    if (config.daemon.seccomp.value_or(false)) {
        throw StartError(problem + ". Set seccomp = false under [daemon], or leave it out");
    }
    log_warning("{}; it continues without them", problem);
    return false;
}

void filter_worker_calls(const Config& config) {
    URNIC_CHECK(load(config, add_worker_rules, SyscallFilter::Scope::kThread) == 0);
}

}  // namespace urnic::daemon
