// The live captures of the daemon (`urnic capture`): memory of their readers, and what workers know of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dataplane/worker/packet_capture.h"
#include "os/mapping.h"

namespace urnic::daemon {

struct ControlState;

/// The control thread's own.
class ActiveCaptures {
  public:
    struct Capture {
        std::uint32_t id = 0;
        Mapping memory;  // a part for each worker
        dataplane::PacketCapture packets;
    };

    [[nodiscard]] bool is_full() const { return captures_.size() >= dataplane::kMaxCaptures; }
    /// Begins it on every worker. Returns its number, never 0. Not while is_full().
    [[nodiscard]] std::uint32_t add(const ControlState& control, std::unique_ptr<Capture> capture);
    /// Ends it: afterwards no worker knows of it.
    void remove(const ControlState& control, std::uint32_t id);

  private:
    void publish(const ControlState& control) const;

    std::vector<std::unique_ptr<Capture>> captures_;
    std::uint32_t last_id_ = 0;
};

}  // namespace urnic::daemon
