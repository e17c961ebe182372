// What a device writes into Ethernet, IP and UDP headers.
#include <algorithm>
#include <set>

#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

unsigned source_port(const SeenFrame& frame) {
    return wire::load_be16(frame.bytes.data() + bth_offset(frame.bytes) - wire::kUdpBytes);
}
unsigned tos(const SeenFrame& frame) { return traffic_class_of(frame.bytes); }

std::string joined(const std::set<unsigned>& values) {
    std::string text;
    for (const unsigned value : values) {
        text += (text.empty() ? "" : ", ") + std::to_string(value);
    }
    return text;
}

}  // namespace

LIVE_CASE(LiveHeaders, UdpSourcePort, "A17.9.2",
          "the UDP source port of a QP's packets stays, so that none overtakes another") {
    constexpr std::uint32_t kQps = 8;
    constexpr std::uint32_t kMtu = 256;
    constexpr std::uint32_t kPackets = 8;
    std::set<unsigned> of_requests;
    std::set<unsigned> of_acks;
    for (std::uint32_t i = 0; i < kQps; ++i) {
        connect({.mtu = kMtu});
        post(write(1, kPackets * kMtu));
        std::set<unsigned> ports;
        for (const SeenFrame& frame : take_requests(kPackets)) {
            ports.insert(source_port(frame));
        }
        require(ports.size() == 1, "packets of one message have UDP source ports " + joined(ports));
        of_requests.insert(ports.begin(), ports.end());
        peer(ack(1000 + kPackets - 1, 1));
        completes(ok(1));
        peer(write_only(2000, 8));
        const std::optional<SeenFrame> answer = next_frame(bench().tolerance().patience_ns);
        require(answer.has_value(), "a request is not acknowledged");
        of_acks.insert(source_port(*answer));
        live().forget();
    }
    measured("UDP source ports of requests of " + std::to_string(kQps) + " QPs", joined(of_requests));
    measured("of their acknowledgements", joined(of_acks));
    const bool is_dynamic =
        std::all_of(of_requests.begin(), of_requests.end(), [](unsigned port) { return port >= 0xc000U; });
    measured("all of them from 49152 on", is_dynamic ? "yes" : "no");
}

LIVE_CASE(LiveHeaders, TrafficClass, "A17.3.1 (9.8.3)",
          "requests have the traffic class of the QP's address vector in their IP header") {
    constexpr std::uint8_t kClass = 0x68;  // DSCP 26
    connect({.traffic_class = kClass});
    post(write(1, 8));
    const std::vector<SeenFrame> requests = take_requests(1);
    require((tos(requests[0]) >> 2U) == (kClass >> 2U),
            "DSCP " + std::to_string(tos(requests[0]) >> 2U) + " instead of 26");
    peer(ack(1000, 1));
    completes(ok(1));
    peer(write_only(2000, 8));
    const std::optional<SeenFrame> answer = next_frame(bench().tolerance().patience_ns);
    require(answer.has_value(), "a request is not acknowledged");
    measured("ECN of requests", std::to_string(tos(requests[0]) & 3U));
    measured("DSCP and ECN of acknowledgements",
             std::to_string(tos(*answer) >> 2U) + ", " + std::to_string(tos(*answer) & 3U));
    live().forget();
}

LIVE_CASE(LiveHeaders, IpHeader, "A17.3.1",
          "IPv4 headers without options, with the hop limit of the address vector") {
    need_ipv4();
    connect();
    post(write(1, 8));
    const std::vector<SeenFrame> requests = take_requests(1);
    const FrameBytes& bytes = requests[0].bytes;
    constexpr unsigned kHopLimit = 64;  // as the agent has it
    const auto ttl = std::to_integer<unsigned>(bytes[kIpAt + wire::kIpv4Ttl]);
    require(ttl == kHopLimit, "TTL " + std::to_string(ttl) + " instead of 64");
    FrameBytes mended = bytes;
    mend_ip_checksum(mended);
    require(mended == bytes, "the IPv4 header checksum is wrong");
    measured("IP flag DF", (bytes[kIpAt + 6] & std::byte{0x40}) != std::byte{0} ? "1" : "0");
    measured("IP identification", std::to_string(wire::load_be16(bytes.data() + kIpAt + 4)));
    measured("UDP checksum", wire::load_be16(bytes.data() + kUdpAt + 6) == 0 ? "0" : "made");
    measured("MigReq", frame_header(bytes).mig_req ? "1" : "0");
    peer(ack(1000, 1));
    completes(ok(1));
    live().forget();
}

}  // namespace urnic::conform
