// Requests that a responder refuses, and what the requester completes with (IBA 9.7.4, 9.9.3, 9.9.2).
#include "tests/sim/rc_fixture.h"

namespace urnic::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcRemoteError : public RcPair {
  protected:
    // Sends B a request as A would, with the PSN that B expects.
    void inject(wire::PacketHeader header, std::size_t payload_bytes = 0, std::uint32_t psn = 1000) {
        header.dest_qp = 2;
        header.psn = Psn(psn);
        net_.inject(*a_, header, {a_mem_->data(), payload_bytes});
        net_.run_for(3000);
    }
    wire::PacketHeader write_header(std::uint8_t operation, std::uint32_t dma_length) {
        wire::PacketHeader header;
        header.opcode = operation;
        header.reth = {.va = b_mem_->addr(), .rkey = b_mem_->key(), .dma_length = dma_length};
        return header;
    }
    wire::PacketHeader plain_header(std::uint8_t operation) {
        wire::PacketHeader header;
        header.opcode = operation;
        return header;
    }
    // B's answer and state after a refusal.
    void expect_nak(std::uint8_t syndrome) {
        const auto packets = net_.take_packets();
        ASSERT_FALSE(packets.empty());
        EXPECT_EQ(packets.back().from, "B");
        EXPECT_EQ(packets.back().header.opcode, wire::kAcknowledge);
        EXPECT_EQ(packets.back().header.aeth.syndrome, syndrome);
        EXPECT_EQ(b_->qp().state(), QpState::kErr);
    }
};

// --- R_Keys
// ---------------------------------------------------------------------------------------------------

struct BadKeyCase {
    const char* name;
    WrOpcode opcode;
    std::uint32_t region_access;
    std::uint32_t region_pd;
    std::int64_t address_shift;
};

class RcBadKey : public RcPair, public ::testing::WithParamInterface<BadKeyCase> {};

TEST_P(RcBadKey, IsARemoteAccessError) {
    const BadKeyCase& param = GetParam();
    connect_pair();
    SimRegion& region = b_->add_region(4096, {.access = param.region_access, .pd = param.region_pd});
    region.fill_pattern(5);
    const std::vector<std::byte> before(region.data(), region.data() + region.size());
    SendRequest request = rdma(param.opcode, 1, 8);
    request.remote_addr = region.addr() + static_cast<std::uint64_t>(param.address_shift);
    request.rkey = region.key();
    a_->post_send(write(0, 8, 512));
    a_->post_send(request);
    a_->post_send(write(2, 8, 1024));
    post_receives(2, 64);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(0), Done{1, WcStatus::kRemAccessErr}, flushed(2)));
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpAccessErr));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(flushed(100), flushed(101)));
    EXPECT_EQ(b_->qp().state(), QpState::kErr);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), region.data()));
    EXPECT_FALSE(same(1024, 8));
    EXPECT_EQ(b_->counters.resp_remote_access_errors.value(), 1U);
    EXPECT_EQ(a_->counters.req_remote_access_errors.value(), 1U);
}

constexpr std::uint32_t kNoWrite = kAccessLocalWrite | kAccessRemoteRead | kAccessRemoteAtomic;
constexpr std::uint32_t kNoRead = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteAtomic;
constexpr std::uint32_t kNoAtomic = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead;
INSTANTIATE_TEST_SUITE_P(
    All, RcBadKey,
    ::testing::Values(BadKeyCase{"WriteForbidden", WrOpcode::kWrite, kNoWrite, 1, 0},
                      BadKeyCase{"ReadForbidden", WrOpcode::kRead, kNoRead, 1, 0},
                      BadKeyCase{"AtomicForbidden", WrOpcode::kFetchAdd, kNoAtomic, 1, 0},
                      BadKeyCase{"CompareSwapForbidden", WrOpcode::kCompareSwap, kNoAtomic, 1, 0},
                      BadKeyCase{"WriteOtherPd", WrOpcode::kWrite, kAllAccess, 2, 0},
                      BadKeyCase{"ReadOtherPd", WrOpcode::kRead, kAllAccess, 2, 0},
                      BadKeyCase{"AtomicOtherPd", WrOpcode::kFetchAdd, kAllAccess, 2, 0},
                      BadKeyCase{"WriteBeforeRegion", WrOpcode::kWrite, kAllAccess, 1, -1},
                      BadKeyCase{"WriteOverEnd", WrOpcode::kWrite, kAllAccess, 1, 4089},
                      BadKeyCase{"ReadOverEnd", WrOpcode::kRead, kAllAccess, 1, 4089},
                      BadKeyCase{"AtomicBehindEnd", WrOpcode::kFetchAdd, kAllAccess, 1, 4096}),
    [](const auto& info) { return info.param.name; });

