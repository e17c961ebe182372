// What is not believed: malformed messages, wrong addresses and IDs, floods.
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

class CmBadInput : public CmScript {
  protected:
    /// A REQ with one thing wrong is rejected by `reason`, and leaves nothing.
    template <class Change>
    msg::Rej refused(std::uint16_t reason, Change&& change, Where where = Where::current()) {
        msg::Req request = req();
        change(request);
        hears(request);
        const auto answer = says<msg::Rej>(where);
        if (answer.reason != reason || answer.message_rejected != 0 || answer.remote_comm_id != kPeerId ||
            manager().size() != 0) {
            fail(where, "reason " + std::to_string(answer.reason));
        }
        no_event(where);
        return answer;
    }
    void malformed(const ReceivedMad& one, Where where = Where::current()) {
        const std::uint64_t before = manager().stats().malformed;
        hears(one);
        nothing(where);
        if (manager().stats().malformed != before + 1) {
            fail(where, "not counted as malformed");
        }
    }
    /// A request from another address, which says so.
    ReceivedMad from(std::uint32_t source, std::uint32_t number, std::uint64_t service = kPlainService) {
        wire::Gid gid = kPeerGid;
        gid[13] = static_cast<std::uint8_t>(source >> 16U);
        gid[14] = static_cast<std::uint8_t>(source >> 8U);
        gid[15] = static_cast<std::uint8_t>(source);
        msg::Req request = req(kPeerId + number, 2 + number);
        request.service_id = service;
        request.primary.local_gid = gid;
        ReceivedMad result = mad(request, kTid + number);
        result.src_gid = gid;
        return result;
    }
    std::size_t requests_seen() {
        std::size_t count = 0;
        for (; !heard_nothing(); ++count) {
            last_ = event(EventType::kRequest).handle;
        }
        return count;
    }
    /// What went out is not looked at.
    void unheard() { static_cast<Recorder&>(out()).mads.clear(); }
    bool heard_nothing() { return static_cast<Recorder&>(out()).events.empty(); }
    Handle last_ = 0;
};

CM_SCRIPT_IN(CmBadInput, Headers, "13.4",
             "another class, version, method or attribute, or another QP than 1: dropped") {
    listen();
    const ReceivedMad good = mad(req());
    for (const auto& [byte, value] : {std::pair<std::size_t, unsigned>{0, 2},
                                      {1, 4},
                                      {3, 1},
                                      {3, 0x83},
                                      {17, 0x1b},
                                      {17, 0x0f},
                                      {16, 1}}) {
        ReceivedMad bad = good;
        bad.bytes[byte] = static_cast<std::byte>(value);
        malformed(bad);
    }
    ReceivedMad other = good;
    other.src_qp = 2;
    malformed(other);
    ReceivedMad rtu_of_version_1 = mad(rtu(1));
    rtu_of_version_1.bytes[2] = std::byte{1};
    malformed(rtu_of_version_1);
    hears(good);
    event(EventType::kRequest);
}

CM_SCRIPT_IN(CmBadInput, ClassVersion, "12.6.7.2",
             "a REQ of another class version: reason 31, with ours as information") {
    ReceivedMad other = mad(req());
    other.bytes[2] = std::byte{3};
    hears(other);
    const auto answer = says<msg::Rej>();
    EXPECT_EQ(answer.reason, kRejClassVersion);
    EXPECT_EQ(answer.remote_comm_id, kPeerId);
    EXPECT_EQ(answer.reject_info_length, 1);
    EXPECT_EQ(answer.additional_info[0], 2);
}

CM_SCRIPT_IN(
    CmBadInput, ReqFields, "12.6.7.2",
    "REQ fields: transport 9, GID 12 with ours, path MTU 26 with ours, QPs, P_Keys and strange sources 5") {
    Config limited = config();
    limited.max_path_mtu = 3;
    begin(limited);
    listen();
    refused(kRejInvalidTransportType, [](msg::Req& r) { r.transport_service_type = 2; });
    refused(kRejInvalidTransportType, [](msg::Req& r) { r.transport_service_type = 3; });
    const msg::Rej gid = refused(kRejPrimaryGid, [](msg::Req& r) { r.primary.remote_gid[15] ^= 1; });
    EXPECT_EQ(gid.reject_info_length, 16);
    EXPECT_TRUE(std::equal(kOurGid.begin(), kOurGid.end(), gid.additional_info.begin()));
    refused(kRejUnsupported, [](msg::Req& r) { r.primary.local_gid[15] ^= 1; });
    const msg::Rej mtu = refused(kRejPathMtu, [](msg::Req& r) { r.path_mtu = 4; });
    EXPECT_EQ(mtu.reject_info_length, 1);
    EXPECT_EQ(mtu.additional_info[0], 3);
    refused(kRejPathMtu, [](msg::Req& r) { r.path_mtu = 0; });
    refused(kRejUnsupported, [](msg::Req& r) { r.local_qpn = 0; });
    refused(kRejUnsupported, [](msg::Req& r) { r.local_qpn = 1; });
    refused(kRejUnsupported, [](msg::Req& r) { r.pkey = 0x8001; });
    hears(req());
    event(EventType::kRequest);
}

