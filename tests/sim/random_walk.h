// A random walk over everything that RC offers, in both directions at once over a faulty link, against an
// oracle: the memory that results, the data that each READ and atomic must have brought, the receives that
// each SEND must have filled, and one completion for each signaled request, in order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/sim_network.h"

namespace urnic::sim {

class RandomWalk {
  public:
    explicit RandomWalk(std::uint64_t seed);

    /// Empty, or what went wrong first.
    [[nodiscard]] std::string run(std::uint32_t steps);
    /// What happened, so that a test can be sure that it tested something.
    [[nodiscard]] std::uint64_t requests() const;
    [[nodiscard]] std::uint64_t retries() const;

  private:
    // Each side's memory: sources of its requests by slot, what READs and atomics bring by slot, the area
    // that the peer writes, the words on which the peer's atomics act, and the buffers of its receives by
    // slot.
    static constexpr std::size_t kMaxLength = 5000;
    static constexpr std::size_t kSlots = 64;
    static constexpr std::size_t kSlotBytes = 8192;
    static constexpr std::size_t kSharedBytes = 16384;
    static constexpr std::size_t kWords = 8;

    struct Sent {
        SendRequest request;
        std::size_t slot = 0;
        std::vector<std::byte> expected;  // READ, atomic: what has to be in the slot
    };
    struct Message {
        std::vector<std::byte> data;  // SEND; empty for WRITE with immediate
        std::uint32_t length = 0;
        std::uint32_t imm = 0;
        bool has_imm = false;
        bool is_write = false;
    };
    struct Side {
        std::unique_ptr<SimHost> host;
        SimRegion* source = nullptr;
        SimRegion* shared = nullptr;
        SimRegion* words = nullptr;
        SimRegion* receives = nullptr;
        Side* peer = nullptr;
        std::vector<std::byte> shared_model;  // what the peer's requests make of `shared`
        std::array<std::uint64_t, kWords> word_model{};
        std::deque<Sent> outstanding;
        std::deque<Message> incoming;  // messages that the peer sent and that are not received yet
        std::uint32_t posted_receives = 0;
        std::uint32_t done_receives = 0;
        std::uint64_t next_wr_id = 0;
        bool read_pending = false;  // a READ may be executed again: what changes its source has to be fenced
    };

    std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
    [[nodiscard]] std::size_t random_length();
    void step(Side& side);
    void post_request(Side& side);
    void post_write(Side& side, Sent& sent, bool with_imm);
    void post_send_request(Side& side, Sent& sent);
    void post_read(Side& side, Sent& sent);
    void post_atomic(Side& side, Sent& sent);
    void split_into_sges(Side& side, Sent& sent, std::size_t length);
    void post_receive(Side& side);
    void poll(Side& side);
    void check_sent(const Side& side, const Sent& sent, const abi::Cqe& cqe);
    void poll_receives(Side& side);
    void finish();
    void fail(const Side& side, const std::string& what);

    std::mt19937_64 random_;
    SimNetwork net_;
    std::array<Side, 2> sides_;
    std::string failure_;
};

}  // namespace urnic::sim