TEST_F(RcRemoteError, UnknownKey) {
    connect_pair();
    SendRequest request = write(1, 8);
    request.rkey ^= 0x4000'0000;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemAccessErr}));
}

TEST_F(RcRemoteError, LongWriteIsRefusedAsAWholeBeforeItsFirstByte) {
    connect_pair();
    SimRegion& region = b_->add_region(4096);
    SendRequest request = write(1, 4097);
    request.remote_addr = region.addr();
    request.rkey = region.key();
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemAccessErr}));
    EXPECT_EQ(region.data()[0], std::byte{0});
}

TEST_F(RcRemoteError, KeyRevokedInTheMiddleOfAWrite) {
    connect_pair();
    inject(write_header(wire::kWriteFirst, 2048), 1024);
    b_mem_->revoke();
    inject(plain_header(wire::kWriteLast), 1024, 1001);
    expect_nak(wire::kNakRemoteAccessError);
    EXPECT_TRUE(same(0, 1024));
    EXPECT_FALSE(same(1024, 1024));
}

TEST_F(RcRemoteError, KeyRevokedInTheMiddleOfARead) {
    connect_pair({.mtu = 256});
    b_->set_room(2);
    a_->post_send(read(1, 1024));
    (void)a_->qp().progress(0, 64, *a_);
    b_->packets_per_progress = 2;
    net_.before_progress = [this, sent = 0](SimHost& host) mutable {
        if (&host == b_.get() && host.qp().state() == QpState::kRts && ++sent == 3) {
            b_mem_->revoke();
        }
    };
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemAccessErr}));
    EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpAccessErr));
    EXPECT_TRUE(same(0, 512));
}

TEST_F(RcRemoteError, QpAccessFlagsForbid) {
    for (const WrOpcode opcode :
         {WrOpcode::kWrite, WrOpcode::kRead, WrOpcode::kFetchAdd, WrOpcode::kCompareSwap}) {
        net_ = SimNetwork();
        connect_pair({.access = kAccessLocalWrite});
        a_->post_send(rdma(opcode, 1, 8));
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
        EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpReqErr));
    }
}

TEST_F(RcRemoteError, MisalignedAtomic) {
    connect_pair();
    SendRequest request = fetch_add(1, 1);
    request.remote_addr += 4;
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
}

TEST_F(RcRemoteError, AtomicOnMemoryThatOnlyItsIovaAligns) {
    connect_pair();
    SimRegion& region = b_->add_region(64, {.iova_offset = 4});
    SendRequest request = fetch_add(1, 1);
    request.remote_addr = (region.addr() + 7) & ~7ULL;
    request.rkey = region.key();
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
}

TEST_F(RcRemoteError, AtomicOnMemoryThatOnlyItsIovaMisaligns) {
    connect_pair();
    SimRegion& region = b_->add_region(64, {.iova_offset = 4});
    SendRequest request = fetch_add(1, 1);
    request.remote_addr = region.addr();
    request.rkey = region.key();
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
}

TEST_F(RcRemoteError, ProcessOfTheTargetIsGone) {
    for (const WrOpcode opcode : {WrOpcode::kWrite, WrOpcode::kRead, WrOpcode::kFetchAdd}) {
        net_ = SimNetwork();
        connect_pair();
        SimRegion& region = b_->add_region(4096, {.mapped = false});
        region.space.gone = true;
        SendRequest request = rdma(opcode, 1, 8);
        request.remote_addr = region.addr();
        request.rkey = region.key();
        a_->post_send(request);
        ASSERT_TRUE(net_.run());
        EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemOpErr}));
        EXPECT_THAT(b_->events, ElementsAre(AsyncEventType::kQpFatal));
    }
}

TEST_F(RcRemoteError, ARegionIsNotInvalidated) {
    connect_pair();
    post_receives(2, 64);
    SendRequest request = send(1, 8);
    request.opcode = WrOpcode::kSendWithInvalidate;
    request.imm_or_rkey = b_mem_->key();
    a_->post_send(request);
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1))) << "it has arrived (IBA 9.9.6.3, class J)";
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kRemInvReqErr}, flushed(101)));
    EXPECT_NE(b_->keys.find(b_mem_->key()), nullptr);
}

