/// Calls of ours: sent as credits allow, ended once by a Reply, an error, a deadline or the connection's end.
/// Memory that the peer could reach is out of its reach before a call ends (draft, 7.2.3; RFC 8166,
/// section 8.1).
///
///     queued --credit--> sent --Reply, ERROR, deadline--> withdrawing --> ended
///                         ^                                    |
///                         +--- other version, fewer chunks ----+
///
/// A call that has timed out keeps its credit and its XID until the late Reply is there (state abandoned).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "ulp/rpcrdma/engine/call_plan.h"
#include "ulp/rpcrdma/engine/link.h"
#include "ulp/rpcrdma/engine/outbox.h"
#include "ulp/rpcrdma/engine/rpc_message.h"

namespace urnic::rpcrdma {

class Requester {
  public:
    Requester(Link& link, bool is_forward) : link_(link), is_forward_(is_forward) {}

    void call(const CallRequest& request, std::int64_t now_ns);
    /// MSG or NOMSG with direction REPLY.
    void on_reply(const Header& header, std::span<const std::byte> payload, std::uint32_t invalidated);
    /// A Reply that could not be decoded; only its XID is used.
    void on_bad_reply(std::uint32_t xid);
    /// ERROR, all but ERR_VERS. Returns false if no call has that XID.
    bool on_error(const Header& header);
    /// ERR_VERS has told another version: the call is sent again in it. Returns whether that XID is
    /// outstanding.
    bool send_again(std::uint32_t xid);
    /// The connection ends for want of a version: the call ends with kVersionRefused.
    void on_version_refused(std::uint32_t xid);
    void on_withdrawn(std::uint32_t call);
    void on_disconnected();
    void on_timer(std::int64_t now_ns);
    /// Sends what waits, as far as credits go.
    void send_queued();

    [[nodiscard]] bool has_outstanding(std::uint32_t xid) const { return outstanding_xids_.contains(xid); }
    [[nodiscard]] std::uint32_t credits() const { return granted_; }
    [[nodiscard]] std::int64_t next_timer_ns() const { return earliest_deadline_ns_; }

  private:
    enum class State : std::uint8_t { kFree, kQueued, kSent, kWithdrawing, kAbandoned };
    enum class AfterWithdraw : std::uint8_t { kComplete, kSendAgain };
    struct Slot {
        State state = State::kFree;
        AfterWithdraw after = AfterWithdraw::kComplete;
        std::uint16_t generation = 0;
        std::uint32_t index = 0;
        bool is_late = false;  ///< timed out: its credit comes back with the late Reply
        CallRequest request;
        std::array<Item, kMaxItems> items;
        std::array<std::span<std::byte>, kMaxWriteChunks> results;
        CallPlan plan;
        PlanLimits refused;  ///< the has_ and least_ members alone
        Buffer whole_call;   ///< of a Position-Zero Read chunk with items in place
        Buffer reply_chunk;
        std::array<Exposure, kMaxItems + kMaxWriteChunks + 2> exposures;
        std::size_t exposure_count = 0;
        /// The first exposure of a Write chunk, and how many there are; that of the Reply chunk is behind
        /// them.
        std::size_t first_write = 0;
        std::size_t write_count = 0;
        bool has_read_items = false;
        std::uint32_t inv_handle = 0;
        std::uint32_t invalidated = 0;
        Completion completion;
    };

    [[nodiscard]] Slot* find_sent(std::uint32_t xid);
    [[nodiscard]] std::uint32_t id_of(const Slot& slot) const;
    [[nodiscard]] Slot* slot_of(std::uint32_t id);
    Slot& take_slot();
    [[nodiscard]] bool may_send() const;
    [[nodiscard]] CallStatus check(const CallRequest& request) const;

    void transmit(Slot& slot);
    [[nodiscard]] CallStatus prepare_chunks(Slot& slot, Header& header);
    [[nodiscard]] bool expose(Slot& slot, std::span<const std::byte> memory, Access access, Segment& segment);
    [[nodiscard]] CallStatus prepare_position_zero(Slot& slot, Header& header);
    void send_call(Slot& slot, Header& header);

    [[nodiscard]] CallStatus take_reply(Slot& slot, const Header& header, std::span<const std::byte> payload);
    [[nodiscard]] bool take_results(Slot& slot, const Header& header);
    [[nodiscard]] bool take_reply_chunk(Slot& slot, const Header& header, std::uint64_t& octets) const;
    [[nodiscard]] bool should_send_again(Slot& slot, const ErrorBody& error) const;

    void refuse(std::uint64_t token, CallStatus status);
    /// Ends a call that was sent: withdraws, then completes or sends again.
    void withdraw(Slot& slot, CallStatus status, AfterWithdraw after);
    void finish(Slot& slot);
    void release(Slot& slot);
    void expire(Slot& slot);
    void return_credit();
    void on_grant(std::uint32_t credits);

    Link& link_;
    bool is_forward_;
    std::deque<Slot> slots_;  // of stable addresses
    std::vector<std::uint32_t> free_slots_;
    std::deque<std::uint32_t> queue_;                                    // ids
    std::unordered_map<std::uint32_t, std::uint32_t> outstanding_xids_;  // to ids: sent and abandoned
    std::uint32_t granted_ = 1;
    bool has_grant_ = false;
    std::uint32_t outstanding_ = 0;
    std::int64_t earliest_deadline_ns_ = 0;
};

}  // namespace urnic::rpcrdma
