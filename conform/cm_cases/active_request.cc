// The REQ of a client (IBA 12.6.5), and what it does while nobody answers it.
#include <algorithm>

#include "conform/cm/passive_script.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kFirstQpOfClients = 2;
constexpr std::uint32_t kLastQpOfClients = 0xff'fffe;  // 0xffffff is multicast

// When a REQ has come again if it ever does: its sender adds the time of a packet, there and back. A little
// less than twice its response timeout, which is how long an MRA of the next code keeps it.
TimeNs most_patience(TimeNs response_timeout) { return 2 * response_timeout - response_timeout / 16; }

ACTIVE_CASE(ActiveRequest, NamesItsEnd, "12.6.5",
            "a REQ names a communication ID, a QP, a path MTU and a path from the device to the tester") {
    const HeardMessage heard = asks();
    const msg::Req req = req_of(heard);
    require(heard.header.transaction_id != 0, "the transaction ID is 0");
    require(req.local_comm_id != 0, "the communication ID is 0");
    require(req.local_qpn >= kFirstQpOfClients && req.local_qpn <= kLastQpOfClients,
            "the REQ names QP " + std::to_string(req.local_qpn));
    require(req.transport_service_type == 0, "the transport service is not RC");
    require(req.path_mtu >= 1 && req.path_mtu <= 5, "the path MTU is a reserved value");
    require((req.pkey & 0x7fffU) == 0x7fffU, "the P_Key is not the default partition's");
    require(req.primary.local_gid == bench().path().dst_gid, "the path does not begin at the device's GID");
    require(req.primary.remote_gid == bench().path().src_gid, "the path does not lead to the tester's GID");
    measured("path MTU", std::to_string(128U << req.path_mtu));
    measured("responder resources, initiator depth",
             std::to_string(req.responder_resources) + ", " + std::to_string(req.initiator_depth));
    measured("retry count, RNR retry count",
             std::to_string(req.retry_count) + ", " + std::to_string(req.rnr_retry_count));
    measured("local ACK timeout, response timeout, most CM retries",
             std::to_string(req.primary.local_ack_timeout) + ", " +
                 std::to_string(req.remote_cm_response_timeout) + ", " + std::to_string(req.max_cm_retries));
}

ACTIVE_CASE(
    ActiveRequest, NamesTheAddresses, "A11",
    "in front of its private data a REQ of the IP CM service has both IP addresses, those of its path") {
    const msg::Req req = req_of(asks());
    msg::IpCmHeader header;
    wire::read_fields(msg::kIpCmHeaderTable, reinterpret_cast<const std::byte*>(req.private_data.data()),
                      &header);
    require(msg::is_known_version(header), "the versions in the header are unknown ones");
    const bool is_ipv4 = wire::is_ipv4_mapped(req.primary.local_gid);
    require(header.ip_version == (is_ipv4 ? 4 : 6), "the IP version is not that of the path");
    const auto ends_as = [is_ipv4](const Gid& address, const Gid& gid) {
        return std::equal(gid.begin() + (is_ipv4 ? 12 : 0), gid.end(), address.begin() + (is_ipv4 ? 12 : 0));
    };
    require(ends_as(header.src_address, req.primary.local_gid), "the source address is not the path's");
    require(ends_as(header.dst_address, req.primary.remote_gid), "the destination is not the path's");
    require(header.src_port != 0, "the source port is 0");
}

ACTIVE_CASE(
    ActiveRequest, IsAGoodDatagram, "13.5.3 (A17)",
    "a REQ comes from QP1 to QP1 as UD SEND Only with the Q_Key of QP1, 256 bytes, and a right ICRC") {
    const HeardMessage heard = asks();
    const wire::PacketHeader seen = frame_header(heard.frame);
    const cm::MadBytes mad = cm::build_mad(req_of(heard), heard.header.transaction_id);
    // AckReq and SE mean nothing in a UD packet that is not waited for; the PSN counts the sender's
    // datagrams.
    ScriptPacket expected = PassiveCmBench::datagram(mad, seen.psn.value());
    if (seen.solicited) {
        expected.solicited();
    }
    expected.pkey(seen.pkey).ackreq(seen.ack_req).mig_req(seen.mig_req);
    std::string differences;
    const bool is_same = same_from_bth(
        expected.expected_for(&heard.frame, wire::make_path(bench().path()), {}), heard.frame, differences);
    require(is_same, "another datagram than expected; they differ in\n" + differences);
    if (!seen.mig_req) {
        deviates(kMigReqZero);
    }
}

ACTIVE_CASE(ActiveRequest, ComesAgain, "12.9.8.1",
            "a REQ that nobody answers comes again, the same, when the time is over that it gives its peer") {
    const HeardMessage first = asks();
    const TimeNs least = patience_of(req_of(first));
    const std::optional<HeardMessage> again = tester().hear_again(first, first.time + most_patience(least));
    require(again.has_value(), "the REQ does not come again within nearly twice its response timeout");
    require(req_of(*again) == req_of(first), "the second REQ differs from the first");
    require(again->header.transaction_id == first.header.transaction_id,
            "the second REQ has another transaction ID than the first");
    require(again->time - first.time >= least,
            "the REQ comes again after " + duration_text(again->time - first.time));
    measured("between REQs, for a response timeout of " + duration_text(least),
             duration_text(again->time - first.time));
    // An answer to the second is one to the first.
    const msg::Rep rep = tester().reply_to(first);
    tells_back(first, rep);
    hears_rtu(rep);
}

ACTIVE_CASE(ActiveRequest, MraIsWaitedFor, "12.6.6",
            "behind an MRA the REQ does not come again for its service timeout; a REP is taken then") {
    const HeardMessage first = asks();
    const TimeNs usual = patience_of(req_of(first));
    msg::Mra mra;
    mra.remote_comm_id = req_of(first).local_comm_id;
    mra.message_mraed = cm::kAboutReq;
    mra.service_timeout = static_cast<std::uint8_t>(req_of(first).remote_cm_response_timeout + 1);
    tells_back(first, mra);
    // Without the MRA it would have come.
    require(!tester().hear_again(first, first.time + most_patience(usual)).has_value(),
            "the REQ comes again inside the service timeout of the MRA");
    const msg::Rep rep = tester().reply_to(first);
    tells_back(first, rep);
    hears_rtu(rep);
}

ACTIVE_CASE(ActiveRequest, RejectEndsIt, "12.6.7",
            "a REJ ends the attempt: the REQ does not come again, and a REP makes no connection") {
    const HeardMessage first = asks();
    const TimeNs usual = patience_of(req_of(first));
    tells_back(first, rejection(first));
    require(!tester().hear_again(first, first.time + most_patience(usual)).has_value(),
            "the REQ comes again behind a REJ");
    const msg::Rep rep = tester().reply_to(first);
    tells_back(first, rep);
    const std::optional<HeardMessage> heard = tester().hear(rep.local_comm_id, cm().real_now() + kCmSilence);
    require(!heard || std::holds_alternative<msg::Rej>(heard->message),
            "a REP behind a REJ gets another answer than REJ");
    measured("a REP behind a REJ", heard ? message_name(heard->message) : "no answer");
}

}  // namespace
}  // namespace urnic::conform
