// Where traced events go.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_map>

#include "observe/trace/event_data.h"
#include "observe/trace/json_text.h"

namespace urnic::trace {

/// Its texts, and its data, are there until TraceOutput::add() returns.
struct Event {
    std::uint64_t time_ns = 0;  // since 1970
    std::string_view group;  // the QP, "urnic0/0x11"; or a direction of a stream, "10.0.0.1 > 10.0.0.2 0x11"
    std::string_view name;   // "packet_sent"; needs no escapes
    const EventData& data;
};
/// As an object, for what is not written by the million.
[[nodiscard]] nlohmann::ordered_json json_of(const EventData& data);

/// It was on its way from its first packet to its acknowledgement. Its texts are as those of an event.
struct AcknowledgedMessage {
    std::string_view group;
    std::string_view name;                    // "RC WRITE"
    std::optional<std::uint64_t> fetched_ns;  // its WQE was taken up; nullopt: that was not seen
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
};

class TraceOutput {
  public:
    TraceOutput() = default;
    TraceOutput(const TraceOutput&) = delete;
    TraceOutput& operator=(const TraceOutput&) = delete;
    virtual ~TraceOutput() = default;
    virtual void add(const Event& event) = 0;
    virtual void add_message(const AcknowledgedMessage& message) = 0;
    virtual void finish() = 0;
};

/// Newline-delimited JSON, docs/trace-schema.json.
class JsonLines final : public TraceOutput {
  public:
    /// `vantage_point`: "host" or "network".
    JsonLines(std::ostream& out, std::string vantage_point)
        : out_(out), vantage_point_(std::move(vantage_point)) {}
    void add(const Event& event) override;
    void add_message(const AcknowledgedMessage& message) override;
    void finish() override;

  private:
    void begin(std::uint64_t time_ns);

    std::ostream& out_;
    std::string vantage_point_;
    JsonText line_;
    bool has_begun_ = false;
    std::uint64_t reference_ns_ = 0;
};

/// Chrome's trace events, which ui.perfetto.dev opens: a track for each group. A message begins when its WQE
/// is taken up, if that was seen.
class PerfettoJson final : public TraceOutput {
  public:
    explicit PerfettoJson(std::ostream& out) : out_(out) { out_ << "{\"traceEvents\":[\n"; }
    void add(const Event& event) override;
    void add_message(const AcknowledgedMessage& message) override;
    void finish() override;

  private:
    struct Track {
        int process = 0;
        int thread = 0;
    };
    Track track_of(std::string_view group);
    double us_since_begin(std::uint64_t time_ns);
    void write(const nlohmann::ordered_json& event);

    std::ostream& out_;
    bool is_first_ = true;
    std::optional<std::uint64_t> reference_ns_;  // of the first event
    std::unordered_map<std::string, int> processes_;
    std::unordered_map<std::string, Track> tracks_;
};

}  // namespace urnic::trace
