// A shared receive queue as its worker sees it (IBA 10.2.9): one ring from which the messages of several QPs
// take receives. It and all QPs that use it live on one worker (adr/0009).
#pragma once

#include <array>
#include <cstdint>

#include "abi/queues.h"
#include "rnic/queue/work_queue.h"

namespace urnic {

class CompletionQueue;

/// A ring of receives as it was laid out.
struct RecvRing {
    std::byte* slots;
    std::uint32_t entries;
    std::uint32_t stride;
};

/// Resize: copies what is posted from index `first` on into another ring, which is zeroed and has slots of
/// the same size. Returns whether it fits. The slots are the application's to change: one that changes them
/// now spoils its own queue.
[[nodiscard]] bool copy_receives(const RecvRing& from, const RecvRing& to, std::uint32_t first);

class SharedRecvQueue {
  public:
    /// What an SRQ is beyond its ring.
    struct Identity {
        std::uint32_t number = 0;
        std::uint32_t pd = 0;           // that L_Keys of its receives are checked against
        CompletionQueue* cq = nullptr;  // XRC: where its receives complete; nullptr: in the QP's receive CQ
    };

    /// `memory`: abi::srq_bytes(entries, stride) zeroed bytes that stay mapped while in use.
    SharedRecvQueue(const Identity& identity, std::byte* memory, std::uint32_t entries, std::uint32_t stride,
                    std::uint32_t max_sge);

    /// The next receive, without taking it. kMalformed: the application has spoilt the ring; the queue is in
    /// error from then on and gives nothing any more.
    [[nodiscard]] Fetch peek(RecvWork& work);
    /// Takes the receive that peek() gave: its slot is the application's again. Returns whether the number of
    /// receives fell below the armed limit with it; then the limit is disarmed.
    [[nodiscard]] bool pop();
    /// Returns whether this is the first call after the queue went into error.
    [[nodiscard]] bool take_error_report();

    /// `limit` <= entries; 0 disarms.
    void arm(std::uint32_t limit) { limit_ = limit; }
    [[nodiscard]] std::uint32_t limit() const { return limit_; }

    /// Resize: from now on the ring lies at `memory`, into which the caller has copied every receive from
    /// next() on. The indexes continue.
    void switch_ring(std::byte* memory, std::uint32_t entries, std::uint32_t stride, std::uint32_t max_sge);
    /// Index of the next receive.
    [[nodiscard]] std::uint32_t next() const { return ring_.next(); }

    [[nodiscard]] const Identity& identity() const { return identity_; }

  private:
    friend class XrcSrqTable;

    Identity identity_;
    abi::SrqHeader* header_ = nullptr;
    RecvQueue ring_;
    std::uint32_t limit_ = 0;
    bool failed_ = false;
    bool failure_reported_ = false;
    SharedRecvQueue* next_in_table_ = nullptr;
};

/// The SRQs of one XRC domain by number, as packets name them. Belongs to the domain's worker. Intrusive.
class XrcSrqTable {
  public:
    void add(SharedRecvQueue& srq);
    void remove(SharedRecvQueue& srq);
    [[nodiscard]] SharedRecvQueue* find(std::uint32_t number) const;
    template <class Function>
    void for_each(Function function) const {
        for (SharedRecvQueue* srq : first_) {
            for (; srq != nullptr; srq = srq->next_in_table_) {
                function(*srq);
            }
        }
    }

  private:
    // Numbers are handed out one after the other: the low bits spread them.
    static constexpr std::uint32_t kBuckets = 256;
    std::array<SharedRecvQueue*, kBuckets> first_{};
};

}  // namespace urnic
