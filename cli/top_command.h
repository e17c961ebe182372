// `urnic top`.
#pragma once

#include <memory>

#include "os/command_line.h"

namespace urnic::cli {

class TopCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit TopCommand(const Command& app);
    TopCommand(const TopCommand&) = delete;
    TopCommand& operator=(const TopCommand&) = delete;
    ~TopCommand();

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const;
    /// Until somebody quits. Throws LaunchError, with the terminal as it was, when the daemon ends.
    void run() const;

  private:
    struct Definition;
    std::unique_ptr<Definition> definition_;
};

}  // namespace urnic::cli
