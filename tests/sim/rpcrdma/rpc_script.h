// Message scripts for RPC-over-RDMA: a real Connection in virtual time, and opposite it a script that plays
// the peer, message by message, the program and the RNIC. A script reads from top to bottom as a sequence
// diagram; at its end nothing may be left that it did not look at.
//
//   RPC_SCRIPT(RpcResponder, ReadChunksRefused, "7.2.4", "more Read chunks than are taken: ERR_READ_CHUNKS
//   says how many") {
//       server({.limits = {.max_read_chunks = 0}});
//       peer("7 2 20 0 / 0 0 / 1 28 a101 64 0 1000 / 0 / 0 / 0 / call:40");
//       does({"send 7 2 40 4 4 0"});
//   }
//
// Messages are words in hexadecimal; "/" is for the reader; "call:N" and "reply:N" are N octets of an RPC
// message with the XID of the header (decimal N); "call:A-B" is the octets from A to before B of it.
//
// What the engine does is a list of lines:
//   send WORDS                        send+inv:HANDLE WORDS     a SEND, a SEND with Invalidate
//   read HANDLE OFFSET OCTETS         write HANDLE OFFSET OCTETS (hexadecimal)
//   complete TOKEN STATUS [more]      execute XID OCTETS        replied XID
//   withdraw HANDLES                  resize OCTETS             close REASON
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/script_list.h"
#include "ulp/rpcrdma/engine/connection.h"

namespace urnic::rpcrdma::sim {

using urnic::sim::Where;

using Octets = std::vector<std::byte>;
/// N octets of an RPC message: XID, type, a pattern.
[[nodiscard]] Octets rpc_message(std::uint32_t xid, Direction type, std::size_t octets);
/// Octets that a position tells, for items and results.
[[nodiscard]] Octets pattern(std::size_t octets, std::uint32_t seed);
[[nodiscard]] Octets message_of(std::string_view text);

class RpcScript : public ::testing::Test, public Outbox {
  protected:
    ~RpcScript() override;
    void TearDown() override;

    // --- the connection
    void client(const Config& config = {});
    void server(Config config = {});
    /// A server whose client has sent a first Call and got its Reply: version 2 is settled, CONNPROP told.
    void open_server(const Config& config = {});
    /// A client whose first Call was answered in version 2 with so many credits.
    void open_client(std::uint32_t credits = 16, const Config& config = {});

    // --- the program. The first Call of a script has token 1.
    struct Call {
        std::uint32_t xid = 7;
        std::size_t octets = 40;  ///< of the stream
        std::size_t item_at = 0;  ///< 0: no item
        std::size_t item_octets = 0;
        std::vector<std::size_t> results;  ///< octets of each
        std::uint64_t max_reply = 100;
        std::int64_t deadline_ns = 0;
    };
    void call(const Call& call);
    struct Reply {
        std::size_t octets = 40;
        std::size_t item_at = 0;
        std::size_t item_octets = 0;
        std::size_t second_item_octets = 0;  ///< at the end of the stream
    };
    /// Answers the oldest Call that was executed.
    void reply(const Reply& reply);
    void reply() { reply(Reply()); }
    /// What the last reply() was told.
    [[nodiscard]] ReplyStatus reply_status() const { return reply_status_; }
    void drop();

    // --- the peer and the RNIC
    void peer(std::string_view message, std::uint32_t invalidated = 0);
    void peer_octets(const Octets& message, std::uint32_t invalidated = 0);
    /// The oldest SEND with a token is complete.
    void sent();
    /// The oldest RDMA READ is complete: data of an RPC Call from octet `from` on, or a pattern.
    void read_done(bool ok = true);
    void withdrawn();
    void disconnected();
    void time(std::int64_t now_ns);
    void resized(std::uint32_t octets);

    // --- expectations
    void does(const std::vector<std::string>& effects, Where where = Where::current());
    void does_nothing(Where where = Where::current()) { does({}, where); }
    [[nodiscard]] Connection& connection() { return *connection_; }
    /// The next memory cannot be had.
    void refuse_memory() { has_memory_ = false; }
    /// withdraw() is not done at once from now on.
    void withdraw_later() { withdraws_later_ = true; }
    /// The octets of the last Call that was executed.
    [[nodiscard]] const Octets& executed() const { return executed_; }
    [[nodiscard]] const Octets& completed() const { return completed_; }
    /// Handles can be invalidated by the peer (type 2 windows).
    bool has_windows = false;
    /// What RDMA READs bring: the data of the peer's memory at that handle.
    std::map<std::uint32_t, Octets> peer_memory;

  private:
    [[nodiscard]] Buffer allocate(std::size_t octets) override;
    void free(const Buffer& buffer) override;
    [[nodiscard]] bool expose(std::span<const std::byte> memory, Access access, Exposure& out) override;
    [[nodiscard]] bool withdraw(std::uint32_t call, std::span<const Exposure> exposures,
                                std::uint32_t invalidated) override;
    void send(const OutgoingMessage& message) override;
    void read(std::uint32_t call, const Segment& from, std::span<std::byte> into) override;
    void write(std::span<const std::byte> from, const Segment& to) override;
    void resize_receives(std::uint32_t octets) override;
    void complete(std::uint64_t token, const Completion& completion) override;
    void execute(const IncomingCall& call) override;
    void replied(std::uint32_t call) override;
    void close(CloseReason reason) override;

    struct PendingRead {
        std::uint32_t call;
        Segment from;
        std::span<std::byte> into;
    };
    struct Program {  // what the engine refers to until complete() or replied()
        Octets stream;
        Octets item;
        Octets second_item;
        std::vector<Item> items;
        std::vector<Octets> result_memory;
        std::vector<std::span<std::byte>> results;
    };
    std::unique_ptr<Connection> connection_;
    std::vector<std::string> effects_;
    std::vector<std::string> history_;
    std::map<std::uint64_t, Octets> buffers_;
    std::deque<std::unique_ptr<Program>> programs_;
    std::deque<IncomingCall> executing_;
    std::map<std::uint32_t, std::uint32_t> xids_;
    std::deque<std::uint64_t> tokens_;
    std::deque<PendingRead> reads_;
    std::deque<std::uint32_t> withdrawing_;
    Octets executed_;
    Octets completed_;
    std::uint64_t next_cookie_ = 1;
    std::uint64_t next_token_ = 1;
    ReplyStatus reply_status_ = ReplyStatus::kUnknown;
    std::uint32_t next_handle_ = 0xA101;
    std::int64_t now_ns_ = 0;
    bool has_memory_ = true;
    bool withdraws_later_ = false;
};

#define RPC_SCRIPT(suite, name, clause, what)                         \
    using suite = ::urnic::rpcrdma::sim::RpcScript;                   \
    [[maybe_unused]] const bool suite##_##name##_listed =             \
        ::urnic::sim::register_script({#suite, #name, clause, what}); \
    TEST_F(suite, name)

}  // namespace urnic::rpcrdma::sim
