// Packet scripts for one RC QP: a real RcQp in virtual time, and opposite it a script that plays the peer,
// packet by packet. A script reads from top to bottom as a sequence diagram does; a step that does not come
// out as written fails with what was expected, what was seen and all packets so far, and ends the script.
//
//   RC_SCRIPT(Loss, LostAck, "9.7.5.1.1", "what has been executed is acknowledged again") {
//       connect({.timeout = 10});
//       post(write(1, 8));
//       sends(write_only(1000, 8));
//       ...
//       peer(ack(1000, 1));
//       completes(ok(1));
//   }
//
// At its end nothing may be left that the script did not ask for: no packet, no completion, no event.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/script_list.h"
#include "tests/sim/scripts/script_packet.h"
#include "tests/sim/sim_host.h"
#include "tests/sim/sim_network.h"

namespace urnic::sim {

// What many scripts use.
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr std::uint8_t kInvalid = wire::kNakInvalidRequest;
inline constexpr std::uint8_t kAccess = wire::kNakRemoteAccessError;
/// A timeout attribute of 4.19 ms, and the bounds within which it may run out (IBA 9.7.6.1.3).
inline constexpr std::uint8_t kTimeout = 10;
inline constexpr TimeNs kLeast = TimeNs{4096} << kTimeout;
inline constexpr TimeNs kMost = 4 * kLeast;

/// What the QP does with packets that come early. A run of the program has one of both for all scripts.
enum class Recovery : std::uint8_t {
    kGoBackN,    // discards them
    kSelective,  // holds them, the daemon's default
};
void set_recovery(Recovery recovery);

/// A completion as a script expects it; what is not given is not looked at.
struct Wc {
    std::uint64_t wr_id = 0;
    WcStatus status = WcStatus::kSuccess;
    std::optional<std::uint32_t> byte_len = {};
    std::optional<WcOpcode> opcode = {};
    std::optional<std::uint32_t> imm = {};          // as it lies on the wire; implies that there is one
    std::optional<std::uint32_t> invalidated = {};  // likewise
    std::optional<std::uint32_t> wqe_index = {};

    Wc& bytes(std::uint32_t value) {
        byte_len = value;
        return *this;
    }
    Wc& op(WcOpcode value) {
        opcode = value;
        return *this;
    }
    Wc& with_imm(std::uint32_t value) {
        imm = value;
        return *this;
    }
    Wc& with_invalidated(std::uint32_t key) {
        invalidated = key;
        return *this;
    }
    Wc& wqe(std::uint32_t index) {
        wqe_index = index;
        return *this;
    }
};
inline Wc ok(std::uint64_t wr_id) { return {wr_id, WcStatus::kSuccess}; }
inline Wc flushed(std::uint64_t wr_id) { return {wr_id, WcStatus::kWrFlushErr}; }
inline Wc failed(std::uint64_t wr_id, WcStatus status) { return {wr_id, status}; }

/// One or several: `completes(ok(1))`, `completes({ok(1), ok(2)})`.
class Wcs : public std::vector<Wc> {
  public:
    Wcs() = default;
    Wcs(const Wc& wc) : vector{wc} {}
    Wcs(std::initializer_list<Wc> list) : vector(list) {}
};
class SendRequests : public std::vector<SendRequest> {
  public:
    SendRequests(const SendRequest& request) : vector{request} {}
    SendRequests(std::initializer_list<SendRequest> list) : vector(list) {}
};

class RcScript : public ::testing::Test {
  protected:
    static constexpr std::size_t kMemoryBytes = 256 * 1024;
    static constexpr std::uint32_t kQp = 1;      // ours
    static constexpr std::uint32_t kPeerQp = 2;  // the script's
    /// First PSNs of both directions unless ConnectOptions say otherwise: ours 1000, the peer's 2000.
    RcScript();
    ~RcScript() override;
    void TearDown() override;

    // --- The connection ---------------------------------------------------------------------------------
    /// A new QP in RTS, as if nothing had been before; only one may be alive. May be called again.
    void connect(const ConnectOptions& options = {}, const SimHost::Options& host = {});
    /// The same, left in INIT; rtr() and rts() take it on.
    void create(const ConnectOptions& options = {}, const SimHost::Options& host = {});
    void rtr();
    void rts();
    /// modify_qp to `state` with no other attribute; has to succeed.
    void modify(QpState state, Where where = Where::current());
    /// modify_qp with any attributes; what it returns.
    [[nodiscard]] int modify(const abi::QpAttr& attr);
    void state(QpState expected, Where where = Where::current());

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

