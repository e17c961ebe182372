// `urnic port`.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::cli {

class PortCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit PortCommand(const Command& app);
    PortCommand(const PortCommand&) = delete;
    PortCommand& operator=(const PortCommand&) = delete;

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const { return port_.parsed(); }
    /// Asks the daemon. Throws LaunchError.
    void run() const;

  private:
    Command port_;
    std::string socket_;
    std::string device_;
    std::string state_;
};

}  // namespace urnic::cli
