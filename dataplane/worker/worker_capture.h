// Live captures (`urnic capture`) on one worker: what became of its packets.
#pragma once

#include <cstdint>

#include "abi/capture.h"
#include "dataplane/worker/capture_writer.h"
#include "dataplane/worker/qp_slot.h"
#include "dataplane/worker/tsc_clock.h"
#include "rnic/device/counters.h"
#include "rnic/device/packet_fate.h"
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

    /// Returns whether the other end of packets is asked for: without, Packet::peer may be nullptr.
    [[nodiscard]] bool asks_for_peers() const { return writer_.asks_for_peers(); }

    using Packet = CaptureWriter::Packet;
    /// Around the handling of a frame received at `now`. `counters`: the device's on this worker; `held`:
    /// references to the frame. What has changed between the two tells what became of the frame.
    void begin_receive(TimeNs now, const Counters& counters, std::uint32_t held);
    void end_receive(const Packet& packet, const Counters& counters, std::uint32_t held);
    /// A frame goes out. Whether it was sent before is known once the QP continues: the record is
    /// published by the next call of any of these. `now`: the time, if the clock has just been read; 0:
    /// it has not.
    void sent(const Packet& packet, const Counters& counters, TimeNs now = 0);
    /// Tells of the WQEs that have left the queues of that device's QP since the last call, and were not
    /// flushed, and of a change of its rate. To be called behind each turn of it, and before it is told of
    /// what follows from a WQE. Returns the time, if it has read the clock; otherwise 0.
    TimeNs look_at(std::uint32_t rnic, QpSlot& slot);
    /// Only what leaves them from now on counts.
    static void begin_look(QpSlot& slot);
    /// A completion was written to a CQ.
    void completed(std::uint32_t rnic, const Qp& qp, const Completion& completion);
    /// A timer of the QP expired.
    void timer_expired(std::uint32_t rnic, const Qp& qp, const TimerExpiry& expiry);
    /// Priorities of the device's port were paused or resumed (PFC), by the other end of its link or, with
    /// `is_sent`, by itself.
    void paused(std::uint32_t rnic, std::uint8_t paused, std::uint8_t resumed, bool is_sent);
    /// Publishes what is not published yet. To be called in each round.
    void settle() {
        if (pending_counters_ != nullptr) {
            publish_pending();
        }
    }

  private:
    void publish_pending();
    template <class Content>
    void write(const CaptureWriter::EventOf& of, const Content& content);
    [[nodiscard]] TimeNs event_time() { return is_receiving_ ? received_at_ : clock_.now(); }
    [[nodiscard]] bool has_new_wqes(const QpSlot& slot) const;
    void note_rate(std::uint32_t rnic, QpSlot& slot);
    void note_sends(std::uint32_t rnic, const QpSlot& slot, TimeNs time);
    void note_receives(std::uint32_t rnic, const QpSlot& slot, TimeNs time);

    CaptureWriter writer_;
    TscClock& clock_;
    FateWatch fate_;  // of the packet that is received
    TimeNs received_at_ = 0;
    TimeNs last_at_ = 0;         // of what was written, but for received packets
    bool is_receiving_ = false;  // between begin_receive() and end_receive()
    // What was sent last, until its fate is known.
    CaptureWriter::Records pending_;
    const Counters* pending_counters_ = nullptr;
    std::uint64_t retransmitted_before_ = 0;
};

}  // namespace urnic::dataplane
