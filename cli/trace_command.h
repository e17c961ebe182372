// `urnic trace`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/capture_session.h"
#include "os/command_line.h"

namespace urnic::trace {
class PacketTrace;
}

namespace urnic::cli {

class TraceCommand {
  public:
    /// Defines it in `app`, which this outlives.
    explicit TraceCommand(const Command& app);
    TraceCommand(const TraceCommand&) = delete;
    TraceCommand& operator=(const TraceCommand&) = delete;

    [[nodiscard]] bool parsed() const { return trace_.parsed(); }
    /// Traces until it is ended, or to the end of a capture file. Throws LaunchError.
    void run() const;

  private:
    struct Traced {
        std::uint64_t packets = 0;
        bool has_daemon_ended = false;
    };
    [[nodiscard]] CaptureOptions capture_options() const;
    [[nodiscard]] Traced trace_live(CaptureSession& session, trace::PacketTrace& events,
                                    std::ostream& out) const;
    [[nodiscard]] Traced trace_file(trace::PacketTrace& events) const;

    Command trace_;
    std::string file_;
    std::vector<std::string> targets_;
    std::string from_;
    std::string socket_;
    bool perfetto_ = false;
    std::uint64_t count_ = 0;
    std::uint32_t buffer_mb_ = 32;
};

}  // namespace urnic::cli
