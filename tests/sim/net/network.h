// Any number of nodes joined by links, in virtual time. A link carries complete Ethernet frames in both
// directions; each direction has a rate, a delay and a queue, and from a seed loses, doubles, reorders and
// corrupts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "rnic/wire/frame.h"
#include "tests/sim/net/packet_log.h"
#include "tests/sim/net/random.h"

namespace urnic::sim {

/// A frame on its way. Buffers come from the network's pool and go back to it.
struct Frame {
    std::uint32_t length = 0;
    alignas(64) std::array<std::byte, wire::kMaxFrameBytes> bytes;

    [[nodiscard]] std::span<const std::byte> span() const { return {bytes.data(), length}; }
};

/// One direction of a link.
struct LinkOptions {
    TimeNs delay_ns = 1'000;
    TimeNs jitter_ns = 0;             // up to this much more; the order stays
    std::uint32_t rate_mbit = 0;      // 0: a frame takes no time to send
    std::uint32_t mtu_bytes = 9'000;  // of the IP packet; a longer one is lost
    std::uint32_t queue_bytes = 1U << 20U;
    std::uint32_t gap_bytes = 0;  // between two frames, with preamble and FCS
    // How many frames of so many:
    std::uint32_t chances_of = 1'000;
    std::uint32_t loss = 0;
    std::uint32_t loss_burst = 1;  // frames lost with each loss, on average
    std::uint32_t duplicate = 0;
    std::uint32_t corrupt = 0;  // 1 to 4 bits flipped anywhere from Ethernet header to ICRC
    std::uint32_t reorder = 0;  // late by up to `reorder_ns`: overtaken by what comes behind
    TimeNs reorder_ns = 5'000;
};

/// What happened to the frames of one direction.
struct LinkCounters {
    std::uint64_t frames = 0;  // handed to the link
    std::uint64_t lost = 0;
    std::uint64_t too_long = 0;
    std::uint64_t queue_full = 0;
    std::uint64_t duplicated = 0;
    std::uint64_t corrupted = 0;
    std::uint64_t reordered = 0;
    std::uint64_t delivered = 0;
    void add(const LinkCounters& other);
};

using DirectionId = std::uint32_t;

/// Something that acts when its time has come.
class Agent {
  public:
    virtual ~Agent() = default;
    virtual void wake(TimeNs now, std::uint64_t token) = 0;
};

class Network;

/// Something that a link ends at.
class NetworkNode : public Agent {
  public:
    /// Takes the frame over: it is sent on or released.
    virtual void receive(TimeNs now, DirectionId from, Frame& frame) = 0;
};

class Network {
  public:
    explicit Network(std::uint64_t seed) : seed_(seed) {}
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    [[nodiscard]] TimeNs now() const { return now_; }

    struct LinkEnds {
        DirectionId a_to_b;
        DirectionId b_to_a;
    };
    /// Joins two nodes; the name stands in the packet log.
    LinkEnds connect(NetworkNode& a, NetworkNode& b, const std::string& a_name, const std::string& b_name,
                     const LinkOptions& a_to_b, const LinkOptions& b_to_a);
    void set_options(DirectionId direction, const LinkOptions& options);
    [[nodiscard]] const LinkOptions& options(DirectionId direction) const {
        return directions_[direction].options;
    }
    /// Everything sent over `direction` is lost until `until`.
    void cut(DirectionId direction, TimeNs until) { directions_[direction].cut_until = until; }

    [[nodiscard]] Frame& take_frame();
    void release(Frame& frame) { free_.push_back(&frame); }
    /// Puts a frame on a link and gives it away.
    void send(DirectionId direction, Frame& frame);
    /// Frames of full length that the queue of `direction` takes now.
    [[nodiscard]] std::uint32_t room(DirectionId direction) const;
    /// When the queue of `direction` will be at most half full.
    [[nodiscard]] TimeNs half_empty_at(DirectionId direction) const;
    /// The longest that a frame can stay in the network, each link counted once.
    [[nodiscard]] TimeNs longest_life() const;

    void wake_at(TimeNs time, Agent& agent, std::uint64_t token = 0);

    /// Lets the next thing happen, if it is due by `until`; false if it is not.
    bool step(TimeNs until = kNever);
    void run_until(TimeNs until);
    /// Time passes in which nothing is handled: what is due meanwhile is late.
    void stall(TimeNs duration) { now_ += duration; }
    /// When the next thing happens; kNever: nothing does.
    [[nodiscard]] TimeNs next_time() const { return events_.empty() ? kNever : events_.front().time; }
    [[nodiscard]] bool idle() const { return events_.empty(); }

    [[nodiscard]] const LinkCounters& counters(DirectionId direction) const {
        return directions_[direction].counters;
    }
    [[nodiscard]] LinkCounters total() const;
    /// Buffers that are neither free nor in a node's hands nor on the way: 0 when nothing leaks and all is
    /// idle.
    [[nodiscard]] std::size_t frames_in_use() const { return pool_.size() - free_.size(); }

    /// Frames and whatever is noted goes there; nullptr: nowhere.
    PacketLog* log = nullptr;

  private:
    static constexpr std::uint64_t kPsPerNs = 1'000;

    struct Direction {
        LinkOptions options;
        Random random{0};
        NetworkNode* to = nullptr;
        std::string name;
        std::uint64_t ps_per_byte = 0;
        std::uint64_t free_at_ps = 0;  // when the sender has sent what it has
        TimeNs last_arrival = 0;       // of the frames that keep their order
        TimeNs cut_until = 0;
        std::uint32_t burst_left = 0;
        LinkCounters counters;
    };
    struct Event {
        TimeNs time;
        std::uint64_t order;  // of the events of one time
        Agent* agent;
        Frame* frame;         // nullptr: a wake-up
        std::uint64_t token;  // or the direction that the frame came by
        // std::push_heap keeps the greatest in front.
        bool operator<(const Event& other) const {
            return time != other.time ? time > other.time : order > other.order;
        }
    };

    [[nodiscard]] bool loses(Direction& direction);
    void schedule_copy(DirectionId id, Frame& frame, TimeNs sent);
    static void flip_bits(Random& random, Frame& frame);
    void push(const Event& event);
    void write_log(const Direction& direction, const Frame& frame, const char* fate);

    std::uint64_t seed_;
    TimeNs now_ = 0;
    std::uint64_t next_order_ = 0;
    std::vector<Direction> directions_;
    std::vector<Event> events_;
    std::vector<std::unique_ptr<Frame>> pool_;
    std::vector<Frame*> free_;
};

/// Forwards frames by destination MAC address; one that it does not know goes to every other port, as does a
/// broadcast.
class Switch final : public NetworkNode {
  public:
    explicit Switch(Network& network) : network_(network) {}

    /// A port: frames come in by `in`, go out by `out`, and `mac` lives behind it.
    void add_port(const wire::Mac& mac, DirectionId in, DirectionId out) { ports_.push_back({mac, in, out}); }
    void receive(TimeNs now, DirectionId from, Frame& frame) override;
    void wake(TimeNs /*now*/, std::uint64_t /*token*/) override {}

  private:
    struct Port {
        wire::Mac mac;
        DirectionId in;
        DirectionId out;
    };
    Network& network_;
    std::vector<Port> ports_;
};

}  // namespace urnic::sim