CM_SCRIPT_IN(CmBadInput, ReqOfAPartition, "12.6.7.2",
             "a REQ's P_Key must be one of ours; the connection's messages carry the table's") {
    Config two = config();
    two.pkeys.entries[1] = 0x7abc;
    begin(two);
    listen();
    refused(kRejUnsupported, [](msg::Req& r) { r.pkey = 0x7abc; });  // two limited members
    refused(kRejUnsupported, [](msg::Req& r) { r.pkey = 0x8000; });
    msg::Req other = req();
    other.pkey = 0xfabc;
    hears(other);
    const SeenEvent request = event(EventType::kRequest);
    EXPECT_EQ(request.route.pkey, 0x7abc);
    ASSERT_EQ(manager().reject(request.handle, {}, now(), out()), Status::kOk);
    EXPECT_EQ(static_cast<Recorder&>(out()).mads.back().route.pkey, 0x7abc);
    unheard();
}

CM_SCRIPT_IN(CmBadInput, TransportNotTaken, "12.6.7.2",
             "a listener that takes RC alone: others are rejected by reason 9") {
    ListenParams params;
    params.service_id = kPlainService;
    params.allow_uc = false;
    params.allow_xrc = false;
    ASSERT_EQ(manager().listen(params).status, Status::kOk);
    refused(kRejInvalidTransportType, [](msg::Req& r) { r.transport_service_type = 1; });
    refused(kRejInvalidTransportType, [](msg::Req& r) {
        r.transport_service_type = 3;
        r.extended_transport_type = 1;
    });
    hears(req());
    event(EventType::kRequest);
}

CM_SCRIPT_IN(CmBadInput, IpCmHeader, "A11",
             "the IP CM header: version, IP version and addresses of the packet, or reason 28") {
    listen(kService);
    const auto with = [this](auto change) {
        refused(kRejConsumer, [&change](msg::Req& r) {
            r.service_id = kService;
            msg::IpCmHeader ip = ip_of_peer();
            change(ip);
            put_ip(r.private_data, ip);
        });
    };
    with([](msg::IpCmHeader& ip) { ip.major_version = 1; });
    with([](msg::IpCmHeader& ip) { ip.ip_version = 5; });
    with([](msg::IpCmHeader& ip) { ip.ip_version = 6; });
    with([](msg::IpCmHeader& ip) { ip.src_address[15] ^= 1; });
    with([](msg::IpCmHeader& ip) { ip.dst_address[15] ^= 1; });
    msg::Req request = req();
    request.service_id = kService;
    put_ip(request.private_data, ip_of_peer());
    request.private_data[36] = 0x42;
    hears(request);
    const SeenEvent asked = event(EventType::kRequest);
    EXPECT_EQ(asked.ip, ip_of_peer());
    EXPECT_EQ(asked.private_data.size(), 56U);
    EXPECT_EQ(asked.private_data[0], 0x42);
}

CM_SCRIPT_IN(CmBadInput, IpCmHeaderOfIpv6, "A11", "the IP CM header of IPv6: the addresses are the GIDs") {
    wire::Gid ours = {0xfd};
    ours[15] = 1;
    wire::Gid theirs = ours;
    theirs[15] = 2;
    listen(kService);
    msg::Req request = req();
    request.service_id = kService;
    request.primary.local_gid = theirs;
    request.primary.remote_gid = ours;
    msg::IpCmHeader ip;
    ip.ip_version = 6;
    ip.src_address = theirs;
    ip.dst_address = ours;
    put_ip(request.private_data, ip);
    ReceivedMad came = mad(request);
    came.src_gid = theirs;
    came.dst_gid = ours;
    hears(came);
    EXPECT_EQ(event(EventType::kRequest).ip, ip);
}

CM_SCRIPT_IN(CmBadInput, OtherAddresses, "12.9",
             "messages with the right IDs from or to other addresses do nothing to a connection") {
    const Handle handle = established_passive();
    const std::vector<msg::Message> all = {rtu(handle),  rej(handle, 1, kRejConsumer), dreq(handle),
                                           drep(handle), rej(0, 2, kRejTimeout),       mra(handle, 1, 20)};
    for (const bool source : {false, true}) {
        for (const msg::Message& one : all) {
            ReceivedMad forged = mad(one);
            (source ? forged.src_gid : forged.dst_gid)[15] ^= 1;
            hears(forged);
            no_event();
            unheard();  // a DREP to the forger
            EXPECT_EQ(state(handle), State::kEstablished);
        }
    }
    begin(config());
    const Handle ours = connect();
    says<msg::Req>();
    for (const msg::Message& one :
         {msg::Message(rep(ours)), msg::Message(rej(ours, 0, 28)), msg::Message(mra(ours, 0, 20))}) {
        ReceivedMad forged = mad(one);
        forged.src_gid[15] ^= 1;
        hears(forged);
        nothing();
        EXPECT_EQ(state(ours), State::kReqSent);
    }
}

