// Which system calls the daemon's threads make once they serve. Tables; measured with strace under the suites
// unit and e2e.
#pragma once

#include "daemon/config/config.h"
#include "os/syscall_filter.h"

namespace urnic::daemon {

/// Returns whether filters are of use in this build: what sanitizers and measurements of coverage do besides
/// is not in the tables.
[[nodiscard]] bool has_syscall_filters();

/// Adds what the control thread, and each thread that helps it, calls with these ports.
void add_control_rules(SyscallFilter& filter, const Config& config);
/// Adds what workers call: they open nothing, and begin no thread.
void add_worker_rules(SyscallFilter& filter, const Config& config);

/// For all threads there are, and those that they start. Returns whether the kernel has filters; throws
/// StartError where it has none and the configuration wants them.
[[nodiscard]] bool filter_control_calls(const Config& config);
/// For the calling thread, after the former.
void filter_worker_calls(const Config& config);

}  // namespace urnic::daemon
