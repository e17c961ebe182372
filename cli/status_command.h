// `urnic status`.
#pragma once

#include <memory>

#include "os/command_line.h"

namespace urnic::cli {

class StatusCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit StatusCommand(const Command& app);
    StatusCommand(const StatusCommand&) = delete;
    StatusCommand& operator=(const StatusCommand&) = delete;
    ~StatusCommand();

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const;
    /// Prints what the daemon answers, once or until it is ended. Throws LaunchError.
    void run() const;

  private:
    struct Definition;
    std::unique_ptr<Definition> definition_;
};

}  // namespace urnic::cli
