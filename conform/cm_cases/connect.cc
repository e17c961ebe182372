// REQ, REP and RTU as the one who asks for a connection sees them (IBA 12.6, 12.9).
#include <set>

#include "conform/cm/cm_script.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kFirstQp = 2;
constexpr std::uint32_t kLastQp = 0xff'fffe;  // 0xffffff is multicast

CM_CASE(CmConnect, ReplyNamesBothIds, "12.6.8",
        "a REQ to a listener is answered by a REP that names the REQ's communication ID and transaction") {
    const msg::Req req = request();
    tells(req);
    const HeardMessage heard = hears(req.local_comm_id);
    const msg::Rep rep = kind_of<msg::Rep>(heard);
    require(rep.remote_comm_id == req.local_comm_id, "the REP names another communication ID");
    require(heard.header.transaction_id == CmBench::transaction_id(req),
            "the REP has another transaction ID than the REQ");
    require(rep.local_qpn >= kFirstQp && rep.local_qpn <= kLastQp,
            "the REP names QP " + std::to_string(rep.local_qpn));
}

CM_CASE(CmConnect, ReplyOffersNoMoreThanWasAskedFor, "12.7.29",
        "the REP's initiator depth is no more than the REQ's responder resources") {
    for (const std::uint8_t depth : {1, 4, 16}) {
        msg::Req req = request();
        req.responder_resources = depth;
        req.initiator_depth = depth;
        const msg::Rep rep = establish(req);
        require(rep.initiator_depth <= depth, "initiator depth " + std::to_string(rep.initiator_depth) +
                                                  " for " + std::to_string(depth) + " responder resources");
        measured("responder resources, initiator depth for " + std::to_string(depth) + " asked for",
                 std::to_string(rep.responder_resources) + ", " + std::to_string(rep.initiator_depth));
    }
}

CM_CASE(CmConnect, EachConnectionHasItsOwnQp, "12.9",
        "connections that are open at once have communication IDs and QPs of their own") {
    std::set<std::uint32_t> ids;
    std::set<std::uint32_t> qps;
    std::set<std::uint32_t> psns;
    constexpr std::size_t kConnections = 4;
    for (std::size_t i = 0; i < kConnections; ++i) {
        const msg::Rep rep = establish(request());
        require(ids.insert(rep.local_comm_id).second, "two connections have one communication ID");
        require(qps.insert(rep.local_qpn).second, "two connections have one QP");
        psns.insert(rep.starting_psn);
    }
    measured("starting PSNs of 4 connections", std::to_string(psns.size()) + " different");
}

CM_CASE(CmConnect, DuplicateRequestGetsTheSameReply, "12.9",
        "a REQ that comes again before the RTU makes no second connection: the REP that comes is the same") {
    msg::Req req = request();
    constexpr std::uint8_t kSoon = 15;  // 134 ms
    req.local_cm_response_timeout = kSoon;
    tells(req);
    const HeardMessage first = hears(req.local_comm_id);
    const msg::Rep rep = kind_of<msg::Rep>(first);
    const TimeNs again = cm().real_now();
    tells(req);
    // At once, or when its own timer runs out.
    std::optional<HeardMessage> second = cm().hear(req.local_comm_id, again + CmBench::kPatienceNs);
    require(second.has_value(), "expected the REP again\n  seen none");
    if (std::holds_alternative<msg::Mra>(second->message)) {
        second = cm().hear(req.local_comm_id, again + CmBench::kPatienceNs);
        require(second.has_value(), "expected the REP again, behind an MRA\n  seen none");
    }
    require(kind_of<msg::Rep>(*second) == rep, "the second REP differs from the first");
    measured("a REQ that comes again is answered after", duration_text(second->time - again));
    tells(rtu(req, rep));
}

