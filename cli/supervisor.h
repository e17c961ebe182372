// Signals and children of a process that stands between its caller and a command.
#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <functional>
#include <optional>

#include "os/unique_fd.h"

namespace urnic::cli {

/// Takes over the signals of this process: from construction on they are read from a descriptor, and children
/// must call restore_in_child() before they execute anything.
class SignalGate {
  public:
    SignalGate();
    [[nodiscard]] int fd() const { return fd_.get(); }
    /// The next signal, waiting at most `timeout_ms` (-1: for ever).
    [[nodiscard]] std::optional<signalfd_siginfo> next(int timeout_ms) const;
    /// Only async-signal-safe calls: for a child between fork and exec.
    void restore_in_child() const;

  private:
    sigset_t inherited_mask_{};
    bool child_signal_was_ignored_ = false;
    UniqueFd fd_;
};

/// Runs until `command` ends and returns its wait status. Signals sent to this process are sent on to the
/// command; those that the terminal sends reach it without help. When the command stops, this process stops
/// too, so that a shell's job control sees one job. `on_other_child` is told of any other child that ends.
int supervise(const SignalGate& gate, pid_t command, const std::function<void(pid_t, int)>& on_other_child);

/// Sends SIGTERM to the child, SIGKILL when it is still there after `grace_ms`, and waits for its end.
void end_child(const SignalGate& gate, pid_t child, int grace_ms);

/// Ends this process the way a command with this wait status ended: same exit status or same signal.
[[noreturn]] void end_like(int wait_status);

}  // namespace urnic::cli
