// `urnic completion`.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::cli {

class CompletionCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit CompletionCommand(const Command& app);
    CompletionCommand(const CompletionCommand&) = delete;
    CompletionCommand& operator=(const CompletionCommand&) = delete;

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const { return completion_.parsed(); }
    void run() const;

  private:
    Command app_;
    Command completion_;
    std::string shell_;
};

}  // namespace urnic::cli
