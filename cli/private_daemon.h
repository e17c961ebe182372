// The daemon that `urnic run --standalone` starts for one command.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "cli/supervisor.h"

namespace urnic::cli {

struct PrivateDaemonOptions {
    bool keep_run_dir = false;
    bool is_infiniband = false;  // the link layer of its RNICs
    std::string faults_file;     // injected from the start; empty: none
    std::string rnics;           // [[rnic]] tables of its configuration; empty: the two of --standalone
};

class PrivateDaemon {
  public:
    /// Makes a run directory that only this user can enter and starts `urnicd --standalone` in it; returns
    /// when the daemon serves. Throws LaunchError with the daemon's own words when it does not come up.
    PrivateDaemon(const SignalGate& gate, PrivateDaemonOptions options);
    PrivateDaemon(const PrivateDaemon&) = delete;
    PrivateDaemon& operator=(const PrivateDaemon&) = delete;
    /// Ends the daemon and removes the directory.
    ~PrivateDaemon();

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const std::filesystem::path& run_dir() const { return run_dir_; }
    /// Tells the user, on stderr, that the daemon ended by itself. The supervisor reaped it.
    void report_end(int wait_status);

  private:
    void spawn(const std::filesystem::path& program, int ready_fd);
    void wait_until_ready(int ready_fd);
    void clean_up();
    [[nodiscard]] std::string log_tail() const;

    const SignalGate& gate_;
    PrivateDaemonOptions options_;
    std::filesystem::path run_dir_;
    pid_t pid_ = -1;
};

}  // namespace urnic::cli
