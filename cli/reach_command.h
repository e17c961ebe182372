// What brings RNICs to programs that nobody starts with `urnic run`: `urnic enter`, `urnic systemd-dropin`,
// `urnic cdi`.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::cli {

class ReachCommand {
  public:
    /// Defines them in `app`, which this outlives.
    explicit ReachCommand(const Command& app);
    ReachCommand(const ReachCommand&) = delete;
    ReachCommand& operator=(const ReachCommand&) = delete;

    /// Returns whether the command line names one of them.
    [[nodiscard]] bool parsed() const { return enter_.parsed() || dropin_.parsed() || cdi_.parsed(); }
    /// Throws LaunchError.
    void run() const;

  private:
    void enter() const;
    void print_dropin() const;
    void print_cdi() const;

    Command enter_;
    Command dropin_;
    Command cdi_;
    std::string target_;
    std::string service_;
    std::string socket_;
};

}  // namespace urnic::cli
