// A link in virtual time that carries whole frames between simulated hosts and, from a seed, loses, doubles,
// reorders, corrupts and delays them. What goes over it is written down, a line a packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/sim_host.h"

namespace urnic::sim {

/// Chances are in thousandths.
struct LinkFaults {
    std::uint32_t loss = 0;
    std::uint32_t duplicate = 0;
    std::uint32_t reorder = 0;  // delayed by up to `reorder_ns` more
    std::uint32_t corrupt = 0;  // one bit flipped: the ICRC has to catch it
    TimeNs reorder_ns = 5'000;
};

/// A packet as it is written down.
struct SentPacket {
    TimeNs time = 0;
    std::string from;
    wire::Path path;
    wire::PacketHeader header;
    std::size_t payload_bytes = 0;
    std::vector<std::byte> frame;

    /// The frame's fields; refers into it.
    [[nodiscard]] wire::PacketView view() const;
    [[nodiscard]] bool is_request() const;
};

class SimNetwork final : public SimWire {
  public:
    explicit SimNetwork(std::uint64_t seed = 1) : random_(seed) {}

    static constexpr TimeNs kDelayNs = 1'000;

    void attach(SimHost& host) override { hosts_.push_back(&host); }
    [[nodiscard]] bool transmit(SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    /// Puts a packet of the test's own making on the wire, as if `from` had sent it.
    void inject(SimHost& from, const wire::PacketHeader& header, std::span<const std::byte> payload = {});

    /// Lets everything happen up to and including `until`.
    void run_until(TimeNs until);
    void run_for(TimeNs duration) { run_until(now_ + duration); }
    /// What would have happened meanwhile happens at its end.
    void skip(TimeNs duration) {
        now_ += duration;
        run_until(now_);
    }
    /// Until nothing more can happen, or for a minute of virtual time. False: it was still going on.
    bool run();

    /// Takes the lines written since the last call: "TIMEus FROM OPERATION psn=.. len=.. ...".
    std::vector<std::string> take_trace();
    std::vector<SentPacket> take_packets();
    /// The same packets, oldest first, for who takes them one by one.
    [[nodiscard]] std::deque<SentPacket>& packets() { return packets_; }
    [[nodiscard]] const std::deque<SentPacket>& packets() const { return packets_; }

    LinkFaults faults;
    /// Asked about each packet sent; true loses it.
    std::function<bool(const SentPacket&)> lose;
    /// The same; true gives it a CE mark.
    std::function<bool(const SentPacket&)> mark;
    bool keep_trace = true;
    /// What hosts send is neither built nor written down, and comes nowhere.
    bool discards = false;
    std::uint64_t frames_corrupted = 0;

  private:
    struct Frame {
        std::uint32_t dest_qp;
        std::vector<std::byte> bytes;
    };
    [[nodiscard]] bool chance(std::uint32_t thousandths);
    void put_on_wire(SentPacket packet);
    void send_copies(const SentPacket& packet, bool is_marked);
    void deliver(const Frame& frame);
    [[nodiscard]] TimeNs next_time() const;

    std::mt19937_64 random_;
    std::vector<SimHost*> hosts_;
    std::multimap<TimeNs, Frame> in_flight_;
    std::deque<SentPacket> packets_;
};

}  // namespace urnic::sim
