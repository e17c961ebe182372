// From packets to events, where the reader has not seen all of them, and messages from their WQEs on.
#include "observe/trace/packet_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "rnic/wire/blank_header.h"

namespace urnic::trace {
namespace {

constexpr std::uint32_t kQpn = 0x11;

/// What an RC requester sends and hears.
class Requester {
  public:
    explicit Requester(TraceOutput& output) : events_(output, {}) {}

    void fetch(std::uint64_t time_ns, std::uint32_t psn) {
        abi::CapturedWqe wqe{};
        wqe.first_psn = psn;
        events_.add_wqe("urnic0", kQpn, time_ns, wqe);
    }
    void send(std::uint64_t time_ns, std::uint32_t psn, std::uint8_t opcode) {
        NotedPacket packet = noted(time_ns, psn, opcode);
        packet.is_sent = true;
        packet.fate.fate = abi::PacketFate::kSent;
        events_.add(packet);
    }
    void acknowledge(std::uint64_t time_ns, std::uint32_t psn) {
        NotedPacket packet = noted(time_ns, psn, wire::kAcknowledge);
        packet.header.aeth.syndrome = wire::kSyndromeAck;
        events_.add(packet);
    }

  private:
    static NotedPacket noted(std::uint64_t time_ns, std::uint32_t psn, std::uint8_t opcode) {
        NotedPacket packet;
        packet.time_ns = time_ns;
        packet.device = "urnic0";
        packet.qpn = kQpn;
        packet.state = QpState::kRts;
        packet.next_psn = psn + 1;
        packet.header = wire::kBlankHeader;
        packet.header.opcode = opcode;
        packet.header.psn = Psn(psn);
        return packet;
    }

    PacketTrace events_;
};

constexpr std::uint8_t kFirst = wire::kWriteFirst;
constexpr std::uint8_t kMiddle = wire::kWriteMiddle;
constexpr std::uint8_t kOnly = wire::kWriteOnly;

TEST(PacketTrace, AMessageWhoseEndWasNotSeenStopsNoOther) {
    std::ostringstream out;
    JsonLines lines(out, "host");
    Requester requester(lines);
    requester.send(1'000'000, 1, kFirst);
    requester.send(2'000'000, 2, kMiddle);
    // Its last packet, with PSN 3, was lost on the way to the reader.
    requester.send(4'000'000, 4, kOnly);
    requester.acknowledge(6'000'000, 4);
    std::vector<double> durations;
    std::istringstream in(out.str());
    for (std::string line; std::getline(in, line);) {
        const auto event = nlohmann::json::parse(line);
        if (event.value("name", "") == "rdma:message_acknowledged") {
            durations.push_back(event["data"]["duration"]);
        }
    }
    EXPECT_EQ(durations, std::vector<double>{2.0});
}

TEST(PacketTrace, AMessageOnItsWayIsNotEndedByAnAckOfItsMiddle) {
    std::ostringstream out;
    JsonLines lines(out, "host");
    Requester requester(lines);
    requester.send(1'000'000, 1, kFirst);
    requester.send(2'000'000, 2, kMiddle);
    requester.acknowledge(3'000'000, 2);
    requester.send(4'000'000, 3, wire::kWriteLast);
    requester.acknowledge(5'000'000, 3);
    EXPECT_NE(out.str().find(R"("name":"rdma:message_acknowledged")"), std::string::npos);
}

TEST(PacketTrace, SlicesOfPerfettoBeginWithTheWqe) {
    std::ostringstream out;
    PerfettoJson perfetto(out);
    Requester requester(perfetto);
    requester.fetch(1'000'000, 5);  // one that sends nothing
    requester.fetch(2'000'000, 5);
    requester.fetch(2'500'000, 6);
    requester.send(4'000'000, 5, kOnly);
    requester.send(5'000'000, 6, kOnly);
    requester.send(6'000'000, 7, kOnly);  // whose WQE was not seen
    requester.acknowledge(9'000'000, 7);
    perfetto.finish();
    std::vector<std::vector<double>> slices;
    const auto written = nlohmann::json::parse(out.str());
    for (const auto& event : written.at("traceEvents")) {
        if (event["ph"] == "X") {
            slices.push_back(
                {event["ts"], event["dur"],
                 event.contains("args") ? event["args"]["us_to_first_packet"].get<double>() : -1});
        }
    }
    EXPECT_EQ(slices,
              (std::vector<std::vector<double>>{{1000, 7000, 2000}, {1500, 6500, 2500}, {5000, 3000, -1}}));
}

}  // namespace
}  // namespace urnic::trace
