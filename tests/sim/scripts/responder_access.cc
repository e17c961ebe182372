// R_Keys, ranges and rights of WRITE, READ and atomic requests (IBA 9.7.4.1.3-5, 10.6.3).
#include <algorithm>

#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

constexpr std::uint32_t kNoWrite = kAllAccess & ~kAccessRemoteWrite;
constexpr std::uint32_t kNoRead = kAllAccess & ~kAccessRemoteRead;
constexpr std::uint32_t kNoAtomic = kAllAccess & ~kAccessRemoteAtomic;

bool is_untouched(SimRegion& region) {
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

RC_SCRIPT(ResponderRange, ReadToTheLastByte, "9.7.4.1.5", "READ up to the last byte of a region") {
    connect();
    SimRegion& region = host().add_region(4096);
    region.fill_pattern(3);
    peer(read_request(2000, 0).reth(region.addr(4088), region.key(), 8));
    sends(response_only(2000, 1, 8).credits(0).bytes({region.data() + 4088, 8}));
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
        EXPECT_TRUE(is_untouched(region));
    }
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

// --- Atomics ----------------------------------------------------------------------------------------------

RC_SCRIPT(ResponderAtomic, OnlyTheVirtualAddressCounts, "9.4.5",
          "an atomic whose address is no multiple of 8, on memory that is aligned: NAK invalid request") {
    connect();
    SimRegion& region = host().add_region(64, {.iova_offset = 4});
    peer(fetch_add_request(2000, 1).reth(region.addr(), region.key(), 0));
    refuses(2000, 0, kInvalid);
    EXPECT_TRUE(is_untouched(region));
}

RC_SCRIPT(ResponderAtomic, OnlyTheMemoryIsMisaligned, "9.4.5",
          "an atomic whose address is a multiple of 8, on memory that is not aligned: NAK invalid request") {
    connect();
    SimRegion& region = host().add_region(64, {.iova_offset = 4});
    const std::uint64_t aligned = (region.addr() + 7) & ~7ULL;
    peer(fetch_add_request(2000, 1).reth(aligned, region.key(), 0));
    refuses(2000, 0, kInvalid);
    EXPECT_TRUE(is_untouched(region));
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
