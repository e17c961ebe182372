#include "cli/private_daemon.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/launch_error.h"
#include "cli/layout.h"
#include "cli/private_run_dir.h"
#include "cli/start_hint.h"

namespace urnic::cli {
namespace fs = std::filesystem;

namespace {

constexpr int kStopGraceMs = 10'000;
constexpr int kReadyFd = 3;
constexpr const char* kLogName = "urnicd.log";
constexpr const char* kConfigName = "urnicd.toml";

std::string describe_end(int wait_status) {
    if (WIFSIGNALED(wait_status)) {
        return fmt::format("was killed by signal {} ({})", WTERMSIG(wait_status),
                           strsignal(WTERMSIG(wait_status)));
    }
    return fmt::format("ended with exit status {}", WEXITSTATUS(wait_status));
}

/// In the child: nothing but async-signal-safe calls.
[[noreturn]] void become_daemon(const SignalGate& gate, pid_t parent, const char* log, int ready_fd,
                                char* const* arguments) {
    // A session of its own: a key on the caller's terminal must not end the device under the command.
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kExitOwnFailure);
    const int in = open("/dev/null", O_RDONLY);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (in < 0 || out < 0) _exit(kExitOwnFailure);
    // First the ready descriptor: dup2 onto 0..3 may land on it.
    const int ready = fcntl(ready_fd, F_DUPFD, 16);
    const int log_fd = fcntl(out, F_DUPFD, 16);
    const int null_fd = fcntl(in, F_DUPFD, 16);
    dup2(null_fd, STDIN_FILENO);
    dup2(log_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    dup2(ready, kReadyFd);
    // The caller's pipes must not stay open as long as the daemon lives.
    syscall(SYS_close_range, kReadyFd + 1, ~0U, 0);
    gate.restore_in_child();
    execv(arguments[0], arguments);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", arguments[0], strerror(errno));
    _exit(kExitCannotExecute);
}

}  // namespace

PrivateDaemon::PrivateDaemon(const SignalGate& gate, PrivateDaemonOptions options)
    : gate_(gate), options_(std::move(options)) {
    const fs::path program = find_part(Part::kDaemon);
    std::string tried;
    run_dir_ = make_run_dir(options_.is_infiniband, tried);
    if (run_dir_.empty()) {
        throw LaunchError(fmt::format("cannot make a run directory ({}): {}", tried, kRunDirHint));
    }
    try {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) throw LaunchError(fmt::format("pipe: {}", std::strerror(errno)));
        const UniqueFd ready(ends[0]);
        UniqueFd daemons_end(ends[1]);
        spawn(program, daemons_end.get());
        daemons_end.reset();
        wait_until_ready(ready.get());
    } catch (...) {
        clean_up();
        throw;
    }
}

PrivateDaemon::~PrivateDaemon() { clean_up(); }

void PrivateDaemon::spawn(const fs::path& program, int ready_fd) {
    std::vector<std::string> words = {program.string(),  "--standalone", "--run-dir",
                                      run_dir_.string(), "--ready-fd",   std::to_string(kReadyFd)};
    if (!options_.rnics.empty()) {
        const fs::path file = run_dir_ / kConfigName;
        std::ofstream(file) << "[daemon]\nrun_dir = " << nlohmann::json(run_dir_.string()).dump()
                            << "\nworkers = 1\nhugepages = false\n"
                            << options_.rnics;
        words = {program.string(), "--config", file.string(), "--ready-fd", std::to_string(kReadyFd)};
    }
    if (options_.is_infiniband) words.insert(words.end(), {"--link-layer", "infiniband"});
    if (!options_.faults_file.empty()) words.insert(words.end(), {"--faults", options_.faults_file});
    const Arguments arguments(std::move(words));
    const std::string log = (run_dir_ / kLogName).string();
    const pid_t self = getpid();
    pid_ = fork();
    if (pid_ < 0) throw LaunchError(fmt::format("cannot start urnicd: {}", std::strerror(errno)));
    if (pid_ == 0) become_daemon(gate_, self, log.c_str(), ready_fd, arguments.get());
}

void PrivateDaemon::wait_until_ready(int ready_fd) {
    for (;;) {
        pollfd waiting[2] = {{ready_fd, POLLIN, 0}, {gate_.fd(), POLLIN, 0}};
        if (poll(waiting, 2, -1) < 0) continue;
        if (waiting[0].revents != 0) break;
        const std::optional<signalfd_siginfo> signal = gate_.next(0);
        // Before there is a command to send them to, the signals that end a program end this one.
        if (signal && (signal->ssi_signo == SIGINT || signal->ssi_signo == SIGTERM ||
                       signal->ssi_signo == SIGHUP || signal->ssi_signo == SIGQUIT)) {
            clean_up();
            end_like(static_cast<int>(signal->ssi_signo));
        }
    }
    char byte = 0;
    if (read(ready_fd, &byte, 1) == 1) return;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    const std::string said = log_tail();
    const std::string hint = start_hint(said);
    throw LaunchError(fmt::format("urnicd{} did not come up: it {}\n{}{}{}",
                                  options_.rnics.empty() ? " --standalone" : "", describe_end(status), said,
                                  said.empty() || hint.empty() ? "" : "\n", hint));
}

std::string PrivateDaemon::log_tail() const {
    constexpr std::size_t kMostBytes = 4096;
    std::ifstream file(run_dir_ / kLogName);
    std::stringstream all;
    all << file.rdbuf();
    std::string text = all.str();
    if (text.size() > kMostBytes) text.erase(0, text.size() - kMostBytes);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
}

void PrivateDaemon::report_end(int wait_status) {
    pid_ = -1;
    const std::string said = log_tail();
    fmt::print(
        stderr,
        "urnic run: urnicd {} while the command was running; its RNICs are gone. Its last words:\n{}\n",
        describe_end(wait_status), said.empty() ? "(it left no message)" : said);
}

void PrivateDaemon::clean_up() {
    if (pid_ > 0) end_child(gate_, pid_, kStopGraceMs);
    pid_ = -1;
    if (run_dir_.empty()) return;
    if (options_.keep_run_dir) {
        fmt::print(stderr, "urnic run: the run directory {} is kept; the daemon's log is {}/{}\n",
                   run_dir_.string(), run_dir_.string(), kLogName);
    } else {
        std::error_code ignored;
        fs::remove_all(run_dir_, ignored);
    }
    run_dir_.clear();
}

}  // namespace urnic::cli
