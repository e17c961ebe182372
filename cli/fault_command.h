// `urnic fault`.
#pragma once

#include <memory>

#include "os/command_line.h"

namespace urnic::cli {

/// The subcommand and its own subcommands.
class FaultCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit FaultCommand(const Command& app);
    FaultCommand(const FaultCommand&) = delete;
    FaultCommand& operator=(const FaultCommand&) = delete;
    ~FaultCommand();

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const;
    /// Asks the daemon. Throws LaunchError.
    void run() const;

  private:
    struct Definition;
    std::unique_ptr<Definition> definition_;
};

}  // namespace urnic::cli
