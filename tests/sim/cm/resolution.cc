// Service ID resolution: SIDR_REQ and SIDR_REP (IBA 12.11), both sides.
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

class CmResolution : public CmScript {
  protected:
    static SidrReqParams params() {
        SidrReqParams params;
        params.owner = 5;
        params.route = connect_params().route;
        params.service_id = kPlainService;
        params.response_timeout = 18;
        params.max_cm_retries = 2;
        return params;
    }
    Handle resolve(const SidrReqParams& params) {
        const Manager::Opened result = manager().send_sidr_req(params, now(), out());
        EXPECT_EQ(result.status, Status::kOk);
        return result.handle;
    }
    static msg::SidrRep found(Handle handle) {
        msg::SidrRep rep;
        rep.request_id = handle;
        rep.qpn = 0x20;
        rep.qkey = 0x1234567;
        rep.service_id = kPlainService;
        return rep;
    }
    static constexpr TimeNs kWait = TimeNs{4096} << 18U;
};

CM_SCRIPT_IN(CmResolution, WeAsk, "12.11.1",
             "SIDR_REQ with our handle as request ID; the SIDR_REP is told, whatever its status") {
    for (const std::uint8_t status : {0, 1, 2, 3, 4, 5, 200}) {
        SidrReqParams asked = params();
        const std::vector<std::uint8_t> data(216, 0x31);
        asked.private_data = data;
        const Handle handle = resolve(asked);
        const auto sent = says<msg::SidrReq>();
        EXPECT_EQ(sent.request_id, handle);
        EXPECT_EQ(sent.service_id, kPlainService);
        EXPECT_EQ(sent.pkey, 0xffff);
        EXPECT_EQ(sent.private_data[215], 0x31);
        msg::SidrRep answer = found(handle);
        answer.status = status;
        hears(answer, last_tid());
        const SeenEvent told = event(EventType::kSidrReply);
        EXPECT_EQ(told.handle, handle);
        EXPECT_EQ(told.owner, 5U);
        EXPECT_EQ(std::get<msg::SidrRep>(*told.message), answer);
        EXPECT_EQ(told.private_data.size(), 136U);
        hears(answer);
        nothing();
        destroy(handle);
        EXPECT_EQ(manager().size(), 0U);
    }
}

CM_SCRIPT_IN(CmResolution, NobodyAnswers, "12.11.1",
             "the SIDR_REQ goes again max_cm_retries times, then the owner hears") {
    const Handle handle = resolve(params());
    const auto first = says<msg::SidrReq>();
    for (int i = 0; i < 2; ++i) {
        due_in(kWait);
        EXPECT_EQ(says<msg::SidrReq>(), first);
    }
    due_in(kWait);
    EXPECT_EQ(event(EventType::kSidrUnreachable).handle, handle);
    destroy(handle);
    leaves_nothing();
}

CM_SCRIPT_IN(CmResolution, WrongAnswers, "12.11.2",
             "a SIDR_REP of another address, request or service does nothing") {
    const Handle handle = resolve(params());
    says<msg::SidrReq>();
    ReceivedMad forged = mad(found(handle));
    forged.src_gid[15] ^= 1;
    hears(forged);
    msg::SidrRep other = found(handle);
    other.service_id = kPlainService + 1;
    hears(other);
    hears(found(handle + 1));
    other = found(handle);
    other.additional_info_length = 73;
    hears(other);
    nothing();
    EXPECT_EQ(state(handle), State::kSidrReqSent);
    destroy(handle);
    hears(found(handle));
    nothing();
    leaves_nothing();
}

CM_SCRIPT_IN(CmResolution, PeerAsks, "12.11.2",
             "SIDR_REQ: the owner hears once; its answer goes out, and again when asked again") {
    listen();
    msg::SidrReq request = sidr_req();
    request.private_data.fill(0x32);
    hears(request);
    const SeenEvent asked = event(EventType::kSidrRequest);
    EXPECT_EQ(asked.listener_owner, 7U);
    EXPECT_EQ(asked.private_data, std::vector<std::uint8_t>(216, 0x32));
    hears(request);
    nothing();
    SidrRepParams answer;
    answer.qpn = 0x40;
    answer.qkey = 0x1234;
    const std::vector<std::uint8_t> data(136, 0x33);
    answer.private_data = data;
    EXPECT_EQ(manager().send_sidr_rep(asked.handle, answer, now(), out()), Status::kOk);
    const auto first = says<msg::SidrRep>();
    EXPECT_EQ(first.request_id, kPeerId);
    EXPECT_EQ(first.status, 0);
    EXPECT_EQ(first.qpn, 0x40U);
    EXPECT_EQ(first.qkey, 0x1234U);
    EXPECT_EQ(first.service_id, kPlainService);
    EXPECT_EQ(first.private_data[135], 0x33);
    EXPECT_EQ(last_tid(), kTid);
    EXPECT_EQ(manager().half_open(), 0U);
    hears(request);
    EXPECT_EQ(says<msg::SidrRep>(), first);
    EXPECT_EQ(manager().send_sidr_rep(asked.handle, answer, now(), out()), Status::kWrongState);
    destroy(asked.handle);
    hears(request);
    EXPECT_EQ(says<msg::SidrRep>(), first);
    leaves_nothing();
}

