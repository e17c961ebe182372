// A simulated host whose frames go to a script and nowhere else.
#pragma once

#include <deque>
#include <string>

#include "tests/sim/scripts/script_packet.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_network.h"

namespace urnic::sim {

/// A frame that the host put on the wire and that the script has not asked for yet.
struct SeenFrame {
    TimeNs time = 0;
    FrameBytes bytes;
};

class ScriptHost final : public SimHost {
  public:
    ScriptHost(SimNetwork& network, const std::string& name, std::uint32_t qp_num, const Options& options)
        : SimHost(network, name, qp_num, options), clock_(network) {}

    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override {
        if (!keep_frames) {
            return true;
        }
        FrameBytes frame(wire::kMaxFrameBytes);
        const std::size_t length = wire::build_frame(path, header, pieces, frame);
        if (length == 0) {
            return false;
        }
        frame.resize(length);
        seen.push_back({clock_.now(), std::move(frame)});
        last_path = path;
        return true;
    }

    std::deque<SeenFrame> seen;
    bool keep_frames = true;  // false: what goes out is neither built nor seen
    wire::Path last_path;

  private:
    const SimNetwork& clock_;
};

}  // namespace urnic::sim
