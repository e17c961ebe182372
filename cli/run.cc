#include "cli/run.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "cli/arguments.h"
#include "cli/daemon_client.h"
#include "cli/environment.h"
#include "cli/launch_error.h"
#include "cli/layout.h"
#include "cli/mount_tree.h"
#include "cli/private_daemon.h"
#include "cli/supervisor.h"

namespace urnic::cli {
namespace {

/// After fork, so only async-signal-safe calls (execvp is one in glibc).
[[noreturn]] void execute(char* const* arguments) {
    execvp(arguments[0], arguments);
    const int error = errno;
    dprintf(STDERR_FILENO, "urnic run: cannot run %s: %s\n", arguments[0], strerror(error));
    _exit(error == ENOENT ? kExitNotFound : kExitCannotExecute);
}

Discovery discovery_of(const RunOptions& options) {
    return options.mount ? Discovery::kMounts : Discovery::kPreload;
}

/// In the child, which has the parent's one thread alone.
void mount_or_exit(const std::filesystem::path& run_dir) {
    try {
        mount_rdma_tree(run_dir);
    } catch (const LaunchError& error) {
        dprintf(STDERR_FILENO, "urnic: %s\n", error.what());
        _exit(kExitOwnFailure);
    }
}

[[noreturn]] void run_standalone(const RunOptions& options) {
    // The parts are looked for before anything is started.
    if (!options.mount) (void)find_part(Part::kShim);
    (void)find_part(Part::kProvider);
    const bool is_infiniband = options.link_layer == "infiniband";
    if (is_infiniband && !options.faults.empty()) {
        throw LaunchError(
            "--faults goes with --link-layer ethernet alone: faults of InfiniBand's packets are not there "
            "yet; leave one of them out");
    }
    const SignalGate gate;
    int status = 0;
    {
        PrivateDaemon daemon(gate, {options.keep, is_infiniband, options.faults});
        set_program_environment(daemon.run_dir(), discovery_of(options));
        const Arguments arguments(options.command);
        const pid_t command = fork();
        if (command < 0) throw LaunchError(fmt::format("cannot start the command: {}", std::strerror(errno)));
        if (command == 0) {
            gate.restore_in_child();
            if (options.mount) mount_or_exit(daemon.run_dir());
            execute(arguments.get());
        }
        status = supervise(gate, command, [&](pid_t pid, int end) {
            if (pid == daemon.pid()) daemon.report_end(end);
        });
    }
    end_like(status);
}

}  // namespace

void run(const RunOptions& options) {
    if (options.standalone) run_standalone(options);
    const std::filesystem::path socket = control_socket(options.socket);
    check_daemon(socket);
    set_program_environment(socket.parent_path(), discovery_of(options));
    if (options.mount) mount_rdma_tree(socket.parent_path());
    execute(Arguments(options.command).get());
}

}  // namespace urnic::cli