CM_SCRIPT_IN(CmBadInput, OtherIds, "12.9",
             "messages whose IDs are not those of the connection do nothing to it") {
    const Handle handle = established_passive();
    for (const auto& [local, remote] :
         {std::pair{kPeerId + 1, handle}, {kPeerId, handle + 1}, {handle, kPeerId}}) {
        msg::Dreq end = dreq(remote);
        end.local_comm_id = local;
        hears(end);
        says<msg::Drep>();  // of no connection
        msg::Rej refuse = rej(remote, 1, kRejConsumer);
        refuse.local_comm_id = local;
        hears(refuse);
        msg::Drep ended = drep(remote);
        ended.local_comm_id = local;
        hears(ended);
        nothing();
        EXPECT_EQ(state(handle), State::kEstablished);
    }
}

CM_SCRIPT_IN(CmBadInput, MessagesOfTheOtherSide, "12.9",
             "a passive connection takes no REP, an active one no RTU") {
    const Handle passive = requested();
    hears(rep(passive));
    nothing();
    EXPECT_EQ(state(passive), State::kReqReceived);
    begin(config());
    const Handle active = connect();
    says<msg::Req>();
    hears(rtu(active));
    hears(drep(active));
    nothing();
    EXPECT_EQ(state(active), State::kReqSent);
    EXPECT_EQ(manager().stats().stray, 2U);
}

CM_SCRIPT_IN(CmBadInput, Replayed, "12.9",
             "a whole old conversation, replayed after its end, opens at most a request, and ends nothing") {
    const Handle old = established_passive();
    hears(dreq(old));
    event(EventType::kDisconnectRequest);
    disconnect(old);
    says<msg::Drep>();
    destroy(old);
    after(60 * kSecond);
    EXPECT_EQ(manager().size(), 0U);
    hears(req(kPeerId + 1));
    const Handle now_up = event(EventType::kRequest).handle;
    EXPECT_NE(now_up, old);
    accept(now_up);
    says<msg::Rep>();
    hears(rtu(old));
    says<msg::Rej>();
    hears(rej(old, 1, kRejConsumer));
    nothing();
    hears(dreq(old));
    says<msg::Drep>();
    EXPECT_EQ(state(now_up), State::kRepSent);
}

