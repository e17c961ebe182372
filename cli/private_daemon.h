// The daemon that `urnic run --standalone` starts for one command.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "cli/supervisor.h"

namespace urnic::cli {

class PrivateDaemon {
  public:
    /// Makes a run directory that only this user can enter and starts `urnicd --standalone` in it; returns
    /// when the daemon serves. Throws LaunchError with the daemon's own words when it does not come up.
    /// `faults_file`: injected from the start; empty: none.
    PrivateDaemon(const SignalGate& gate, bool keep_run_dir, const std::string& faults_file);
    PrivateDaemon(const PrivateDaemon&) = delete;
    PrivateDaemon& operator=(const PrivateDaemon&) = delete;
    /// Ends the daemon and removes the directory.
    ~PrivateDaemon();

    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] const std::filesystem::path& run_dir() const { return run_dir_; }
    /// Tells the user, on stderr, that the daemon ended by itself. The supervisor reaped it.
    void report_end(int wait_status);

  private:
    void spawn(const std::filesystem::path& program, const std::string& faults_file, int ready_fd);
    void wait_until_ready(int ready_fd);
    void clean_up();
    [[nodiscard]] std::string log_tail() const;

    const SignalGate& gate_;
    bool keep_run_dir_;
    std::filesystem::path run_dir_;
    pid_t pid_ = -1;
};

}  // namespace urnic::cli