CM_SCRIPT_IN(CmResolution, IdUsedAgain, "12.11.1",
             "the same request ID in another transaction is another request") {
    listen();
    hears(sidr_req());
    const Handle first = event(EventType::kSidrRequest).handle;
    hears(sidr_req(), kTid + 1);
    nothing();  // while the first is open
    EXPECT_EQ(manager().send_sidr_rep(first, {}, now(), out()), Status::kOk);
    says<msg::SidrRep>();
    hears(sidr_req(), kTid + 1);
    EXPECT_NE(event(EventType::kSidrRequest).handle, first);
}

CM_SCRIPT_IN(CmResolution, Refused, "12.11.2",
             "no listener: status 1; a listener for connections alone: the same; destroyed: 2") {
    hears(sidr_req());
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrUnsupported);
    ListenParams connections;
    connections.service_id = kPlainService;
    const Manager::Listening listening = manager().listen(connections);
    hears(sidr_req());
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrUnsupported);
    manager().unlisten(listening.id);
    listen();
    hears(sidr_req());
    destroy(event(EventType::kSidrRequest).handle);
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrRejected);
    leaves_nothing();
}

CM_SCRIPT_IN(CmResolution, ConnectionsElsewhere, "12.11",
             "a listener for resolution alone takes no REQ: reason 8") {
    ListenParams datagrams;
    datagrams.service_id = kPlainService;
    datagrams.allow_rc = false;
    datagrams.allow_uc = false;
    datagrams.allow_xrc = false;
    datagrams.allow_sidr = true;
    EXPECT_EQ(manager().listen(datagrams).status, Status::kOk);
    hears(req());
    EXPECT_EQ(says<msg::Rej>().reason, kRejInvalidServiceId);
    hears(sidr_req());
    event(EventType::kSidrRequest);
}

CM_SCRIPT_IN(CmResolution, IpCmHeader, "A11",
             "the IP CM header in a SIDR_REQ: told apart; wrong addresses status 2, unknown version 5") {
    listen(kService);
    msg::SidrReq request = sidr_req();
    request.service_id = kService;
    msg::IpCmHeader ip = ip_of_peer();
    ip.src_address[15] ^= 1;
    put_ip(request.private_data, ip);
    hears(request);
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrRejected);
    ip = ip_of_peer();
    ip.major_version = 1;
    put_ip(request.private_data, ip);
    hears(request);
    EXPECT_EQ(says<msg::SidrRep>().status, kSidrUnsupportedVersion);
    put_ip(request.private_data, ip_of_peer());
    hears(request);
    const SeenEvent asked = event(EventType::kSidrRequest);
    EXPECT_EQ(asked.ip, ip_of_peer());
    EXPECT_EQ(asked.private_data.size(), 180U);
}

CM_SCRIPT_IN(CmResolution, Backlog, "12.11", "requests for resolution count in the backlog like others") {
    listen(kPlainService, 1);
    hears(sidr_req());
    const Handle first = event(EventType::kSidrRequest).handle;
    hears(sidr_req(kPeerId + 1));
    nothing();
    manager().discard(first);
    hears(sidr_req(kPeerId + 1));
    event(EventType::kSidrRequest);
}

CM_SCRIPT_IN(CmResolution, BadArguments, "12.11", "answers and requests that have no room are refused") {
    const std::vector<std::uint8_t> data(217);
    SidrReqParams asked = params();
    asked.private_data = data;
    EXPECT_EQ(manager().send_sidr_req(asked, now(), out()).status, Status::kBadArgument);
    listen();
    hears(sidr_req());
    const Handle handle = event(EventType::kSidrRequest).handle;
    SidrRepParams answer;
    answer.private_data = std::span(data).first(137);
    EXPECT_EQ(manager().send_sidr_rep(handle, answer, now(), out()), Status::kBadArgument);
    answer.private_data = {};
    answer.qpn = 0x100'0000;
    EXPECT_EQ(manager().send_sidr_rep(handle, answer, now(), out()), Status::kBadArgument);
    EXPECT_EQ(manager().accept(handle, accept_params(), now(), out()), Status::kUnknownHandle);
}

}  // namespace
}  // namespace urnic::sim::cm
