// Work requests that fail at home, and applications that change their rings under way (IBA 9.9.2, 10.6.3).
#include "rnic/qp/limits.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

class RequesterLocalErrors : public RcScript {
  protected:
    // The application has changed the ring since the WRITE went out; the WRITE has to go out again.
    void fails_when_repeated(Where where = Where::current()) {
        post(write(2, 8));  // the requester reads another WQE in between
        sends(write_only(1001, 8), where);
        peer(sequence_nak(1000, 0));
        completes({failed(1, WcStatus::kLocQpOpErr), flushed(2)}, where);
        sends_nothing(where);
        state(QpState::kErr, where);
    }
    void connect_and_send_write() {
        connect();
        post(write(1, 8));
        sends(write_only(1000, 8));
    }
};

RC_SCRIPT_IN(RequesterLocalErrors, KeyOfAnotherPd, "10.6.3",
             "a buffer of another protection domain: LOC_PROT_ERR, nothing goes out") {
    connect();
    SendRequest request = write(2, 8);
    request.sge = {host().add_region(64, {.pd = 9}).sge(0, 8)};
    fails_at_home(request, WcStatus::kLocProtErr);
}

RC_SCRIPT_IN(RequesterLocalErrors, MemoryOutOfReach, "9.9.2",
             "a buffer whose memory cannot be reached any more: LOC_PROT_ERR, nothing goes out") {
    connect();
    SimRegion& region = host().add_region(64, {.mapped = false});
    region.space.gone = true;
    SendRequest request = write(2, 8);
    request.sge = {region.sge(0, 8)};
    fails_at_home(request, WcStatus::kLocProtErr);
}

RC_SCRIPT_IN(RequesterLocalErrors, CountsBeyondTheQueue, "11.4.1.1",
             "a WQE that claims more entries or more inline bytes than the queue has: LOC_QP_OP_ERR") {
    for (const bool is_inline : {false, true}) {
        SCOPED_TRACE(is_inline);
        connect({}, {.max_sge = 2});
        host().post_send(write(1, 8));
        abi::SendWqe& wqe = host().send_ring().slot(0);
        if (is_inline) {
            wqe.flags = kSendInline | kSendSignaled;
            wqe.inline_length = 0xffff'ffff;
        } else {
            wqe.num_sge = 255;
        }
        host().progress();
        completes(failed(1, WcStatus::kLocQpOpErr));
        sends_nothing();
        state(QpState::kErr);
    }
}

RC_SCRIPT_IN(RequesterLocalErrors, LengthGrowsBeforeTheRepetition, "9.7.5.1.5",
             "the list of a WRITE has grown since it went out: not a byte more goes out, LOC_QP_OP_ERR") {
    connect_and_send_write();
    host().send_ring().sge(0)->length = 4096;
    fails_when_repeated();
}

RC_SCRIPT_IN(RequesterLocalErrors, OpcodeChangesBeforeTheRepetition, "9.7.5.1.5",
             "a WRITE has become an atomic since it went out: LOC_QP_OP_ERR") {
    connect_and_send_write();
    host().send_ring().slot(0).opcode = static_cast<std::uint8_t>(WrOpcode::kFetchAdd);
    fails_when_repeated();
}

RC_SCRIPT_IN(RequesterLocalErrors, SlotIsTakenBackBeforeTheRepetition, "9.7.5.1.5",
             "the slot of a WRITE is no longer its own when it has to go out again: LOC_QP_OP_ERR") {
    connect_and_send_write();
    host().send_ring().slot(0).seq.store(77);
    fails_when_repeated();
}

RC_SCRIPT_IN(RequesterLocalErrors, ReadListShrinksBeforeTheResponse, "9.4.4",
             "the list of a READ has shrunk since it went out: LOC_QP_OP_ERR, nothing is written behind it") {
    connect();
    post(read(1, 4096));
    sends(read_request(1000, 4096));
    host().send_ring().sge(0)->length = 100;
    peer(response_first(1000, 1, 1024));
    completes(failed(1, WcStatus::kLocQpOpErr));
    state(QpState::kErr);
    holds_own_data(100, 4096);
}

}  // namespace
}  // namespace urnic::sim
