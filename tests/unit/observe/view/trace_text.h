// Traces as `urnic trace` writes them, line by line, for tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "observe/view/diagnosis.h"
#include "observe/view/event_log.h"

namespace urnic::view {

class TraceText {
  public:
    TraceText()
        : text_(
              R"({"qlog_version":"0.4","qlog_format":"NDJSON","title":"urnic trace","trace":{"vantage_point":)"
              R"({"type":"host"},"common_fields":{"time_format":"relative_to_epoch",)"
              R"("protocol_types":["RDMA"],"reference_time":{"epoch_ns":"1"}}}})"
              "\n") {}

    TraceText& line(double time_ms, const std::string& group, const std::string& name,
                    const std::string& data) {
        text_ += fmt::format("{{\"time\":{},\"name\":\"rdma:{}\",\"group_id\":\"{}\",\"data\":{{{}}}}}\n",
                             time_ms, name, group, data);
        return *this;
    }
    TraceText& sent(double time_ms, int psn, int bytes = 1024, const char* opcode = "RC WRITE Only") {
        return line(time_ms, group, "packet_sent", packet(psn, bytes, opcode));
    }
    TraceText& sent_again(double time_ms, int psn, const char* cause, int bytes = 1024) {
        line(time_ms, group, "packet_sent", packet(psn, bytes, "RC WRITE Only") + ",\"retransmission\":true");
        return line(time_ms, group, "retransmission", fmt::format("\"psn\":{},\"cause\":\"{}\"", psn, cause));
    }
    TraceText& received(double time_ms, int psn, const char* fate, const char* opcode = "RC WRITE Only") {
        return line(time_ms, group, "packet_received",
                    packet(psn, 1024, opcode) + fmt::format(",\"fate\":\"{}\"", fate));
    }
    TraceText& ack(double time_ms, int psn) {
        return line(time_ms, group, "ack_received", fmt::format("\"psn\":{},\"msn\":1,\"credits\":31", psn));
    }
    TraceText& nak(double time_ms, int psn, const char* code) {
        return line(time_ms, group, "nak_received",
                    fmt::format("\"psn\":{},\"msn\":1,\"code\":\"{}\"", psn, code));
    }
    TraceText& rnr_nak(double time_ms, int psn) {
        return line(time_ms, group, "rnr_nak_received",
                    fmt::format("\"psn\":{},\"msn\":1,\"timer\":12", psn));
    }

    [[nodiscard]] const std::string& text() const { return text_; }
    [[nodiscard]] EventLog log() const {
        std::istringstream in(text_);
        EventLog made;
        EXPECT_TRUE(made.read(in));
        return made;
    }

    std::string group = "urnic0/0x11";  // of the next lines
    int dest_qpn = 0x12;

  private:
    [[nodiscard]] std::string packet(int psn, int bytes, const char* opcode) const {
        return fmt::format(
            "\"opcode\":\"{}\",\"psn\":{},\"dest_qpn\":{},\"payload_length\":{},\"ack_req\":true", opcode,
            psn, dest_qpn, bytes);
    }

    std::string text_;
};

}  // namespace urnic::view
