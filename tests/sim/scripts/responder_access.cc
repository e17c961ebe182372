// R_Keys, ranges and rights of WRITE, READ and atomic requests (IBA 9.7.4.1.3-5, 10.6.3).
#include <algorithm>

#include "tests/sim/scripts/rc_script.h"
#include "tests/sim/scripts/responder_packets.h"

namespace urnic::sim {
namespace {

constexpr std::uint32_t kNoWrite = kAllAccess & ~kAccessRemoteWrite;
constexpr std::uint32_t kNoRead = kAllAccess & ~kAccessRemoteRead;
constexpr std::uint32_t kNoAtomic = kAllAccess & ~kAccessRemoteAtomic;

bool untouched(SimRegion& region) {
    return std::all_of(region.data(), region.data() + region.size(),
                       [](std::byte b) { return b == std::byte{0}; });
}

// --- Ranges -----------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderRange, WriteToTheLastByte, "9.7.4.1.5", "WRITE up to the last byte of a region") {
    connect();
    SimRegion& region = host().add_region(4096);
    peer(write_only(2000, 8).reth(region.addr(4088), region.key(), 8));
    sends(acked(2000, 1));
    EXPECT_NE(region.data()[4095], std::byte{0});
}

RC_SCRIPT(ResponderRange, WriteOneBytePast, "9.7.4.1.5",
          "WRITE of one byte past a region's end: NAK remote access error, not a byte stored") {
    connect();
    SimRegion& region = host().add_region(4096);
    peer(write_only(2000, 8).reth(region.addr(4089), region.key(), 8));
    refuses(2000, 0, kAccess);
    EXPECT_TRUE(untouched(region));
}

RC_SCRIPT(
    ResponderRange, LongWritePastTheEnd, "9.7.4.1.5",
    "WRITE of many packets whose Last would go past the end: not a byte past it, NAK remote access error") {
    connect({.mtu = 256});
    SimRegion& region = host().add_region(1024);
    peer({unasked(packet(wire::kWriteFirst, 2000, 256).reth(region.addr(512), region.key(), 513)),
          unasked(write_middle(2001, 256)), write_last(2002, 1)});
    refuses(2000, 0, kAccess);
    EXPECT_TRUE(untouched(region));
}

RC_SCRIPT(ResponderRange, WriteBeforeTheFirstByte, "9.7.4.1.5",
          "WRITE that begins one byte before a region: NAK remote access error") {
    connect();
    SimRegion& region = host().add_region(4096);
    peer(write_only(2000, 8).reth(region.addr() - 1, region.key(), 8));
    refuses(2000, 0, kAccess);
    EXPECT_TRUE(untouched(region));
}

RC_SCRIPT(ResponderRange, ReadToTheLastByte, "9.7.4.1.5", "READ up to the last byte of a region") {
    connect();
    SimRegion& region = host().add_region(4096);
    region.fill_pattern(3);
    peer(read_request(2000, 0).reth(region.addr(4088), region.key(), 8));
    sends(response_only(2000, 1, 8).credits(0).bytes({region.data() + 4088, 8}));
}

RC_SCRIPT(
    ResponderRange, ReadAcrossTheEnd, "9.7.4.1.5",
    "READ across a region's end: NAK remote access error and no response, not even of what lies inside") {
    for (const std::uint32_t length : {9U, 3000U, 0x4000'0000U}) {
        connect({.mtu = 256});
        SimRegion& region = host().add_region(4096);
        peer(read_request(2000, 0).reth(region.addr(4088), region.key(), length));
        refuses(2000, 0, kAccess);
    }
}

RC_SCRIPT(ResponderRange, AtomicAcrossTheEnd, "9.7.4.1.5",
          "an atomic that begins at a region's end or before its begin: NAK remote access error") {
    for (const std::int64_t offset : {4096, -8, 8192}) {
        connect();
        SimRegion& region = host().add_region(4096);
        const std::uint64_t va = (region.addr() + static_cast<std::uint64_t>(offset)) & ~7ULL;
        peer(fetch_add_request(2000, 1).reth(va, region.key(), 0));
        refuses(2000, 0, kAccess);
        EXPECT_TRUE(untouched(region));
    }
}

RC_SCRIPT(ResponderRange, AtomicOfHalfAWord, "9.7.4.1.5",
          "an atomic on the last four bytes of a region: NAK remote access error") {
    connect();
    MemoryRegion half{.iova = memory().addr(),
                      .length_bytes = 4,
                      .va = memory().addr(),
                      .direct = memory().data(),
                      .space = nullptr,
                      .pd = 1,
                      .access = kAllAccess};
    peer(fetch_add_request(2000, 1).rkey(host().keys().add(half, 99)));
    refuses(2000, 0, kAccess);
    holds_own_data(0, 8);
}

RC_SCRIPT(ResponderRange, AddressWrap, "9.7.4.1.5",
          "a range that wraps at 2^64: NAK remote access error for WRITE and READ") {
    for (const std::uint64_t va : {~0ULL, ~0ULL - 255, ~0ULL - 1022}) {
        connect({.mtu = 1024});
        peer(write_only(2000, 1024).reth(va, memory().key(), 1024));
        refuses(2000, 0, kAccess);
        holds_own_data(0, 1024);
        connect({.mtu = 256});
        peer(read_request(2000, 0).reth(va, memory().key(), 0x4000'0000));
        refuses(2000, 0, kAccess);
    }
}

RC_SCRIPT(
    ResponderRange, TopOfTheAddressSpace, "9.7.4.1.5",
    "a region that ends at 2^64: its last bytes can be written and read, and the range never wraps to 0") {
    const auto connect_with_region = [this] {
        connect({.mtu = 256});
        const MemoryRegion region{.iova = 0 - std::uint64_t{4096},
                                  .length_bytes = 4096,
                                  .va = memory().addr(),
                                  .direct = memory().data(),
                                  .space = nullptr,
                                  .pd = 1,
                                  .access = kAllAccess};
        return host().keys().add(region, 99);
    };
    std::uint32_t key = connect_with_region();
    peer({packet(wire::kWriteFirst, 2000, 256, 3696).reth(0 - std::uint64_t{400}, key, 400),
          write_last(2001, 144, 3952)});
    sends(acked(2001, 1));
    holds_own_data(0, 3696);
    holds_peer_data(3696, 400, 3696);
    peer(read_request(2002, 0).reth(0 - std::uint64_t{4096}, key, 300));
    sends({response_first(2002, 2, 256).credits(0), response_last(2003, 2, 44, 256).credits(0)});
    peer(write_only(2004, 8).reth(0 - std::uint64_t{4}, key, 8));
    refuses(2004, 2, kAccess);
    key = connect_with_region();
    peer(write_only(2000, 8).reth(0, key, 8));
    refuses(2000, 0, kAccess);
}

// --- Keys -------------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderKey, Unknown, "9.7.4.1.5",
          "an R_Key that nobody has, or 0: NAK remote access error for WRITE, READ and atomics") {
    for (const std::uint32_t key : {0U, 1U, 0xffff'ffffU}) {
        connect();
        peer(write_only(2000, 8).rkey(key));
        refuses(2000, 0, kAccess);
        holds_own_data(0, 8);
        connect();
        peer(read_request(2000, 8).rkey(key));
        refuses(2000, 0, kAccess);
        connect();
        peer(fetch_add_request(2000, 1).rkey(key));
        refuses(2000, 0, kAccess);
        holds_own_data(0, 8);
        EXPECT_EQ(host().counters.resp_remote_access_errors.value(), 1U);
    }
}

RC_SCRIPT(ResponderKey, OneBitAway, "9.7.4.1.5",
          "an R_Key that differs from ours in any one bit: NAK remote access error") {
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
        connect();
        peer(write_only(2000, 8).rkey(memory().key() ^ (1U << bit)));
        refuses(2000, 0, kAccess);
        holds_own_data(0, 8);
    }
}

RC_SCRIPT(ResponderKey, Stale, "10.6.3",
          "the R_Key of a region that is gone does not reach the one that took its place") {
    connect();
    SimRegion& gone = host().add_region(4096);
    const std::uint32_t stale = gone.key();
    gone.revoke();
    host().keys().release(stale);
    MemoryRegion next{.iova = memory().addr(),
                      .length_bytes = 4096,
                      .va = memory().addr(),
                      .direct = memory().data(),
                      .space = nullptr,
                      .pd = 1,
                      .access = kAllAccess};
    const std::uint32_t key = host().keys().add(next, stale ^ 0x8000'0000U);
    ASSERT_EQ(key, stale ^ 0x8000'0000U);  // the same slot
    peer(write_only(2000, 8).rkey(stale));
    refuses(2000, 0, kAccess);
    holds_own_data(0, 8);
}

RC_SCRIPT(ResponderKey, OfAnotherPd, "9.7.4.1.5",
          "the R_Key of another protection domain: NAK remote access error for WRITE, READ and atomics") {
    for (const std::uint8_t operation :
         {wire::kWriteOnly, wire::kReadRequest, wire::kFetchAdd, wire::kCompareSwap}) {
        connect();
        SimRegion& region = host().add_region(4096, {.pd = 2});
        peer(packet(operation, 2000, 8).reth(region.addr(), region.key(), 8).atomic(1, 0));
        refuses(2000, 0, kAccess);
        EXPECT_TRUE(untouched(region));
    }
}

RC_SCRIPT(ResponderKey, WithoutTheRight, "9.7.4.1.5",
          "a region without remote write, remote read or remote atomic right: NAK remote access error for "
          "what lacks it, and for that alone") {
    const struct {
        std::uint8_t operation;
        std::uint32_t access;
    } rows[] = {{wire::kWriteOnly, kNoWrite},
                {wire::kWriteOnly, kAccessLocalWrite},
                {wire::kWriteOnly, 0},
                {wire::kReadRequest, kNoRead},
                {wire::kReadRequest, kAccessLocalWrite},
                {wire::kFetchAdd, kNoAtomic},
                {wire::kCompareSwap, kNoAtomic},
                {wire::kCompareSwap, kAccessLocalWrite}};
    for (const auto& row : rows) {
        connect();
        SimRegion& region = host().add_region(4096, {.access = row.access});
        peer(packet(row.operation, 2000, 8).reth(region.addr(), region.key(), 8).atomic(1, 0));
        refuses(2000, 0, kAccess);
        EXPECT_TRUE(untouched(region));
    }
    connect();
    SimRegion& region = host().add_region(4096, {.access = kNoRead});
    peer({write_only(2000, 8).reth(region.addr(), region.key(), 8),
          fetch_add_request(2001, 1).reth(region.addr(64), region.key(), 0)});
    sends(atomic_ack(2001, 2, 0).credits(0));
}

RC_SCRIPT(ResponderKey, FirstOfALongWrite, "9.7.4.1.5",
          "a WRITE of many packets with a bad R_Key is refused at its First") {
    connect({.mtu = 256});
    SimRegion& region = host().add_region(4096, {.access = kNoWrite});
    peer({unasked(packet(wire::kWriteFirst, 2000, 256).reth(region.addr(), region.key(), 300)),
          write_last(2001, 44)});
    refuses(2000, 0, kAccess);
    EXPECT_TRUE(untouched(region));
}

RC_SCRIPT(ResponderKey, RevokedInsideAWrite, "9.7.4.1.5",
          "the key goes away between First and Last: NAK remote access error, nothing stored from then on") {
    connect({.mtu = 256});
    SimRegion& region = host().add_region(4096);
    peer(unasked(packet(wire::kWriteFirst, 2000, 256).reth(region.addr(), region.key(), 520)));
    peer(unasked(write_middle(2001, 256)));
    region.revoke();
    peer(write_last(2002, 8));
    refuses(2002, 0, kAccess);
    EXPECT_EQ(region.data()[512], std::byte{0});
}

RC_SCRIPT(
    ResponderKey, RevokedInsideARead, "9.7.4.1.5",
    "the key goes away while a READ is answered: NAK remote access error in place of the next response") {
    connect({.mtu = 256});
    SimRegion& region = host().add_region(4096);
    region.fill_pattern(5);
    wire::PacketView view;
    view.header = read_request(2000, 0).reth(region.addr(), region.key(), 1024).header();
    view.src_gid = peer_gid();
    host().deliver(view);
    ASSERT_TRUE(host().qp().progress(now(), 2, host()));
    region.revoke();
    host().progress();
    sends({response_first(2000, 1, 256).credits(0).bytes({region.data(), 256}),
           response_middle(2001, 256).bytes({region.data() + 256, 256})});
    refuses(2002, 1, kAccess);
}

RC_SCRIPT(
    ResponderKey, RevokedInsideAReadWithMoreBehind, "9.9.3",
    "the NAK in place of a READ's response is the last word: what came behind the READ is not answered") {
    connect({.mtu = 256});
    SimRegion& region = host().add_region(4096);
    for (const ScriptPacket& request : {read_request(2000, 0).reth(region.addr(), region.key(), 1024),
                                        write_only(2004, 0), read_request(2005, 8)}) {
        wire::PacketView view;
        view.header = request.header();
        view.src_gid = peer_gid();
        host().deliver(view);
    }
    ASSERT_TRUE(host().qp().progress(now(), 1, host()));
    region.revoke();
    host().progress();
    sends(response_first(2000, 3, 256).credits(0).bytes({region.data(), 256}));
    refuses(2001, 3, kAccess);
}

// --- The QP's own rights and resources --------------------------------------------------------------------

RC_SCRIPT(ResponderRight, QpWithoutAccessFlag, "9.7.4.1.3",
          "a QP without remote write, read or atomic access: NAK invalid request for what lacks it, and for "
          "that alone") {
    const struct {
        std::uint8_t operation;
        std::uint32_t access;
    } rows[] = {{wire::kWriteOnly, kNoWrite},
                {wire::kWriteOnly, kAccessLocalWrite},
                {wire::kReadRequest, kNoRead},
                {wire::kFetchAdd, kNoAtomic},
                {wire::kCompareSwap, kNoAtomic}};
    for (const auto& row : rows) {
        connect({.access = row.access});
        peer(packet(row.operation, 2000, 8));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 8);
    }
    connect({.access = kNoRead});
    word(64) = 4;
    peer({write_only(2000, 8), fetch_add_request(2001, 1, 64)});
    sends(atomic_ack(2001, 2, 4).credits(0));
}

RC_SCRIPT(ResponderRight, QpWithoutAccessFlagAndZeroLength, "9.7.4.1.3",
          "the QP's rights count for WRITE and READ of no bytes too") {
    connect({.access = kAccessLocalWrite});
    peer(write_only(2000, 0));
    refuses(2000, 0, kInvalid);
    connect({.access = kAccessLocalWrite});
    peer(read_request(2000, 0));
    refuses(2000, 0, kInvalid);
}

RC_SCRIPT(ResponderRight, QpWithoutAccessFlagAndImmediate, "9.7.4.1.3",
          "WRITE with Immediate to a QP without remote write access: NAK invalid request, with a receive "
          "posted (it is not taken) and without") {
    for (const bool is_posted : {true, false}) {
        connect({.access = kNoWrite});
        if (is_posted) {
            post_receive(100, 64);
        }
        peer(packet(wire::kWriteOnlyImm, 2000, 8));
        refuses(2000, 0, kInvalid);
        receives(is_posted ? Wcs{flushed(100)} : Wcs{});
        holds_own_data(0, 8);
    }
}

RC_SCRIPT(
    ResponderRight, ImmediateWithAWrongKey, "11.6.2",
    "WRITE with Immediate that may not be carried out: the receive that it takes is a local access error") {
    for (const bool is_wrong_key : {true, false}) {
        connect();
        const SimRegion& region = host().add_region(4096);
        const std::uint32_t key = is_wrong_key ? region.key() ^ 0x100U : region.key();
        post_receive(100, 64);
        post_receive(101, 64);
        peer(packet(wire::kWriteOnlyImm, 2000, 8).reth(region.addr(is_wrong_key ? 0 : 4089), key, 8));
        sends(nak(2000, 0, kAccess));
        state(QpState::kErr);
        receives({failed(100, WcStatus::kLocAccessErr), flushed(101)});
    }
}

RC_SCRIPT(ResponderRight, QpAccessFlagTakenAway, "11.2.5.2",
          "access that modify_qp takes away in RTS counts for the next request") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrAccessFlags;
    attr.state = QpState::kRts;
    attr.access_flags = kNoWrite;
    ASSERT_EQ(modify(attr), 0);
    peer(write_only(2001, 8, 64));
    refuses(2001, 1, kInvalid);
    holds_own_data(64, 8);
}

RC_SCRIPT(ResponderRight, MoreThanMaxDestRdAtomic, "9.7.4.1.4",
          "one READ or atomic more at a time than max_dest_rd_atomic: NAK invalid request, those before it "
          "are answered") {
    connect({.max_dest_rd_atomic = 2});
    word(4096) = 7;
    peer({read_request(2000, 8), fetch_add_request(2001, 1, 4096), read_request(2002, 8)});
    sends({response_only(2000, 2, 8).credits(0), atomic_ack(2001, 2, 7).credits(0)});
    refuses(2002, 2, kInvalid);
    connect({.max_dest_rd_atomic = 2});
    peer({read_request(2000, 8), read_request(2001, 8), compare_swap_request(2002, 0, 1, 4096)});
    sends({response_only(2000, 2, 8).credits(0), response_only(2001, 2, 8).credits(0)});
    refuses(2002, 2, kInvalid);
    holds_own_data(4096, 8);
}

RC_SCRIPT(ResponderRight, MaxDestRdAtomicOneAfterTheOther, "9.7.4.1.4",
          "max_dest_rd_atomic bounds what is unanswered, not what was ever asked") {
    connect({.max_dest_rd_atomic = 1});
    for (std::uint32_t i = 0; i < 20; ++i) {
        peer(read_request(2000 + i, 8));
        sends(response_only(2000 + i, i + 1, 8).credits(0));
    }
}

RC_SCRIPT(ResponderRight, MaxDestRdAtomicOfZero, "9.7.4.1.4",
          "max_dest_rd_atomic of 0: NAK invalid request for READ and atomics") {
    connect({.max_dest_rd_atomic = 0});
    peer(read_request(2000, 8));
    refuses(2000, 0, kInvalid);
    connect({.max_dest_rd_atomic = 0});
    peer(fetch_add_request(2000, 1));
    refuses(2000, 0, kInvalid);
    holds_own_data(0, 8);
}

// --- Atomics ----------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderAtomic, Misaligned, "9.4.5",
          "an atomic whose address is no multiple of 8: NAK invalid request") {
    for (std::size_t offset = 65; offset < 72; ++offset) {
        for (const std::uint8_t operation : {wire::kFetchAdd, wire::kCompareSwap}) {
            connect();
            peer(packet(operation, 2000, 0, offset).atomic(1));
            refuses(2000, 0, kInvalid);
            holds_own_data(64, 16);
        }
    }
}

RC_SCRIPT(ResponderAtomic, OnlyTheVirtualAddressCounts, "9.4.5",
          "an atomic whose address is no multiple of 8, on memory that is aligned: NAK invalid request") {
    connect();
    SimRegion& region = host().add_region(64, {.iova_offset = 4});
    peer(fetch_add_request(2000, 1).reth(region.addr(), region.key(), 0));
    refuses(2000, 0, kInvalid);
    EXPECT_TRUE(untouched(region));
}

RC_SCRIPT(ResponderAtomic, OnlyTheMemoryIsMisaligned, "9.4.5",
          "an atomic whose address is a multiple of 8, on memory that is not aligned: NAK invalid request") {
    connect();
    SimRegion& region = host().add_region(64, {.iova_offset = 4});
    const std::uint64_t aligned = (region.addr() + 7) & ~7ULL;
    peer(fetch_add_request(2000, 1).reth(aligned, region.key(), 0));
    refuses(2000, 0, kInvalid);
    EXPECT_TRUE(untouched(region));
}

RC_SCRIPT(
    ResponderAtomic, MemoryOutOfReach, "9.9.3",
    "memory that cannot be reached any more: NAK remote operational error for WRITE, READ and atomics") {
    for (const std::uint8_t operation : {wire::kWriteOnly, wire::kReadRequest, wire::kFetchAdd}) {
        connect();
        SimRegion& region = host().add_region(4096, {.mapped = false});
        region.space.gone = true;
        peer(packet(operation, 2000, 8).reth(region.addr(), region.key(), 8).atomic(1));
        const std::uint32_t msn = operation == wire::kReadRequest ? 1 : 0;
        refuses(2000, msn, wire::kNakRemoteOperationalError);
    }
}

}  // namespace
}  // namespace urnic::sim
