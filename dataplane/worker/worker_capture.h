// Live captures (`urnic capture`) on one worker: what became of its packets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "abi/capture.h"
#include "dataplane/worker/capture_writer.h"
#include "dataplane/worker/tsc_clock.h"
#include "rnic/device/counters.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

/// The other end of a path; without a GRH that of its LID.
[[nodiscard]] wire::Gid peer_of(const wire::Path& path);

/// All of one worker. Its RxPath and WorkerOutbox have a pointer to it while a capture wants the device's
/// packets.
class WorkerCapture {
  public:
    WorkerCapture(std::uint32_t worker, TscClock& clock) : writer_(worker), clock_(clock) {}

    /// From now on these, which the caller keeps until the next call of this function.
    void use(const PacketCaptures& captures);
    /// Returns whether one of them wants the packets of the device with that index.
    [[nodiscard]] bool is_capturing(std::uint32_t rnic) const { return writer_.is_capturing(rnic); }

    using Packet = CaptureWriter::Packet;
    /// Around the handling of a received frame. `counters`: the device's on this worker; `held`: references
    /// to the frame. What has changed between the two tells what became of the frame.
    void begin_receive(const Counters& counters, std::uint32_t held);
    void end_receive(const Packet& packet, const Counters& counters, std::uint32_t held);
    /// A frame goes out. Whether it was sent before is known once the QP continues: the record is
    /// published by the next call of any of these.
    void sent(const Packet& packet, const Counters& counters);
    /// A completion was written to a CQ.
    void completed(std::uint32_t rnic, const Completion& completion);
    /// Publishes what is not published yet. To be called in each round.
    void settle() {
        if (pending_counters_ != nullptr) {
            publish_pending();
        }
    }

  private:
    static constexpr std::size_t kDrops = std::size(abi::kPacketDrops) - abi::kMadDrops;
    struct Seen {
        std::array<std::uint64_t, kDrops> drops{};
        std::uint64_t duplicate = 0;
        std::uint64_t early = 0;
        std::uint64_t no_receive = 0;
        std::uint64_t refused = 0;
        std::uint32_t held = 0;
    };
    static void look(const Counters& counters, std::uint32_t held, Seen& seen);
    [[nodiscard]] static Fate fate_between(const Seen& before, const Seen& after);
    void publish_pending();

    CaptureWriter writer_;
    TscClock& clock_;
    Seen before_;
    TimeNs received_at_ = 0;
    bool is_receiving_ = false;  // between begin_receive() and end_receive()
    // What was sent last, until its fate is known.
    CaptureWriter::Records pending_{};
    const Counters* pending_counters_ = nullptr;
    std::uint64_t retransmitted_before_ = 0;
};

}  // namespace urnic::dataplane