// --- Receives
// -------------------------------------------------------------------------------------------------

TEST_F(RcRemoteError, MessageLongerThanTheReceive) {
    connect_pair();
    b_->post_recv(100, {b_mem_->sge(0, 63)});
    b_->post_recv(101, {b_mem_->sge(0, 64)});
    a_->post_send(send(1, 64));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocLenErr}, flushed(101)));
    EXPECT_FALSE(same(0, 8));
}

TEST_F(RcRemoteError, LaterPacketDoesNotFitTheReceive) {
    connect_pair();
    b_->post_recv(100, {b_mem_->sge(0, 1500)});
    a_->post_send(send(1, 2000));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemInvReqErr}));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocLenErr}));
}

TEST_F(RcRemoteError, ReceiveBufferMayNotBeWritten) {
    connect_pair();
    SimRegion& read_only = b_->add_region(4096, {.access = kAccessRemoteRead});
    b_->post_recv(100, {read_only.sge(0, 64)});
    b_->post_recv(101, {});
    a_->post_send(send(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemOpErr}));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocProtErr}, flushed(101)));
}

TEST_F(RcRemoteError, ReceiveRingWithGarbage) {
    connect_pair();
    b_->post_recv(100, {b_mem_->sge(0, 64)});
    b_->recv_slot(0).num_sge = 0xffff'ffff;
    a_->post_send(send(1, 8));
    ASSERT_TRUE(net_.run());
    EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kRemOpErr}));
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kLocQpOpErr}));
}

TEST_F(RcRemoteError, ReceiveRewrittenInTheMiddleOfAMessage) {
    connect_pair();
    b_->post_recv(100, {b_mem_->sge(0, 2000)});
    inject(plain_header(wire::kSendFirst), 1024);
    b_->recv_slot(0).num_sge = 0xffff'ffff;
    b_->recv_slot(0).seq.store(0);
    inject(plain_header(wire::kSendLast), 900, 1001);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(ok(100)));
    EXPECT_TRUE(same(0, 1024));
}

// --- Packets that no requester should send
// --------------------------------------------------------------------

struct BadSequence {
    const char* name;
    std::uint8_t first;
    std::size_t first_bytes;
    std::uint8_t second;
    std::size_t second_bytes;
    std::uint32_t dma_length;
};

class RcBadSequence : public RcRemoteError, public ::testing::WithParamInterface<BadSequence> {};

TEST_P(RcBadSequence, IsAnInvalidRequest) {
    const BadSequence& param = GetParam();
    connect_pair();
    post_receives(4, 8192);
    inject(write_header(param.first, param.dma_length), param.first_bytes);
    if (param.second != 0xff) {
        ASSERT_EQ(b_->qp().state(), QpState::kRts);
        inject(write_header(param.second, param.dma_length), param.second_bytes, 1001);
    }
    expect_nak(wire::kNakInvalidRequest);
}

