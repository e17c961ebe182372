// What a port may bring: frames that are broken, forged or for somebody else are dropped and counted by
// reason, and the QP beside them works on.
#include <gtest/gtest.h>
#include <poll.h>
#include <rte_mbuf.h>

#include <chrono>
#include <cstring>

#include "dataplane/handoff/frame_inbox.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/worker/unresolved_frames.h"
#include "rnic/neighbour/neighbour_message.h"
#include "rnic/wire/frame.h"
#include "tests/unit/dataplane/rig.h"

namespace urnic::dataplane {
namespace {

using rig::Rig;
using rig::TestCq;
using rig::TestQp;

constexpr std::uint32_t kQpNum = 22;

class ReceiveTest : public testing::Test {
  protected:
    ReceiveTest()
        : rig_({}),
          client_(rig_.make_client()),
          cq_a_(1, 64),
          cq_b_(1, 64),
          a_(rig_, *client_, 0, 21, 0, cq_a_),
          b_(rig_, *client_, 1, kQpNum, 1, cq_b_) {
        spec_.src_mac = rig_.device(0).mac;
        spec_.dst_mac = rig_.device(1).mac;
        spec_.src_gid = rig_.device(0).gids[1];
        spec_.dst_gid = rig_.device(1).gids[1];
        header_.opcode = std::uint8_t{wire::kServiceRc} + std::uint8_t{wire::kAcknowledge};
        header_.dest_qp = kQpNum;
        header_.aeth.syndrome = wire::kCreditsUnlimited;
        // 0.5 s: APortThatIsDown waits for it.
        EXPECT_EQ(a_.connect(b_, 5, 17), 0);
        EXPECT_EQ(b_.connect(a_, 5, 17), 0);
    }

    /// Builds a frame, lets `spoil` work on it, and puts it on the wire from device 0.
    void inject(const std::function<void(std::span<std::byte>, rte_mbuf&)>& spoil) {
        rte_mbuf* frame = nullptr;
        ASSERT_TRUE(alloc_frames(rig::frame_pool(), {&frame, 1}));
        const std::span<std::byte> room = {rte_pktmbuf_mtod(frame, std::byte*), kFrameRoomBytes};
        const std::size_t length = wire::build_frame(wire::make_path(spec_), header_, {}, room);
        ASSERT_NE(length, 0U);
        frame->data_len = static_cast<std::uint16_t>(length);
        frame->pkt_len = static_cast<std::uint32_t>(length);
        spoil(room.first(length), *frame);
        // The rings of the wire belong to workers: only they may send. One may be full until its receiver has
        // had a turn.
        ASSERT_TRUE(rig::wait_for([&] {
            std::uint16_t sent = 0;
            rig_.worker(0).call([&] { sent = rig_.local_switch().port(0).tx_burst(0, &frame, 1); });
            rig_.handoff().wakeup().wake(0);  // it is the receiver, too
            return sent == 1;
        }));
    }
    void expect_counted(Counter Counters::*counter) {
        EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, counter) == 1; }));
        EXPECT_EQ(rig_.count(1, &Counters::rcvd_pkts), 1U);
    }
    void expect_alive() {
        a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = 5});
        const auto completion = cq_a_.wait();
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->status, WcStatus::kSuccess);
    }
    static void untouched(std::span<std::byte> /*frame*/, rte_mbuf& /*mbuf*/) {}

    Rig rig_;
    std::unique_ptr<rig::TestClient> client_;
    TestCq cq_a_;
    TestCq cq_b_;
    TestQp a_;
    TestQp b_;
    wire::PathSpec spec_;
    wire::PacketHeader header_;
};

TEST_F(ReceiveTest, BadIcrc) {
    inject([](std::span<std::byte> frame, rte_mbuf&) { frame.back() ^= std::byte{1}; });
    expect_counted(&Counters::rx_icrc_encapsulated);
    expect_alive();
}

TEST_F(ReceiveTest, Truncated) {
    inject([](std::span<std::byte> frame, rte_mbuf& mbuf) {
        mbuf.data_len = static_cast<std::uint16_t>(frame.size() - 5);
        mbuf.pkt_len = mbuf.data_len;
    });
    expect_counted(&Counters::drop_malformed);
    expect_alive();
}

