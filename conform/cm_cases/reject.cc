// REQs that no connection can come from (IBA 12.6.7.2), and messages about connections that there are not.
#include "conform/cm/cm_script.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kNobodysId = 0x1357'9bdf;
// What the RDMA IP CM service calls port 1 of TCP, where nobody listens.
constexpr std::uint64_t kNoService = cm::ip_service_id(0x0106, 1);

CM_CASE(CmReject, UnknownService, "12.6.7.2",
        "a REQ for a service ID that nobody listens for: REJ reason 8") {
    msg::Req req = request();
    req.service_id = kNoService;
    tells(req);
    const HeardMessage heard = hears(req.local_comm_id);
    const msg::Rej rej = kind_of<msg::Rej>(heard);
    require(rej.message_rejected == cm::kAboutReq, "the REJ is not about a REQ");
    require(rej.reason == cm::kRejInvalidServiceId, "REJ reason " + std::to_string(rej.reason) + ", not 8");
    require(heard.header.transaction_id == CmBench::transaction_id(req),
            "the REJ has another transaction ID than the REQ");
}

CM_CASE(CmReject, UnknownServiceAgain, "12.6.7.2",
        "the REQ for an unknown service ID that comes again is rejected again by reason 8") {
    msg::Req req = request();
    req.service_id = kNoService;
    for (int i = 0; i < 3; ++i) {
        tells(req);
        const std::optional<HeardMessage> heard =
            cm().hear(req.local_comm_id, cm().real_now() + CmBench::kPatienceNs);
        require(heard.has_value(), "expected REJ reason 8\n  seen none");
        require(kind_of<msg::Rej>(*heard).reason == cm::kRejInvalidServiceId, "another reason than 8");
    }
}

CM_CASE(CmReject, ReservedPathMtu, "12.6.7.2",
        "a REQ whose path MTU has a reserved value is rejected by reason 26") {
    for (const std::uint8_t mtu : {0, 6, 15}) {
        msg::Req req = request();
        req.path_mtu = mtu;
        tells(req);
        const HeardMessage heard = hears(req.local_comm_id);
        if (std::holds_alternative<msg::Rep>(heard.message)) {
            // The listener may not survive a connection that its QP cannot be made for.
            deviates("path MTU " + std::to_string(mtu) + ", which is reserved, is accepted");
            return;
        }
        require(kind_of<msg::Rej>(heard).reason == cm::kRejPathMtu, "another reason than 26");
    }
}

CM_CASE(CmReject, ReservedTransportService, "12.6.7.2",
        "a REQ for reliable datagrams, or for a reserved extended transport: REJ reason 9") {
    for (const std::uint8_t type : {2, 3}) {
        msg::Req req = request();
        req.transport_service_type = type;
        req.extended_transport_type = 0;
        tells(req);
        hears_reject(req, cm::kRejInvalidTransportType);
    }
}

CM_CASE(CmReject, AnotherGidThanThePackets, "12.6.7.2",
        "a REQ whose primary path leads to another GID than the device's: REJ reason 12") {
    msg::Req req = request();
    req.primary.remote_gid[15] ^= 0x55;
    tells(req);
    hears_reject(req, cm::kRejPrimaryGid);
}

CM_CASE(CmReject, AddressesThatAreNotThePaths, "A11",
        "a REQ whose IP CM header names another destination than its path is rejected") {
    msg::Req req = request();
    constexpr std::size_t kLastOfDestination = wire::cm::kIpCmHeaderBytes - 1;
    req.private_data[kLastOfDestination] ^= 0x55;
    tells(req);
    hears_reject(req, cm::kRejConsumer);
}

CM_CASE(CmReject, StaleConnection, "12.9.8.3.1",
        "a REQ of a QP that is connected already: REJ reason 10; the old connection is released") {
    const msg::Req old = request();
    const msg::Rep rep = establish(old);
    msg::Req req = request();
    req.local_qpn = old.local_qpn;
    tells(req);
    const msg::Rej rej = hears_a<msg::Rej>(req.local_comm_id);
    require(rej.reason == cm::kRejStaleConnection, "REJ reason " + std::to_string(rej.reason) + ", not 10");
    const msg::Dreq dreq = hears_a<msg::Dreq>(old.local_comm_id);
    require(dreq.local_comm_id == rep.local_comm_id && dreq.remote_qpn_eecn == old.local_qpn,
            "the DREQ names another connection");
}

CM_CASE(CmReject, RejectOfTheReplyEndsIt, "12.6.7",
        "a REJ of the REP ends the attempt: the REP does not come again, and the QP answers nothing") {
    create();
    msg::Rej rej;
    rej.local_comm_id = cm().req().local_comm_id;
    rej.remote_comm_id = cm().rep().local_comm_id;
    rej.message_rejected = cm::kAboutRep;
    rej.reason = cm::kRejConsumer;
    tells(rej);
    hears_nothing(rej.local_comm_id);
    is_in_error(0);
}

CM_CASE(CmReject, ReplyThatNobodyAskedFor, "12.6.7.2",
        "a REP for an unknown communication ID makes no connection; it may be rejected by reason 6") {
    msg::Rep rep;
    rep.local_comm_id = request().local_comm_id;
    rep.remote_comm_id = kNobodysId;
    rep.local_qpn = 77;
    tells(rep);
    const std::optional<HeardMessage> heard = cm().hear(rep.local_comm_id, cm().real_now() + kCmSilence);
    if (heard) {
        require(kind_of<msg::Rej>(*heard).reason == cm::kRejInvalidCommId, "another reason than 6");
    }
    measured("a REP for an unknown communication ID", heard ? "REJ reason 6" : "no answer");
}

CM_CASE(CmReject, RtuThatNobodyWaitsFor, "12.6.7.2",
        "an RTU for an unknown communication ID makes no connection; it may be rejected by reason 7") {
    msg::Rtu rtu;
    rtu.local_comm_id = request().local_comm_id;
    rtu.remote_comm_id = kNobodysId;
    tells(rtu);
    const std::optional<HeardMessage> heard = cm().hear(rtu.local_comm_id, cm().real_now() + kCmSilence);
    if (heard) {
        const std::uint16_t reason = kind_of<msg::Rej>(*heard).reason;
        require(reason == cm::kRejInvalidCommInstance || reason == cm::kRejInvalidCommId,
                "REJ reason " + std::to_string(reason));
    }
    measured("an RTU for an unknown communication ID", heard ? message_name(heard->message) : "no answer");
}

CM_CASE(CmReject, UnknownServiceOfDatagrams, "12.11.2",
        "a SIDR_REQ for a service ID that nobody listens for: SIDR_REP with status 1") {
    msg::SidrReq sidr;
    sidr.request_id = request().local_comm_id;
    sidr.pkey = 0xffff;
    sidr.service_id = 0x1000'0000'0000'0bad;
    tells(sidr);
    const msg::SidrRep rep = hears_a<msg::SidrRep>(sidr.request_id);
    require(rep.status == cm::kSidrUnsupported, "status " + std::to_string(rep.status) + ", not 1");
}

CM_CASE(
    CmDatagram, SpoiltRequests, "10.2.5, 13.5.3",
    "a REQ with a wrong ICRC, Q_Key, class or method, or cut short, is no REQ; a good one is answered then") {
    const msg::Req req = request();
    for (const auto& [how, datagram] : spoilt_datagrams(cm::build_mad(req, CmBench::transaction_id(req)))) {
        given(how, 1);
        cm().tell(datagram);
        hears_nothing(req.local_comm_id);
    }
    establish(req);
}

}  // namespace
}  // namespace urnic::conform
