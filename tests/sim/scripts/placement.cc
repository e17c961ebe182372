// ATOMIC WRITE and FLUSH (IBA annex A19), on both sides: answered in order by a READ response without data,
// against max_dest_rd_atomic.
#include "conform/case/responder_packets.h"
#include "tests/sim/scripts/rc_script.h"

namespace urnic::sim {
namespace {

constexpr std::uint8_t kNoAccess = wire::kNakRemoteAccessError;
constexpr std::uint32_t kGlobal = 1;
constexpr std::uint32_t kPersistent = 2;
constexpr std::uint32_t kWholeRegion = 1U << 4U;
constexpr std::uint32_t kFlushAccess = kAllAccess | kAccessFlushGlobal | kAccessFlushPersistent;

class Placement : public RcScript {
  protected:
    void connect(ConnectOptions options = {.access = kFlushAccess}) {
        RcScript::connect(options);
        region_ = &host().add_region(4096, {.access = kFlushAccess});
    }
    [[nodiscard]] Packet atomic_write(std::uint32_t psn, std::size_t offset) {
        return packet(wire::kAtomicWrite, psn, 8, offset);
    }
    /// Of region_.
    [[nodiscard]] Packet flush(std::uint32_t psn, std::uint32_t length = 4096, std::size_t offset = 0,
                               std::uint32_t feth = kGlobal) {
        return packet(wire::kFlush, psn, length)
            .feth(feth)
            .reth(region_->addr(offset), region_->key(), length);
    }
    [[nodiscard]] Packet done(std::uint32_t psn, std::uint32_t msn) {
        return response_only(psn, msn, 0).any_credits();
    }
    /// The requests of a program of a later rdma-core, or of one that writes its ring itself.
    [[nodiscard]] SendRequest post_atomic_write(std::uint64_t wr_id, std::size_t offset) {
        SendRequest request = write(wr_id, 8, offset);
        request.opcode = WrOpcode::kAtomicWrite;
        return request;
    }
    [[nodiscard]] SendRequest post_flush(std::uint64_t wr_id, std::uint32_t length, std::uint32_t feth) {
        SendRequest request = write(wr_id, 0);
        request.opcode = WrOpcode::kFlush;
        request.sge.clear();
        request.compare_add = length;
        request.swap = feth;
        return request;
    }
    SimRegion* region_ = nullptr;
};

// --- ATOMIC WRITE at the responder
// --------------------------------------------------------------------------

RC_SCRIPT_IN(Placement, AtomicWrite, "A19",
             "ATOMIC WRITE: 8 bytes are written, the answer is a READ response Only without data") {
    connect();
    peer({atomic_write(2000, 64), atomic_write(2001, 8)});
    sends({done(2000, 2), done(2001, 2)});
    holds_peer_data(64, 8, 64);
    holds_peer_data(8, 8, 8);
    holds_own_data(16, 48);
}

RC_SCRIPT_IN(Placement, AtomicWriteInOrder, "A19",
             "WRITE, ATOMIC WRITE, FetchAdd and READ of one burst: each sees what those before it did") {
    connect();
    peer({unasked(write_only(2000, 64)), atomic_write(2001, 64), fetch_add_request(2002, 1, 64),
          read_request(2003, 8, 64)});
    const std::uint64_t after = word(64);
    sends({done(2001, 4), atomic_ack(2002, 4, after - 1).any_credits(),
           response_only(2003, 4, 8, 64).any_credits().bytes({memory().data() + 64, 8})});
    holds_peer_data(0, 64, 0);
}

RC_SCRIPT_IN(Placement, AtomicWriteAgain, "A19, 9.7.5.1.5",
             "a duplicate ATOMIC WRITE is answered again and not executed again") {
    connect();
    peer(atomic_write(2000, 64));
    sends(done(2000, 1));
    word(64) = 77;
    peer(atomic_write(2000, 64));
    sends(done(2000, 1));
    EXPECT_EQ(word(64), 77U);
}

RC_SCRIPT_IN(Placement, AtomicWriteMisaligned, "A19",
             "ATOMIC WRITE to an address that is no multiple of 8: NAK invalid request, memory as it was") {
    for (const std::size_t offset : {1U, 4U, 7U}) {
        connect();
        peer(atomic_write(2000, offset));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 32);
    }
}

RC_SCRIPT_IN(Placement, AtomicWriteLength, "A19",
             "ATOMIC WRITE of another length than 8, in the payload or in DMALen: NAK invalid request") {
    for (const std::uint32_t length : {0U, 4U, 7U, 9U, 16U, 256U}) {
        connect();
        peer(packet(wire::kAtomicWrite, 2000, length));
        refuses(2000, 0, kInvalid);
        connect();
        peer(atomic_write(2000, 0).reth(memory().addr(0), memory().key(), length));
        refuses(2000, 0, kInvalid);
        holds_own_data(0, 256);
    }
}

RC_SCRIPT_IN(
    Placement, AtomicWriteAccess, "A19, 9.7.4.1.3",
    "ATOMIC WRITE needs remote write of the QP (NAK invalid request) and of the region (NAK remote access "
    "error)") {
    connect({.access = kFlushAccess & ~kAccessRemoteWrite});
    peer(atomic_write(2000, 0));
    refuses(2000, 0, kInvalid);
    connect();
    SimRegion& region = host().add_region(64, {.access = kFlushAccess & ~kAccessRemoteWrite});
    peer(atomic_write(2000, 0).reth(region.addr(0), region.key(), 8));
    refuses(2000, 0, kNoAccess);
    connect();
    peer(atomic_write(2000, 0).rkey(0xdead));
    refuses(2000, 0, kNoAccess);
    connect();
    peer(atomic_write(2000, 0).reth(region_->addr(4096), region_->key(), 8));
    refuses(2000, 0, kNoAccess);
    holds_own_data(0, 64);
}

RC_SCRIPT_IN(Placement, AtomicWriteInsideAMessage, "A19, 9.7.4.1.2",
             "ATOMIC WRITE or FLUSH inside a WRITE: NAK invalid request") {
    for (const bool is_flush : {false, true}) {
        connect({.mtu = 256, .access = kFlushAccess});
        peer({unasked(write_first(2000, 512, 256, 4096)), is_flush ? flush(2001) : atomic_write(2001, 0)});
        refuses(2001, 0, kInvalid);
        holds_own_data(0, 8);
    }
}

RC_SCRIPT_IN(Placement, CountAgainstTheResources, "A19, 9.7.4.1.3",
             "more ATOMIC WRITEs and FLUSHes at once than max_dest_rd_atomic: NAK invalid request") {
    connect({.max_dest_rd_atomic = 2, .access = kFlushAccess});
    peer({atomic_write(2000, 0), flush(2001), atomic_write(2002, 8)});
    sends({done(2000, 2), done(2001, 2)});
    refuses(2002, 2, kInvalid);
    holds_own_data(8, 8);
}

// --- FLUSH at the responder
// ---------------------------------------------------------------------------------

RC_SCRIPT_IN(
    Placement, Flush, "A19",
    "FLUSH of a range, for visibility, persistence or both: answered by a READ response without data, "
    "behind the WRITEs before it") {
    std::uint32_t psn = 2000;
    connect();
    for (const std::uint32_t placement : {kGlobal, kPersistent, kGlobal | kPersistent}) {
        peer({unasked(write_only(psn, 100)), flush(psn + 1, 100, 0, placement)});
        sends(done(psn + 1, psn + 2 - 2000));
        holds_peer_data(0, 100, 0);
        psn += 2;
    }
}

RC_SCRIPT_IN(Placement, FlushAgain, "A19, 9.7.5.1.5", "a duplicate FLUSH is answered again") {
    connect();
    peer({flush(2000), unasked(write_only(2001, 8))});
    sends(done(2000, 2));
    peer(flush(2000));
    sends(done(2000, 2));
}

RC_SCRIPT_IN(Placement, FlushOfTheRegion, "A19",
             "FLUSH of the whole region: the range in the packet is not looked at") {
    connect();
    peer(flush(2000, 4096, 4096, kGlobal | kWholeRegion));
    sends(done(2000, 1));
    peer(flush(2001, 8, 0, kGlobal | kWholeRegion).rkey(0xdead));
    refuses(2001, 1, kNoAccess);
}

RC_SCRIPT_IN(Placement, FlushOutOfRange, "A19, 9.7.4.1.5",
             "FLUSH beyond the region, or with a wrong key: NAK remote access error") {
    connect();
    peer(flush(2000, 4097));
    refuses(2000, 0, kNoAccess);
    connect();
    peer(flush(2000, 8, 4092));
    refuses(2000, 0, kNoAccess);
    connect();
    peer(flush(2000).rkey(0xdead));
    refuses(2000, 0, kNoAccess);
}

RC_SCRIPT_IN(Placement, FlushTypes, "A19",
             "FLUSH for nothing, of a reserved placement type or selectivity level: NAK invalid request") {
    for (const std::uint32_t feth : {0U, 4U, 8U, 5U, kGlobal | 2U << 4U, kGlobal | 3U << 4U}) {
        connect();
        peer(flush(2000, 8, 0, feth));
        refuses(2000, 0, kInvalid);
    }
}

RC_SCRIPT_IN(
    Placement, FlushAccess, "A19, 9.7.4.1.3",
    "FLUSH needs the right of each placement type, of the QP (NAK invalid request) and of the region (NAK "
    "remote access error)") {
    const std::pair<std::uint32_t, std::uint32_t> cases[] = {
        {kGlobal, kAccessFlushGlobal},
        {kPersistent, kAccessFlushPersistent},
        {kGlobal | kPersistent, kAccessFlushPersistent},
        {kGlobal | kPersistent, kAccessFlushGlobal},
    };
    for (const auto& [placement, missing] : cases) {
        connect({.access = kFlushAccess & ~missing});
        peer(flush(2000, 8, 0, placement));
        refuses(2000, 0, kInvalid);
        connect();
        SimRegion& region = host().add_region(64, {.access = kFlushAccess & ~missing});
        peer(flush(2000, 8, 0, placement).reth(region.addr(0), region.key(), 8));
        refuses(2000, 0, kNoAccess);
    }
}

// --- The requester
// ------------------------------------------------------------------------------------------

RC_SCRIPT_IN(Placement, RequesterCompletesWithTheResponse, "A19",
             "ATOMIC WRITE and FLUSH complete with their response, not with an acknowledgement") {
    connect();
    post({post_atomic_write(1, 64), post_flush(2, 4096, kGlobal)});
    sends({atomic_write(1000, 64), packet(wire::kFlush, 1001, 4096).feth(kGlobal)});
    peer(response_only(1000, 1, 0));
    completes(ok(1).op(WcOpcode::kAtomicWrite));
    peer(response_only(1001, 2, 0));
    completes(ok(2).op(WcOpcode::kFlush));
}

RC_SCRIPT_IN(Placement, RequesterLostResponse, "A19, 9.7.6.1.3",
             "a lost response: the request goes again, with its PSN and its data") {
    connect({.timeout = 10, .access = kFlushAccess});
    post(post_atomic_write(1, 64));
    sends(atomic_write(1000, 64));
    sends_within(least_timeout(10), most_timeout(10), atomic_write(1000, 64));
    peer(response_only(1000, 1, 0));
    completes(ok(1));
}

RC_SCRIPT_IN(
    Placement, RequesterImpliedNak, "A19, 9.7.6.1.4",
    "an acknowledgement behind a missing response: the ATOMIC WRITE goes again, then both complete") {
    connect({.timeout = 10, .access = kFlushAccess});
    post({post_atomic_write(1, 64), write(2, 8)});
    sends({atomic_write(1000, 64), write_only(1001, 8)});
    peer(ack(1001, 2));
    sends(atomic_write(1000, 64));
    peer(response_only(1000, 2, 0));
    if_repeated(write_only(1001, 8), ack(1001, 2));
    completes({ok(1), ok(2)});
}

RC_SCRIPT_IN(Placement, RequesterWaitsForResources, "A19, 9.7.3.1",
             "no more ATOMIC WRITEs and FLUSHes are under way than max_rd_atomic") {
    connect({.max_rd_atomic = 1, .access = kFlushAccess});
    post({post_atomic_write(1, 64), post_flush(2, 8, kPersistent)});
    sends(atomic_write(1000, 64));
    sends_nothing();
    peer(response_only(1000, 1, 0));
    completes(ok(1));
    sends(packet(wire::kFlush, 1001, 8).feth(kPersistent));
    peer(response_only(1001, 2, 0));
    completes(ok(2));
}

RC_SCRIPT_IN(Placement, RequesterFence, "A19, 10.8.3.3", "a fence waits for an ATOMIC WRITE") {
    connect();
    post({post_atomic_write(1, 64), fenced(write(2, 8))});
    sends(atomic_write(1000, 64));
    sends_nothing();
    peer(response_only(1000, 1, 0));
    sends(write_only(1001, 8));
    peer(ack(1001, 2));
    completes({ok(1), ok(2)});
}

RC_SCRIPT_IN(Placement, RequesterNak, "A19, 9.7.5.2.8", "a NAK fails an ATOMIC WRITE or FLUSH") {
    for (const bool is_flush : {false, true}) {
        connect();
        post(is_flush ? post_flush(1, 8, kGlobal) : post_atomic_write(1, 64));
        sends(is_flush ? packet(wire::kFlush, 1000, 8).feth(kGlobal) : atomic_write(1000, 64));
        peer(nak(1000, 0, kNoAccess));
        completes(failed(1, WcStatus::kRemAccessErr));
        state(QpState::kErr);
    }
}

RC_SCRIPT_IN(Placement, RequesterBadResponse, "A19, 9.9.2.4.2",
             "a response with data, or of another kind: BAD_RESP_ERR") {
    for (const int kind : {0, 1, 2}) {
        connect({.mtu = 256, .access = kFlushAccess});
        post(post_atomic_write(1, 64));
        sends(atomic_write(1000, 64));
        peer(kind == 0   ? response_only(1000, 1, 8)
             : kind == 1 ? atomic_ack(1000, 1, 5)
                         : response_first(1000, 1, 256));
        completes(failed(1, WcStatus::kBadRespErr));
        state(QpState::kErr);
    }
}

RC_SCRIPT_IN(Placement, RequesterLength, "A19, 11.4.1.1",
             "an ATOMIC WRITE of another length than 8 fails before it is sent") {
    for (const std::uint32_t length : {0U, 7U, 9U, 16U}) {
        connect();
        SendRequest request = write(1, length, 64);
        request.opcode = WrOpcode::kAtomicWrite;
        post(request);
        sends_nothing();
        completes(failed(1, WcStatus::kLocLenErr));
        state(QpState::kErr);
    }
}

}  // namespace
}  // namespace urnic::sim
