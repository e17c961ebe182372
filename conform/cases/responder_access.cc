// R_Keys, ranges and rights of WRITE, READ and atomic requests (IBA 9.7.4.1.3-5, 10.6.3).
#include <algorithm>

#include "conform/case/case_list.h"
#include "conform/case/responder_packets.h"

namespace urnic::conform {
namespace {

constexpr std::uint32_t kNoWrite = kAllAccess & ~kAccessRemoteWrite;
constexpr std::uint32_t kNoRead = kAllAccess & ~kAccessRemoteRead;
constexpr std::uint32_t kNoAtomic = kAllAccess & ~kAccessRemoteAtomic;

// --- Ranges -----------------------------------------------------------------------------------------------

CONFORM_CASE(ResponderRange, WriteOneBytePast, "9.7.4.1.5",
             "WRITE of one byte past a region's end: NAK remote access error, not a byte stored") {
    connect();
    Region& region = add_region(4096);
    peer(write_only(2000, 8).reth(region.addr(4089), region.key(), 8));
    refuses(2000, 0, kAccess);
    untouched(region);
}

CONFORM_CASE(
    ResponderRange, LongWritePastTheEnd, "9.7.4.1.5",
    "WRITE of many packets whose Last would go past the end: not a byte past it, NAK remote access error") {
    connect({.mtu = 256});
    Region& region = add_region(1024);
    peer({unasked(packet(wire::kWriteFirst, 2000, 256).reth(region.addr(512), region.key(), 513)),
          unasked(write_middle(2001, 256)), write_last(2002, 1)});
    refuses(2000, 0, kAccess);
    untouched(region);
}

CONFORM_CASE(ResponderRange, WriteBeforeTheFirstByte, "9.7.4.1.5",
             "WRITE that begins one byte before a region: NAK remote access error") {
    connect();
    Region& region = add_region(4096);
    peer(write_only(2000, 8).reth(region.addr() - 1, region.key(), 8));
    refuses(2000, 0, kAccess);
    untouched(region);
}

CONFORM_CASE(
    ResponderRange, ReadAcrossTheEnd, "9.7.4.1.5",
    "READ across a region's end: NAK remote access error and no response, not even of what lies inside") {
    for (const std::uint32_t length : {9U, 3000U, 0x4000'0000U}) {
        connect({.mtu = 256});
        Region& region = add_region(4096);
        peer(read_request(2000, 0).reth(region.addr(4088), region.key(), length));
        refuses(2000, 0, kAccess);
    }
}

CONFORM_CASE(ResponderRange, AtomicAcrossTheEnd, "9.7.4.1.5",
             "an atomic that begins at a region's end or before its begin: NAK remote access error") {
    for (const std::int64_t offset : {4096, -8, 8192}) {
        connect();
        Region& region = add_region(4096);
        const std::uint64_t va = (region.addr() + static_cast<std::uint64_t>(offset)) & ~7ULL;
        peer(fetch_add_request(2000, 1).reth(va, region.key(), 0));
        refuses(2000, 0, kAccess);
        untouched(region);
    }
}

CONFORM_CASE(ResponderRange, AddressWrap, "9.7.4.1.5",
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

// --- Keys -------------------------------------------------------------------------------------------------

CONFORM_CASE(ResponderKey, Unknown, "9.7.4.1.5",
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
        counts(&Counters::resp_remote_access_errors, 1);
    }
}

CONFORM_CASE(ResponderKey, OneBitAway, "9.7.4.1.5",
             "an R_Key that differs from ours in any one bit: NAK remote access error") {
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
        connect();
        peer(write_only(2000, 8).rkey(memory().key() ^ (1U << bit)));
        refuses(2000, 0, kAccess);
        holds_own_data(0, 8);
    }
}

CONFORM_CASE(ResponderKey, WithoutTheRight, "9.7.4.1.5",
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
        Region& region = add_region(4096, row.access);
        peer(packet(row.operation, 2000, 8).reth(region.addr(), region.key(), 8).atomic(1, 0));
        refuses(2000, 0, kAccess);
        untouched(region);
    }
    connect();
    Region& region = add_region(4096, kNoRead);
    peer({write_only(2000, 8).reth(region.addr(), region.key(), 8),
          fetch_add_request(2001, 1).reth(region.addr(64), region.key(), 0)});
    sends(atomic_ack(2001, 2, 0).credits(0));
}

CONFORM_CASE(ResponderKey, FirstOfALongWrite, "9.7.4.1.5",
             "a WRITE of many packets with a bad R_Key is refused at its First") {
    connect({.mtu = 256});
    Region& region = add_region(4096, kNoWrite);
    peer({unasked(packet(wire::kWriteFirst, 2000, 256).reth(region.addr(), region.key(), 300)),
          write_last(2001, 44)});
    refuses(2000, 0, kAccess);
    untouched(region);
}

// --- The QP's own rights and resources --------------------------------------------------------------------

CONFORM_CASE(
    ResponderRight, QpWithoutAccessFlag, "9.7.4.1.3",
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
    set_word(64, 4);
    peer({write_only(2000, 8), fetch_add_request(2001, 1, 64)});
    sends(atomic_ack(2001, 2, 4).credits(0));
}

CONFORM_CASE(ResponderRight, QpWithoutAccessFlagAndZeroLength, "9.7.4.1.3",
             "the QP's rights count for WRITE and READ of no bytes too") {
    connect({.access = kAccessLocalWrite});
    peer(write_only(2000, 0));
    refuses(2000, 0, kInvalid);
    connect({.access = kAccessLocalWrite});
    peer(read_request(2000, 0));
    refuses(2000, 0, kInvalid);
}

CONFORM_CASE(ResponderRight, QpWithoutAccessFlagAndImmediate, "9.7.4.1.3",
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

CONFORM_CASE(
    ResponderRight, ImmediateWithAWrongKey, "11.6.2",
    "WRITE with Immediate that may not be executed: the receive that it takes is a local access error") {
    for (const bool is_wrong_key : {true, false}) {
        connect();
        const Region& region = add_region(4096);
        const std::uint32_t key = is_wrong_key ? region.key() ^ 0x100U : region.key();
        post_receive(100, 64);
        post_receive(101, 64);
        peer(packet(wire::kWriteOnlyImm, 2000, 8).reth(region.addr(is_wrong_key ? 0 : 4089), key, 8));
        sends(nak(2000, 0, kAccess));
        state(QpState::kErr);
        receives({failed(100, WcStatus::kLocAccessErr), flushed(101)});
    }
}

CONFORM_CASE(ResponderRight, QpAccessFlagTakenAway, "11.2.5.2",
             "access that modify_qp takes away in RTS counts for the next request") {
    connect();
    peer(write_only(2000, 8));
    sends(acked(2000, 1));
    abi::QpAttr attr{};
    attr.mask = kQpAttrState | kQpAttrAccessFlags;
    attr.state = QpState::kRts;
    attr.access_flags = kNoWrite;
    require(modify(attr) == 0, "modify_qp was refused");
    peer(write_only(2001, 8, 64));
    refuses(2001, 1, kInvalid);
    holds_own_data(64, 8);
}

CONFORM_CASE(
    ResponderRight, MoreThanMaxDestRdAtomic, "9.7.4.1.4",
    "one READ or atomic more at a time than max_dest_rd_atomic: NAK invalid request, those before it "
    "are answered") {
    connect({.max_dest_rd_atomic = 2});
    set_word(4096, 7);
    peer({read_request(2000, 8), fetch_add_request(2001, 1, 4096), read_request(2002, 8)});
    sends({response_only(2000, 2, 8).credits(0), atomic_ack(2001, 2, 7).credits(0)});
    refuses(2002, 2, kInvalid);
    connect({.max_dest_rd_atomic = 2});
    peer({read_request(2000, 8), read_request(2001, 8), compare_swap_request(2002, 0, 1, 4096)});
    sends({response_only(2000, 2, 8).credits(0), response_only(2001, 2, 8).credits(0)});
    refuses(2002, 2, kInvalid);
    holds_own_data(4096, 8);
}

CONFORM_CASE(ResponderRight, MaxDestRdAtomicOneAfterTheOther, "9.7.4.1.4",
             "max_dest_rd_atomic bounds what is unanswered, not what was ever asked") {
    connect({.max_dest_rd_atomic = 1});
    for (std::uint32_t i = 0; i < 20; ++i) {
        peer(read_request(2000 + i, 8));
        sends(response_only(2000 + i, i + 1, 8).credits(0));
    }
}

CONFORM_CASE(ResponderRight, MaxDestRdAtomicOfZero, "9.7.4.1.4",
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

CONFORM_CASE(ResponderAtomic, Misaligned, "9.4.5",
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

}  // namespace
}  // namespace urnic::conform
