// The live captures of the daemon (`urnic capture`): memory of their readers, and what those who write into
// it know of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/worker/capture_writer.h"
#include "os/mapping.h"

namespace urnic::daemon {

struct ControlState;

/// The control thread's own.
class ActiveCaptures {
  public:
    struct Capture {
        std::uint32_t id = 0;
        Mapping memory;  // a part for each worker, and one for this thread
        dataplane::PacketCapture packets;
    };

    [[nodiscard]] bool is_full() const { return captures_.size() >= dataplane::kMaxCaptures; }
    /// Begins it on every worker. Returns its number, never 0. Not while is_full().
    [[nodiscard]] std::uint32_t add(const ControlState& control, std::unique_ptr<Capture> capture);
    /// Ends it: afterwards no worker knows of it.
    void remove(const ControlState& control, std::uint32_t id);
    /// For packets that this thread itself sends and receives.
    [[nodiscard]] dataplane::CaptureWriter& writer() { return writer_; }

  private:
    void publish(const ControlState& control);

    std::vector<std::unique_ptr<Capture>> captures_;
    std::uint32_t last_id_ = 0;
    dataplane::CaptureWriter writer_{dataplane::kControlRing};
};

}  // namespace urnic::daemon
