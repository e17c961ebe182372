// Binding of memory windows (IBA 10.6.6, 10.6.7) and what a bound window lets a peer do.
#include <functional>

#include "tests/sim/scripts/window_script.h"

namespace urnic::sim {
namespace {

class WindowBinding : public WindowScript {};

RC_SCRIPT_IN(WindowBinding, GivesAccess, "10.6.7.2.3",
             "a window gives the access that its bind asked for, to a region that gives the peer none") {
    with_window();
    bound();
    peer(write_to(2000, key()));
    sends(acked(2000, 1));
    EXPECT_NE(region_word(4096), 0U);
    peer(read_request(2001, 8).reth(region().addr(4096 + kLength - 8), key(), 8));
    sends(Packet(wire::kReadResponseOnly, 2001)
              .msn(2)
              .credits(0)
              .bytes(std::span(region().data() + 4096 + kLength - 8, 8)));
    peer(write_to(2002, region().key()));
    refuses(2002, 2, kAccess);
}

RC_SCRIPT_IN(WindowBinding, NotBefore, "10.6.7.2.3",
             "a window that is not bound gives no access by its first key") {
    with_window();
    peer(write_to(2000, first_key()));
    refuses(2000, 0, kAccess);
}

RC_SCRIPT_IN(WindowBinding, TheOldKeyIsGone, "10.6.6.2", "a type 1 window bound again has another key") {
    with_window(WindowType::kType1);
    bound();
    post(bind(2, kRemote, 2));
    completes(ok(2).op(WcOpcode::kBindMw));
    peer(write_to(2000, key(2)));
    sends(acked(2000, 1));
    peer(write_to(2001, key(1)));
    refuses(2001, 1, kAccess);
}

RC_SCRIPT_IN(WindowBinding, BoundToNothing, "10.6.6.2.4",
             "a bind of zero bytes takes the access of a type 1 window away") {
    with_window(WindowType::kType1);
    bound();
    SendRequest nothing = bind(2, 0, 2);
    nothing.compare_add = 0;
    post(nothing);
    completes(ok(2));
    EXPECT_TRUE(host().keys().close(region().key())) << "the region is not counted free";
    peer(write_to(2000, key(2)));
    refuses(2000, 0, kAccess);
}

RC_SCRIPT_IN(WindowBinding, Range, "9.7.4.1.5", "a byte before and a byte behind the window is out of it") {
    for (const int offset : {-1, int{kLength} - 7, int{kLength}, -8}) {
        SCOPED_TRACE(offset);
        with_window();
        bound();
        peer(write_to(2000, key(), static_cast<std::size_t>(offset)));
        refuses(2000, 0, kAccess);
    }
}

RC_SCRIPT_IN(WindowBinding, Rights, "9.7.4.1.5",
             "a window gives the rights that it was bound with and no other") {
    struct Case {
        std::uint32_t rights;
        std::uint8_t operation;
    };
    for (const Case& c :
         {Case{kAccessRemoteRead, wire::kWriteOnly}, Case{kAccessRemoteWrite, wire::kReadRequest},
          Case{kAccessRemoteRead | kAccessRemoteWrite, wire::kFetchAdd},
          Case{kAccessLocalWrite, wire::kWriteOnly}}) {
        with_window(WindowType::kType2, {}, kAllAccess | kAccessMwBind);
        bound(c.rights);
        peer(packet(c.operation, 2000, c.operation == wire::kWriteOnly ? 8 : 0)
                 .reth(region().addr(4096), key(), 8));
        refuses(2000, 0, kAccess);
    }
}

RC_SCRIPT_IN(WindowBinding, ZeroBased, "10.6.7.2.3", "addresses of a zero-based window begin at 0") {
    with_window();
    bound(kRemote | kAccessZeroBased);
    peer(write_only(2000, 8).reth(kLength - 8, key(), 8));
    sends(acked(2000, 1));
    EXPECT_NE(region_word(4096 + kLength - 8), 0U);
    peer(write_to(2001, key()));
    refuses(2001, 1, kAccess);
}

RC_SCRIPT_IN(WindowBinding, OneQpOnly, "10.6.7.2.4",
             "a type 2B window serves the QP that it was bound on alone") {
    for (const std::uint32_t qp_num : {kQp, kQp + 1}) {
        with_window();
        ASSERT_TRUE(host().keys().bind({.new_key = key(),
                                        .region_key = region().key(),
                                        .addr = region().addr(4096),
                                        .length_bytes = kLength,
                                        .access = kRemote,
                                        .pd = kPd,
                                        .qp_num = qp_num}));
        peer(write_to(2000, key()));
        if (qp_num == kQp) {
            sends(acked(2000, 1));
        } else {
            refuses(2000, 0, kAccess);
        }
    }
}

RC_SCRIPT_IN(WindowBinding, NoLocalKey, "10.6.7", "the key of a window is no L_Key") {
    with_window();
    bound();
    SendRequest request = send(2, 8);
    request.sge = {{region().addr(4096), 8, key()}};
    post(request);
    completes(failed(2, WcStatus::kLocProtErr));
    state(QpState::kErr);
}

RC_SCRIPT_IN(WindowBinding, Refused, "10.6.7.2.3",
             "binds that may not be: MW_BIND_ERR, and what is bound stays bound") {
    struct Case {
        const char* what;
        std::function<void(SendRequest&)> change;
        WindowType type = WindowType::kType2;
        std::uint32_t region_access = kAccessLocalWrite | kAccessMwBind;
        std::uint32_t window_pd = kPd;
    };
    const Case cases[] = {
        {"no region", [](SendRequest& r) { r.region_key = 0; }},
        {"another window's key", [](SendRequest& r) { r.rkey ^= 0x100; }},
        {"a region's key for the window's", [this](SendRequest& r) { r.rkey = region().key(); }},
        {"a window's key for the region's", [this](SendRequest& r) { r.region_key = key(); }},
        {"zero bytes", [](SendRequest& r) { r.compare_add = 0; }},
        {"a byte too long", [](SendRequest& r) { r.compare_add = 16384 - 4096 + 1; }},
        {"a length that wraps", [](SendRequest& r) { r.compare_add = ~0ULL; }},
        {"before the region", [](SendRequest& r) { r.remote_addr -= 4097; }},
        {"unknown access", [](SendRequest& r) { r.window_access |= 1U << 6U; }},
        {"no right to bind", [](SendRequest&) {}, WindowType::kType2, kAccessLocalWrite},
        {"a writable window of a read-only region", [](SendRequest&) {}, WindowType::kType2, kAccessMwBind},
        {"window of another PD", [](SendRequest&) {}, WindowType::kType2, kAccessLocalWrite | kAccessMwBind,
         2},
        {"region of another PD",
         [this](SendRequest& r) {
             SimRegion& other = host().add_region(16384, {.access = kAllAccess | kAccessMwBind, .pd = 2});
             r.region_key = other.key();
             r.remote_addr = other.addr(4096);
         }},
        {"type 1, zero-based", [](SendRequest& r) { r.window_access |= kAccessZeroBased; },
         WindowType::kType1},
    };
    for (const Case& c : cases) {
        SCOPED_TRACE(c.what);
        with_window(c.type, {}, c.region_access, c.window_pd);
        SendRequest request = bind(1);
        c.change(request);
        post({request, write(2, 8)});
        completes({failed(1, WcStatus::kMwBindErr), flushed(2)});
        state(QpState::kErr);
        EXPECT_TRUE(host().keys().close(region().key())) << "the region is counted as bound";
    }
}

RC_SCRIPT_IN(WindowBinding, TwiceRefused, "10.6.7.2.3",
             "a type 2 window that is bound cannot be bound again") {
    with_window();
    bound();
    post(bind(2, kRemote, 2));
    completes(failed(2, WcStatus::kMwBindErr));
    state(QpState::kErr);
    EXPECT_FALSE(host().keys().close(region().key())) << "what was bound is not any more";
}

// --- Order ------------------------------------------------------------------------------------------------

RC_SCRIPT_IN(WindowBinding, CompletesInOrder, "10.8.3.3",
             "a bind sends nothing and holds nothing up; it completes behind the requests before it") {
    with_window();
    post({write(2, 8), bind(3), write(4, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    completes_nothing();
    peer(write_to(2000, key()));  // it is bound all the same
    sends(acked(2000, 1));
    peer(ack(1000, 1));
    completes({ok(2), ok(3).op(WcOpcode::kBindMw)});
    peer(ack(1001, 2));
    completes(ok(4));
}

RC_SCRIPT_IN(WindowBinding, OneAckCompletesAll, "10.8.3.3",
             "one ACK for all: completions in the order of the requests") {
    with_window();
    post({bind(2), write(3, 8), unsignaled(invalidate(4, key())), invalidate(5, key()), write(6, 8)});
    sends(write_only(1000, 8));
    completes(ok(2));
    peer(ack(1000, 1));
    completes({ok(3), failed(5, WcStatus::kMwBindErr), flushed(6)});
    state(QpState::kErr);
}

RC_SCRIPT_IN(WindowBinding, AnErrorWaitsForItsTurn, "10.8.2.2",
             "a bind that fails behind requests that are on their way fails after they have completed") {
    with_window();
    SendRequest wrong = bind(3);
    wrong.region_key = 0;
    post({write(2, 8), wrong, write(4, 8)});
    sends(write_only(1000, 8));
    completes_nothing();
    peer(ack(1000, 1));
    completes({ok(2), failed(3, WcStatus::kMwBindErr), flushed(4)});
    state(QpState::kErr);
}

RC_SCRIPT_IN(WindowBinding, SentAgainAcrossABind, "9.7.5.2",
             "requests before and behind a bind are sent again, the bind is not done again") {
    with_window(WindowType::kType2, {.mtu = 256});
    post({write(2, 8), bind(3), write(4, 300), invalidate(5, key()), write(6, 8)});
    sends({write_only(1000, 8), write_first(1001, 300, 256), write_last(1002, 44, 256), write_only(1003, 8)});
    peer(sequence_nak(1000, 0));
    resends(
        {write_only(1000, 8), write_first(1001, 300, 256), write_last(1002, 44, 256), write_only(1003, 8)});
    peer(ack(1003, 4));
    completes({ok(2), ok(3), ok(4), ok(5), ok(6)});
}

RC_SCRIPT_IN(WindowBinding, SentAgainBehindABind, "9.7.5.2", "a request right behind a bind is sent again") {
    with_window(WindowType::kType2, {.mtu = 256});
    post({write(2, 8), bind(3), write(4, 8)});
    sends({write_only(1000, 8), write_only(1001, 8)});
    peer(sequence_nak(1001, 1));
    completes({ok(2), ok(3)});
    resends(write_only(1001, 8));
    peer(ack(1001, 2));
    completes(ok(4));
}

RC_SCRIPT_IN(WindowBinding, BehindARead, "10.8.3.3", "a READ's response completes the bind behind it") {
    with_window();
    post({read(2, 8), bind(3), invalidate(4, key())});
    sends(read_request(1000, 8));
    completes_nothing();
    peer(response_only(1000, 1, 8));
    completes({ok(2), ok(3), ok(4).op(WcOpcode::kLocalInv)});
}

RC_SCRIPT_IN(WindowBinding, Fence, "10.8.3.3", "a fenced bind waits for the READ before it") {
    with_window();
    post({read(2, 8), fenced(bind(3)), write(4, 8)});
    sends(read_request(1000, 8));
    EXPECT_TRUE(host().keys().close(region().key())) << "bound already";
    // The script's look has closed the region: the bind fails, which shows when it was done.
    peer(response_only(1000, 1, 8));
    completes({ok(2), failed(3, WcStatus::kMwBindErr), flushed(4)});
}

RC_SCRIPT_IN(
    WindowBinding, NoCredit, "9.7.7.2",
    "binds and invalidations are no messages: they count neither for credits nor for message numbers") {
    with_window(WindowType::kType2, {.mtu = 256});
    post(write(2, 8));
    sends(write_only(1000, 8));
    peer(ack(1000, 1).credits(1));
    completes(ok(2));
    post({bind(3), invalidate(4, key()), send(5, 8), send(6, 8), send(7, 8)});
    completes({ok(3), ok(4)});
    sends({send_only(1001, 8), send_only(1002, 8)});
    sends_nothing();
    peer(ack(1002, 3).credits(4));
    completes({ok(5), ok(6)});
    sends(send_only(1003, 8));
    peer(ack(1003, 4));
    completes(ok(7));
}

RC_SCRIPT_IN(WindowBinding, NotInSqd, "10.3.1.5", "in SQD nothing is bound") {
    with_window();
    modify(QpState::kSqd);
    post(bind(2));
    completes_nothing();
    modify(QpState::kRts);
    completes(ok(2));
}

RC_SCRIPT_IN(WindowBinding, FlushedInErr, "10.3.1.7", "in ERR nothing is bound") {
    with_window();
    modify(QpState::kErr);
    post(bind(2));
    completes(flushed(2));
    EXPECT_TRUE(host().keys().close(region().key()));
}

RC_SCRIPT_IN(WindowBinding, Many, "10.8.3.3", "hundreds of binds at once, more than a worker's turn") {
    with_window();
    std::uint64_t wr_id = 1;
    for (int round = 0; round < 50; ++round) {
        std::vector<Wc> expected;
        for (int i = 0; i < 2; ++i) {
            host().post_send(bind(wr_id));
            host().post_send(invalidate(wr_id + 1, key()));
            wr_id += 2;
        }
        host().progress();
        Wcs all;
        for (std::uint64_t id = wr_id - 4; id < wr_id; ++id) {
            all.push_back(ok(id));
        }
        completes(all);
    }
}

}  // namespace
}  // namespace urnic::sim
