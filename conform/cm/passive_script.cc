#include "conform/cm/passive_script.h"

#include "rnic/wire/opcodes.h"

namespace urnic::conform {

std::vector<Case>& active_case_list() {
    static std::vector<Case> list;
    return list;
}

bool add_active_case(const Case& entry) {
    active_case_list().push_back(entry);
    return true;
}

TimeNs PassiveScript::patience_of(const msg::Req& req) {
    constexpr std::uint8_t kMost = 20;  // 4.3 s
    if (req.remote_cm_response_timeout > kMost) {
        throw NotApplicable("the client's REQ gives its peer 4.096 us * 2^" +
                            std::to_string(req.remote_cm_response_timeout) + ", longer than a case waits");
    }
    return TimeNs{4096} << req.remote_cm_response_timeout;
}

msg::Rej PassiveScript::rejection(const HeardMessage& request) {
    msg::Rej rej;
    rej.remote_comm_id = req_of(request).local_comm_id;
    rej.message_rejected = cm::kAboutReq;
    rej.reason = cm::kRejConsumer;
    return rej;
}

HeardMessage PassiveScript::hears_rtu(const msg::Rep& rep, Where where) {
    HeardMessage heard = hears(rep.local_comm_id, where);
    const msg::Rtu rtu = kind_of<msg::Rtu>(heard, where);
    require(rtu.local_comm_id == rep.remote_comm_id, "the RTU does not name the REQ's communication ID",
            where);
    return heard;
}

msg::Dreq PassiveScript::release() {
    tester().await_client();
    msg::Dreq dreq;
    dreq.local_comm_id = tester().reply().local_comm_id;
    dreq.remote_comm_id = tester().asked().local_comm_id;
    dreq.remote_qpn_eecn = tester().asked().local_qpn;
    return dreq;
}

bool PassiveScript::is_request_of(const SeenFrame& frame) {
    return (wire::opcode_info(frame_header(frame.bytes).opcode).flags & wire::kIsRequest) != 0;
}

SeenFrame PassiveScript::requests(Where where) {
    constexpr TimeNs kPatienceNs = 3'000'000'000;
    const SeenFrame* next = bench().next(tester().real_now() + kPatienceNs);
    if (next == nullptr) {
        throw NotApplicable("this client sends nothing by itself");
    }
    SeenFrame seen = bench().take();
    require(is_request_of(seen), "expected a request of the client's QP\n  seen " + frame_line(seen.bytes),
            where);
    return seen;
}

void PassiveScript::takes_request(std::uint32_t count, std::uint32_t msn, Where where) {
    const std::uint32_t psn = (tester().asked().starting_psn + count) & 0xff'ffffU;
    peer(write_only(psn, 0), where);
    // The program may send meanwhile, or its QP send again.
    for (;;) {
        const SeenFrame* next = bench().next(now() + bench().tolerance().patience_ns);
        require(next != nullptr, "the client's QP does not answer a WRITE of no byte", where);
        const SeenFrame seen = bench().take();
        const wire::PacketHeader header = frame_header(seen.bytes);
        if (!is_request_of(seen)) {
            require(header.opcode == wire::kAcknowledge && header.psn.value() == psn &&
                        (header.aeth.syndrome & wire::kSyndromeKindMask) == wire::kSyndromeAck &&
                        header.aeth.msn == msn,
                    "expected the ACK of PSN " + std::to_string(psn) + ", MSN " + std::to_string(msn) +
                        "\n  seen " + frame_line(seen.bytes),
                    where);
            return;
        }
    }
}

void PassiveScript::is_alive_still(Where where) {
    const SeenFrame first = requests(where);
    peer(ack(frame_header(first.bytes).psn.value(), 1), where);
    takes_request(0, 1, where);
}

}  // namespace urnic::conform
