// Every reject reason, as it comes and as we send it (IBA 12.6.7.2).
#include "tests/sim/cm/cm_script.h"

namespace urnic::sim::cm {
namespace {

CM_SCRIPT(
    CmRejects, OfOurReq, "12.6.7.2",
    "each reason 1..35, and those that have no name, ends the REQ at once and is told with its information; "
    "10 needs timewait") {
    for (std::uint16_t reason = 0; reason <= 40; ++reason) {
        SCOPED_TRACE(reason);
        begin(config());
        const Handle handle = connect();
        says<msg::Req>();
        msg::Rej answer = rej(handle, 0, reason);
        answer.local_comm_id = reason % 2 == 0 ? 0 : kPeerId;  // a peer may have no ID yet
        answer.reject_info_length = 72;
        answer.additional_info.fill(0x15);
        answer.private_data.fill(0x16);
        hears(answer);
        const SeenEvent ended = event(EventType::kRejected);
        EXPECT_EQ(ended.reason, reason);
        EXPECT_EQ(std::get<msg::Rej>(*ended.message), answer);
        EXPECT_EQ(ended.private_data, std::vector<std::uint8_t>(148, 0x16));
        hears(answer);
        nothing();
        if (reason == kRejStaleConnection) {
            EXPECT_EQ(state(handle), State::kTimewait);
            after(kSecond);
            event(EventType::kTimewaitExit);
        }
        EXPECT_EQ(state(handle), State::kClosed);
        destroy(handle);
        leaves_nothing();
    }
}

CM_SCRIPT(CmRejects, OfOurRep, "12.6.7.2", "each reason ends a REP that was sent, in both of its states") {
    for (std::uint16_t reason = 0; reason <= 40; ++reason) {
        for (const bool mra_came : {false, true}) {
            SCOPED_TRACE(reason);
            begin(config());
            const Handle handle = requested();
            accept(handle);
            says<msg::Rep>();
            if (mra_came) {
                hears(mra(handle, 1, 18));
            }
            hears(rej(handle, 1, reason));
            EXPECT_EQ(event(EventType::kRejected).reason, reason);
            EXPECT_EQ(manager().half_open(), 0U);
            if (reason == kRejStaleConnection) {
                after(kSecond);
                event(EventType::kTimewaitExit);
            }
            destroy(handle);
            leaves_nothing();
        }
    }
}

CM_SCRIPT(CmRejects, OfTheirOwnRep, "12.6.7", "a REJ after the peer's REP and before our RTU: timewait") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(rep(handle), last_tid());
    event(EventType::kReply);
    hears(rej(handle, 2, kRejTimeout));
    EXPECT_EQ(event(EventType::kRejected).reason, kRejTimeout);
    EXPECT_EQ(manager().send_rtu(handle, {}, now(), out()), Status::kWrongState);
    after(kSecond);
    event(EventType::kTimewaitExit);
}

CM_SCRIPT(CmRejects, AfterMra, "12.6.7", "a REJ after an MRA of our REQ counts") {
    const Handle handle = connect();
    says<msg::Req>();
    hears(mra(handle, 0, 20));
    hears(rej(handle, 0, kRejConsumer));
    EXPECT_EQ(event(EventType::kRejected).reason, kRejConsumer);
    EXPECT_EQ(manager().next_event(), kNever);
}

CM_SCRIPT(CmRejects, MalformedRej, "12.6.7",
          "a REJ with more additional information than there is room for is none") {
    const Handle handle = connect();
    says<msg::Req>();
    msg::Rej answer = rej(handle, 0, kRejConsumer);
    answer.reject_info_length = 73;
    hears(answer);
    answer.reject_info_length = 0;
    answer.message_rejected = 3;
    hears(answer);
    nothing();
    EXPECT_EQ(manager().stats().malformed, 2U);
    EXPECT_EQ(state(handle), State::kReqSent);
}

CM_SCRIPT(CmRejects, WithInformation, "12.6.7",
          "reject() with 72 bytes of information and 148 of private data; not more") {
    const Handle handle = requested();
    const std::vector<std::uint8_t> data(149, 0x17);
    const std::span<const std::uint8_t> all(data);
    EXPECT_EQ(
        manager().reject(handle, {.reason = 12, .info = all.first(73), .private_data = {}}, now(), out()),
        Status::kBadArgument);
    EXPECT_EQ(manager().reject(handle, {.reason = 12, .info = {}, .private_data = all}, now(), out()),
              Status::kBadArgument);
    EXPECT_EQ(manager().reject(handle, {.reason = 12, .info = all.first(72), .private_data = all.first(148)},
                               now(), out()),
              Status::kOk);
    const auto sent = says<msg::Rej>();
    EXPECT_EQ(sent.reason, 12);
    EXPECT_EQ(sent.reject_info_length, 72);
    EXPECT_EQ(sent.additional_info[71], 0x17);
    EXPECT_EQ(sent.private_data[147], 0x17);
}

}  // namespace
}  // namespace urnic::sim::cm
