// The live captures of the daemon (`urnic capture`, and QPs that its page shows): memory of their readers,
// and what those who write into it know of them.
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
    enum class For : std::uint8_t { kProgram, kPage };
    struct Capture {
        std::uint32_t id = 0;
        For reader = For::kProgram;
        Mapping memory;  // of a program: a part for each worker, and one for this thread
        std::shared_ptr<const void> page_memory;  // of a page, which reads it as well
        dataplane::PacketCapture packets;
    };

    /// Returns whether there are as many for such readers as there can be: none takes another's place.
    [[nodiscard]] bool is_full(For reader) const;
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