constexpr std::uint8_t kNothing = 0xff;
INSTANTIATE_TEST_SUITE_P(
    All, RcBadSequence,
    ::testing::Values(
        BadSequence{"SendMiddleAlone", wire::kSendMiddle, 1024, kNothing, 0, 0},
        BadSequence{"SendLastAlone", wire::kSendLast, 8, kNothing, 0, 0},
        BadSequence{"WriteMiddleAlone", wire::kWriteMiddle, 1024, kNothing, 0, 0},
        BadSequence{"WriteLastAlone", wire::kWriteLast, 8, kNothing, 0, 0},
        BadSequence{"WriteLastImmAlone", wire::kWriteLastImm, 8, kNothing, 0, 0},
        BadSequence{"SendFirstTwice", wire::kSendFirst, 1024, wire::kSendFirst, 1024, 0},
        BadSequence{"SendOnlyInSend", wire::kSendFirst, 1024, wire::kSendOnly, 8, 0},
        BadSequence{"WriteOnlyInSend", wire::kSendFirst, 1024, wire::kWriteOnly, 8, 8},
        BadSequence{"WriteLastInSend", wire::kSendFirst, 1024, wire::kWriteLast, 8, 8},
        BadSequence{"ReadInSend", wire::kSendFirst, 1024, wire::kReadRequest, 0, 8},
        BadSequence{"AtomicInWrite", wire::kWriteFirst, 1024, wire::kFetchAdd, 0, 2048},
        BadSequence{"SendLastInWrite", wire::kWriteFirst, 1024, wire::kSendLast, 8, 2048},
        BadSequence{"ShortFirst", wire::kSendFirst, 1023, kNothing, 0, 0},
        BadSequence{"LongFirst", wire::kSendFirst, 1028, kNothing, 0, 0},
        BadSequence{"LongOnly", wire::kSendOnly, 1028, kNothing, 0, 0},
        BadSequence{"ShortMiddle", wire::kSendFirst, 1024, wire::kSendMiddle, 8, 0},
        BadSequence{"EmptyLast", wire::kSendFirst, 1024, wire::kSendLast, 0, 0},
        BadSequence{"LongLast", wire::kSendFirst, 1024, wire::kSendLast, 1028, 0},
        BadSequence{"WriteOnlyShorterThanDmaLength", wire::kWriteOnly, 8, kNothing, 0, 12},
        BadSequence{"WriteOnlyLongerThanDmaLength", wire::kWriteOnly, 8, kNothing, 0, 4},
        BadSequence{"WriteFirstOfOnePacket", wire::kWriteFirst, 1024, kNothing, 0, 1024},
        BadSequence{"WriteLastShorterThanDmaLength", wire::kWriteFirst, 1024, wire::kWriteLast, 8, 1033},
        BadSequence{"WriteLastLongerThanDmaLength", wire::kWriteFirst, 1024, wire::kWriteLast, 12, 1033},
        BadSequence{"WriteMiddleBeyondDmaLength", wire::kWriteFirst, 1024, wire::kWriteMiddle, 1024, 2048},
        BadSequence{"WriteTooLong", wire::kWriteFirst, 1024, kNothing, 0, (1U << 30U) + 1},
        BadSequence{"ReadTooLong", wire::kReadRequest, 0, kNothing, 0, 0x8000'0001},
        BadSequence{"ReservedOpcode", 0x18, 8, kNothing, 0, 0},
        BadSequence{"ReservedOpcodeInSend", wire::kSendFirst, 1024, 0x1f, 1024, 0}),
    [](const auto& info) { return info.param.name; });

TEST_F(RcRemoteError, ReceiveInUseCompletesWhenItsMessageBreaks) {
    connect_pair();
    post_receives(2, 4096);
    inject(plain_header(wire::kSendFirst), 1024);
    inject(plain_header(wire::kSendOnly), 8, 1001);
    expect_nak(wire::kNakInvalidRequest);
    EXPECT_THAT(b_->poll_recv(), ElementsAre(Done{100, WcStatus::kRemInvReqErr}, flushed(101)));
    EXPECT_THAT(b_->events, IsEmpty());
}

TEST_F(RcRemoteError, PacketsOfOthersAreDropped) {
    connect_pair();
    SimHost c(net_, "C", 3, {});
    wire::PacketHeader header = write_header(wire::kWriteOnly, 8);
    header.dest_qp = 2;
    header.psn = Psn(1000);
    net_.inject(c, header, {a_mem_->data(), 8});  // right key and PSN, wrong address
    header.pkey = 0x8001;
    net_.inject(*a_, header, {a_mem_->data(), 8});
    header.pkey = 0xffff;
    header.opcode = 0x2a;  // UC WRITE Only
    net_.inject(*a_, header, {a_mem_->data(), 8});
    net_.run_for(10'000);
    EXPECT_EQ(b_->counters.drop_not_for_us.value(), 1U);
    EXPECT_EQ(b_->counters.drop_pkey.value(), 1U);
    EXPECT_EQ(b_->counters.drop_opcode.value(), 1U);
    EXPECT_EQ(net_.take_packets().size(), 3U);
    EXPECT_FALSE(same(0, 8));
}

TEST_F(RcRemoteError, LimitedMembersDoNotTalkToEachOther) {
    connect_pair({}, {.pkey = 0x7fff});
    net_.run_for(1);
    inject(write_header(wire::kWriteOnly, 8), 8);
    EXPECT_TRUE(same(0, 8));  // full to limited
    wire::PacketHeader limited = write_header(wire::kWriteOnly, 8);
    limited.pkey = 0x7fff;
    inject(limited, 8, 1001);
    EXPECT_EQ(b_->counters.drop_pkey.value(), 1U);
}

// --- What comes back
// ------------------------------------------------------------------------------------------

struct NakCase {
    std::uint8_t syndrome;
    WcStatus status;
};
class RcNak : public RcPair, public ::testing::WithParamInterface<NakCase> {};

TEST_P(RcNak, CompletesWith) {
    connect_pair({.timeout = 0});
    net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
    a_->post_send(write(1, 8));
    a_->post_send(write(2, 8));
    a_->post_send(write(3, 8));
    a_->post_recv(50, {});
    net_.run_for(1000);
    wire::PacketHeader header;
    header.opcode = wire::kAcknowledge;
    header.dest_qp = 1;
    header.psn = Psn(1001);
    header.aeth.syndrome = GetParam().syndrome;
    net_.inject(*b_, header);
    net_.run_for(5000);
    EXPECT_THAT(a_->poll_send(), ElementsAre(ok(1), Done{2, GetParam().status}, flushed(3)));
    EXPECT_THAT(a_->poll_recv(), ElementsAre(flushed(50)));
    EXPECT_EQ(a_->qp().state(), QpState::kErr);
}

INSTANTIATE_TEST_SUITE_P(
    All, RcNak,
    ::testing::Values(NakCase{0x61, WcStatus::kRemInvReqErr}, NakCase{0x62, WcStatus::kRemAccessErr},
                      NakCase{0x63, WcStatus::kRemOpErr}, NakCase{0x64, WcStatus::kBadRespErr},
                      NakCase{0x7f, WcStatus::kBadRespErr}, NakCase{0x40, WcStatus::kBadRespErr}),
    [](const auto& info) { return "Syndrome" + std::to_string(info.param.syndrome); });

class RcBadResponse : public RcPair {
  protected:
    void respond(std::uint8_t operation, std::uint32_t psn, std::size_t bytes) {
        wire::PacketHeader header;
        header.opcode = operation;
        header.dest_qp = 1;
        header.psn = Psn(psn);
        header.aeth.syndrome = wire::kCreditsUnlimited;
        net_.inject(*b_, header, {b_mem_->data(), bytes});
        net_.run_for(3000);
    }
    void ask(WrOpcode opcode, std::uint32_t length) {
        connect_pair({.timeout = 0});
        net_.lose = [](const SentPacket& packet) { return packet.from == "A"; };
        a_->post_send(rdma(opcode, 1, length));
        net_.run_for(1000);
    }
    void expect_bad() {
        EXPECT_THAT(a_->poll_send(), ElementsAre(Done{1, WcStatus::kBadRespErr}));
        EXPECT_EQ(a_->qp().state(), QpState::kErr);
    }
};

TEST_F(RcBadResponse, DataForAWrite) {
    ask(WrOpcode::kWrite, 8);
    respond(wire::kReadResponseOnly, 1000, 8);
    expect_bad();
}

TEST_F(RcBadResponse, AtomicResultForARead) {
    ask(WrOpcode::kRead, 8);
    respond(wire::kAtomicAcknowledge, 1000, 0);
    expect_bad();
}

TEST_F(RcBadResponse, DataForAnAtomic) {
    ask(WrOpcode::kFetchAdd, 8);
    respond(wire::kReadResponseOnly, 1000, 8);
    expect_bad();
}

TEST_F(RcBadResponse, ShortLast) {
    ask(WrOpcode::kRead, 2000);
    respond(wire::kReadResponseFirst, 1000, 1024);
    respond(wire::kReadResponseLast, 1001, 975);
    expect_bad();
}

TEST_F(RcBadResponse, LongLast) {
    ask(WrOpcode::kRead, 2000);
    respond(wire::kReadResponseFirst, 1000, 1024);
    respond(wire::kReadResponseLast, 1001, 1000);
    expect_bad();
}

TEST_F(RcBadResponse, ShortFirst) {
    ask(WrOpcode::kRead, 2000);
    respond(wire::kReadResponseFirst, 1000, 8);
    expect_bad();
}

TEST_F(RcBadResponse, EndsTooEarly) {
    ask(WrOpcode::kRead, 3000);
    respond(wire::kReadResponseFirst, 1000, 1024);
    respond(wire::kReadResponseLast, 1001, 1024);
    expect_bad();
}

TEST_F(RcBadResponse, DoesNotEnd) {
    ask(WrOpcode::kRead, 1024);
    respond(wire::kReadResponseFirst, 1000, 1024);
    expect_bad();
}

}  // namespace
}  // namespace urnic::sim
