// The events of a trace, by QP, as a page shows them and a diagnosis reads them.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "observe/trace/trace_output.h"
#include "observe/view/network_log.h"

namespace urnic::view {

/// The page has the same list (KINDS in page/model.js).
enum class Kind : std::uint8_t {
    kSent,            // a request
    kRetransmission,  // a request
    kDelivered,       // a request, as all down to kDropped
    kDuplicate,
    kEarlyKept,
    kEarlyDropped,
    kNoReceive,
    kRefused,
    kDropped,        // text: the counter
    kObserved,       // by nobody's RNIC
    kObservedAgain,  // its PSN was there before
    kResponse,       // an ACK or a response, sent or received
    kAck,            // value: credits
    kNak,            // text: the code
    kRnrNak,         // value: the timer's code
    kCnpSent,
    kCnpReceived,
    kResend,      // text: why a request goes again
    kWindow,      // value: packets on their way
    kState,       // text: the new one
    kMessage,     // time: of its acknowledgement; value: microseconds since its first packet; text: opcode
    kFetched,     // a WQE was taken out of a queue; value: bytes; text: opcode
    kCompletion,  // value: bytes; text: status
    kRate,        // the rate that the QP may send at changed; value: Mbit/s of frames, 0 for any; text: cause
    kTimer,       // a requester's timer expired; value: retries used up before; text: which
    kPaused,      // PFC, of the RNIC; value: priority; text: "received" or "sent"
    kResumed,     // the same
};
inline constexpr std::size_t kKinds = 27;

/// Whose PSNs a packet counts in. Send queues are the requester's, receive queues the responder's.
enum class Side : std::uint8_t { kRequester, kResponder };

struct Event {
    double time_ms = 0;  // since the trace's reference
    double value = 0;    // bytes of payload, unless its kind says something else
    /// Its PSN without the turn after 2^24, counted from the first of this side.
    std::int64_t psn_distance = 0;
    std::uint32_t psn = 0;
    std::uint32_t text = 0;  // in EventLog::texts(); of a packet the opcode
    std::uint32_t wqe_index = 0;
    Kind kind = Kind::kSent;
    Side side = Side::kRequester;
};

/// A QP, or a direction of a stream that nobody's RNIC noted.
struct Connection {
    std::string name;  // "urnic0/0x11"
    std::int64_t peer_qpn = -1;
    double first_cnp_sent_ms = 0;
    double last_cnp_sent_ms = -1;  // before the first: none was sent
    std::vector<Event> events;     // in the order of the file, which is that of time but for messages
};

class EventLog {
  public:
    static constexpr std::size_t kMostEvents = 1'000'000;
    static constexpr std::size_t kMostConnections = 2'000;

    /// Reads what `urnic trace` wrote. A line that is no event is left out and counted; the last one may be
    /// cut. Returns whether the first is the header of such a file.
    bool read(std::istream& in);
    /// `name` has no "rdma:". What is no event of the schema is counted and left out.
    void add(double time_ms, const std::string& group, const std::string& name,
             const nlohmann::ordered_json& data);

    /// Events will come of that QP: it is there without any, and gets its RNIC's pauses.
    void expect(const std::string& group) { (void)known(group); }
    /// Forgets the oldest events of each QP that has more than `most`.
    void keep_newest(std::size_t most);

    [[nodiscard]] const std::vector<Connection>& connections() const { return connections_; }
    [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
    [[nodiscard]] const std::string& text_of(const Event& event) const { return texts_[event.text]; }
    /// The other end, if the trace has it; nullptr otherwise.
    [[nodiscard]] const Connection* peer_of(const Connection& connection) const;
    [[nodiscard]] std::size_t events() const { return events_; }
    [[nodiscard]] const NetworkLog& network() const { return network_; }
    /// What is not shown, in words; empty: nothing.
    [[nodiscard]] std::string shortfall() const;

  private:
    /// PSNs of one side, without their turns.
    struct Psns {
        bool has_begun = false;
        std::uint32_t last = 0;
        std::int64_t last_distance = 0;
        std::int64_t most = -1;
        std::int64_t distance_of(std::uint32_t psn);
    };
    struct Known {
        std::size_t index = 0;
        Psns psns[2];
    };

    bool add_line(const nlohmann::ordered_json& line);
    bool fill(Event& event, const std::string& name, const nlohmann::ordered_json& data, Known& known,
              Connection& connection);
    /// What has to do with a WQE.
    bool fill_work(Event& event, const std::string& name, const nlohmann::ordered_json& data);
    bool fill_packet(Event& event, const std::string& name, const nlohmann::ordered_json& data,
                     Connection& connection);
    bool fill_rate(Event& event, const std::string& name, const nlohmann::ordered_json& data);
    /// Of an RNIC: goes to each of its QPs, to those that come later as long as it lasts.
    void add_pause(double time_ms, const std::string& device, bool is_paused,
                   const nlohmann::ordered_json& data);
    void push(Connection& connection, const Event& event);
    std::uint32_t intern(const std::string& text);
    Known* known(const std::string& group);

    NetworkLog network_;
    std::vector<Connection> connections_;
    std::unordered_map<std::string, Known> known_;
    std::map<std::string, std::vector<Event>> paused_;  // by RNIC: what has not been resumed yet
    std::vector<std::string> texts_;
    std::unordered_map<std::string, std::uint32_t> text_numbers_;
    std::size_t events_ = 0;
    std::size_t beyond_ = 0;  // kMostEvents or kMostConnections
    std::size_t bad_ = 0;
    bool is_cut_ = false;
};

/// What `urnic trace` would write goes straight to a log.
class LogOutput final : public trace::TraceOutput {
  public:
    /// Times in the log are from its first event.
    explicit LogOutput(EventLog& log) : log_(log) {}
    LogOutput(EventLog& log, std::uint64_t reference_ns)
        : log_(log), has_begun_(true), reference_ns_(reference_ns) {}
    void add(const trace::Event& event) override;
    void add_message(const trace::AcknowledgedMessage& message) override;
    void finish() override {}

  private:
    [[nodiscard]] double ms_since_begin(std::uint64_t time_ns);

    EventLog& log_;
    bool has_begun_ = false;
    std::uint64_t reference_ns_ = 0;
};

}  // namespace urnic::view
