// Packet scripts for one RC QP: opposite a real QP a script plays the peer, packet by packet. A script reads
// from top to bottom as a sequence diagram does; a step that does not come out as written fails with what was
// expected, what was seen and all packets so far, and ends the script.
//
//   CONFORM_CASE(Loss, LostAck, "9.7.5.1.1", "what has been executed is acknowledged again") {
//       connect({.timeout = 10});
//       post(write(1, 8));
//       sends(write_only(1000, 8));
//       ...
//       peer(ack(1000, 1));
//       completes(ok(1));
//   }
//
// At its end nothing may be left that the script did not ask for: no packet, no completion, no event.
// The QP and the wire are the Bench's: tests/sim/scripts plays cases in virtual time, conform/live against
// any device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "conform/case/bench.h"
#include "conform/case/device_behaviour.h"
#include "conform/case/requests.h"
#include "conform/case/script_packet.h"
#include "conform/case/where.h"

namespace urnic::conform {

// What many scripts use.
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr std::uint8_t kInvalid = wire::kNakInvalidRequest;
inline constexpr std::uint8_t kAccess = wire::kNakRemoteAccessError;
/// A timeout attribute of 134 ms, and the bounds within which it may run out (IBA 9.7.6.1.3). No less: a
/// tester of real devices tells it from the time that a busy machine takes.
inline constexpr std::uint8_t kTimeout = 15;
inline constexpr TimeNs kLeast = TimeNs{4096} << kTimeout;
inline constexpr TimeNs kMost = 4 * kLeast;

/// What a peer that does not migrate should not do, and what breaks nothing (IBA 9.2).
inline constexpr const char* kMigReqZero = "MigReq is 0; it is 1 while a path does not migrate (IBA 9.2)";

/// How what was measured stands to a profile.
struct Comparison {
    bool agrees = false;
    std::string text;  // "as connectx"
};

/// What a case found out where the specification leaves a choice.
struct Measurement {
    std::string what;
    std::string value;  // with its unit
    std::optional<ShownBehaviour> shown;
    std::optional<Comparison> comparison;  // when the run is compared with a profile that says something
};

/// A step that did not come out as written.
struct StepFailed : std::runtime_error {
    using runtime_error::runtime_error;
};

/// It came out as written, but later: a busy host, or a device that is slow.
struct StepLate : StepFailed {
    using StepFailed::StepFailed;
};

class Script {
  public:
    static constexpr std::size_t kMemoryBytes = Bench::kMemoryBytes;
    using Packet = ScriptPacket;

    Script() = default;
    Script(const Script&) = delete;
    Script& operator=(const Script&) = delete;
    virtual ~Script() = default;

    /// Plays the script. Throws StepFailed and what the bench throws.
    void play(Bench& bench);
    /// What the peer did otherwise than written, where that breaks nothing.
    [[nodiscard]] const std::vector<std::string>& deviations() const { return deviations_; }
    /// What was measured so far.
    [[nodiscard]] const std::vector<Measurement>& measurements() const { return measurements_; }

    /// What payloads of the QP under test and of its peer are slices of.
    static const std::vector<std::byte>& own_data();
    static const std::vector<std::byte>& peer_data();

  protected:
    virtual void body() {}
    void use(Bench& bench) { bench_ = &bench; }

    // --- The connection. First PSNs of both directions unless ConnectOptions say otherwise: the QP's 1000,
    // the peer's 2000.
    /// A new QP in RTS, as if nothing had been before; only one may be alive. May be called again.
    void connect(const ConnectOptions& options = {}, const QpOptions& qp = {});
    /// The same, left in INIT; rtr() and rts() take it on.
    void create(const ConnectOptions& options = {}, const QpOptions& qp = {});
    void rtr();
    void rts();
    /// From RESET to INIT again.
    void init();
    /// modify_qp to `state` with no other attribute; has to succeed.
    void modify(QpState state, Where where = Where::current());
    /// modify_qp with any attributes; what it returns.
    [[nodiscard]] int modify(const abi::QpAttr& attr);
    void state(QpState expected, Where where = Where::current());
    /// modify_qp to SQD; has to succeed. `notify`: an event comes when the send queue is drained.
    void drain(bool notify, Where where = Where::current());
    [[nodiscard]] bool is_draining() { return bench_->is_draining(); }