TEST_F(ReceiveTest, NotRoce) {
    inject([](std::span<std::byte> frame, rte_mbuf&) {
        frame[12] = std::byte{0x08};
        frame[13] = std::byte{0x06};  // ARP
    });
    expect_counted(&Counters::drop_not_roce);
    expect_alive();
}

TEST_F(ReceiveTest, AnotherGid) {
    spec_.dst_gid[15] = 200;
    inject(untouched);
    expect_counted(&Counters::drop_not_for_us);
    expect_alive();
}

TEST_F(ReceiveTest, UnknownQpAtEitherEndOfTheNumbers) {
    header_.dest_qp = 0xffffff;
    inject(untouched);
    header_.dest_qp = 0;
    inject(untouched);
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_unknown_qp) == 2; }));
    expect_alive();
}

TEST_F(ReceiveTest, AFloodOfCnpsForUnknownQpsCountsAndIsNotAnswered) {
    header_ = {};
    header_.opcode = wire::kCnp;
    header_.becn = true;
    constexpr std::uint32_t kCnps = 600;
    for (std::uint32_t i = 0; i < kCnps; ++i) {
        header_.dest_qp = kQpNum + 1 + i * 0x4001 % 0xfffff;
        inject(untouched);
    }
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::rp_cnp_ignored) == kCnps; }));
    EXPECT_EQ(rig_.count(1, &Counters::drop_unknown_qp), kCnps);
    EXPECT_EQ(rig_.count(1, &Counters::rp_cnp_handled), 0U);
    EXPECT_EQ(rig_.count(1, &Counters::sent_pkts), 0U);
    expect_alive();
}

TEST_F(ReceiveTest, AFrameInSeveralPieces) {
    inject([](std::span<std::byte>, rte_mbuf& mbuf) {
        rte_mbuf* tail = nullptr;
        ASSERT_TRUE(alloc_frames(rig::frame_pool(), {&tail, 1}));
        tail->data_len = 10;
        tail->pkt_len = 10;
        ASSERT_EQ(rte_pktmbuf_chain(&mbuf, tail), 0);
    });
    expect_counted(&Counters::drop_malformed);
    expect_alive();
}

TEST_F(ReceiveTest, AnotherVlanThanTheGids) {
    rig_.worker(0).call([&] {
        rig_.device(1).gid_vlans[1] = 7;
        rig_.worker(0).refresh_addresses(1);
    });
    inject(untouched);
    spec_.vlan_tci = 8;
    inject(untouched);
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_not_for_us) == 2; }));
    spec_.vlan_tci = 3U << 13U | 7U;
    inject([](std::span<std::byte> frame, rte_mbuf&) { frame.back() ^= std::byte{1}; });
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::rx_icrc_encapsulated) == 1; }));
    rig_.worker(0).call([&] {
        rig_.device(1).gid_vlans[1] = 0;
        rig_.worker(0).refresh_addresses(1);
    });
    spec_.vlan_tci = 3U << 13U;  // a tag for the priority alone
    inject([](std::span<std::byte> frame, rte_mbuf&) { frame.back() ^= std::byte{1}; });
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::rx_icrc_encapsulated) == 2; }));
    expect_alive();
}

TEST_F(ReceiveTest, AGidThatIsGone) {
    const wire::Gid gid = rig_.device(1).gids[1];
    rig_.worker(0).call([&] {
        rig_.device(1).gids[1] = {};
        rig_.worker(0).refresh_addresses(1);
    });
    inject(untouched);
    expect_counted(&Counters::drop_not_for_us);
    rig_.worker(0).call([&] {
        rig_.device(1).gids[1] = gid;
        rig_.worker(0).refresh_addresses(1);
    });
    expect_alive();
}

