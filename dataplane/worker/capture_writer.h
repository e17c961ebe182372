// Live captures (`urnic capture`) as one thread of the daemon writes them: which packets each chooses, and
// into its ring with them. No DPDK, so that the control thread's tests need no EAL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/capture.h"
#include "abi/queues.h"
#include "base/time.h"
#include "dataplane/worker/capture_ring_writer.h"
#include "rnic/device/packet_fate.h"
#include "rnic/qp/qp.h"
#include "rnic/wire/packet_view.h"

namespace urnic::dataplane {

/// The ring of the control thread, behind those of the workers.
inline constexpr std::uint32_t kControlRing = abi::kMaxWorkers;

/// One capture, as the control thread has made it. It does not change but for the rings, of which each
/// thread has its own, or none: a capture of one QP needs that of its worker alone.
struct PacketCapture {
    std::uint64_t rnics = 0;  // bit n: Device::index n
    std::uint32_t snap_bytes = 0;
    std::uint32_t filters = 0;     // abi::CaptureFilter
    bool has_completions = false;  // and what else is no packet
    std::uint32_t qpn = 0;
    std::uint8_t opcode = 0;
    wire::Gid peer{};
    std::array<CaptureRingWriter, abi::kMaxWorkers + 1> rings;
};

/// At once, of one daemon: of programs (`urnic capture`, `urnic trace`), and for viewers of its page.
inline constexpr std::size_t kMaxProgramCaptures = 4;
inline constexpr std::size_t kMaxPageCaptures = 4;
inline constexpr std::size_t kMaxCaptures = kMaxProgramCaptures + kMaxPageCaptures;
using PacketCaptures = std::array<PacketCapture*, kMaxCaptures>;  // nullptr: none

using urnic::Fate;

/// All captures of one thread.
class CaptureWriter {
  public:
    /// `ring`: which of each capture is the thread's.
    explicit CaptureWriter(std::uint32_t ring) : ring_(ring) {}

    /// From now on these, which the caller keeps until the next call of this function.
    void use(const PacketCaptures& captures);
    /// Returns whether one of them wants the packets of the device with that index.
    [[nodiscard]] bool is_capturing(std::uint32_t rnic) const { return (rnics_ >> rnic & 1U) != 0; }

    /// Returns whether one of them chooses packets by their other end.
    [[nodiscard]] bool asks_for_peers() const { return asks_for_peers_; }
    /// Returns whether one of them wants what is no packet, too.
    [[nodiscard]] bool is_tracing(std::uint32_t rnic) const { return (traced_rnics_ >> rnic & 1U) != 0; }

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
    /// By capture, of those that have chosen the packet and had room.
    struct Records {
        std::uint32_t places = 0;  // bit n: there is of[n]
        std::array<abi::CaptureRecord*, kMaxCaptures> of;
    };
    /// Readers see the records when publish() is called; until then their fate may change.
    void write(const Packet& packet, TimeNs time, bool is_sent, Fate fate, Records& records);
    /// The same of one whose fate is known.
    void write(const Packet& packet, TimeNs time, bool is_sent, Fate fate) {
        Records records;
        write(packet, time, is_sent, fate, records);
    }
    /// Something beside a packet, into the captures that asked for such.
    struct EventOf {
        std::uint32_t rnic = 0;
        std::uint32_t qpn = abi::kNoQp;
        TimeNs time = 0;
        std::uint8_t state = abi::kNoState;  // of the QP
    };
    void write(const EventOf& of, const abi::CapturedCompletion& shown) {
        write_event(abi::CaptureKind::kCompletion, of, bytes_of(shown));
    }
    void write(const EventOf& of, const abi::CapturedWqe& shown) {
        write_event(abi::CaptureKind::kWqe, of, bytes_of(shown));
    }
    void write(const EventOf& of, const abi::CapturedRate& shown) {
        write_event(abi::CaptureKind::kRate, of, bytes_of(shown));
    }
    void write(const EventOf& of, const abi::CapturedTimer& shown) {
        write_event(abi::CaptureKind::kTimer, of, bytes_of(shown));
    }
    void write(const EventOf& of, const abi::CapturedPause& shown) {
        write_event(abi::CaptureKind::kPause, of, bytes_of(shown));
    }
    void publish();

  private:
    /// What the records of one thing have in common.
    struct Content {
        abi::CaptureKind kind;
        std::uint32_t rnic;
        std::uint32_t qpn;
        TimeNs time;
        std::uint8_t state;
        std::uint32_t wire_bytes = 0;
        bool is_sent = false;
        Fate fate{};
        QpPsns psns{};
    };
    template <class Event>
    static std::span<const std::byte> bytes_of(const Event& event) {
        return std::as_bytes(std::span(&event, 1));
    }
    void write_event(abi::CaptureKind kind, const EventOf& of, std::span<const std::byte> bytes);
    /// To the capture in that place. Returns nullptr if there is no room, which is counted.
    abi::CaptureRecord* append(std::size_t place, const Content& content, std::span<const std::byte> bytes);

    std::uint32_t ring_;
    PacketCaptures captures_{};
    std::uint32_t places_ = 0;  // bit n: captures_[n] is one
    std::uint64_t rnics_ = 0;
    std::uint64_t traced_rnics_ = 0;
    bool asks_for_peers_ = false;
    std::array<std::array<std::uint32_t, abi::kCaptureRnics>, kMaxCaptures> lost_{};  // since the last record
};

}  // namespace urnic::dataplane
