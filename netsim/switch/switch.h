// A shared-memory switch, pure: egress queues for each priority, one buffer for all, ECN marks by queue
// length, and priority flow control. Frames, topology and time are the caller's.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/fraction.h"
#include "netsim/switch/egress_port.h"
#include "netsim/switch/switched_packet.h"

namespace urnic::netsim {

/// The congestion point (Zhu et al. 2015, section 3.1): the chance of a mark by the bytes that wait in the
/// egress queue when a packet leaves it, as switches and the authors' simulator do it (Zhu et al. 2016).
struct EcnOptions {
    std::uint64_t kmin_bytes = 0;  // no mark up to here
    std::uint64_t kmax_bytes = 0;  // every packet from here on; 0: marks nothing at all
    Fraction pmax;                 // just below kmax

    [[nodiscard]] Fraction chance(std::uint64_t queue_bytes) const;
};

struct PfcOptions {
    std::uint8_t lossless = 0;  // bit n: priority n is not dropped, its senders are paused
    std::uint64_t xoff_bytes =
        0;  // of one port and priority in the buffer, from where on its sender is paused
    std::uint64_t xon_bytes = 0;  // down to where it stays so
    std::uint64_t headroom_bytes =
        0;  // for each port and priority, for what is on its way when the pause goes out
    /// A priority that a neighbour keeps paused this long with packets waiting gets rid of them; 0: waits for
    /// ever.
    TimeNs watchdog_ns = 0;
};

struct SwitchOptions {
    std::vector<EgressPort::Options> ports;
    std::uint64_t buffer_bytes = 0;  // shared by all, without headroom
    std::uint64_t queue_bytes =
        ~0ULL;  // the most that one egress queue of a priority that may be dropped takes
    std::array<EcnOptions, kPriorities> ecn{};
    PfcOptions pfc;
    std::uint64_t seed = 1;  // of the marks
};

struct SwitchPortCounters {
    std::uint64_t tx_packets = 0;
    std::uint64_t tx_bytes = 0;
    std::uint64_t marked = 0;   // of these, here or by a switch before
    std::uint64_t dropped = 0;  // bound for this port
    std::uint64_t watchdog_dropped = 0;
    std::uint64_t watchdog_trips = 0;
    std::uint64_t pauses_sent = 0;  // without those that end one
    std::uint64_t pauses_received = 0;
    std::uint64_t most_bytes = 0;  // that waited at once, in all its queues
    std::uint64_t marks_made = 0;  // of `marked`, those that came without
};

class Switch {
  public:
    Switch(const SwitchOptions& options, SwitchOutbox& outbox);

    /// A packet came whole by `ingress` and leaves by `egress`. Ports that do not exist and priorities above
    /// 7 are the caller's mistake and drop it.
    void receive(TimeNs now, PortIndex ingress, PortIndex egress, SwitchedPacket& packet);
    /// A pause frame came by `port`.
    void receive_pause(TimeNs now, PortIndex port, std::uint8_t priority, std::uint16_t quanta);
    /// To be called at deadline(), at once when that has passed.
    void on_timer(TimeNs now);
    [[nodiscard]] TimeNs deadline() const;
    /// The same for one port, for who keeps a timer for each: it is to be set anew after receive() at both
    /// its ports, after receive_pause(), after on_timer(), and after each call of SwitchOutbox::pause().
    void on_timer(TimeNs now, PortIndex port);
    [[nodiscard]] TimeNs deadline(PortIndex port) const;

    [[nodiscard]] const SwitchPortCounters& counters(PortIndex port) const { return ports_[port].counters; }
    [[nodiscard]] std::uint64_t queue_bytes(PortIndex port, std::uint8_t priority) const {
        return ports_[port].egress.bytes(priority);
    }
    [[nodiscard]] const EgressPort& egress(PortIndex port) const { return ports_[port].egress; }
    /// Returns whether the neighbour at `port` was told to stop.
    [[nodiscard]] bool is_pausing(PortIndex port, std::uint8_t priority) const {
        return ports_[port].ingress[priority].paused;
    }
    /// In the shared buffer; in headroom.
    [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
    [[nodiscard]] std::uint64_t headroom_used_bytes() const { return headroom_used_bytes_; }

  private:
    // What came by one port at one priority and is still here.
    struct Ingress {
        std::uint64_t bytes = 0;
        std::uint64_t headroom_bytes = 0;
        bool paused = false;    // its sender was told to stop,
        TimeNs refresh_at = 0;  // and will be again then
    };
    struct Port {
        explicit Port(const EgressPort::Options& options) : egress(options) {}
        EgressPort egress;
        std::array<Ingress, kPriorities> ingress{};
        SwitchPortCounters counters;
        std::uint64_t waiting_bytes = 0;
    };

    [[nodiscard]] bool is_lossless(std::uint32_t priority) const {
        return ((options_.pfc.lossless >> priority) & 1U) != 0;
    }
    [[nodiscard]] bool admit(const Port& out, SwitchedPacket& packet);
    void mark(Port& out, SwitchedPacket& packet);
    void leave(Port& out, const SwitchedPacket& packet);
    void send(TimeNs now, PortIndex index);
    void send_pause(TimeNs now, PortIndex index, std::uint8_t priority);
    void watch(TimeNs now, Port& port);
    [[nodiscard]] TimeNs watchdog_at(const Port& port, std::uint8_t priority) const;
    [[nodiscard]] std::uint32_t random24();

    SwitchOptions options_;
    SwitchOutbox& outbox_;
    std::vector<Port> ports_;
    std::uint64_t used_bytes_ = 0;
    std::uint64_t headroom_used_bytes_ = 0;
    std::uint64_t random_state_;
};

}  // namespace urnic::netsim
