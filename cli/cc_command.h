// `urnic cc`.
#pragma once

#include <string>
#include <vector>

#include "cli/cc_trace.h"
#include "os/command_line.h"

namespace urnic::cli {

class CcCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit CcCommand(const Command& app);
    CcCommand(const CcCommand&) = delete;
    CcCommand& operator=(const CcCommand&) = delete;

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const { return cc_.parsed(); }
    /// Asks the daemon. Throws LaunchError.
    void run() const;

  private:
    Command cc_;
    Command show_;
    Command set_;
    Command trace_;
    std::string socket_;
    bool json_ = false;
    std::string target_;
    std::vector<std::string> values_;
    TraceOptions tracing_;
};

}  // namespace urnic::cli
