// Invalidation of memory windows: local, and by SEND with Invalidate (IBA 9.4.1.1.3, 10.6.7.2.6).
#include "tests/sim/scripts/window_script.h"

namespace urnic::sim {
namespace {

class WindowInvalidation : public WindowScript {
  protected:
    [[nodiscard]] Packet send_invalidate(std::uint32_t psn, std::uint32_t key) {
        return packet(wire::kSendOnlyInvalidate, psn, 8).imm(key);
    }
    [[nodiscard]] bool is_bound() { return !host().keys().close(region().key()); }

    /// Ways in which a key may not be invalidated. From the third on the window is bound.
    static constexpr int kUnfit = 6;
    /// A connection with such a key.
    [[nodiscard]] std::uint32_t make_unfit(int which, const SimHost::Options& host_options = {}) {
        with_window(which == 3 ? WindowType::kType1 : WindowType::kType2, {},
                    kAccessLocalWrite | kAccessMwBind, kPd, host_options);
        switch (which) {
            case 1:
                return region().key();
            case 2:
                return first_key();
            case 3:
                bound();
                return key();
            case 4:
                bound();
                return key() ^ 0x80000000U;
            case 5:
                EXPECT_TRUE(host().keys().bind({.new_key = key(),
                                                .region_key = region().key(),
                                                .addr = region().addr(),
                                                .length_bytes = 8,
                                                .pd = kPd,
                                                .qp_num = kQp + 1}));
                return key();
            default:
                return 0xdead;
        }
    }
};

RC_SCRIPT_IN(WindowInvalidation, Local, "10.6.7.2.6",
             "local invalidate takes the access away; the window may be bound again") {
    with_window();
    bound();
    post(invalidate(2, key()));
    completes(ok(2).op(WcOpcode::kLocalInv));
    post(bind(3, kRemote, 2));
    completes(ok(3));
    peer(write_to(2000, key(2)));
    sends(acked(2000, 1));
    peer(write_to(2001, key(1)));
    refuses(2001, 1, kAccess);
}

RC_SCRIPT_IN(WindowInvalidation, LocalRefused, "10.6.7.2.6",
             "local invalidate of what is no bound type 2 window of this QP: memory management error") {
    for (int which = 0; which < 6; ++which) {
        SCOPED_TRACE(which);
        with_window(which == 3 ? WindowType::kType1 : WindowType::kType2);
        std::uint32_t wrong = 0;
        if (which == 1) {
            wrong = region().key();
        } else if (which == 2) {
            wrong = first_key();  // not bound
        } else if (which == 3) {
            bound();
            wrong = key();
        } else if (which == 4) {
            bound();
            wrong = key(2);
        } else if (which == 5) {
            ASSERT_TRUE(host().keys().bind({.new_key = key(),
                                            .region_key = region().key(),
                                            .addr = region().addr(),
                                            .length_bytes = 8,
                                            .pd = kPd,
                                            .qp_num = kQp + 1}));
            wrong = key();
        }
        post({invalidate(2, wrong), write(3, 8)});
        completes({failed(2, WcStatus::kMwBindErr), flushed(3)});
        state(QpState::kErr);
        EXPECT_EQ(is_bound(), which >= 3);
    }
}

RC_SCRIPT_IN(WindowInvalidation, BySend, "9.4.1.1.3",
             "SEND with Invalidate: the key is gone when the receive completes, which tells the key") {
    with_window();
    bound();
    post_receive(100, 64);
    peer(send_invalidate(2000, key()));
    receives(ok(100).bytes(8).op(WcOpcode::kRecv).with_invalidated(key()));
    EXPECT_FALSE(is_bound());
    sends(acked(2000, 1));
    holds_peer_data(0, 8, 0);
    peer(write_to(2001, key()));
    refuses(2001, 1, kAccess);
}

RC_SCRIPT_IN(WindowInvalidation, WithTheLastPacket, "9.4.1.1.3",
             "a SEND of several packets invalidates with its last") {
    with_window(WindowType::kType2, {.mtu = 256});
    bound();
    post_receive(100, 1024);
    peer(unasked(send_first(2000, 256)));
    EXPECT_TRUE(is_bound());
    peer(packet(wire::kSendLastInvalidate, 2001, 8, 256).imm(key()));
    receives(ok(100).bytes(264).with_invalidated(key()));
    EXPECT_FALSE(is_bound());
    sends(acked(2001, 1));
}

RC_SCRIPT_IN(WindowInvalidation, WritesBeforeIt, "9.7.4",
             "WRITEs through the window before the SEND are executed") {
    with_window();
    bound();
    post_receive(100, 64);
    peer({unasked(write_to(2000, key())), unasked(write_to(2001, key(), 8)), send_invalidate(2002, key())});
    receives(ok(100).with_invalidated(key()));
    EXPECT_FALSE(is_bound());
    sends(acked(2002, 3));
    EXPECT_NE(region_word(4096 + 8), 0U);
}

RC_SCRIPT_IN(WindowInvalidation, BySendFailed, "9.9.6.3",
             "SEND with Invalidate of what is no bound type 2 window of this QP (class J): the message is "
             "acknowledged, its receive fails, the QP is in ERR") {
    for (int which = 0; which < kUnfit; ++which) {
        SCOPED_TRACE(which);
        const std::uint32_t wrong = make_unfit(which);
        post_receive(100, 64);
        post_receive(101, 64);
        peer(send_invalidate(2000, wrong));
        sends(acked(2000, 1));
        state(QpState::kErr);
        receives({failed(100, WcStatus::kRemInvReqErr), flushed(101)});
        EXPECT_EQ(is_bound(), which >= 3);
        EXPECT_NE(host().keys().find(memory().key()), nullptr);
        peer(send_only(2001, 8));  // silence
    }
}

RC_SCRIPT_IN(WindowInvalidation, BySendFailedUnasked, "9.9.6.3",
             "SEND with Invalidate that fails and asks for no acknowledgement gets none; what came before it "
             "is answered") {
    with_window();
    post_receive(100, 64);
    post_receive(101, 64);
    peer({unasked(send_only(2000, 8)), read_request(2001, 8), unasked(send_invalidate(2002, 0xdead))});
    state(QpState::kErr);
    receives({ok(100).bytes(8), failed(101, WcStatus::kRemInvReqErr)});
    with_window();
    post_receive(100, 64);
    peer({read_request(2000, 8), send_invalidate(2001, 0xdead)});
    sends({response_only(2000, 2, 8).credits(0), acked(2001, 2)});
    receives(failed(100, WcStatus::kRemInvReqErr));
}

RC_SCRIPT_IN(WindowInvalidation, BySendRefused, "9.7.4.1.5",
             "SEND with Invalidate of what is no bound type 2 window of this QP, where it is to be refused "
             "(failed_invalidation = \"nak\"): NAK remote access error, the receive fails") {
    for (int which = 0; which < kUnfit; ++which) {
        SCOPED_TRACE(which);
        const std::uint32_t wrong = make_unfit(which, {.nak_failed_invalidation = true});
        post_receive(100, 64);
        post_receive(101, 64);
        peer(send_invalidate(2000, wrong));
        sends(nak(2000, 0, kAccess));
        state(QpState::kErr);
        receives({failed(100, WcStatus::kRemAccessErr), flushed(101)});
        EXPECT_EQ(is_bound(), which >= 3);
        EXPECT_NE(host().keys().find(memory().key()), nullptr);
    }
}

RC_SCRIPT_IN(WindowInvalidation, WithoutAReceive, "9.7.5.2.8",
             "RNR NAK: the key stays until the SEND is taken") {
    with_window();
    bound();
    peer(send_invalidate(2000, key()));
    sends(rnr_nak(2000, 0, 12));
    peer(write_to(2000, key()));
    sends(acked(2000, 1));
}

RC_SCRIPT_IN(WindowInvalidation, Duplicate, "9.7.5.1.2",
             "a SEND with Invalidate that comes again is acknowledged and not done again") {
    with_window();
    bound();
    post_receive(100, 64);
    post_receive(101, 64);
    peer(send_invalidate(2000, key()));
    receives(ok(100).with_invalidated(key()));
    sends(acked(2000, 1, 1));
    post(bind(2));  // the same key again, which is the application's choice
    completes(ok(2));
    peer(send_invalidate(2000, key()));
    sends(acked(2000, 1, 1));
    peer(write_to(2001, key()));
    sends(acked(2001, 2, 1));
}

RC_SCRIPT_IN(WindowInvalidation, BehindAGap, "9.7.5.1.2",
             "a SEND with Invalidate behind a gap takes effect in its turn") {
    with_window();
    bound();
    post_receive(100, 64);
    peer(send_invalidate(2001, key()));
    sends(sequence_nak(2000, 0));
    EXPECT_TRUE(is_bound());
    peer({write_to(2000, key()), send_invalidate(2001, key())});
    receives(ok(100).with_invalidated(key()));
    EXPECT_FALSE(is_bound());
    sends(acked(2001, 2).any_credits());
    silence(kSecond);
}

}  // namespace
}  // namespace urnic::sim
