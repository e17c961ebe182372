// `urnic doctor`.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::cli {

class DoctorCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit DoctorCommand(const Command& app);
    DoctorCommand(const DoctorCommand&) = delete;
    DoctorCommand& operator=(const DoctorCommand&) = delete;

    /// Returns whether the command line names it.
    [[nodiscard]] bool parsed() const { return doctor_.parsed(); }
    /// Prints. Returns the exit status: 0 if programs can use an RNIC here. `version`: of this program.
    [[nodiscard]] int run(const std::string& version) const;

  private:
    Command doctor_;
    bool json_ = false;
};

}  // namespace urnic::cli
