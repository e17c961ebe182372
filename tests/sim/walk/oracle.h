// What a perfect network would do with the operations of one direction of a connection, and the comparison
// with what happens. It knows verbs and IBA's ordering rules, and nothing of how the RNIC keeps them.
//
// Each direction has memory of its own at the target: an area for WRITEs and READs, words for atomics. The
// oracle has a model of both. An operation is committed to the model when a completion at either end says
// that it was executed: a send completion (and so everything before it in the queue), or a receive
// completion (and so everything that was sent before that message). At that moment the memory has to agree.
// What may be executed at any time, because it was posted and not committed, may differ: each byte then
// has the value of the model or of one of these operations.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rnic/queue/completion_queue.h"
#include "tests/sim/walk/operation.h"

namespace urnic::sim {

/// A word that every connection adds 1 to. The values that come back tell whether each addition was made
/// exactly once.
struct SharedCounter {
    std::uint64_t* word = nullptr;
    std::vector<bool> returned;   // values that came back
    std::uint64_t confirmed = 0;  // additions that completed
    std::uint64_t uncertain = 0;  // additions that a broken connection may have made or not
};

/// Errors that need no operation to be at fault, as things stand when a completion comes.
struct AllowedErrors {
    bool retry_exceeded = false;      // the network is too bad, or the peer does not answer any more
    bool rnr_retry_exceeded = false;  // the peer may run out of receives for too long
    bool remote_access = false;       // the target's area lost its key
    bool remote_operational = false;  // so did the peer's receives
    bool local_protection = false;    // and the memory that READs and atomics bring data to
    bool flush = false;               // the QP was taken to ERR by something else than its requests
};

struct OracleStats {
    std::uint64_t messages = 0;  // completed with success, or covered by such a completion
    std::uint64_t bytes = 0;
    std::uint64_t receives = 0;
    std::uint64_t atomics = 0;
    std::uint64_t reads = 0;
    std::uint64_t errors = 0;   // first error of a QP
    std::uint64_t flushed = 0;  // after it
    void add(const OracleStats& other);
};

class Oracle {
  public:
    static constexpr std::size_t kCapacity = 512;  // operations between posting and their end
    static constexpr std::size_t kWords = 8;

    /// The target's memory; it outlives the oracle.
    struct Target {
        std::span<std::byte> area;
        std::span<std::uint64_t> words;
        SharedCounter* counter = nullptr;
    };
    explicit Oracle(const Target& target);

    // --- Posting ------------------------------------------------------------------------------------------
    [[nodiscard]] bool has_room() const { return posted_ - first_ < kCapacity; }
    /// A blank operation to fill and to give to post().
    [[nodiscard]] Operation& next();
    void post();
    /// A READ of these bytes may still be executed again: what changes them needs a fence (IBA 10.8.3.3).
    [[nodiscard]] bool must_fence(std::uint64_t offset, std::uint64_t length) const;
    /// What a word of the target will be once everything posted was executed.
    [[nodiscard]] std::uint64_t predicted_word(std::uint64_t word) const;
    /// The last operation posted; nullptr when it has completed.
    [[nodiscard]] const Operation* newest() const { return drained() ? nullptr : &at(posted_ - 1); }
    /// Landing memory from here on is in use.
    [[nodiscard]] std::uint64_t landing_begin() const;

    // --- Completions, each at the moment when the RNIC makes it ------------------------------------------
    void sent(const Completion& completion, const AllowedErrors& allowed);
    /// The buffer's pieces; success only. Errors are the business of the receive queue's owner.
    void received(const Completion& completion, std::span<const Piece> buffer);
    /// An error of a receive that the next message may cause.
    [[nodiscard]] bool next_message_fails_receive() const;

    // --- State --------------------------------------------------------------------------------------------
    /// Every operation has completed.
    [[nodiscard]] bool drained() const { return next_ == posted_; }
    /// What has not completed never will: it was executed and is not signaled.
    [[nodiscard]] bool nothing_to_report() const;
    [[nodiscard]] std::uint64_t outstanding() const { return posted_ - next_; }
    [[nodiscard]] bool failed() const { return failed_; }
    [[nodiscard]] bool has_poison() const { return poison_posted_; }
    /// Both QPs are gone or in RESET: compares the memory and begins anew.
    void settle();
    /// All is drained: memory has to be what the model says, to the byte.
    void check_memory();
    /// Requests that were right when they were posted may fail from now on, and the target with them.
    void expect_errors() { poison_posted_ = true; }

    [[nodiscard]] const OracleStats& stats() const { return stats_; }
    /// Empty, or what was wrong first.
    [[nodiscard]] const std::string& failure() const { return failure_; }

  private:
    [[nodiscard]] Operation& at(std::uint64_t number) { return ring_[number % kCapacity]; }
    [[nodiscard]] const Operation& at(std::uint64_t number) const { return ring_[number % kCapacity]; }
    void fail(const Operation& operation, const std::string& what);
    void fail(const std::string& what);

    void sent_error(std::uint64_t number, const Completion& completion, const AllowedErrors& allowed);
    void finish_through(std::uint64_t last);
    void commit_through(std::uint64_t last, bool finishes);
    void commit(Operation& operation, bool finishes);
    void commit_atomic(Operation& operation);
    void check_landing(Operation& operation);
    void check_counter(const Operation& operation);
    void check_fence(const Operation& operation);
    void check_written(const Operation& operation);
    void check_word(const Operation& operation);
    void compare_area(std::uint64_t offset, std::uint64_t length, std::uint64_t open_end);
    [[nodiscard]] std::uint64_t settle_end() const;
    [[nodiscard]] static std::uint64_t after(const Operation& operation, std::uint64_t before);

    Target target_;
    std::vector<std::byte> area_;  // the model
    std::array<std::uint64_t, kWords> words_{};
    std::vector<Operation> ring_;
    std::vector<std::uint64_t> messages_;  // number of the operation of each message, by message % kCapacity
    std::uint64_t first_ = 0;              // oldest that is kept
    std::uint64_t next_ = 0;               // oldest without completion
    std::uint64_t committed_ = 0;          // oldest not committed
    std::uint64_t posted_ = 0;
    std::uint64_t messages_posted_ = 0;
    std::uint64_t messages_received_ = 0;
    bool failed_ = false;
    bool poison_posted_ = false;
    OracleStats stats_;
    std::string failure_;
};

}  // namespace urnic::sim
