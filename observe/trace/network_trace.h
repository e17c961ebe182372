// From what is seen of the ports of a network in virtual time to the events of a trace: queues, marks, drops,
// pauses and waits for credit; and what the network is, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "observe/trace/engine_trace.h"
#include "observe/trace/trace_output.h"

namespace urnic::trace {

/// A port of a switch or of a host, and its link.
struct NetworkPort {
    std::string name;  // "s1>h3": no other has it
    std::string node;
    bool is_host = false;
    std::string neighbour;
    bool is_infiniband = false;
    std::uint64_t bits_per_s = 0;
    TimeNs delay_ns = 0;
};

/// Where the packets of a QP go.
struct NetworkPath {
    std::string qp;    // "h1/0x11"
    std::string peer;  // the QP at the other end
    std::string flow;  // as the experiment names it
    bool has_payload = false;
    std::vector<std::size_t> ports;  // in the order of add_port()
    bool is_infiniband = false;
    std::uint8_t level = 0;  // priority, of InfiniBand SL
};

/// What is seen of a port.
struct PortView {
    std::uint64_t queue_bytes = 0;  // that wait
    // So far.
    std::uint64_t marks = 0;
    std::uint64_t dropped = 0;
    std::uint64_t watchdog_dropped = 0;
    std::uint64_t discards = 0;  // of InfiniBand
    // Bit n: priority n.
    std::uint8_t stopped = 0;  // by the other end of the link
    std::uint8_t stops = 0;    // at the other end of the link
    /// Packets wait, the link is free and none of them has credit, since then or from then on; kNever: not
    /// so.
    TimeNs waits_since = kNever;
};

class NetworkTrace {
  public:
    /// A queue has no more than one event in this time, which says how long it was in between.
    static constexpr TimeNs kQueueInterval = 2'000;

    /// Events of QPs that lie before one of the network go before it.
    NetworkTrace(TraceOutput& output, EngineTrace& qps) : output_(output), qps_(qps) {}

    /// Numbers them from 0.
    void add_port(TimeNs now, const NetworkPort& port);
    void add_path(TimeNs now, const NetworkPath& path);
    /// Something has happened at the port, at a time that is not before that of any event.
    void look(TimeNs now, std::size_t port, const PortView& view);
    /// What happens next does at `next`.
    void pass(TimeNs next);
    void finish(TimeNs now);

  private:
    struct Port {
        std::string name;
        std::string host;  // empty: of a switch
        PortView seen;
        std::uint64_t told_bytes = 0;
        std::uint64_t most_bytes = 0;  // since it was told
        TimeNs may_tell_at = 0;
        bool is_waiting = false;  // since:
        TimeNs wait_begin = kNever;
        [[nodiscard]] TimeNs queue_due() const;
        [[nodiscard]] TimeNs wait_due() const { return is_waiting ? kNever : wait_begin; }
    };

    void emit(TimeNs now, const std::string& group, const char* name, const EventData& data);
    void count(TimeNs now, const Port& port, const char* trigger, std::uint64_t before, std::uint64_t after);
    void look_at_pauses(TimeNs now, const Port& port, const PortView& view);
    void look_at_wait(TimeNs now, Port& port, TimeNs since);
    void look_at_queue(TimeNs now, Port& port);
    void begin_wait(TimeNs now, Port& port);
    void tell_queue(TimeNs now, Port& port);

    TraceOutput& output_;
    EngineTrace& qps_;
    std::vector<Port> ports_;
    TimeNs due_ = kNever;  // no port has anything to say before that by itself
};

}  // namespace urnic::trace
