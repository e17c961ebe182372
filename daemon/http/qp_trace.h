// One QP as its page shows it: its newest events, from a ring that a worker writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/http/running_trace.h"
#include "observe/trace/packet_trace.h"
#include "observe/trace/ring_records.h"
#include "observe/view/event_log.h"
#include "rnic/device/capture_ring_reader.h"

namespace urnic::daemon {

/// On the thread of HTTP. What it keeps is bounded: a worker loses what has no room in the ring, and old
/// events go for new ones.
class QpTrace {
  public:
    static constexpr std::size_t kMostEvents = 20'000;

    explicit QpTrace(const RunningTrace& running);

    /// Takes what is in the ring.
    void read();
    /// JSON: {"first", "next", "lost", "gone", "data"}: running numbers of the first event that is shown and
    /// of the next one to come, what had no room in the ring, whether the QP is gone, and what
    /// view::write_data() writes.
    [[nodiscard]] std::string text(bool is_gone) const;

  private:
    void begin_anew();
    [[nodiscard]] std::string shortfall() const;

    std::shared_ptr<const Memfd> memory_;
    CaptureRingReader ring_;
    trace::RecordSource source_;
    std::string name_;
    std::uint16_t rnic_;
    TimeNs began_ns_;
    // Of what came without a gap.
    std::unique_ptr<view::EventLog> log_;
    std::unique_ptr<view::LogOutput> output_;
    std::optional<trace::PacketTrace> events_;
    std::uint64_t before_ = 0;  // events in front of those that it has had
};

}  // namespace urnic::daemon
