// `urnic view`.
#pragma once

#include <string>

#include "os/command_line.h"

namespace urnic::view {
class EventLog;
}

namespace urnic::cli {

class ViewCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit ViewCommand(const Command& app);
    ViewCommand(const ViewCommand&) = delete;
    ViewCommand& operator=(const ViewCommand&) = delete;

    [[nodiscard]] bool parsed() const { return view_.parsed(); }
    /// Throws LaunchError.
    void run() const;

  private:
    void read(view::EventLog& log) const;
    void read_capture(view::EventLog& log, std::istream& stream) const;

    Command view_;
    std::string file_;
    std::string page_;
    bool text_ = false;
};

}  // namespace urnic::cli
