#include "verbs_provider/memory/memory.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>

#include "verbs_provider/memory/mapped_allocator.h"
#include "verbs_provider/memory/process.h"
#include "verbs_provider/memory/raw_syscall.h"
#include "verbs_provider/memory/registry.h"
#include "verbs_provider/memory/testing.h"

namespace urnic::memory {
namespace {

/// Longest wait of fork() for the child to take its copies; only a child that is stopped needs it.
constexpr int kForkWaitMs = 2000;

std::atomic<Process*> the_process{nullptr};
/// Held while the process is made, and while fork() runs, so that both of its handlers find the same.
std::mutex creation;

// fork() runs these. The parent's forking thread continues only when the child has its copy, so that what the
// child sees is what the parent had.
void before_fork() {
    creation.lock();
    if (the_process == nullptr) {
        return;
    }
    Process& process = *the_process;
    process.lock.lock_for_fork();
    int* pipe = process.copied;
    if (!process.registry.has_file() || raw_syscall(SYS_pipe2, pipe, O_CLOEXEC) != 0) {
        pipe[0] = pipe[1] = -1;
    }
}

void after_fork_in_parent() {
    const std::lock_guard guard(creation, std::adopt_lock);
    if (the_process == nullptr) {
        return;
    }
    Process& process = *the_process;
    int* pipe = process.copied;
    if (pipe[0] >= 0) {
        raw_syscall(SYS_close, pipe[1]);
        pollfd hang_up{pipe[0], 0, 0};
        while (raw_syscall(SYS_poll, &hang_up, 1, kForkWaitMs) == -EINTR) {
        }
        raw_syscall(SYS_close, pipe[0]);
    }
    process.lock.unlock_after_fork();
}

void after_fork_in_child() {
    const std::lock_guard guard(creation, std::adopt_lock);
    if (the_process == nullptr) {
        return;
    }
    Process& process = *the_process;
    process.lock.forget_advisers();
    process.registry.start_anew_in_child();
    int* pipe = process.copied;
    if (pipe[0] >= 0) {
        raw_syscall(SYS_close, pipe[0]);
        raw_syscall(SYS_close, pipe[1]);
    }
    process.lock.unlock_after_fork();
}

/// Never destroyed: MRs may be deregistered while the process exits. Not on the heap: a page of it could be
/// write-protected just when it is needed.
Process& process() {
    if (Process* existing = the_process.load(); existing != nullptr) {
        return *existing;
    }
    install_fork_handlers();
    const std::lock_guard guard(creation);
    if (the_process == nullptr) {
        void* at = map_anonymous(page_ceiling(sizeof(Process)));
        if (at == nullptr) {
            throw std::bad_alloc();
        }
        the_process = new (at) Process;
    }
    return *the_process;
}

}  // namespace

Process* existing_process() { return the_process.load(std::memory_order_acquire); }

void install_fork_handlers() {
    static std::once_flag once;
    std::call_once(once, [] { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); });
}

int memory_file() {
    const std::lock_guard guard(process().lock);
    return process().registry.file();
}

Registration convert(std::uint64_t addr, std::uint64_t length_bytes, bool writable) {
    try {
        const std::lock_guard guard(process().lock);
        return process().registry.convert(addr, length_bytes, writable);
    } catch (const std::bad_alloc&) {
        return {addr, length_bytes, ENOMEM, false, 0, false};
    }
}

void populate(const Registration& registration, bool writable) {
    const std::uint64_t start = page_floor(registration.addr);
    const std::uint64_t length = page_ceiling(registration.addr + registration.length_bytes) - start;
    struct sysinfo info {};
    raw_syscall(SYS_sysinfo, &info);
    if (registration.moved && length <= std::uint64_t{info.totalram} * info.mem_unit / 4) {
        // Whatever it says: the region is good without.
        raw_syscall(SYS_madvise, start, length, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    }
}

void release(const Registration& registration) {
    try {
        const std::lock_guard guard(process().lock);
        process().registry.release(registration);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the pages stay converted and work
    }
}

void apply_for_test(const RegistrySettings& settings) {
    const std::lock_guard guard(process().lock);
    process().registry.apply(settings);
}

std::uint64_t stretches_for_test() {
    const std::lock_guard guard(process().lock);
    return process().registry.stretches();
}

}  // namespace urnic::memory
