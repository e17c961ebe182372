// Work requests that fail at home (IBA 9.9.2, 10.6.3).
#include "conform/case/case_list.h"

namespace urnic::conform {
namespace {

CONFORM_CASE(RequesterLocalErrors, BeyondTheRegion, "10.6.3",
             "a buffer that ends one byte behind its region: LOC_PROT_ERR, nothing goes out") {
    connect();
    fails_at_home(write(2, 9, kMemoryBytes - 8), WcStatus::kLocProtErr);
}

CONFORM_CASE(RequesterLocalErrors, LaterEntryOfTheList, "10.6.3",
             "the second entry of the list has no valid key: LOC_PROT_ERR, nothing goes out") {
    connect();
    SendRequest request = write(2, 8);
    request.sge.push_back({memory().addr(), 8, 0});
    fails_at_home(request, WcStatus::kLocProtErr);
}

CONFORM_CASE(RequesterLocalErrors, EntryOfALaterPacket, "10.6.3",
             "an entry without valid key that the Last alone needs: LOC_PROT_ERR, the Last does not go out") {
    connect();
    SendRequest request = write(2, 1024);
    request.sge.push_back({memory().addr(), 8, 0});
    post({write(1, 8), request, write(3, 8)});
    sends({write_only(1000, 8), write_first(1001, 1032, 1024)});
    peer(ack(1000, 1));
    completes({ok(1), failed(2, WcStatus::kLocProtErr), flushed(3)});
    state(QpState::kErr);
}

CONFORM_CASE(RequesterLocalErrors, ReadBufferMayNotBeWritten, "10.6.3",
             "a READ into a region without local write access: LOC_PROT_ERR, and nothing is written there") {
    connect({.timeout = 0});
    Region& region = add_region(64, 0);
    SendRequest request = read(2, 8);
    request.sge = {region.sge(0, 8)};
    post({write(1, 8), request});
    sends(write_only(1000, 8));
    // The L_Key may be looked at before the READ goes out, or when its response comes.
    if (may_send(read_request(1001, 8))) {
        peer(response_only(1001, 2, 8));
    } else {
        peer(ack(1000, 1));
    }
    completes({ok(1), failed(2, WcStatus::kLocProtErr)});
    state(QpState::kErr);
    untouched(region);
}

CONFORM_CASE(RequesterLocalErrors, MessageOverTheLimit, "9.7.4.1.6 (C9-94)",
             "a message of one byte more than max_msg_sz: LOC_LEN_ERR, nothing goes out") {
    connect();
    SendRequest request = write(2, 8);
    request.sge = {memory().sge(0, bench().max_message_bytes()), memory().sge(0, 1)};
    fails_at_home(request, WcStatus::kLocLenErr);
}

CONFORM_CASE(RequesterLocalErrors, AtomicWithoutRoomForItsResult, "9.4.5",
             "an atomic whose buffer has less than eight bytes: LOC_LEN_ERR, nothing goes out") {
    connect();
    SendRequest request = fetch_add(2, 1);
    request.sge[0].length = 7;
    fails_at_home(request, WcStatus::kLocLenErr);
}

CONFORM_CASE(RequesterLocalErrors, InlineRead, "11.4.1.1", "a READ with inline data: LOC_QP_OP_ERR") {
    connect();
    SendRequest request = read(2, 8);
    request.flags |= kSendInline;
    request.inline_data.resize(8);
    fails_at_home(request, WcStatus::kLocQpOpErr);
}

CONFORM_CASE(RequesterLocalErrors, ReadWithoutRdAtomic, "9.4.4",
             "READ and atomics with max_rd_atomic of 0 could never go out: LOC_QP_OP_ERR") {
    connect({.max_rd_atomic = 0});
    fails_at_home(read(2, 8), WcStatus::kLocQpOpErr);
    connect({.max_rd_atomic = 0});
    fails_at_home(fetch_add(2, 1), WcStatus::kLocQpOpErr);
}

CONFORM_CASE(RequesterLocalErrors, OpcodesThatRcDoesNotOffer, "11.4.1.1",
             "a work request of any opcode that RC does not offer: LOC_QP_OP_ERR, nothing goes out") {
    const auto is_offered = [](int opcode) {
        return opcode <= static_cast<int>(WrOpcode::kSendWithInvalidate) ||
               opcode == static_cast<int>(WrOpcode::kFlush) ||
               opcode == static_cast<int>(WrOpcode::kAtomicWrite);
    };
    for (int opcode = 0; opcode < 256; ++opcode) {
        if (!is_offered(opcode)) {
            given("opcode", opcode);
            connect();
            SendRequest request = write(2, 8);
            request.opcode = static_cast<WrOpcode>(opcode);
            fails_at_home(request, WcStatus::kLocQpOpErr);
        }
    }
}

CONFORM_CASE(RequesterLocalErrors, CompletionQueueOverrun, "10.10.2.4",
             "a completion that finds its CQ full: the QP is in ERR and raises the fatal event") {
    connect({}, {.cq_entries = 4});
    for (std::uint32_t i = 0; i < 6; ++i) {
        post(write(i, 8));
        sends(write_only(1000 + i, 8));
    }
    peer(ack(1005, 6));
    completes({ok(0), ok(1), ok(2), ok(3)});
    state(QpState::kErr);
    raises({AsyncEventType::kQpFatal});
}

CONFORM_CASE(RequesterLocalErrors, ReceiveCompletionQueueOverrun, "10.10.2.4",
             "a receive whose completion finds its CQ full: the QP is in ERR and raises the fatal event") {
    connect({}, {.cq_entries = 4});
    for (std::uint32_t i = 0; i < 5; ++i) {
        post_receive(100 + i, 64);
    }
    ScriptPackets burst;
    for (std::uint32_t i = 0; i < 5; ++i) {
        burst.push_back(send_only(2000 + i, 8));
    }
    peer(burst);
    receives({ok(100), ok(101), ok(102), ok(103)});
    state(QpState::kErr);
    raises({AsyncEventType::kQpFatal});
}

}  // namespace
}  // namespace urnic::conform
