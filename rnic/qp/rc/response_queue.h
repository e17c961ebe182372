// What an RC responder owes its peer, in the order in which it has to go out: READ responses and atomic
// results, then one acknowledgement or NAK for the newest request (IBA 9.7.5).
#pragma once

#include <array>
#include <cstdint>

#include "rnic/qp/limits.h"
#include "rnic/qp/rc/rc_common.h"

namespace urnic {

/// A READ being answered or an atomic's result.
struct RcResponse {
    std::uint64_t va_or_original = 0;  // READ: address of the next byte; atomic: the value before
    std::uint32_t rkey = 0;
    std::uint32_t pd = 0;  // that rkey has to belong to
    std::uint32_t left_bytes = 0;
    Psn psn;       // of the next packet
    Psn last_psn;  // of the last
    bool is_atomic = false;
    bool is_duplicate = false;  // asked for again; does not count against max_dest_rd_atomic
    bool is_started = false;
};

class ResponseQueue {
  public:
    explicit ResponseQueue(RcCommon& common) : common_(common) {}

    void reset();

    /// Requests that were new and are not answered in full.
    [[nodiscard]] std::uint32_t new_pending() const { return new_pending_; }
    void add(const RcResponse& response);
    /// A READ or atomic that was asked for again. If its first answer is still going out, a READ starts over
    /// at the wanted point. Answers go out in the order of PSNs: the peer waits for the oldest first, and may
    /// ask for nothing new meanwhile. Dropped when the peer asks too often (may_repeat()): it will ask again.
    void add_duplicate(const RcResponse& response);

    /// Notes an acknowledgement of everything up to the newest request; one packet answers a whole burst.
    void schedule_ack() { answer_ = answer_ == Answer::kNone ? Answer::kAck : answer_; }
    /// Notes a NAK or RNR NAK of the packet `psn`; it stands for the acknowledgement of all before.
    void schedule_nak(std::uint8_t syndrome, Psn psn);
    /// The answer of a READ or atomic acknowledges all before it.
    void cancel_ack() { answer_ = answer_ == Answer::kAck ? Answer::kNone : answer_; }
    /// The packet that a NAK asked for came. Returns whether the NAK was still waiting; then it is dropped.
    [[nodiscard]] bool cancel_nak();

    [[nodiscard]] bool idle() const { return first_ == end_ && answer_ == Answer::kNone; }
    [[nodiscard]] bool nak_pending() const { return answer_ == Answer::kNak; }

    /// What every AETH says now.
    struct AethState {
        Psn expected_psn;
        std::uint32_t msn;
        std::uint8_t credits;  // AETH credit code
    };
    /// Sends up to `max_packets`, responses by `data` and acknowledgements by `outbox`. Returns
    /// whether there is more.
    /// A READ that can no longer be served turns into a NAK and takes the QP to ERR.
    template <typename AethStateOf>
    [[nodiscard]] bool progress(std::uint32_t max_packets, Outbox& outbox, Outbox& data,
                                AethStateOf&& aeth_state) {
        if (idle()) {
            return false;
        }
        return send(max_packets, outbox, data, aeth_state());
    }

  private:
    enum class Answer : std::uint8_t { kNone, kAck, kNak };
    // New requests are bounded by max_dest_rd_atomic; as many again may be duplicates.
    static constexpr std::uint32_t kSlots = 2 * kMaxRdAtomic;
    // Packets of repeated answers that go before one new answer: so many, and so many times its own packets.
    static constexpr std::uint32_t kRepeatedPackets = 64;
    static constexpr std::uint32_t kRepeatedTimes = 4;

    [[nodiscard]] bool send(std::uint32_t max_packets, Outbox& outbox, Outbox& data,
                            const AethState& position);
    // Each of these is called in one place of send(), for each packet.
    [[nodiscard]] [[gnu::always_inline]] inline bool send_read(RcResponse& response,
                                                               const AethState& position, Outbox& outbox);
    [[gnu::always_inline]] inline void send_atomic(const RcResponse& response, const AethState& position,
                                                   Outbox& outbox);
    [[gnu::always_inline]] inline void send_answer(const AethState& position, Outbox& outbox);
    void insert(const RcResponse& response, bool is_duplicate);
    /// Returns whether a repeated answer may still go before the new one that waits. Whoever knows a key and
    /// a PSN can repeat a request without end; a new answer then comes all the same, which costs an honest
    /// peer, to which it comes too early, no more than a part of what was repeated for it.
    [[nodiscard]] bool may_repeat() const;
    void fail_read(const RcResponse& response, std::uint8_t syndrome, Outbox& outbox);
    void pop();
    [[nodiscard]] RcResponse& slot(std::uint32_t position) { return slots_[position % kSlots]; }
    [[nodiscard]] const RcResponse& slot(std::uint32_t position) const { return slots_[position % kSlots]; }

    RcCommon& common_;
    std::uint32_t first_ = 0;
    std::uint32_t end_ = 0;
    std::uint32_t new_pending_ = 0;
    std::uint32_t repeated_packets_ = 0;  // since a new answer began to wait, or the last one was complete
    Answer answer_ = Answer::kNone;
    std::uint8_t nak_syndrome_ = 0;
    Psn nak_psn_;
    std::array<RcResponse, kSlots> slots_{};
};

}  // namespace urnic