CM_CASE(CmConnect, ReplyIsRepeatedNoMoreThanAllowed, "12.7.27",
        "without an RTU the same REP goes again, no more often than the REQ's Max CM Retries") {
    msg::Req req = request();
    constexpr std::uint8_t kSoon = 14;  // 67 ms
    constexpr std::uint8_t kRetries = 2;
    req.local_cm_response_timeout = kSoon;
    req.max_cm_retries = kRetries;
    tells(req);
    const HeardMessage first = hears(req.local_comm_id);
    const msg::Rep rep = kind_of<msg::Rep>(first);
    std::size_t repeated = 0;
    TimeNs last = first.time;
    std::vector<TimeNs> gaps;
    // What follows the last REP may be a REJ by time-out (reason 4), or nothing.
    constexpr TimeNs kQuietNs = 1'500'000'000;
    while (const std::optional<HeardMessage> heard = cm().hear(req.local_comm_id, last + kQuietNs)) {
        if (const auto* rej = std::get_if<msg::Rej>(&heard->message)) {
            require(rej->reason == cm::kRejTimeout, "REJ reason " + std::to_string(rej->reason));
            measured("after the last REP", "REJ reason 4");
            break;
        }
        if (std::holds_alternative<msg::Dreq>(heard->message)) {
            measured("after the last REP", "DREQ");
            break;
        }
        require(kind_of<msg::Rep>(*heard) == rep, "a repeated REP differs from the first");
        ++repeated;
        gaps.push_back(heard->time - last);
        last = heard->time;
    }
    require(repeated >= 1, "the REP was not repeated");
    require(repeated <= kRetries, "the REP was repeated " + std::to_string(repeated) + " times");
    measured("between REPs, for a response timeout of 67 ms", duration_text(median(gaps)));
}

CM_CASE(CmConnect, RtuEndsTheRepetitions, "12.9",
        "with the RTU the REP is not sent again, and an RTU gets no answer") {
    msg::Req req = request();
    constexpr std::uint8_t kSoon = 15;  // 134 ms
    req.local_cm_response_timeout = kSoon;
    tells(req);
    const msg::Rep rep = hears_a<msg::Rep>(req.local_comm_id);
    tells(rtu(req, rep));
    tells(rtu(req, rep));
    // One REP may have been on its way to meet the RTU.
    std::size_t repeated = 0;
    constexpr TimeNs kQuietNs = 500'000'000;
    while (const std::optional<HeardMessage> heard =
               cm().hear(req.local_comm_id, cm().real_now() + kQuietNs)) {
        require(kind_of<msg::Rep>(*heard) == rep && ++repeated <= 1, "the REP comes again after the RTU");
    }
}

CM_CASE(CmConnect, QpIsReadyBeforeTheRtu, "12.9",
        "when the REP comes, the device's QP takes requests already: they are answered without an RTU") {
    create();
    is_alive(0, 1);
    rts();
    is_alive(1, 2);
}

CM_CASE(CmConnect, ReplyIsAGoodDatagram, "13.5.3 (A17)",
        "a REP comes from QP1 to QP1 as UD SEND Only with the Q_Key of QP1, 256 bytes, and a right ICRC") {
    const msg::Req req = request();
    tells(req);
    const HeardMessage heard = hears(req.local_comm_id);
    const msg::Rep rep = kind_of<msg::Rep>(heard);
    const wire::PacketHeader seen = frame_header(heard.frame);
    cm::MadBytes mad = cm::build_mad(rep, CmBench::transaction_id(req));
    // AckReq and SE mean nothing in a UD packet that is not waited for; the PSN counts the sender's
    // datagrams.
    ScriptPacket expected = CmBench::datagram(mad, seen.psn.value());
    if (seen.solicited) {
        expected.solicited();
    }
    require((seen.pkey & 0x7fffU) == 0x7fffU, "the P_Key is not the default partition's");
    expected.pkey(seen.pkey).ackreq(seen.ack_req).mig_req(seen.mig_req);
    std::string differences;
    const bool is_same = same_from_bth(
        expected.expected_for(&heard.frame, wire::make_path(bench().path()), {}), heard.frame, differences);
    require(is_same, "another datagram than expected; they differ in\n" + differences);
    if (!seen.mig_req) {
        deviates(kMigReqZero);
    }
}

}  // namespace
}  // namespace urnic::conform
