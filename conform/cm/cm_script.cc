#include "conform/cm/cm_script.h"

namespace urnic::conform {

std::vector<Case>& cm_case_list() {
    static std::vector<Case> list;
    return list;
}

bool add_cm_case(const Case& entry) {
    cm_case_list().push_back(entry);
    return true;
}

std::vector<std::pair<const char*, ScriptPacket>> spoilt_datagrams(const cm::MadBytes& mad) {
    constexpr std::size_t kClassAt = 1;
    constexpr std::size_t kMethodAt = 3;
    cm::MadBytes other_class = mad;
    other_class[kClassAt] = std::byte{0x3f};  // of no manager
    cm::MadBytes other_method = mad;
    other_method[kMethodAt] = std::byte{0x7f};  // no method
    return {{"wrong ICRC", CmBench::datagram(mad).bad_icrc()},
            {"wrong Q_Key", CmBench::datagram(mad).deth(wire::kGsiQkey ^ 1U, wire::kQp1)},
            {"cut short", CmBench::datagram(std::span(mad).first(wire::kMadBytes - 4))},
            {"another class", CmBench::datagram(other_class)},
            {"no method", CmBench::datagram(other_method)}};
}

HeardMessage CmScript::hears(std::uint32_t id, Where where) {
    const std::optional<HeardMessage> heard = cm().hear_new(id, cm().real_now() + CmBench::kPatienceNs);
    require(heard.has_value(), "expected a message of the connection manager\n  seen none", where);
    return *heard;
}

void CmScript::hears_nothing(std::uint32_t id, Where where) {
    const std::optional<HeardMessage> heard = cm().hear(id, cm().real_now() + kCmSilence);
    require(!heard.has_value(),
            "expected no message of the connection manager\n  seen " +
                (heard ? message_name(heard->message) : std::string{}),
            where);
}

void CmScript::hears_reject(const msg::Req& req, std::uint16_t reason, Where where) {
    const msg::Rej rej = hears_a<msg::Rej>(req.local_comm_id, where);
    require(rej.message_rejected == cm::kAboutReq,
            "the REJ is about message " + std::to_string(rej.message_rejected) + ", not the REQ (0)", where);
    if (rej.reason != reason) {
        deviates("REJ reason " + std::to_string(rej.reason) + " in place of " + std::to_string(reason));
    }
}

msg::Rtu CmScript::rtu(const msg::Req& req, const msg::Rep& rep) {
    msg::Rtu rtu;
    rtu.local_comm_id = req.local_comm_id;
    rtu.remote_comm_id = rep.local_comm_id;
    return rtu;
}

msg::Dreq CmScript::dreq(const msg::Req& req, const msg::Rep& rep) {
    msg::Dreq dreq;
    dreq.local_comm_id = req.local_comm_id;
    dreq.remote_comm_id = rep.local_comm_id;
    dreq.remote_qpn_eecn = rep.local_qpn;
    return dreq;
}

msg::Rep CmScript::establish(const msg::Req& req, Where where) {
    tells(req);
    const msg::Rep rep = hears_a<msg::Rep>(req.local_comm_id, where);
    tells(rtu(req, rep));
    return rep;
}

void CmScript::is_alive(std::uint32_t count, std::uint32_t msn, Where where) {
    peer(write_of_nothing(count), where);
    sends(ack(psn(count), msn).any_credits(), where);
}

void CmScript::is_in_error(std::uint32_t count, Where where) {
    peer(write_of_nothing(count), where);
    silence(kSecond, where);
}

}  // namespace urnic::conform
