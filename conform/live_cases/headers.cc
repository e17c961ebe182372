// What a device writes into Ethernet, IP and UDP headers.
#include <algorithm>
#include <set>

#include "conform/live_cases/live_script.h"
#include "rnic/wire/frame.h"

namespace urnic::conform {

namespace {

unsigned tos(const SeenFrame& frame) { return traffic_class_of(frame.bytes); }

/// How the ports of connections without a flow label may be made, as far as they were seen.
class PossibleRules {
  public:
    void look(unsigned port, std::uint32_t qp_num, std::uint32_t dest_qp_num) {
        const auto is = [&](wire::SourcePortRule rule) {
            return port == wire::udp_source_port(rule, 0, qp_num, dest_qp_num);
        };
        is_linux_ = is_linux_ && is(wire::SourcePortRule::kLinux);
        is_flow_ = is_flow_ && is(wire::SourcePortRule::kFlow);
    }
    /// Nothing where both would have made them.
    [[nodiscard]] std::optional<ShownBehaviour> shown() const {
        if (is_linux_ && is_flow_) {
            return {};
        }
        const auto value = [](wire::SourcePortRule rule) { return static_cast<std::uint64_t>(rule); };
        return ShownBehaviour{DeviceBehaviour::kSourcePort, is_linux_  ? value(wire::SourcePortRule::kLinux)
                                                            : is_flow_ ? value(wire::SourcePortRule::kFlow)
                                                                       : kOtherSourcePorts};
    }
    [[nodiscard]] std::string text() const {
        return is_linux_
                   ? (is_flow_ ? "as Linux and urnic make them of the QP numbers"
                               : "as Linux makes them of the QP numbers")
                   : (is_flow_ ? "as urnic makes them of the QP numbers" : "otherwise than Linux and urnic");
    }

  private:
    bool is_linux_ = true;
    bool is_flow_ = true;
};

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
    PossibleRules rules;
    for (std::uint32_t i = 0; i < kQps; ++i) {
        connect({.mtu = kMtu});
        post(write(1, kPackets * kMtu));
        std::set<unsigned> ports;
        for (const SeenFrame& frame : take_requests(kPackets)) {
            ports.insert(udp_source_port_of(frame.bytes));
        }
        require(ports.size() == 1, "packets of one message have UDP source ports " + joined(ports));
        of_requests.insert(ports.begin(), ports.end());
        rules.look(*ports.begin(), bench().qp_num(), bench().peer_qp_num());
        peer(ack(1000 + kPackets - 1, 1));
        completes(ok(1));
        peer(write_only(2000, 8));
        const std::optional<SeenFrame> answer = next_frame(bench().tolerance().patience_ns);
        require(answer.has_value(), "a request is not acknowledged");
        of_acks.insert(udp_source_port_of(answer->bytes));
        leave_the_rest();
    }
    measured("UDP source ports of requests of " + std::to_string(kQps) + " QPs", joined(of_requests));
    measured("of their acknowledgements", joined(of_acks));
    const bool is_dynamic =
        std::all_of(of_requests.begin(), of_requests.end(), [](unsigned port) { return port >= 0xc000U; });
    measured("all of them from 49152 on", is_dynamic ? "yes" : "no");
    measured("how they are made", rules.text(), rules.shown());
}

LIVE_CASE(LiveHeaders, UdpSourcePortOfDatagrams, "A17.9.2",
          "UD datagrams have UDP source ports of the sender's choice") {
    constexpr std::uint32_t kQps = 4;
    constexpr std::uint32_t kDatagrams = 4;
    std::uint32_t handle = 0;
    const auto datagram = [&](std::uint64_t wr_id, std::uint32_t dest_qp) {
        SendRequest request = send(wr_id, 8);
        request.address_handle = handle;
        request.remote_qp_num = dest_qp;
        request.remote_qkey = kQkey;
        return request;
    };
    std::set<unsigned> seen;
    std::size_t most = 0;  // of one QP to one QP
    unsigned last = 0;
    for (std::uint32_t i = 0; i < kQps; ++i) {
        connect({.qkey = kQkey}, {.type = QpType::kUd});
        handle = live().add_address_handle();
        std::set<unsigned> ports;
        for (std::uint32_t wr_id = 1; wr_id <= kDatagrams; ++wr_id) {
            post(datagram(wr_id, bench().peer_qp_num()));
            last = udp_source_port_of(take_requests(1)[0].bytes);
            ports.insert(last);
            completes(ok(wr_id));
        }
        most = std::max(most, ports.size());
        seen.insert(ports.begin(), ports.end());
    }
    const OtherQp other = live().add_qp();
    post(datagram(kDatagrams + 1, other.peer_number));
    const unsigned to_another = udp_source_port_of(take_requests(1)[0].bytes);
    completes(ok(kDatagrams + 1));
    measured("UDP source ports of datagrams of " + std::to_string(kQps) + " QPs", joined(seen));
    measured("datagrams between two QPs", most == 1 ? "have one port" : "have several ports");
    measured("datagrams of one QP to two QPs", to_another == last ? "have one port" : "have a port each");
    measured("all from 49152 on", std::min(*seen.begin(), to_another) >= 0xc000U ? "yes" : "no");
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
    leave_the_rest();
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
    const bool mig_req = frame_header(bytes).mig_req;
    measured("MigReq", mig_req ? "1" : "0", ShownBehaviour{DeviceBehaviour::kMigReq, mig_req ? 1U : 0U});
    peer(ack(1000, 1));
    completes(ok(1));
    leave_the_rest();
}

}  // namespace urnic::conform
