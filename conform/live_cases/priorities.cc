// Whose priority a device's packets have: DSCP in their IP header, PCP in their VLAN tag.
#include <array>

#include "conform/live/vlan_tag.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {

namespace {

constexpr std::uint8_t kClassOfTheQp = 0x68;  // DSCP 26
constexpr std::uint32_t kSmallMtu = 256;

unsigned dscp_of(const SeenFrame& frame) { return traffic_class_of(frame.bytes) >> 2U; }

/// "5", "none".
std::string priority_text(const SeenFrame& frame) {
    return frame.vlan_tci ? std::to_string(priority_of_tag(*frame.vlan_tci)) : "none";
}

}  // namespace

// All that an RC QP sends has the address vector of its primary path (IBA 11.2.4.2); answers as well.
LIVE_CASE(
    LiveHeaders, TrafficClassOfAnswers, "A17.3.1 (11.2.4.2)",
    "acknowledgements, READ responses and repetitions have the traffic class of the QP's address vector") {
    connect({.mtu = kSmallMtu, .traffic_class = kClassOfTheQp});
    const auto take = [&](const std::string& what, std::uint8_t opcode) {
        std::optional<SeenFrame> frame;
        std::uint8_t seen = opcode;
        do {
            frame = next_but_cnps(bench().tolerance().patience_ns);
            require(frame.has_value(), what + ": none came");
            seen = frame_header(frame->bytes).opcode & wire::kOperationMask;
            // The request may be repeated as often as its timer expires.
        } while (seen == wire::kWriteOnly && opcode != seen);
        require(seen == opcode, "something else came than " + what);
        const unsigned dscp = dscp_of(*frame);
        measured("DSCP of " + what, std::to_string(dscp));
        if (dscp != kClassOfTheQp >> 2U) {
            deviates("DSCP " + std::to_string(dscp) + " of " + what + " instead of the QP's 26");
        }
    };
    peer(write_only(2000, 8));
    take("an ACK", wire::kAcknowledge);
    peer(read_request(2001, 3 * kSmallMtu));
    take("a READ response First", wire::kReadResponseFirst);
    take("a READ response Middle", wire::kReadResponseMiddle);
    take("a READ response Last", wire::kReadResponseLast);
    peer(fetch_add_request(2004, 1));
    take("an ATOMIC Acknowledge", wire::kAtomicAcknowledge);
    post(write(1, 8));
    take("a request", wire::kWriteOnly);
    peer(sequence_nak(1000, 0));
    take("a repetition", wire::kWriteOnly);
    peer(ack(1000, 1));
    peer(write_only(2006, 8));
    take("a NAK", wire::kAcknowledge);
    leave_the_rest();
}

LIVE_CASE(LiveHeaders, TrafficClassOfDatagrams, "A17.3.1 (11.2.2.1)",
          "a UD datagram has the traffic class of its address handle, whichever the one before had") {
    connect({.qkey = kQkey}, {.type = QpType::kUd});
    std::uint64_t wr_id = 0;
    const std::array<std::uint8_t, 2> classes = {0x68, 0x20};
    const std::array<std::uint32_t, 2> handles = {live().add_address_handle(classes[0], 0),
                                                  live().add_address_handle(classes[1], 0)};
    for (const std::size_t which : {0U, 1U, 0U}) {
        SendRequest request = send(++wr_id, 8);
        request.address_handle = handles[which];
        request.remote_qp_num = bench().peer_qp_num();
        request.remote_qkey = kQkey;
        post(request);
        const unsigned dscp = dscp_of(take_requests(1)[0]);
        require(dscp == classes[which] >> 2U,
                "DSCP " + std::to_string(dscp) + " instead of " + std::to_string(classes[which] >> 2U));
        completes(ok(wr_id));
    }
}

LIVE_CASE(LiveHeaders, VlanPriority, "A16 (IEEE 802.1Q 9.6)",
          "packets of a VLAN's GID have its tag, and the priority in it is that of the QP's service level") {
    if (live().vlan() == 0) {
        throw NotApplicable("the path has no VLAN (--vlan)");
    }
    std::string seen;
    for (std::uint8_t sl = 0; sl < 8; ++sl) {
        given("SL", unsigned{sl});
        connect({.sl = sl});
        const auto look = [&](const SeenFrame& frame, const std::string& what) {
            if (priority_text(frame) != std::to_string(sl)) {
                deviates("priority " + priority_text(frame) + " of " + what + " with SL " +
                         std::to_string(sl));
            }
        };
        post(write(1, 8));
        const SeenFrame request = take_requests(1)[0];
        look(request, "a request");
        seen += (sl == 0 ? "" : ", ") + priority_text(request);
        peer(ack(1000, 1));
        completes(ok(1));
        peer(read_request(2000, 8));
        const std::optional<SeenFrame> response = next_but_cnps(bench().tolerance().patience_ns);
        require(response.has_value(), "a READ is not answered");
        look(*response, "a READ response");
        leave_the_rest();
    }
    measured("priorities (PCP) of SL 0 to 7", seen);
}

LIVE_CASE(LiveHeaders, PriorityTag, "IEEE 802.1Q 6.9.1",
          "a tag of VLAN 0 says a priority, and the frame is as one without a tag; devices may drop it") {
    if (live().vlan() != 0) {
        throw NotApplicable("the path has a VLAN: the port puts its tag");
    }
    constexpr std::uint16_t kPriority = 5;
    connect();
    bench().transmit({with_vlan_tag(built(write_only(2000, 8)), kPriority << 13U)});
    const std::optional<SeenFrame> answer = next_but_cnps(bench().tolerance().patience_ns / 4);
    measured("a WRITE with a tag of VLAN 0, priority 5", answer ? "acknowledged" : "dropped");
    if (answer) {
        measured("priority (PCP) of the ACK's tag", priority_text(*answer));
    }
    // It was executed or it was not, and the next packet with that PSN is a duplicate or the first.
    peer(write_only(2000, 8));
    const std::optional<SeenFrame> next = next_but_cnps(bench().tolerance().patience_ns);
    require(next && frame_header(next->bytes).psn.value() == 2000,
            "a request without a tag is not acknowledged behind one with a tag");
    leave_the_rest();
}

}  // namespace urnic::conform
