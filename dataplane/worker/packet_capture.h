// Live captures (`urnic capture`) on one worker: which packets they choose, what became of them, and into
// the rings with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "abi/capture.h"
#include "abi/queues.h"
#include "dataplane/worker/capture_ring.h"
#include "dataplane/worker/tsc_clock.h"
#include "rnic/device/counters.h"
#include "rnic/qp/qp.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

/// One capture, as the control thread has made it. It does not change but for the rings, of which each
/// worker has its own.
struct PacketCapture {
    std::uint64_t rnics = 0;  // bit n: Device::index n
    std::uint32_t snap_bytes = 0;
    std::uint32_t filters = 0;  // abi::CaptureFilter
    std::uint32_t qpn = 0;
    std::uint8_t opcode = 0;
    wire::Gid peer{};
    std::array<CaptureRingWriter, abi::kMaxWorkers> rings;
};

/// At once, of one daemon.
inline constexpr std::size_t kMaxCaptures = 4;
using PacketCaptures = std::array<PacketCapture*, kMaxCaptures>;  // nullptr: none

/// The other end of a path; without a GRH that of its LID.
[[nodiscard]] wire::Gid peer_of(const wire::Path& path);

/// All of one worker. Its RxPath and WorkerOutbox have a pointer to it while a capture wants the device's
/// packets.
class WorkerCapture {
  public:
    WorkerCapture(std::uint32_t worker, TscClock& clock) : worker_(worker), clock_(clock) {}

    /// From now on these, which the caller keeps until the next call of this function.
    void use(const PacketCaptures& captures);
    /// Returns whether one of them wants the packets of the device with that index.
    [[nodiscard]] bool wants(std::uint32_t rnic) const { return (rnics_ >> rnic & 1U) != 0; }

    /// A packet, as a record has it. Every pointer may be nullptr: it is not known, or there is none.
    struct Packet {
        std::uint32_t rnic = 0;
        std::span<const std::byte> bytes;
        std::uint32_t wire_bytes = 0;
        const wire::PacketHeader* header = nullptr;
        const wire::Gid* peer = nullptr;
        std::uint32_t qpn = abi::kNoQp;  // of this end
        const Qp* qp = nullptr;
    };
    /// Around the handling of a received frame. `counters`: the device's on this worker; `held`: references
    /// to the frame. What has changed between the two tells what became of the frame.
    void begin_receive(const Counters& counters, std::uint32_t held);
    void end_receive(const Packet& packet, const Counters& counters, std::uint32_t held);
    /// A frame goes out. Whether it was sent before is known once the QP has gone on: the record is
    /// published by the next call of any of these.
    void sent(const Packet& packet, const Counters& counters);
    /// Publishes what is not published yet. To be called in each round.
    void settle() {
        if (pending_counters_ != nullptr) {
            publish_pending();
        }
    }

  private:
    struct Fate {
        abi::PacketFate fate = abi::PacketFate::kDelivered;
        std::uint8_t drop = 0;
    };
    static constexpr std::size_t kDrops = std::size(abi::kPacketDrops);
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
    [[nodiscard]] static bool is_chosen(const PacketCapture& capture, const Packet& packet);
    void record(const Packet& packet, TimeNs time, bool is_sent, Fate fate);
    void publish_pending();
    void publish();

    std::uint32_t worker_;
    TscClock& clock_;
    PacketCaptures captures_{};
    std::uint64_t rnics_ = 0;
    std::array<std::array<std::uint32_t, abi::kCaptureRnics>, kMaxCaptures> lost_{};  // since the last record
    Seen before_;
    TimeNs received_at_ = 0;
    bool is_receiving_ = false;  // between begin_receive() and end_receive()
    // What was sent last, until its fate is known.
    std::array<abi::CaptureRecord*, kMaxCaptures> pending_{};
    const Counters* pending_counters_ = nullptr;
    std::uint64_t retransmitted_before_ = 0;
};

}  // namespace urnic::dataplane