    // --- Packets. Remote addresses are those of memory(). What we send is a slice of memory() as it
    // was in the beginning, what the peer sends is a slice of other bytes, at the same offset.
    using Packet = ScriptPacket;
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
    /// The peer's request reaches the QP, which does not send yet: host().progress() lets it.
    void arrives(const ScriptPacket& request);
    /// These packets, in this order, went out by now; what went out behind them stays for the next step.
    void sends(const ScriptPackets& expected, Where where = Where::current());
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
    void receives(const Wcs& expected, Where where = Where::current());
    /// Exactly these affiliated asynchronous events since the last call.
    void raises(const std::vector<AsyncEventType>& expected, Where where = Where::current());
    /// A request is refused, with no receive in use: the NAK `syndrome`, the event that goes with it, and ERR
    /// (IBA 9.9.3).
    void refuses(std::uint32_t psn, std::uint32_t msn, std::uint8_t syndrome, Where where = Where::current());

    // --- Memory -----------------------------------------------------------------------------------------
    [[nodiscard]] SimRegion& memory() { return *memory_; }
    /// memory() at `offset` holds what the peer's packets of `peer_offset` carried.
    void holds_peer_data(std::size_t offset, std::size_t length, std::size_t peer_offset,
                         Where where = Where::current());
    /// memory() at `offset` is as it was in the beginning.
    void holds_own_data(std::size_t offset, std::size_t length, Where where = Where::current());
    [[nodiscard]] std::uint64_t& word(std::size_t offset);

    [[nodiscard]] SimHost& host() { return *host_; }
    /// What the host put on the wire and the script has not asked for yet.
    [[nodiscard]] std::deque<SentPacket>& seen() { return network_->packets(); }
    [[nodiscard]] const std::deque<SentPacket>& seen() const { return network_->packets(); }
    /// From now on what goes out is neither built nor seen, or it is again.
    void discard_frames(bool discards) { network_->discards = discards; }
    [[nodiscard]] const wire::Gid& peer_gid() const { return peer_address_->gid(); }
    [[nodiscard]] TimeNs now() const { return network_->now(); }
    [[nodiscard]] const ConnectOptions& options() const { return options_; }
    /// For the steps in which both ways differ.
    [[nodiscard]] static bool is_selective();

    /// Local ACK timeout of a timeout code: the least and the most that it may take (IBA 9.7.6.1.3).
    [[nodiscard]] static TimeNs least_timeout(std::uint8_t code) { return TimeNs{4096} << code; }
    [[nodiscard]] static TimeNs most_timeout(std::uint8_t code) { return 4 * least_timeout(code); }

  private:
    void note(const char* who, TimeNs time, const FrameBytes& frame);
    void fail(Where where, const std::string& what) const;
    void deliver(const ScriptPacket& packet);
    [[nodiscard]] bool same_as(const SentPacket& seen, const ScriptPacket& expected, Where where);
    [[nodiscard]] std::string missing(const ScriptPacket& expected) const;
    [[nodiscard]] SentPacket take_seen();
    void sends_something(const ScriptPacket& expected, Where where) const;
    [[nodiscard]] bool silent_then_sends(TimeNs least, TimeNs most, const ScriptPacket& expected,
                                         Where where);
    [[nodiscard]] bool advance_to_next_frame(TimeNs until);
    void check_completions(bool recv, const Wcs& expected, Where where);
    void check_nothing_left(Where where);

    // Made once for all scripts.
    static const std::vector<std::byte>& own_data();
    static const std::vector<std::byte>& peer_data();

    ConnectOptions options_;
    std::unique_ptr<SimNetwork> network_;
    std::unique_ptr<SimHost> host_;
    std::unique_ptr<SimHost> peer_address_;
    SimRegion* memory_ = nullptr;
    std::vector<std::string> log_;
    wire::Path last_path_;  // of the packet taken last
};

}  // namespace urnic::sim

/// A script of a class that adds steps of its own to RcScript. `clause` is what it checks, `what` says it in
/// a sentence.
#define RC_SCRIPT_IN(suite, name, clause, what)                       \
    [[maybe_unused]] const bool suite##_##name##_listed =             \
        ::urnic::sim::register_script({#suite, #name, clause, what}); \
    TEST_F(suite, name)

/// A script with the steps of RcScript; `suite` groups scripts that go together.
#define RC_SCRIPT(suite, name, clause, what) \
    using suite = ::urnic::sim::RcScript;    \
    RC_SCRIPT_IN(suite, name, clause, what)
