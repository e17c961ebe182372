// The end of a connection that the device has asked for (IBA 12.6.10, 12.6.11).
#include "conform/cm/passive_script.h"
#include "conform/live_cases/live_script.h"

namespace urnic::conform {
namespace {

ACTIVE_CASE(ActiveRelease, DreqIsAnswered, "12.6.11",
            "a DREQ is answered by a DREP with both communication IDs, in the DREQ's transaction") {
    connect();
    const msg::Dreq end = release();
    tells(end);
    const HeardMessage heard = hears(end.local_comm_id);
    require(kind_of<msg::Drep>(heard).local_comm_id == end.remote_comm_id,
            "the DREP names another connection of the device");
    require(heard.header.transaction_id == CmBench::transaction_id(end),
            "the DREP has another transaction ID than the DREQ");
    ignore_the_rest();
}

ACTIVE_CASE(ActiveRelease, DreqTwice, "12.9",
            "a DREQ that comes again in timewait is answered by a DREP again") {
    connect();
    const msg::Dreq end = release();
    tells(end);
    const msg::Drep drep = hears_a<msg::Drep>(end.local_comm_id);
    for (int i = 0; i < 2; ++i) {
        tells(end);
        const std::optional<HeardMessage> again =
            tester().hear(end.local_comm_id, cm().real_now() + CmBench::kPatienceNs);
        require(again.has_value(), "expected the DREP again\n  seen none");
        require(kind_of<msg::Drep>(*again) == drep, "the second DREP differs from the first");
    }
    ignore_the_rest();
}

ACTIVE_CASE(ActiveRelease, DreqOfAnotherQp, "12.6.10",
            "a DREQ that names another QP than the connection's ends nothing") {
    connect();
    msg::Dreq end = release();
    end.remote_qpn_eecn ^= 1U;
    tells(end);
    hears_nothing(end.local_comm_id);
    is_alive_still();
}

ACTIVE_CASE(ActiveRelease, QpIsSilentAfterwards, "12.9.8",
            "once the DREP came, the client's QP answers nothing") {
    connect();
    const SeenFrame first = requests();
    peer(ack(frame_header(first.bytes).psn.value(), 1));
    takes_request(0, 1);
    tells(release());
    hears_a<msg::Drep>(tester().reply().local_comm_id);
    while (bench().next(tester().real_now()) != nullptr) {  // sent before the end
        (void)bench().take();
    }
    peer(write_only((tester().asked().starting_psn + 1) & 0xff'ffffU, 0));
    silence(kSecond);
}

ACTIVE_CASE(
    ActiveRelease, ClientEndsItsConnection, "12.6.10",
    "a client whose request fails releases its connection: the DREQ names both IDs and the tester's QP") {
    connect();
    const SeenFrame first = requests();
    peer(nak(frame_header(first.bytes).psn.value(), 0, wire::kNakRemoteOperationalError));
    const std::optional<HeardMessage> heard =
        tester().hear_new(tester().reply().local_comm_id, cm().real_now() + CmBench::kPatienceNs);
    if (!heard) {
        throw NotApplicable("this client keeps its connection when a request has failed");
    }
    const msg::Dreq dreq = kind_of<msg::Dreq>(*heard);
    require(dreq.local_comm_id == tester().asked().local_comm_id, "the DREQ names another connection");
    require(dreq.remote_qpn_eecn == tester().reply().local_qpn,
            "the DREQ names another QP than the tester's");
    measured("from the NAK to the DREQ", duration_text(heard->time - first.time));
    ignore_the_rest();
}

}  // namespace
}  // namespace urnic::conform
