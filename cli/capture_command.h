// `urnic capture`.
#pragma once

#include <cstdint>
#include <string>

#include "cli/capture_session.h"
#include "os/command_line.h"

namespace urnic::cli {

class CaptureCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit CaptureCommand(const Command& app);
    CaptureCommand(const CaptureCommand&) = delete;
    CaptureCommand& operator=(const CaptureCommand&) = delete;

    [[nodiscard]] bool parsed() const { return capture_.parsed(); }
    /// Captures until it is ended. Throws LaunchError.
    void run();

  private:
    Command capture_;
    CaptureOptions options_;
    std::string socket_;
    std::string file_;
    std::string filter_;
    std::string ring_;
    std::uint32_t buffer_mb_ = 32;
    std::uint64_t count_ = 0;
};

}  // namespace urnic::cli
