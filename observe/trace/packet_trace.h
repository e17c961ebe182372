// From captured packets to the events of QPs: what was sent and received, acknowledged and sent again, and
// why.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "abi/capture.h"
#include "observe/trace/trace_output.h"
#include "rnic/device/packet_fate.h"
#include "rnic/wire/dissect/packet.h"
#include "rnic/wire/opcodes.h"

namespace urnic::trace {

/// An RNIC, or one QP of it; qpn 0: all of them.
struct Target {
    std::string device;
    std::uint32_t qpn = 0;
};

/// Its group in events: "urnic0/0x11".
[[nodiscard]] std::string qp_name(std::string_view device, std::uint32_t qpn);

/// A frame as a capture has it.
struct CapturedFrame {
    wire::LinkLayer link = wire::LinkLayer::kEthernet;
    std::span<const std::byte> bytes;  // what was captured
    std::size_t wire_bytes = 0;        // its length before the capture cut it
    std::uint64_t time_ns = 0;
    std::string_view device;  // that captured it
    bool is_sent = false;
    std::string_view comment;  // of urnic capture: what became of it, in words; empty: none
};

/// A packet as the one who sent or handled it knows it.
struct NotedPacket {
    std::uint64_t time_ns = 0;
    std::string_view device;
    std::uint32_t qpn = 0;
    bool is_sent = false;
    Fate fate;
    std::optional<QpState> state;  // nullopt: it is not known, nor is what follows
    std::uint32_t next_psn = 0;
    wire::PacketHeader header;
    std::size_t payload_bytes = 0;
};

class PacketTrace {
  public:
    /// No targets: everything.
    PacketTrace(TraceOutput& output, std::vector<Target> targets)
        : output_(output), targets_(std::move(targets)) {}

    /// The next packet in time. One that is no packet of a QP's is left out. Of packets that urnic capture
    /// has noted the RNIC's part is traced, of others what passes the wire.
    void add(const CapturedFrame& frame);
    void add(const NotedPacket& packet);
    /// A completion that the RNIC wrote to a CQ.
    void add_completion(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                        const abi::CapturedCompletion& completion);
    /// A WQE that the RNIC took out of its queue.
    void add_wqe(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                 const abi::CapturedWqe& wqe);
    /// A QP may send at another rate.
    void add_rate(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                  const abi::CapturedRate& rate);
    /// A timer of a requester expired.
    void add_timer(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns,
                   const abi::CapturedTimer& timer);
    /// PFC, of the RNIC and no QP. What is paused already is not said again.
    void add_pause(std::string_view device, std::uint64_t time_ns, const abi::CapturedPause& pause);
    /// The QP is in ERR, though no packet tells of it.
    void add_error_state(std::string_view device, std::uint32_t qpn, std::uint64_t time_ns);
    [[nodiscard]] std::uint64_t events() const { return events_; }

  private:
    struct QueuePair;
    /// What is known of a packet beside its headers.
    struct Seen {
        std::uint64_t time_ns = 0;
        bool is_noted = false;  // by an RNIC
        bool is_sent = false;
        std::string_view fate;  // of what is noted
        std::optional<std::string_view> drop;
        std::optional<std::string_view> state;
        std::optional<std::uint32_t> next_psn;
        const wire::PacketHeader* header = nullptr;
        const wire::OpcodeInfo* info = nullptr;
        std::size_t payload_bytes = 0;
    };
    struct Message {
        std::string_view name;
        std::uint32_t last_psn = 0;
        std::optional<std::uint64_t> fetched_ns;
        std::uint64_t begin_ns = 0;
        bool is_whole = false;
    };
    struct FetchedSend {
        std::uint32_t first_psn = 0;
        std::uint64_t time_ns = 0;
    };
    struct QueuePair {
        std::string_view group;  // the key that it has in qps_
        std::string state;
        std::string_view cause;           // of the next retransmission, as far as the last answer told
        std::deque<Message> messages;     // on their way
        std::deque<FetchedSend> fetched;  // of which no packet has gone yet
        std::int64_t in_flight = -1;
    };
    static constexpr std::size_t kMostMessages = 65536;

    /// By device and number, as packets come.
    struct QpKey {
        std::string device;
        std::uint32_t qpn = 0;
    };
    struct QpKeyView {
        std::string_view device;
        std::uint32_t qpn = 0;
        QpKeyView(std::string_view of, std::uint32_t number) : device(of), qpn(number) {}
        QpKeyView(const QpKey& key) : device(key.device), qpn(key.qpn) {}
    };
    struct QpKeyHash {
        using is_transparent = void;
        std::size_t operator()(const QpKeyView& key) const {
            return std::hash<std::string_view>()(key.device) ^ key.qpn;
        }
    };
    struct QpKeyEqual {
        using is_transparent = void;
        bool operator()(const QpKeyView& a, const QpKeyView& b) const {
            return a.qpn == b.qpn && a.device == b.device;
        }
    };
    using KnownQps = std::unordered_map<QpKey, QueuePair*, QpKeyHash, QpKeyEqual>;

    struct PausedPriorities {
        std::uint8_t received = 0;
        std::uint8_t sent = 0;
    };

    [[nodiscard]] bool is_wanted(std::string_view device, std::uint32_t qpn) const;
    QueuePair& qp_of(const std::string& group);
    /// The same of "DEVICE/QPN", without making that text each time.
    QueuePair& qp_of(std::string_view device, std::uint32_t qpn);
    void emit(std::uint64_t time_ns, std::string_view group, const char* name, const EventData& data);
    void add_seen(const Seen& seen, QueuePair& qp);
    void set_state(std::uint64_t time_ns, QueuePair& qp, std::string_view state);
    void on_sent(const Seen& seen, QueuePair& qp);
    void on_received(const Seen& seen, QueuePair& qp);
    void on_answer(const Seen& seen, QueuePair& qp);
    /// When the WQE of a message was taken up that begins with that PSN.
    static std::optional<std::uint64_t> take_fetched(QueuePair& qp, std::uint32_t psn);
    void end_messages(const Seen& seen, QueuePair& qp);
    void update_window(const Seen& seen, QueuePair& qp, std::uint32_t acknowledged);

    TraceOutput& output_;
    std::vector<Target> targets_;
    std::unordered_map<std::string, QueuePair> qps_;
    KnownQps known_qps_;
    std::unordered_map<std::string, PausedPriorities> paused_;
    std::uint64_t events_ = 0;
};

}  // namespace urnic::trace