TEST_F(ReceiveTest, NeighbourDiscoveryIsTheControlThreads) {
    FrameInbox inbox;
    rig_.worker(0).call([&] { rig_.device(1).neighbour_inbox = &inbox; });
    net::NeighbourMessage message;
    message.eth_src = message.sender_mac = rig_.device(0).mac;
    message.eth_dst = rig_.device(1).mac;
    message.sender = rig_.device(0).gids[1];
    message.target = rig_.device(1).gids[1];
    const auto ask = [&](std::span<std::byte> frame, rte_mbuf& mbuf) {
        mbuf.data_len = static_cast<std::uint16_t>(
            net::build_neighbour(message, {frame.data(), net::kMaxNeighbourBytes}));
        mbuf.pkt_len = mbuf.data_len;
    };
    inject(ask);
    expect_counted(&Counters::rcvd_neighbour_msgs);
    pollfd waiting{inbox.fd(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 0), 1);
    inbox.acknowledge();
    FrameInbox::Frame frame;
    net::NeighbourMessage got;
    ASSERT_TRUE(inbox.pop(frame));
    EXPECT_EQ(net::parse_neighbour(frame.span(), got), net::NeighbourParse::kGood);
    EXPECT_EQ(got.target, message.target);
    EXPECT_FALSE(inbox.pop(frame));
    // Nobody takes them: the inbox is full at some time.
    for (std::uint32_t i = 0; i <= FrameInbox::kFrames; ++i) {
        inject(ask);
    }
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_neighbour_msgs) == 1; }));
    EXPECT_EQ(poll(&waiting, 1, 0), 1);
    while (inbox.pop(frame)) {
    }
    // Another station's: a port that lets all through may bring it.
    const auto become_another = [&] {
        rig_.device(1).mac[5] ^= 1U;
        rig_.worker(0).refresh_addresses(1);
    };
    rig_.worker(0).call(become_another);
    inject(ask);
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_not_for_us) == 1; }));
    EXPECT_FALSE(inbox.pop(frame));
    rig_.worker(0).call(become_another);
    expect_alive();
    rig_.worker(0).call([&] { rig_.device(1).neighbour_inbox = nullptr; });
}

TEST(FrameInboxTest, AFloodForAllHidesNoAnswer) {
    FrameInbox inbox;
    std::array<std::byte, 60> frame{};
    std::fill_n(frame.begin(), 6, std::byte{0xff});
    for (std::uint32_t i = 0; i < FrameInbox::kFrames; ++i) {
        ASSERT_TRUE(inbox.push(frame));
    }
    EXPECT_FALSE(inbox.push(frame));
    frame[0] = std::byte{2};
    EXPECT_TRUE(inbox.push(frame));
    FrameInbox::Frame got;
    ASSERT_TRUE(inbox.pop(got));
    EXPECT_EQ(got.bytes[0], frame[0]);
    ASSERT_TRUE(inbox.pop(got));
    EXPECT_EQ(got.bytes[0], std::byte{0xff});
}

TEST_F(ReceiveTest, TheNeighboursMacIsLookedUpWhenAFrameLeaves) {
    constexpr std::uint16_t kEntry = NeighbourMacs::kEntries - 1;
    spec_.neighbour = kEntry;
    spec_.dst_mac = {};
    spec_.src_mac = {};
    header_.dest_qp = 0;
    const wire::Path path = wire::make_path(spec_);
    const auto send = [&] {
        rig_.worker(0).call([&] { EXPECT_TRUE(rig_.worker(0).transmit(0, path, header_, {})); });
    };
    const auto arrived = [&] { return rig_.count(1, &Counters::drop_unknown_qp); };  // with a good ICRC
    rig_.device(0).neighbour_macs.publish(kEntry, rig_.device(1).mac);
    send();
    EXPECT_TRUE(rig::wait_for([&] { return arrived() == 1; }));
    rig_.device(0).neighbour_macs.publish(kEntry, std::nullopt);
    // Those without wait, the oldest give way. The worker is awake for them at times, and sends none.
    constexpr std::uint32_t kTooMany = 3;
    const auto began = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < UnresolvedFrames::kFrames + kTooMany; ++i) {
        send();
    }
    EXPECT_EQ(rig_.count(0, &Counters::sent_pkts), 1U);
    rig_.device(0).neighbour_macs.publish(kEntry, rig_.device(1).mac);
    const auto dropped = [&] { return rig_.count(0, &Counters::drop_no_neighbour); };
    EXPECT_TRUE(rig::wait_for([&] {
        return arrived() + dropped() == 1 + UnresolvedFrames::kFrames + kTooMany;
    })) << arrived()
        << " arrived, " << dropped() << " dropped";
    // On a machine that took longer than a frame waits, more may have been dropped.
    if (std::chrono::steady_clock::now() - began < std::chrono::nanoseconds(UnresolvedFrames::kTimeoutNs)) {
        EXPECT_EQ(dropped(), kTooMany);
    }
}

