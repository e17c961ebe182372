/// Memory that the peer may reach, one segment for one RPC: through a type 2 window, which the peer can
/// invalidate (in version 1 it chooses any handle of a Call, RFC 8797, 4.1.1). The window lies over the MR of
/// the pool's slab, or over one that is registered for the RPC; small memory that is not of the pool is
/// copied into it. R_Keys of MRs are told only where a device has no such windows: all memory is registered
/// for the RPC there. Not for two threads at once.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ulp/rpcrdma/engine/outbox.h"

namespace urnic::rpcrdma {

class Device;
class SendQueue;

class Exposures {
  public:
    Exposures() = default;
    ~Exposures();
    Exposures(const Exposures&) = delete;
    Exposures& operator=(const Exposures&) = delete;

    void attach(const Device& device, SendQueue& queue);
    /// Outbox::expose().
    [[nodiscard]] bool expose(std::span<const std::byte> memory, Access access, Exposure& out);
    /// Outbox::withdraw().
    [[nodiscard]] bool withdraw(std::uint32_t call, std::span<const Exposure> exposures,
                                std::uint32_t invalidated);
    /// A LOCAL_INV of a withdrawal is complete.
    void on_invalidated(std::uint64_t cookie);
    /// The call of a withdrawal that is complete, by Wqe::withdrawal.
    [[nodiscard]] std::uint32_t take_withdrawal(std::uint32_t withdrawal);
    /// The QP is about to go: frees all bound windows, so that withdraw() is done at once from now on.
    /// Windows go before their QP because rxe's waits for them, for a minute.
    void end();

  private:
    enum class State : std::uint8_t { kFree, kExposed, kWithdrawing };
    struct Entry {
        State state = State::kFree;
        Access access = Access::kRead;
        std::uint32_t generation = 0;
        ibv_mw* window = nullptr;
        std::uint32_t window_key = 0;
        ibv_mr* own_region = nullptr;
        std::byte* copy = nullptr;  ///< of `memory`, in the pool
        std::span<std::byte> memory;
    };
    struct Withdrawal {
        std::uint32_t call = 0;
        bool is_used = false;
    };

    [[nodiscard]] Entry* find(std::uint64_t cookie);
    [[nodiscard]] bool bind(Entry& entry, std::span<std::byte> memory, Segment& segment);
    [[nodiscard]] bool register_memory(Entry& entry, std::span<std::byte> memory, Segment& segment);
    [[nodiscard]] ibv_mw* take_window();
    static void free_memory(Entry& entry);
    /// Nobody else reaches the memory any more.
    void release(Entry& entry);
    [[nodiscard]] std::uint32_t add_withdrawal(std::uint32_t call);

    const Device* device_ = nullptr;
    SendQueue* queue_ = nullptr;
    std::vector<Entry> entries_;
    std::vector<std::uint32_t> free_entries_;
    std::vector<Withdrawal> withdrawals_;
    /// Unbound windows with the key of their last binding.
    struct IdleWindow {
        ibv_mw* window;
        std::uint32_t key;
    };
    std::vector<IdleWindow> idle_windows_;
    bool is_ended_ = false;
};

}  // namespace urnic::rpcrdma
