// The end of a connection: DREQ, DREP, timewait (IBA 12.6.10, 12.6.11, 12.9).
#include "conform/cm/cm_script.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {
namespace {

CM_CASE(CmRelease, DreqIsAnswered, "12.6.11",
        "a DREQ is answered by a DREP with both communication IDs and the DREQ's transaction") {
    const msg::Req req = request();
    const msg::Rep rep = establish(req);
    const msg::Dreq end = dreq(req, rep);
    tells(end);
    const HeardMessage heard = hears(req.local_comm_id);
    const msg::Drep drep = kind_of<msg::Drep>(heard);
    require(drep.local_comm_id == rep.local_comm_id, "the DREP names another connection of the device");
    require(heard.header.transaction_id == CmBench::transaction_id(end),
            "the DREP has another transaction ID than the DREQ");
}

CM_CASE(CmRelease, DreqTwice, "12.9", "a DREQ that comes again in timewait is answered by the same DREP") {
    msg::Req req = request();
    constexpr std::uint8_t kLong = 20;  // timewait of 4.3 s at least
    req.primary.local_ack_timeout = kLong;
    const msg::Rep rep = establish(req);
    tells(dreq(req, rep));
    const msg::Drep drep = hears_a<msg::Drep>(req.local_comm_id);
    for (int i = 0; i < 2; ++i) {
        tells(dreq(req, rep));
        const std::optional<HeardMessage> again =
            cm().hear(req.local_comm_id, cm().real_now() + CmBench::kPatienceNs);
        require(again.has_value(), "expected the DREP again\n  seen none");
        require(kind_of<msg::Drep>(*again) == drep, "the second DREP differs from the first");
    }
}

CM_CASE(CmRelease, DreqOfUnknownConnection, "12.9",
        "a DREQ for communication IDs that nobody has is answered by a DREP with these") {
    msg::Dreq end;
    end.local_comm_id = request().local_comm_id;
    end.remote_comm_id = 0x2468'ace0;
    end.remote_qpn_eecn = 77;
    tells(end);
    const msg::Drep drep = hears_a<msg::Drep>(end.local_comm_id);
    require(drep.local_comm_id == end.remote_comm_id,
            "the DREP does not name the ID that the DREQ asked for");
}

CM_CASE(CmRelease, DreqOfAnotherQp, "12.6.10",
        "a DREQ that names another QP than the connection's ends nothing") {
    connect();
    is_alive(0, 1);
    msg::Dreq end = dreq(cm().req(), cm().rep());
    end.remote_qpn_eecn ^= 1U;
    tells(end);
    hears_nothing(end.local_comm_id);
    is_alive(1, 2);
}

CM_CASE(CmRelease, DreqOfAnotherPeer, "12.9",
        "a DREQ with the device's communication ID, but not the peer's own, ends nothing") {
    connect();
    is_alive(0, 1);
    msg::Dreq end = dreq(cm().req(), cm().rep());
    end.local_comm_id = request().local_comm_id;
    tells(end);
    // It may be answered, as one of an unknown connection is.
    const std::optional<HeardMessage> heard = cm().hear(end.local_comm_id, cm().real_now() + kCmSilence);
    require(!heard || std::holds_alternative<msg::Drep>(heard->message), "another answer than DREP, or none");
    is_alive(1, 2);
}

CM_CASE(CmRelease, QpIsSilentAfterwards, "12.9.8",
        "once the DREP came, the connection's QP answers no request") {
    connect();
    is_alive(0, 1);
    tells(dreq(cm().req(), cm().rep()));
    hears_a<msg::Drep>(cm().req().local_comm_id);
    is_in_error(1);
}

CM_CASE(CmRelease, RequestInTimewait, "12.9",
        "the REQ of a connection that is in timewait comes again: it makes no connection, REJ reason 10") {
    msg::Req req = request();
    constexpr std::uint8_t kLong = 20;  // timewait of 4.3 s at least
    req.primary.local_ack_timeout = kLong;
    const msg::Rep rep = establish(req);
    tells(dreq(req, rep));
    hears_a<msg::Drep>(req.local_comm_id);
    tells(req);
    hears_reject(req, cm::kRejStaleConnection);
}

CM_CASE(CmRelease, TimewaitEnds, "12.9",
        "after timewait the REQ's communication ID and QP may be used again, for a new connection") {
    const msg::Req req = request();
    const msg::Rep rep = establish(req);
    tells(dreq(req, rep));
    const HeardMessage end = hears(req.local_comm_id);
    (void)kind_of<msg::Drep>(end);
    constexpr TimeNs kEachNs = 50'000'000;
    constexpr TimeNs kMostNs = 6'000'000'000;
    for (;;) {
        tells(req);
        const std::optional<HeardMessage> heard =
            cm().hear(req.local_comm_id, cm().real_now() + CmBench::kPatienceNs);
        require(heard.has_value(), "expected a message of the connection manager\n  seen none");
        if (const auto* made = std::get_if<msg::Rep>(&heard->message)) {
            require(made->local_comm_id != rep.local_comm_id || made->local_qpn != rep.local_qpn,
                    "the new connection is the old one");
            tells(rtu(req, *made));
            measured("timewait, for an ACK timeout of 67 ms, at most", duration_text(heard->time - end.time));
            return;
        }
        require(cm().real_now() - end.time < kMostNs, "timewait lasts for more than 6 s");
        wait(kEachNs);
    }
}

CM_CASE(CmRelease, AlternatePath, "12.8.2",
        "a LAP may be refused or not be answered; it does not end the connection") {
    connect();
    is_alive(0, 1);
    msg::Lap lap;
    lap.local_comm_id = cm().req().local_comm_id;
    lap.remote_comm_id = cm().rep().local_comm_id;
    lap.remote_qpn_eecn = cm().rep().local_qpn;
    tells(lap);
    const std::optional<HeardMessage> heard = cm().hear(lap.local_comm_id, cm().real_now() + kCmSilence);
    const auto* apr = heard ? std::get_if<msg::Apr>(&heard->message) : nullptr;
    require(!heard || apr != nullptr, "another answer than APR");
    measured("a LAP", apr != nullptr ? "APR status " + std::to_string(apr->ap_status) : "no answer");
    is_alive(1, 2);
}

}  // namespace
}  // namespace urnic::conform