// An address handle is destroyed between the answer and the worker's next look.
TEST_F(ReceiveTest, WhatWaitedForANeighbourGoesOutBeforeTheNeighbourIsForgotten) {
    constexpr std::uint16_t kEntry = 7;
    spec_.neighbour = kEntry;
    spec_.dst_mac = {};
    spec_.src_mac = {};
    header_.dest_qp = 0;
    const wire::Path path = wire::make_path(spec_);
    rig_.worker(0).call([&] {
        EXPECT_TRUE(rig_.worker(0).transmit(0, path, header_, {}));
        rig_.device(0).neighbour_macs.publish(kEntry, rig_.device(1).mac);
        rig_.worker(0).catch_up();
        rig_.device(0).neighbour_macs.publish(kEntry, std::nullopt);
    });
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_unknown_qp) == 1; }));
    EXPECT_EQ(rig_.count(0, &Counters::drop_no_neighbour), 0U);
}

/// A MAD for QP1 of device 1, from QP1 of device 0.
class MadTest : public testing::Test {
  protected:
    MadTest() : rig_({.num_workers = 2, .mads = true}) {
        spec_.src_mac = rig_.device(0).mac;
        spec_.dst_mac = rig_.device(1).mac;
        spec_.src_gid = rig_.device(0).gids[1];
        spec_.dst_gid = rig_.device(1).gids[1];
        header_.opcode = std::uint8_t{wire::kServiceUd} + std::uint8_t{wire::kSendOnly};
        header_.dest_qp = kGsiQp;
        header_.deth = {.qkey = kGsiQkey, .src_qp = kGsiQp};
    }
    /// As the control thread sends.
    void send(std::size_t bytes = kMadBytes, std::uint8_t value = 1) {
        const std::vector<std::byte> mad(bytes, std::byte{value});
        bool sent = false;
        EXPECT_TRUE(rig::wait_for([&] {
            rig_.worker(0).call(
                [&] { sent = sent || rig_.worker(0).transmit(0, wire::make_path(spec_), header_, mad); });
            return sent;
        }));
    }
    void expect_dropped(Counter Counters::*counter) {
        send();
        EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, counter) == 1; }));
        EXPECT_EQ(rig_.count(1, &Counters::rcvd_mads), 0U);
    }
    Rig rig_;
    wire::PathSpec spec_;
    wire::PacketHeader header_;
};

TEST_F(MadTest, ComesWithWhatAnAnswerNeeds) {
    send(kMadBytes, 0x5a);
    ReceivedMad mad;
    pollfd readable{rig_.mads(1).fd(), POLLIN, 0};
    ASSERT_EQ(poll(&readable, 1, 60'000), 1);
    rig_.mads(1).acknowledge();
    ASSERT_TRUE(rig_.mads(1).pop(mad));
    EXPECT_EQ(mad.src_gid, spec_.src_gid);
    EXPECT_EQ(mad.dst_gid, spec_.dst_gid);
    EXPECT_EQ(mad.src_mac, spec_.src_mac);
    EXPECT_EQ(mad.src_qp, kGsiQp);
    EXPECT_EQ(mad.pkey, 0xffff);
    EXPECT_EQ(mad.bytes[0], std::byte{0x5a});
    EXPECT_EQ(mad.bytes[kMadBytes - 1], std::byte{0x5a});
    EXPECT_FALSE(rig_.mads(1).pop(mad));
    EXPECT_EQ(poll(&readable, 1, 0), 0);
    // Counted once it is in the inbox.
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::rcvd_mads) == 1; }));
}

