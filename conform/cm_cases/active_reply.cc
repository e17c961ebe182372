// What a client does with the REP for its REQ (IBA 12.6.8, 12.6.9, 12.9).
#include "conform/cm/passive_script.h"

namespace urnic::conform {
namespace {

ACTIVE_CASE(ActiveReply, RtuNamesBothIds, "12.6.9",
            "a REP is answered by an RTU that names both communication IDs, in the REQ's transaction") {
    const HeardMessage request = asks();
    const msg::Rep rep = tester().reply_to(request);
    tells_back(request, rep);
    const HeardMessage heard = hears_rtu(rep);
    require(heard.header.transaction_id == request.header.transaction_id,
            "the RTU has another transaction ID than the REQ");
}

ACTIVE_CASE(ActiveReply, ComesAgain, "12.9.8.1",
            "a REP that comes again, because its RTU was lost, is answered by the same RTU again") {
    const HeardMessage request = asks();
    const msg::Rep rep = tester().reply_to(request);
    tells_back(request, rep);
    const msg::Rtu rtu = kind_of<msg::Rtu>(hears_rtu(rep));
    for (int i = 0; i < 2; ++i) {
        tells_back(request, rep);
        const std::optional<HeardMessage> again =
            tester().hear(rep.local_comm_id, cm().real_now() + CmBench::kPatienceNs);
        require(again.has_value(), "expected the RTU again\n  seen none");
        require(kind_of<msg::Rtu>(*again) == rtu, "the second RTU differs from the first");
    }
}

ACTIVE_CASE(
    ActiveReply, Spoilt, "10.2.5, 13.5.3",
    "a REP with a wrong ICRC, Q_Key, class or method, or cut short, is no REP; a good one is taken then") {
    const HeardMessage request = asks();
    const msg::Rep rep = tester().reply_to(request);
    const cm::MadBytes mad = cm::build_mad(rep, request.header.transaction_id);
    for (const auto& [how, datagram] : spoilt_datagrams(mad)) {
        given(how, 1);
        tester().tell(datagram);
        hears_nothing(rep.local_comm_id);
    }
    tells_back(request, rep);
    hears_rtu(rep);
}

ACTIVE_CASE(
    ActiveReply, ForAnotherRequest, "12.6.7.2",
    "a REP for a communication ID that the client has not is no answer to its REQ; the right one is") {
    const HeardMessage request = asks();
    const msg::Rep rep = tester().reply_to(request);
    msg::Rep other = rep;
    other.remote_comm_id ^= 0x5555'5555;
    tells_back(request, other);
    const std::optional<HeardMessage> heard = tester().hear(rep.local_comm_id, cm().real_now() + kCmSilence);
    if (heard) {
        require(kind_of<msg::Rej>(*heard).reason == cm::kRejInvalidCommId, "another reason than 6");
    }
    const msg::Rep right = tester().reply_to(request);
    tells_back(request, right);
    hears_rtu(right);
}

ACTIVE_CASE(ActiveReply, OfASecondServer, "12.9",
            "a REP of another communication ID does not replace a connection that stands") {
    connect();
    msg::Rep other = tester().reply();
    other.local_comm_id = tester().reply_to(tester().request()).local_comm_id;
    other.local_qpn = tester().reply().local_qpn ^ 1U;
    tells_back(tester().request(), other);
    const std::optional<HeardMessage> heard =
        tester().hear(other.local_comm_id, cm().real_now() + kCmSilence);
    require(!heard || std::holds_alternative<msg::Rej>(heard->message),
            "it is answered by another message than REJ");
    is_alive_still();
}

}  // namespace
}  // namespace urnic::conform
