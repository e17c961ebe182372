// From the rings of a capture to a pcapng file, until somebody ends it.
#pragma once

#include <cstdint>
#include <string>

#include "cli/capture_file.h"
#include "cli/capture_session.h"

namespace urnic::cli {

/// SIGINT and SIGTERM end a capture in good order, and a broken pipe is an error of write(). One object at a
/// time, made before the capture begins.
class StopSignals {
  public:
    StopSignals();
    ~StopSignals();
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;
    [[nodiscard]] static bool has_come();
};

/// What a pcapng file of this capture begins with.
[[nodiscard]] std::string capture_head(const CaptureSession& session, const CaptureOptions& options);

/// Copies until a signal, `most` packets (0: no limit), the end of the daemon or of the file's reader. Says
/// on stderr what was captured and lost. Throws LaunchError when the file cannot be written or the daemon has
/// ended.
void run_capture(CaptureSession& session, CaptureFile& file, std::uint64_t most);

}  // namespace urnic::cli
