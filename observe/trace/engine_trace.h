// From what hosts in virtual time do with their QPs to the events of a trace: simulators write the same as
// `urnic trace`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/trace/packet_trace.h"
#include "rnic/device/packet_fate.h"
#include "rnic/qp/captured_work.h"
#include "rnic/qp/qp_watcher.h"

namespace urnic::trace {

/// One of which it is not known yet whether it went before.
struct SentPacket {
    std::string device;  // of `packet`
    NotedPacket packet;
    const Counters* counters = nullptr;
    std::uint64_t retransmitted_before = 0;
};

class EngineTrace final : public QpWatcher {
  public:
    explicit EngineTrace(PacketTrace& events) : events_(events) {}

    void sent(TimeNs now, const std::string& host, const Packet& packet) override;
    void begin_receive(const Qp& qp, std::uint32_t held) override;
    void end_receive(TimeNs now, const std::string& host, const Packet& packet, std::uint32_t held) override;
    void completed(TimeNs now, const std::string& host, const Qp& qp, const Completion& completion) override;
    void timer_expired(TimeNs now, const std::string& host, const Qp& qp, const TimerExpiry& expiry) override;
    void progressed(TimeNs now, const std::string& host, const Qp& qp) override;
    /// Whether the packet that was sent last went before is known once its QP continues. To be called in the
    /// end.
    void settle();

  private:
    struct Taken {
        std::uint32_t sends = 0;
        std::uint32_t receives = 0;
        RateWatch rate;
    };
    void look_at(TimeNs now, const std::string& host, const Qp& qp);
    void look_at_srq(TimeNs now, const std::string& host, const Qp& qp, const SharedRecvQueue& srq);
    void note_receives(TimeNs now, const std::string& host, const Qp& qp, std::uint32_t begin,
                       std::uint32_t end);

    PacketTrace& events_;
    FateWatch fate_;
    std::optional<SentPacket> sent_;
    bool is_receiving_ = false;
    std::vector<std::pair<std::uint32_t, abi::CapturedCompletion>>
        completed_;  // by the packet that is received
    std::unordered_map<std::string, Taken> taken_;
    std::unordered_map<const SharedRecvQueue*, std::uint32_t> taken_of_srqs_;
};

}  // namespace urnic::trace
