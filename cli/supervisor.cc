#include "cli/supervisor.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "cli/launch_error.h"

namespace urnic::cli {
namespace {

/// Signals that a caller uses to steer a command.
constexpr int kForwarded[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGTSTP, SIGCONT, SIGALRM, SIGWINCH};

/// Whether the command may have missed the signal. The kernel's own (a key on the terminal, its hangup, a
/// window's new size) go to the whole foreground process group, of which the command is a member.
bool must_forward(const signalfd_siginfo& signal) {
    return signal.ssi_code != SI_KERNEL || signal.ssi_signo == SIGCONT;
}

/// Stops this process as its command has been stopped, and lets the command go on when it is continued.
void stop_along(pid_t command) {
    raise(SIGSTOP);
    kill(command, SIGCONT);
}

}  // namespace

SignalGate::SignalGate() {
    sigset_t taken;
    sigemptyset(&taken);
    for (const int number : kForwarded) sigaddset(&taken, number);
    sigaddset(&taken, SIGCHLD);
    struct sigaction previous {};
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    // Ignored, as some callers leave it, it would make the kernel reap the children.
    sigaction(SIGCHLD, &standard, &previous);
    child_signal_was_ignored_ = previous.sa_handler == SIG_IGN;
    sigprocmask(SIG_BLOCK, &taken, &inherited_mask_);
    fd_ = UniqueFd(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
    if (fd_.get() < 0) throw LaunchError(fmt::format("signalfd: {}", std::strerror(errno)));
}

std::optional<signalfd_siginfo> SignalGate::next(int timeout_ms) const {
    pollfd waiting{fd_.get(), POLLIN, 0};
    if (poll(&waiting, 1, timeout_ms) <= 0) return std::nullopt;
    signalfd_siginfo signal{};
    if (read(fd_.get(), &signal, sizeof(signal)) != sizeof(signal)) return std::nullopt;
    return signal;
}

void SignalGate::restore_in_child() const {
    if (child_signal_was_ignored_) {
        struct sigaction ignore {};
        ignore.sa_handler = SIG_IGN;
        sigaction(SIGCHLD, &ignore, nullptr);
    }
    sigprocmask(SIG_SETMASK, &inherited_mask_, nullptr);
}

int supervise(const SignalGate& gate, pid_t command, const std::function<void(pid_t, int)>& on_other_child) {
    for (;;) {
        int status = 0;
        for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
            if (pid != command) {
                if (!WIFSTOPPED(status)) on_other_child(pid, status);
            } else if (WIFSTOPPED(status)) {
                stop_along(command);
            } else {
                return status;
            }
        }
        const std::optional<signalfd_siginfo> signal = gate.next(-1);
        if (!signal || signal->ssi_signo == SIGCHLD) continue;
        if (must_forward(*signal)) kill(command, static_cast<int>(signal->ssi_signo));
    }
}

void end_child(const SignalGate& gate, pid_t child, int grace_ms) {
    using Clock = std::chrono::steady_clock;
    const auto deadline = Clock::now() + std::chrono::milliseconds(grace_ms);
    kill(child, SIGTERM);
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child || (ended < 0 && errno == ECHILD)) return;
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) break;
        (void)gate.next(static_cast<int>(left));
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

void end_like(int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        // The command has left its core file; ours would only hide it.
        prctl(PR_SET_DUMPABLE, 0);
        std::signal(number, SIG_DFL);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, number);
        raise(number);
        sigprocmask(SIG_UNBLOCK, &one, nullptr);
        // Not reached but for SIGKILL's and SIGSTOP's like: the shells' way to say it.
        _exit(128 + number);
    }
    _exit(WEXITSTATUS(wait_status));
}

}  // namespace urnic::cli
