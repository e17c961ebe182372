// The responder when requests come twice (IBA 9.7.5.1.5).
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

RC_SCRIPT(ResponderDuplicate, Read, "9.7.5.1.5",
          "a READ that comes twice is executed twice: the second answer has what the memory holds then") {
    connect({.mtu = 256});
    peer(read_request(2000, 300));
    sends({response_first(2000, 1, 256).credits(0), response_last(2001, 1, 44, 256).credits(0)});
    peer(write_only(2002, 8, 256));
    sends(acked(2002, 2));
    peer(read_request(2000, 300));
    sends({response_first(2000, 2, 256).credits(0),
           response_last(2001, 2, 44, 256).credits(0).bytes({memory().data() + 256, 44})});
    peer(write_only(2003, 8, 4096));
    sends(acked(2003, 3));
}

RC_SCRIPT(ResponderDuplicate, ReadWhileItIsAnswered, "9.7.5.1.5",
          "a READ asked for again while its answer goes out starts over at the PSN that is wanted") {
    connect({.mtu = 256});
    arrives(read_request(2000, 1000));
    ASSERT_TRUE(host().qp().progress(now(), 2, host()));
    sends({response_first(2000, 1, 256).credits(0), response_middle(2001, 256, 256)});
    arrives(read_request(2001, 744, 256));
    host().progress();
    sends({response_first(2001, 1, 256, 256).credits(0), response_middle(2002, 256, 512),
           response_last(2003, 1, 232, 768).credits(0)});
    sends_nothing();
    peer(write_only(2004, 8, 4096));
    sends(acked(2004, 2));
}

RC_SCRIPT(ResponderDuplicate, ReadBeforeNewAnswers, "9.7.5.1.5",
          "READs asked for again are answered behind the answer that has begun, before new ones, and all of "
          "them in "
          "the order of PSNs") {
    connect({.mtu = 256});
    arrives(read_request(2000, 512));
    arrives(read_request(2002, 512, 512));
    arrives(read_request(2004, 256, 1024));
    ASSERT_TRUE(host().qp().progress(now(), 3, host()));
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 256, 256).credits(0),
           response_first(2002, 3, 256, 512).credits(0)});
    arrives(read_request(2001, 256, 256));
    ASSERT_TRUE(host().qp().progress(now(), 2, host()));
    sends({response_last(2003, 3, 256, 768).credits(0), response_only(2001, 3, 256, 256).credits(0)});
    arrives(read_request(2003, 256, 768));
    arrives(read_request(2000, 512));
    host().progress();
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 256, 256).credits(0),
           response_only(2003, 3, 256, 768).credits(0), response_only(2004, 3, 256, 1024).credits(0)});
    peer(write_only(2005, 8, 4096));
    sends(acked(2005, 4));
}

RC_SCRIPT(
    ResponderDuplicate, EverythingFromAMissingResponseOn, "9.7.5.1.5",
    "a requester that goes back asks for all READs again: the one whose answer has begun starts over behind "
    "those before it") {
    connect({.mtu = 256});
    arrives(read_request(2000, 512));
    arrives(read_request(2002, 512, 512));
    arrives(read_request(2004, 256, 1024));
    ASSERT_TRUE(host().qp().progress(now(), 3, host()));
    sends({response_first(2000, 3, 256).credits(0), response_last(2001, 3, 256, 256).credits(0),
           response_first(2002, 3, 256, 512).credits(0)});
    arrives(read_request(2001, 256, 256));
    arrives(read_request(2002, 512, 512));
    arrives(read_request(2004, 256, 1024));
    host().progress();
    sends({response_only(2001, 3, 256, 256).credits(0), response_first(2002, 3, 256, 512).credits(0),
           response_last(2003, 3, 256, 768).credits(0), response_only(2004, 3, 256, 1024).credits(0)});
    sends_nothing();
}

