// What the tester stands on, so that its engine reads no clock and makes no system call: a port for single
// frames, and the agent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "conform/case/bench.h"

namespace urnic::conform {

class WirePort {
  public:
    virtual ~WirePort() = default;
    /// Puts one whole Ethernet frame on the wire; the time just before.
    virtual TimeNs send(std::span<const std::byte> frame) = 0;
    /// The same for some frames with nothing between them; the time before the first. What comes next waits
    /// for as long as they would have taken one by one.
    virtual TimeNs send_together(const std::vector<FrameBytes>& frames) = 0;
    /// The next frame from the wire; nothing came until `until`. A time that has passed means: what is here
    /// already.
    [[nodiscard]] virtual std::optional<SeenFrame> receive(TimeNs until) = 0;
    [[nodiscard]] virtual TimeNs now() const = 0;
    /// Frames that the port lost since it was opened.
    [[nodiscard]] virtual std::uint64_t lost() = 0;
};

class AgentChannel {
  public:
    virtual ~AgentChannel() = default;
    /// Sends one line without its end, and returns the answer's. Throws BenchFailed when there is none in
    /// time.
    virtual std::string call(const std::string& line) = 0;
};

}  // namespace urnic::conform