/// On the in-process switch all of a MAD's way is one worker's, here worker 1's, to which QP1 belongs. Who
/// calls it while it sleeps does that part as well: the MAD is there when the call returns.
TEST_F(MadTest, IsThereWhenACallToASleepingWorkerReturns) {
    constexpr int kTimes = 100;
    const std::vector<std::byte> mad(kMadBytes, std::byte{1});
    const auto caller = std::this_thread::get_id();
    for (int n = 0; n < kTimes;) {
        ASSERT_TRUE(rig::wait_for([&] { return rig_.asleep(1); }));
        bool slept = false;
        bool sent = false;
        rig_.worker(1).call([&] {
            slept = std::this_thread::get_id() == caller;
            sent = rig_.worker(1).transmit(0, wire::make_path(spec_), header_, mad);
        });
        ASSERT_TRUE(sent);
        ReceivedMad received;
        const bool was_there = rig_.mads(1).pop(received);
        if (slept) {
            ASSERT_TRUE(was_there) << n;
            ++n;
        } else if (!was_there) {
            // It said that it would sleep, and was still awake.
            ASSERT_TRUE(rig::wait_for([&] { return rig_.mads(1).pop(received); }));
        }
    }
}

TEST_F(MadTest, AFullInboxDropsAndCounts) {
    for (std::uint32_t n = 0; n < MadInbox::kMads + 3; ++n) {
        send(kMadBytes, static_cast<std::uint8_t>(n));
    }
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_mad_full) == 3; }));
    EXPECT_EQ(rig_.count(1, &Counters::rcvd_mads), MadInbox::kMads);
    ReceivedMad mad;
    for (std::uint32_t n = 0; n < MadInbox::kMads; ++n) {
        ASSERT_TRUE(rig_.mads(1).pop(mad));
        EXPECT_EQ(mad.bytes[0], static_cast<std::byte>(n));
    }
    EXPECT_FALSE(rig_.mads(1).pop(mad));
}

TEST_F(MadTest, WrongQkey) {
    header_.deth.qkey = 0x11111111;
    expect_dropped(&Counters::drop_qkey);
}
TEST_F(MadTest, WrongPartition) {
    header_.pkey = 0x7ffe;
    expect_dropped(&Counters::drop_pkey);
}
TEST_F(MadTest, AnotherOpcode) {
    header_.opcode = std::uint8_t{wire::kServiceUd} + std::uint8_t{wire::kSendOnlyImm};
    expect_dropped(&Counters::drop_opcode);
}
TEST_F(MadTest, AnotherLength) {
    for (const std::size_t length : {std::size_t{0}, kMadBytes - 4, kMadBytes + 4}) {
        send(length);
    }
    EXPECT_TRUE(rig::wait_for([&] { return rig_.count(1, &Counters::drop_malformed) == 3; }));
    EXPECT_EQ(rig_.count(1, &Counters::rcvd_mads), 0U);
}
TEST_F(MadTest, NobodyListensToQp0) {
    header_.dest_qp = 0;
    expect_dropped(&Counters::drop_unknown_qp);
}

TEST_F(ReceiveTest, APortThatIsDown) {
    for (const std::uint32_t device : {0U, 1U}) {
        const std::uint64_t received = rig_.count(1, &Counters::rcvd_pkts);
        rig_.worker(0).call([&] { rig_.worker(0).set_port(device, false); });
        a_.post_send({.opcode = WrOpcode::kWrite, .wr_id = device});
        EXPECT_TRUE(rig::wait_for([&] { return rig_.count(device, &Counters::drop_port_down) != 0; }));
        EXPECT_FALSE(cq_a_.poll().has_value());
        EXPECT_EQ(rig_.count(1, &Counters::rcvd_pkts), received);
        rig_.worker(0).call([&] { rig_.worker(0).set_port(device, true); });
        const auto completion = cq_a_.wait();  // by a retry
        ASSERT_TRUE(completion.has_value());
        EXPECT_EQ(completion->status, WcStatus::kSuccess);
        EXPECT_EQ(completion->wr_id, device);
        EXPECT_EQ(rig_.count(device, &Counters::link_downed), 1U);
    }
    EXPECT_EQ(rig_.count(0, &Counters::xmit_discard_port_down), rig_.count(0, &Counters::drop_port_down));
    EXPECT_EQ(rig_.count(1, &Counters::xmit_discard_port_down), 0U);
}

TEST_F(ReceiveTest, FromAnotherPeer) {
    spec_.src_gid[15] = 77;
    inject(untouched);
    expect_counted(&Counters::drop_not_for_us);
    expect_alive();
}

}  // namespace
}  // namespace urnic::dataplane
