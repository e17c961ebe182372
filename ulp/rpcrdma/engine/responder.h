/// Calls of the peer's: checked, read, executed by the program, answered in the version and with the chunks
/// that they gave.
///
///     (arrival) --checks--> reading --all READs--> executing --reply()--> replying --SEND complete--> (free)
///                   |            |                     |           |
///                   +-- ERROR ---+                     +- drop()   +-- ERROR: no room for the Reply
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ulp/rpcrdma/engine/call_assembly.h"
#include "ulp/rpcrdma/engine/link.h"
#include "ulp/rpcrdma/engine/outbox.h"
#include "ulp/rpcrdma/engine/rpc_message.h"

namespace urnic::rpcrdma {

class Responder {
  public:
    /// `is_forward`: it answers the client of the connection.
    Responder(Link& link, bool is_forward) : link_(link), is_forward_(is_forward) {}

    /// MSG or NOMSG with direction CALL.
    void on_call(const Header& header, std::span<const std::byte> payload);
    void on_read(std::uint32_t call, bool ok);
    ReplyStatus reply(std::uint32_t call, const RpcMessage& message);
    void drop(std::uint32_t call);
    void on_sent(std::uint64_t token);
    void on_disconnected();

  private:
    enum class State : std::uint8_t { kFree, kReading, kExecuting, kReplying };
    struct Slot {
        State state = State::kFree;
        std::uint16_t generation = 0;
        std::uint16_t index = 0;
        bool has_failed = false;
        std::uint32_t reads_left = 0;
        std::uint32_t xid = 0;
        std::uint32_t version = 0;
        std::uint32_t invalidate = 0;  ///< the handle that the Reply's SEND invalidates; 0: none
        Buffer call;
        std::size_t call_octets = 0;
        ChunkLists chunks;
    };

    [[nodiscard]] std::uint32_t id_of(const Slot& slot) const;
    [[nodiscard]] Slot* slot_of(std::uint32_t id, State state);
    Slot& take_slot();
    void release(Slot& slot);

    /// Checks what the lists do not tell; sends the error itself.
    [[nodiscard]] bool is_acceptable(const Header& header, std::span<const std::byte> payload);
    [[nodiscard]] std::uint32_t handle_to_invalidate(const Header& header) const;
    void refuse(const Header& header, CallFault fault);
    void execute(Slot& slot);
    void begin_replying(Slot& slot, const Header& header,
                        std::span<const std::span<const std::byte>> payload);
    void fail_reply(Slot& slot, const ErrorBody& error);
    /// Makes the Write list of the Reply; false: a result does not fit its chunk, the error is sent.
    [[nodiscard]] bool list_results(Slot& slot, const RpcMessage& message, Header& header);
    void write_results(const RpcMessage& message, const Header& header);
    void write_reply_chunk(Slot& slot, std::span<const std::span<const std::byte>> pieces, Header& header);
    [[nodiscard]] std::span<const std::byte> padding();

    Link& link_;
    bool is_forward_;
    std::vector<Slot> slots_;
    std::vector<std::uint16_t> free_slots_;
    std::uint32_t in_progress_ = 0;  ///< reading and executing
    Buffer padding_;                 ///< 4 zero octets that the RNIC can read
};

}  // namespace urnic::rpcrdma