    // --- Work requests: local buffer at `offset` of memory(), remote one at the same address and key -------
    [[nodiscard]] SendRequest send(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] SendRequest send_imm(std::uint64_t wr_id, std::uint32_t length, std::uint32_t imm);
    [[nodiscard]] SendRequest write(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] SendRequest write_imm(std::uint64_t wr_id, std::uint32_t length, std::uint32_t imm);
    [[nodiscard]] SendRequest read(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] SendRequest fetch_add(std::uint64_t wr_id, std::uint64_t add, std::size_t offset = 0);
    [[nodiscard]] SendRequest compare_swap(std::uint64_t wr_id, std::uint64_t compare, std::uint64_t swap,
                                           std::size_t offset = 0);
    [[nodiscard]] static SendRequest fenced(SendRequest request);
    [[nodiscard]] static SendRequest unsignaled(SendRequest request);
    [[nodiscard]] static SendRequest solicited(SendRequest request);
    void post(const SendRequests& requests);
    void post_receive(std::uint64_t wr_id, std::uint32_t length, std::size_t offset = 0);
    void post_receive(std::uint64_t wr_id, const std::vector<abi::Sge>& sge);

    // --- Packets. Remote addresses are those of memory(). What we send is a slice of memory() as it
    // was in the beginning, what the peer sends is a slice of other bytes, at the same offset.
    [[nodiscard]] Packet send_first(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet send_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet send_last(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet send_only(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    /// `total`: DMALen of the RETH; `length`: this packet's payload.
    [[nodiscard]] Packet write_first(std::uint32_t psn, std::uint32_t total, std::uint32_t length,
                                     std::size_t offset = 0);
    [[nodiscard]] Packet write_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet write_last(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet write_only(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet read_request(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet fetch_add_request(std::uint32_t psn, std::uint64_t add, std::size_t offset = 0);
    [[nodiscard]] Packet compare_swap_request(std::uint32_t psn, std::uint64_t compare, std::uint64_t swap,
                                              std::size_t offset = 0);
    [[nodiscard]] Packet response_first(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                        std::size_t offset = 0);
    [[nodiscard]] Packet response_middle(std::uint32_t psn, std::uint32_t length, std::size_t offset = 0);
    [[nodiscard]] Packet response_last(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                       std::size_t offset = 0);
    [[nodiscard]] Packet response_only(std::uint32_t psn, std::uint32_t msn, std::uint32_t length,
                                       std::size_t offset = 0);
    [[nodiscard]] Packet atomic_ack(std::uint32_t psn, std::uint32_t msn, std::uint64_t original);
    [[nodiscard]] Packet ack(std::uint32_t psn, std::uint32_t msn);
    [[nodiscard]] Packet nak(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome);
    [[nodiscard]] Packet sequence_nak(std::uint32_t psn, std::uint32_t msn);
    [[nodiscard]] Packet rnr_nak(std::uint32_t psn, std::uint32_t msn, std::uint8_t timer_code);
    /// Any operation, with payload from `offset` and the address of `offset` in RETH and AtomicETH.
    [[nodiscard]] Packet packet(std::uint8_t operation, std::uint32_t psn, std::uint32_t length,
                                std::size_t offset = 0);

    // --- Steps ------------------------------------------------------------------------------------------
    /// The peer sends these in one burst, and the QP does what follows from them.
    void peer(const ScriptPackets& packets, Where where = Where::current());
    /// These packets, in this order, went out by now; what went out behind them stays for the next step.
    void sends(const ScriptPackets& expected, Where where = Where::current());
    /// The specification leaves open whether this packet goes out; ours does not send it. Returns whether it
    /// went out by now.
    [[nodiscard]] bool may_send(const Packet& expected, Where where = Where::current());
    /// Nothing else went out by now.
    void sends_nothing(Where where = Where::current());
    /// Nothing is left to be seen, and nothing goes out for so long.
    void silence(TimeNs duration, Where where = Where::current());
    /// Silence for `least`, then these packets, the first of them not later than `most` from now.
    void sends_within(TimeNs least, TimeNs most, const ScriptPackets& expected,
                      Where where = Where::current());
    /// The peer discards what does not follow, as any responder may (IBA 9.7.5.1.2). The first packet to go
    /// out is the first of these; then, however the requester goes about it, all of them reach the peer in
    /// order, each the same as before but for AckReq. The peer asks for what is missing and acknowledges as
    /// far as it came but for the last packet, whose answer is the next step of the script.
    void resends(const ScriptPackets& expected, Where where = Where::current());
    /// The same after silence for `least`, begun not later than `most` from now.
    void resends_within(TimeNs least, TimeNs most, const ScriptPackets& expected,
                        Where where = Where::current());
    /// A READ request for what is missing: the PSN and the address of `offset`, for at least `least` bytes
    /// (what is missing for certain) and at most `most` (all that is left of the READ). Returns its DMALen.
    std::uint32_t asks_again(std::uint32_t psn, std::size_t offset, std::uint32_t least, std::uint32_t most,
                             Where where = Where::current());
    /// What has arrived behind a gap may be kept or asked for again. If `requests` went out again, the peer
    /// sends `answers` again.
    void if_repeated(const ScriptPackets& requests, const ScriptPackets& answers,
                     Where where = Where::current());
    /// The peer says nothing for half of the least timeout. What went again alone, because a NAK named it,
    /// meanwhile goes a few times more where is_selective(); nothing else goes.
    void no_answer(const Packet& repeated, Where where = Where::current());
    /// The peer answers a READ request of `length` bytes, all of it.
    void answers_read(std::uint32_t psn, std::uint32_t msn, std::uint32_t length, std::size_t offset = 0);
    /// Time passes; what goes out is left for the next step.
    void wait(TimeNs duration);

    /// Exactly these completions since the last call, in this order.
    void completes(const Wcs& expected, Where where = Where::current());
    void completes_nothing(Where where = Where::current()) { completes({}, where); }
    /// Nothing goes out nor completes for `least` from now on; then these complete, until `most`.
    void completes_within(TimeNs least, TimeNs most, const Wcs& expected, Where where = Where::current());
    void receives(const Wcs& expected, Where where = Where::current());
    /// Exactly these affiliated asynchronous events since the last call.
    void raises(const std::vector<AsyncEventType>& expected, Where where = Where::current());
    /// A request is refused, with no receive in use: the NAK `syndrome`, the event that goes with it, and ERR
    /// (IBA 9.9.3).
    void refuses(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome, Where where = Where::current());

    /// On a new connection, a request fails before it goes out, between two good ones: the first completes,
    /// and nothing else goes out. It gets wr_id 2.
    void fails_at_home(SendRequest request, WcStatus status, Where where = Where::current());

    // --- Memory -----------------------------------------------------------------------------------------
    [[nodiscard]] Region& memory() { return bench_->memory(); }
    [[nodiscard]] Region& add_region(std::size_t bytes, std::uint32_t access = kAllAccess) {
        return bench_->add_region(bytes, access);
    }
    /// memory() at `offset` holds what the peer's packets of `peer_offset` carried.
    void holds_peer_data(std::size_t offset, std::size_t length, std::size_t peer_offset,
                         Where where = Where::current());
    /// memory() at `offset` is as it was in the beginning.
    void holds_own_data(std::size_t offset, std::size_t length, Where where = Where::current());
    /// The eight bytes at `offset` of memory(), in the byte order of this machine.
    void set_word(std::size_t offset, std::uint64_t value);
    void holds_word(std::size_t offset, std::uint64_t value, Where where = Where::current());
    void region_holds(Region& region, std::size_t offset, std::size_t length, std::size_t peer_offset,
                      Where where = Where::current());
    /// A region is as add_region() made it: zeros.
    void untouched(Region& region, Where where = Where::current()) {
        region_is(region, region.size(), std::byte{0}, where);
    }
    /// A counter of the device, where the engine sees it.
    void counts(Counter Counters::*which, std::uint64_t value, Where where = Where::current());
    void region_is(Region& region, std::size_t length, std::byte value, Where where = Where::current());

    [[nodiscard]] Bench& bench() { return *bench_; }
    [[nodiscard]] const wire::Gid peer_gid() const { return bench_->path().src_gid; }
    [[nodiscard]] TimeNs now() const { return bench_->now(); }
    [[nodiscard]] const ConnectOptions& options() const { return options_; }
    /// For the steps in which both ways differ.
    [[nodiscard]] bool is_selective() const { return bench_->is_selective(); }
    /// What a loop of the script is at, for messages.
    template <typename Number>
    void given(const char* name, Number value) {
        given_ = std::string(name) + " " + std::to_string(value);
    }
    /// Fails the script unless it is so.
    void require(bool holds, const std::string& what, Where where = Where::current()) const {
        if (!holds) {
            fail(where, what);
        }
    }

    /// Local ACK timeout of a timeout code: the least and the most that it may take (IBA 9.7.6.1.3).
    [[nodiscard]] static TimeNs least_timeout(std::uint8_t code) { return TimeNs{4096} << code; }
    [[nodiscard]] static TimeNs most_timeout(std::uint8_t code) { return 4 * least_timeout(code); }

    void check_nothing_left(Where where = Where::current());
    /// Nothing more is looked at until the next create(): an event or a packet may come as late as it likes.
    void ignore_the_rest() { rest_is_checked_ = false; }
    [[nodiscard]] bool is_created() const { return created_; }
    /// The frame that the peer sends for a packet.
    [[nodiscard]] FrameBytes built(const ScriptPacket& packet) const;
    /// A case that measures is informational when nothing about it is wrong.
    void measured(const std::string& what, const std::string& value,
                  std::optional<ShownBehaviour> shown = std::nullopt) {
        measurements_.push_back({what, value, shown, {}});
    }
    /// The peer bears it, but not as written.
    void deviates(const std::string& what) { deviations_.push_back(what); }

  private:
    void forget_history();
    void note(const char* who, TimeNs time, const FrameBytes& frame);
    [[noreturn]] void fail(Where where, const std::string& what) const;
    [[nodiscard]] ScriptPacket tolerant(const ScriptPacket& expected, const FrameBytes& seen);
    void same_as(const SeenFrame& seen, const ScriptPacket& expected, Where where);
    [[nodiscard]] bool is_acknowledgement_on_the_way(const FrameBytes& seen,
                                                     const ScriptPacket& expected) const;
    [[nodiscard]] bool is_spare_repetition(const FrameBytes& seen) const;
    [[nodiscard]] bool is_part_of_a_read(const wire::PacketHeader& header) const;
    [[nodiscard]] bool is_spare_answer(const FrameBytes& seen) const;
    void remember(const FrameBytes& seen);
    void skip_what_is_open(const ScriptPacket& expected);
    [[nodiscard]] std::string missing(const ScriptPacket& expected) const;
    [[nodiscard]] SeenFrame take_seen();
    [[nodiscard]] bool something_seen() {
        return bench_->next(now() + bench_->tolerance().settle_ns) != nullptr;
    }
    void silent_then_sends(TimeNs least, TimeNs most, const ScriptPacket& expected, Where where);
    void check_completions(bool recv, const Wcs& expected, Where where) {
        compare_completions(recv, bench_->completions(recv, expected.size()), expected, where);
    }
    void compare_completions(bool recv, const std::vector<SeenCompletion>& seen, const Wcs& expected,
                             Where where) const;

    Bench* bench_ = nullptr;
    ConnectOptions options_;
    bool created_ = false;
    bool rest_is_checked_ = true;  // check_nothing_left() looks
    std::vector<std::string> log_;
    std::vector<std::string> deviations_;
    std::vector<Measurement> measurements_;
    std::string given_;
    std::vector<std::uint32_t> burst_;             // PSNs of what the peer sent last
    bool is_answered_ = true;                      // a step has taken an answer to it
    bool may_repeat_ = false;                      // the requester under test recovers, or has
    bool has_gap_ = false;                         // the responder under test reported a missing packet
    std::map<std::uint32_t, FrameBytes> sent_;     // requests of the QP under test, by PSN
    std::map<std::uint32_t, FrameBytes> answers_;  // its responses
    std::size_t spare_acks_ = 0;                   // that may come beside the one that is expected
};

}  // namespace urnic::conform
