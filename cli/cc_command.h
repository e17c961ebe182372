// `urnic cc`.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "cli/cc_trace.h"

namespace urnic::cli {

class CcCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit CcCommand(CLI::App& app);
    CcCommand(const CcCommand&) = delete;
    CcCommand& operator=(const CcCommand&) = delete;

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const { return cc_->parsed(); }
    /// Asks the daemon. Throws LaunchError.
    void run() const;

  private:
    CLI::App* cc_;
    CLI::App* show_;
    CLI::App* set_;
    CLI::App* trace_;
    std::string socket_;
    bool json_ = false;
    std::string target_;
    std::vector<std::string> values_;
    TraceOptions tracing_;
};

}  // namespace urnic::cli
