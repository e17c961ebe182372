// A QP host for RC, UC and UD (tests/sim/sim_host.h) with memory on the heap, each piece an allocation of its
// own so that the address sanitizer sees every byte too far, and an application whose bookkeeping tells which
// completions may come.
//
// Everything that the engine promises its caller is checked here, whatever peer and application do: see
// check_sent() and poll_queue().
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "rnic/wire/opcodes.h"
#include "tests/sim/sim_host.h"

namespace urnic::fuzz {

/// A registered buffer.
struct Region {
    std::vector<std::byte> bytes;
    std::uint64_t iova = 0;
    std::uint32_t key = 0;
    bool direct = true;
    bool published = false;
};

class QpHost final : public sim::SimHost {
  public:
    struct Options {
        std::uint32_t qp_num = 2;
        QpType type = QpType::kRc;
        bool sq_sig_all = false;
        /// The application writes what it likes to the rings: completions are then only in order.
        bool hostile_application = false;
        /// Holds packets that come early, as the daemon's QPs do; without it the QP goes back N.
        bool holds_early_packets = false;
    };
    static constexpr std::uint32_t kEntries = 16;
    static constexpr std::uint32_t kCqEntries = 64;
    static constexpr std::uint32_t kMaxSge = 3;
    static constexpr std::uint32_t kMaxInline = 64;
    static constexpr std::size_t kRegionBytes = 20000;
    static constexpr std::size_t kRegions = 3;  // mapped; through far_memory; mapped and read-only
    static constexpr std::size_t kMaxFrames = 512;

    QpHost(sim::SimClock& clock, const Options& options);
    ~QpHost() override;

    // --- Outbox
    [[nodiscard]] std::uint32_t room() const override { return room_; }
    [[nodiscard]] bool transmit(const wire::Path& path, const wire::PacketHeader& header,
                                std::span<const MemoryPiece> pieces) override;
    [[nodiscard]] bool complete(CompletionQueue& cq, const Completion& completion) override;

    // --- The worker
    void deliver(std::span<const std::byte> frame);
    /// One call of progress() with that much room in the outbox.
    [[nodiscard]] bool progress(std::uint32_t max_packets, std::uint32_t room);
    /// Calls progress() until there is nothing left to do, which has to come.
    void progress_fully();
    /// Handles the timer when it is due.
    void handle_time();
    [[nodiscard]] int modify(const abi::QpAttr& attr);

    // --- The application
    [[nodiscard]] bool may_post_send() const;
    [[nodiscard]] bool may_post_recv() const;
    /// `fields` gets the wr_id that the bookkeeping goes by.
    void post_send(abi::SendWqe& fields, std::span<const abi::Sge> sge,
                   std::span<const std::byte> inline_data);
    void post_recv(std::span<const abi::Sge> sge);
    void poll();
    void publish(std::size_t region);
    void unpublish(std::size_t region);
    /// A hostile application's writes into memory that it shares with the daemon; wraps inside the ring.
    void scribble_send_ring(std::size_t offset, std::span<const std::byte> bytes);
    void scribble_recv_ring(std::size_t offset, std::span<const std::byte> bytes);
    void lie_about_taken(bool recv, std::uint32_t index);
    /// The request posted last gets these counts before the QP looks at it; it must not succeed when there
    /// are more SGEs than the QP allows, unless the slot was valid before it was posted.
    void miscount_newest(bool recv, std::uint32_t num_sge, std::uint32_t inline_bytes);
    /// With the QP in ERR and all work done, an honest application has had one completion for each request.
    void check_all_flushed();
    /// After both hosts are gone: no packet is held any more.
    static void check_nothing_held();

    [[nodiscard]] QpType type() const { return options().type; }
    [[nodiscard]] wire::Service service() const;
    /// UD: of a handle for packets to this host, and of one for packets to group().
    [[nodiscard]] std::uint32_t address_handle() const { return address_handle_; }
    [[nodiscard]] std::uint32_t group_handle() const { return group_handle_; }
    [[nodiscard]] const Region& region(std::size_t index) const { return regions_[index]; }

    std::deque<std::vector<std::byte>> sent;  // frames on their way to the peer, oldest first
    sim::SimAddressSpace far_memory;
    const QpHost* peer = nullptr;

  private:
    /// What one direction's application knows.
    struct Bookkeeping {
        std::uint32_t completed = 0;            // WQEs up to this index are done with
        std::vector<bool> signaled;             // by index; send queue only
        std::set<std::uint32_t> too_many_sges;  // by index
        // Indexes below this one were valid in the ring at some time: the QP may have taken them.
        std::uint32_t seen_valid = 0;
        // Before it was posted, so an older content of the slot may be what is executed.
        bool newest_was_valid = false;
    };
    /// After a change to a ring.
    template <typename Ring>
    static void note_valid(Ring& ring, Bookkeeping& bookkeeping) {
        while (ring.slot(bookkeeping.seen_valid).seq.load(std::memory_order_relaxed) ==
               bookkeeping.seen_valid + 1) {
            ++bookkeeping.seen_valid;
        }
    }
    /// After a WQE was posted, where one may have been valid already.
    template <typename Ring>
    static void note_posted(Ring& ring, Bookkeeping& bookkeeping) {
        bookkeeping.newest_was_valid = bookkeeping.seen_valid + 1 != ring.posted();
        note_valid(ring, bookkeeping);
    }
    void poll_queue(bool recv);
    void check_completion(bool recv, Bookkeeping& bookkeeping, const abi::Cqe& cqe) const;
    void check_sent(const wire::PacketHeader& header, std::span<const MemoryPiece> pieces);
    void check_answer(const wire::PacketHeader& header, const abi::QpAttr& attr);
    void check_piece(const MemoryPiece& piece) const;
    void forget_all();

    bool is_hostile_;
    std::array<Region, kRegions> regions_;
    std::uint32_t address_handle_ = 0;
    std::uint32_t group_handle_ = 0;
    std::uint32_t publications_ = 0;
    std::uint32_t room_ = 0;
    // What the requests delivered so far may draw at most. Beside its answer each may draw an acknowledgement
    // or a NAK: it comes early, or fills a gap before packets that are held with another gap among them.
    std::uint64_t answers_owed_ = 0;
    std::uint64_t notices_owed_ = 0;
    Bookkeeping sends_;
    Bookkeeping recvs_;
};

/// One table for both hosts, made once: it is large.
KeyTable& key_table();

AddressHandles& address_handles();

/// A multicast group that UD QPs are members of.
wire::Gid group();

/// The address of a host of that QP number.
wire::Gid gid_of(std::uint32_t qp_num);

}  // namespace urnic::fuzz