CM_SCRIPT_IN(CmBadInput, FloodOfStrays, "12.9",
             "messages of no connection: no more than 1,000 are answered in half a second") {
    listen(kPlainService, 8);
    for (std::uint32_t i = 0; i < 10'000; ++i) {
        hears(dreq(i));
    }
    for (std::uint32_t i = 0; i < 1'000; ++i) {
        says<msg::Drep>();
    }
    nothing();
    EXPECT_EQ(manager().stats().unanswered, 9'000U);
    after(kSecond / 2);
    hears(dreq(1));
    says<msg::Drep>();
    hears(req(kPeerId + 1));
    EXPECT_EQ(requests_seen(), 1U) << "and nobody else waits";
}

CM_SCRIPT_IN(CmBadInput, BacklogIsBounded, "12.9",
             "requests that nobody has taken: no more than the backlog; silence, and peers ask again") {
    listen(kPlainService, 8);
    for (std::uint32_t i = 0; i < 100; ++i) {
        hears(from(i, i));
    }
    says_nothing();
    EXPECT_EQ(requests_seen(), 8U);
    EXPECT_EQ(manager().size(), 8U);
    EXPECT_EQ(manager().stats().dropped_backlog, 92U);
    manager().dequeue(last_);
    manager().dequeue(last_);
    hears(from(99, 99));
    EXPECT_EQ(requests_seen(), 1U);
    hears(from(98, 98));
    EXPECT_EQ(requests_seen(), 0U);
}

CM_SCRIPT_IN(CmBadInput, FloodOfOneSource, "12.9",
             "one address that floods leaves a quarter of the backlog to others") {
    listen(kPlainService, 100);
    for (std::uint32_t i = 0; i < 1000; ++i) {
        hears(from(1, i));
    }
    EXPECT_EQ(requests_seen(), 75U);
    hears(from(2, 5000));
    EXPECT_EQ(requests_seen(), 1U);
}

CM_SCRIPT_IN(
    CmBadInput, BurstOfOneSource, "12.9",
    "six thousand requests of one address at once are all heard; of more a quarter of the backlog is left to "
    "others, and half of the half-open requests to other listeners") {
    listen();
    constexpr std::uint32_t kBurst = 6000;
    for (std::uint32_t i = 0; i < kBurst; ++i) {
        hears(from(1, i));
    }
    EXPECT_EQ(requests_seen(), kBurst);
    EXPECT_EQ(manager().stats().dropped_backlog, 0U);
    for (std::uint32_t i = kBurst; i < 5 * kBurst; ++i) {
        hears(from(1, i));
    }
    EXPECT_EQ(requests_seen() + kBurst, config().max_backlog / 4 * 3);
    hears(from(2, 5 * kBurst));
    EXPECT_EQ(requests_seen(), 1U);
    for (std::uint32_t i = 0; i < 2 * config().max_backlog; ++i) {
        hears(from(3 + i, 6 * kBurst + i));
    }
    EXPECT_EQ(manager().size(), config().max_backlog);
    EXPECT_EQ(manager().half_open(), config().max_half_open / 2);
    EXPECT_EQ(manager().stats().dropped_half_open, 0U);
    unheard();
    static_cast<Recorder&>(out()).events.clear();
    listen(kPlainService + 1);
    for (std::uint32_t i = 0; i < 100; ++i) {
        hears(from(100'000 + i, 100'000 + i, kPlainService + 1));
    }
    EXPECT_EQ(requests_seen(), 100U);
}

CM_SCRIPT_IN(CmBadInput, HalfOpenIsBounded, "12.9",
             "all half-open requests together have a limit, one source three quarters of it; an honest peer "
             "gets through") {
    Config limited = config();
    limited.max_half_open = 200;
    begin(limited);
    listen();
    for (std::uint32_t i = 0; i < 1000; ++i) {
        hears(from(1, i));
        if (!heard_nothing()) {
            accept(event(EventType::kRequest).handle);  // half open all the same
            unheard();
        }
    }
    EXPECT_EQ(manager().half_open(), 150U);
    EXPECT_EQ(manager().stats().dropped_half_open, 850U);
    hears(from(2, 5000));
    const Handle honest = event(EventType::kRequest).handle;
    EXPECT_EQ(manager().half_open(), 151U);
    after(30 * kSecond);  // the flood's REPs run out
    unheard();
    static_cast<Recorder&>(out()).events.clear();
    EXPECT_EQ(manager().half_open(), 1U);
    destroy(honest);
    unheard();
}

CM_SCRIPT_IN(CmBadInput, AllRecordsAreBounded, "12.9",
             "max_connections is the limit of everything; connect() says so; remembered answers make room") {
    Config limited = config();
    limited.max_connections = 10;
    begin(limited);
    listen();
    for (std::uint32_t i = 0; i < 20; ++i) {
        hears(from(i, i));
    }
    EXPECT_EQ(requests_seen(), 10U);
    EXPECT_EQ(manager().stats().dropped_full, 10U);
    EXPECT_EQ(manager().connect(connect_params(), now(), out()).status, Status::kFull);
    destroy(last_);  // remembered
    EXPECT_EQ(manager().size(), 10U);
    unheard();
    const Handle handle = connect();
    says<msg::Req>();
    EXPECT_EQ(manager().size(), 10U);
    EXPECT_EQ(state(handle), State::kReqSent);
}

CM_SCRIPT_IN(CmBadInput, MemoryOfAnswersIsBounded, "12.9",
             "answers that are kept for repeated REQs: the oldest goes first") {
    Config limited = config();
    limited.max_remembered = 4;
    begin(limited);
    listen();
    for (std::uint32_t i = 0; i < 6; ++i) {
        hears(from(0, i));
        destroy(event(EventType::kRequest).handle);
    }
    unheard();
    EXPECT_EQ(manager().size(), 4U);
    hears(from(0, 1));
    EXPECT_EQ(requests_seen(), 1U);
    hears(from(0, 5));
    EXPECT_EQ(requests_seen(), 0U);
    unheard();
    manager().discard(last_);
    leaves_nothing();
}

CM_SCRIPT_IN(CmBadInput, ListenersAreBounded, "12.9", "max_listeners is the limit") {
    Config limited = config();
    limited.max_listeners = 2;
    begin(limited);
    listen(1);
    listen(2);
    ListenParams params;
    params.service_id = 3;
    EXPECT_EQ(manager().listen(params).status, Status::kFull);
}

CM_SCRIPT_IN(CmBadInput, ListenerGoes, "12.9", "unlisten() with requests waiting: they stay what they are") {
    const ListenerId listener = listen();
    const Handle handle = requested();
    manager().unlisten(listener);
    accept(handle);
    says<msg::Rep>();
    hears(rtu(handle));
    event(EventType::kEstablished);
}

}  // namespace
}  // namespace urnic::sim::cm
