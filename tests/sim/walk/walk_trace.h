// A file with the events of a walk, as `urnic trace` writes them (docs/trace-schema.json).
#pragma once

#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "observe/trace/engine_trace.h"

namespace urnic::sim {

class WalkTrace {
  public:
    /// Throws std::runtime_error when the file cannot be made.
    explicit WalkTrace(const std::string& path) : out_(path, std::ios::binary | std::ios::trunc) {
        if (!out_) {
            throw std::runtime_error("cannot write the trace " + path + ": " + std::strerror(errno));
        }
    }
    ~WalkTrace() {
        watcher_.settle();
        lines_.finish();
    }
    WalkTrace(const WalkTrace&) = delete;
    WalkTrace& operator=(const WalkTrace&) = delete;

    [[nodiscard]] QpWatcher& watcher() { return watcher_; }

  private:
    std::ofstream out_;
    trace::JsonLines lines_{out_, "host"};
    trace::PacketTrace events_{lines_, {}};
    trace::EngineTrace watcher_{events_};
};

}  // namespace urnic::sim
