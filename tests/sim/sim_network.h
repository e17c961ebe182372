// Hosts in virtual time, each of which reaches every other one over one link that may lose, double, reorder
// and corrupt frames. A test sees each packet, and may lose or mark it. What goes over the link is written
// down.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/net/network.h"
#include "tests/sim/sim_host.h"

namespace urnic::sim {

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
    explicit SimNetwork(std::uint64_t seed = 1) : link_(std::make_unique<Link>(seed)) {}

    static constexpr TimeNs kDelayNs = LinkOptions{}.delay_ns;

    [[nodiscard]] TimeNs now() const override { return link_->network.now(); }
    void add(SimHost& host) override { link_->hosts.push_back(&host); }
    [[nodiscard]] bool transmit(SimHost& from, const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    /// Puts a packet of the test's own making on the wire, as if `from` had sent it.
    void inject(SimHost& from, const wire::PacketHeader& header, std::span<const std::byte> payload = {});

    /// Lets everything happen up to and including `until`.
    void run_until(TimeNs until);
    void run_for(TimeNs duration) { run_until(now() + duration); }
    /// What would have happened meanwhile happens at its end.
    void skip(TimeNs duration) {
        link_->network.stall(duration);
        run_until(now());
    }
    /// Until nothing more can happen, or for a minute of virtual time. Returns whether nothing can.
    bool run();

    /// Takes the packets written down since the last call.
    std::vector<SentPacket> take_packets();
    /// The same packets, oldest first, for who takes them one by one.
    [[nodiscard]] std::deque<SentPacket>& packets() { return packets_; }
    [[nodiscard]] const std::deque<SentPacket>& packets() const { return packets_; }

    /// Of the link, from the next packet on.
    LinkOptions faults;
    [[nodiscard]] std::uint64_t frames_corrupted() const { return link_->network.total().corrupted; }
    /// Asked about each packet sent; true loses it.
    std::function<bool(const SentPacket&)> lose;
    /// The same; true gives it a CE mark.
    std::function<bool(const SentPacket&)> mark;
    bool keep_trace = true;
    /// What hosts send is neither built nor written down, and comes nowhere.
    bool discards = false;

  private:
    /// From all hosts to all hosts.
    struct Link final : NetworkNode {
        explicit Link(std::uint64_t seed)
            : network(seed), direction(network.connect(*this, *this, "hosts", "hosts", {}, {}).a_to_b) {}
        /// Hands the frame to the host of its DestQP.
        void receive(TimeNs now, DirectionId from, Frame& frame) override;
        void wake(TimeNs /*now*/, std::uint64_t /*token*/) override {}

        Network network;
        DirectionId direction;
        std::vector<SimHost*> hosts;
    };
    [[nodiscard]] TimeNs next_time() const;

    std::unique_ptr<Link> link_;
    std::deque<SentPacket> packets_;
};

}  // namespace urnic::sim