RC_SCRIPT(ResponderDuplicate, FloodOfReads, "9.7.5.1.5",
          "of a thousand repeated READs no more are answered than max_dest_rd_atomic, and new ones find "
          "their place") {
    constexpr std::uint32_t kDepth = 16;
    connect({.mtu = 256, .max_dest_rd_atomic = kDepth});
    peer(read_request(2000, 25'600));
    EXPECT_EQ(seen().size(), 100U);
    seen().clear();
    for (std::uint32_t i = 0; i < 1000; ++i) {
        arrives(read_request(2000 + i % 100, 8));
    }
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        arrives(read_request(2100 + i, 8));
    }
    host().progress();
    ASSERT_EQ(seen().size(), 2 * kDepth);
    seen().erase(seen().begin(), seen().begin() + kDepth);
    for (std::uint32_t i = 0; i < kDepth; ++i) {
        sends(response_only(2100 + i, 1 + kDepth, 8).credits(0));
    }
    state(QpState::kRts);
}

/// Repeats READ requests as fast as packets go out, until the first response at or behind `wanted`. Returns
/// how many responses came before it.
class ResponderRepeats : public RcScript {
  protected:
    std::uint32_t responses_before(std::uint32_t wanted, const ScriptPacket& repeated) {
        constexpr std::uint32_t kMost = 100'000;
        for (std::uint32_t before = 0; before < kMost; ++before) {
            arrives(repeated);
            (void)host().qp().progress(now(), 1, host());
            if (seen().empty()) {
                ADD_FAILURE() << "nothing is sent";
                break;
            }
            const bool is_wanted = !(seen().front().header.psn < Psn(wanted));
            seen().pop_front();
            if (is_wanted) {
                return before;
            }
        }
        return kMost;
    }
};

RC_SCRIPT_IN(
    ResponderRepeats, BeforeANewRead, "9.7.5.1.5",
    "a READ repeated without end goes before a new one's answer with 64 packets and four for each of "
    "its own; without a new one its answers are not limited") {
    connect({.mtu = 256});
    peer(read_request(2000, 256'000));
    EXPECT_EQ(seen().size(), 1000U);
    seen().clear();
    const ScriptPacket repeated = read_request(2000, 256'000);
    peer(repeated);
    EXPECT_EQ(seen().size(), 1000U) << "nobody waits";
    seen().clear();
    for (std::uint32_t number = 0; number < 3; ++number) {
        arrives(read_request(3000 + 2 * number, 512));
        const std::uint32_t before = responses_before(3000 + 2 * number, repeated);
        EXPECT_GE(before, 64U);
        EXPECT_LE(before, 64U + 4 * 2);
        host().progress();
        sends(response_last(3001 + 2 * number, 2 + number, 256, 256).credits(0));
    }
    sends_nothing();
    state(QpState::kRts);
}

RC_SCRIPT_IN(
    ResponderRepeats, OfTheReadThatIsAnswered, "9.7.5.1.5",
    "a READ whose answer goes out starts over until 64 packets, and four for each of those left, went "
    "out for nothing; then its answer continues to its end") {
    connect({.mtu = 256});
    constexpr std::uint32_t kPackets = 10;
    const ScriptPacket request = read_request(2000, 256 * kPackets);
    arrives(request);
    ASSERT_TRUE(host().qp().progress(now(), 5, host()));
    seen().clear();
    const std::uint32_t before = responses_before(2000 + kPackets - 1, request);
    EXPECT_GE(before, 64U / kPackets);
    EXPECT_LE(before, 64U + 4 * kPackets + kPackets);
    host().progress();
    sends_nothing();
    state(QpState::kRts);
}

RC_SCRIPT(ResponderDuplicate, ReadWhoseKeyIsGone, "9.7.5.1.5",
          "an old READ request that arrives when its key is gone is dropped: the requester has its data, the "
          "connection lives") {
    connect();
    SimRegion& region = host().add_region(4096);
    peer(read_request(2000, 8).reth(region.addr(), region.key(), 8));
    sends(response_only(2000, 1, 8).credits(0).bytes({region.data(), 8}));
    region.revoke();
    peer(read_request(2000, 8).reth(region.addr(), region.key(), 8));
    silence(kSecond);
    state(QpState::kRts);
    peer(write_only(2001, 8));
    sends(acked(2001, 2));
}

RC_SCRIPT(ResponderDuplicate, AtomicWhoseKeyIsGone, "9.7.5.1.3",
          "a replay needs no memory: it works when the key is gone") {
    connect();
    SimRegion& region = host().add_region(64);
    peer(fetch_add_request(2000, 2).reth(region.addr(), region.key(), 0));
    sends(atomic_ack(2000, 1, 0).credits(0));
    region.revoke();
    peer(fetch_add_request(2000, 2).reth(region.addr(), region.key(), 0));
    sends(atomic_ack(2000, 1, 0).credits(0));
}

}  // namespace
}  // namespace urnic::sim
