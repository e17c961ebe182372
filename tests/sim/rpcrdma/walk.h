// Two Connections and an RNIC pair between them: SENDs and RDMA in order, memory by handles, receives that
// are counted. The oracle looks at every step: what is read and written is exposed, no message finds no
// receive or is longer than one, no memory goes back to the program while a handle reaches it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ulp/rpcrdma/engine/connection.h"

namespace urnic::rpcrdma::sim {

using Octets = std::vector<std::byte>;

class WalkEnd;

/// What is under way from one side: processed by the RNIC in order.
struct WorkRequest {
    enum class Kind : std::uint8_t { kSend, kWrite, kRead } kind;
    Octets message;                   // kSend
    std::uint32_t invalidate = 0;     // kSend
    std::uint64_t token = 0;          // kSend
    std::span<const std::byte> from;  // kWrite
    Segment remote;                   // kWrite, kRead
    std::span<std::byte> into;        // kRead
    std::uint32_t call = 0;           // kRead
};

/// One side: the outbox of its Connection, and its RNIC.
class WalkEnd : public Outbox {
  public:
    using Completed = std::function<void(std::uint64_t token, const Completion&)>;
    using Executed = std::function<void(const IncomingCall&)>;
    using Replied = std::function<void(std::uint32_t call)>;

    WalkEnd(const Config& config, std::uint32_t first_handle, bool has_windows);

    [[nodiscard]] Connection& connection() { return connection_; }
    void set_peer(WalkEnd& peer) { peer_ = &peer; }
    void set_program(Completed completed, Executed executed, Replied replied);

    /// Does one thing of what is under way, chosen by `pick`; false: nothing is.
    bool step(std::uint32_t pick);
    /// The QP has ended.
    void disconnect();
    [[nodiscard]] bool wants_close() const { return has_closed_ || has_failed_; }
    [[nodiscard]] std::size_t buffers() const { return buffers_.size(); }
    [[nodiscard]] std::size_t exposures() const { return exposed_.size(); }
    /// Returns whether a handle reaches some of it.
    [[nodiscard]] bool is_exposed(std::span<const std::byte> memory) const;
    [[nodiscard]] CloseReason close_reason() const { return reason_; }
    /// What the transport did wrong by the oracle; empty: nothing.
    std::vector<std::string> faults;

    [[nodiscard]] Buffer allocate(std::size_t octets) override;
    void free(const Buffer& buffer) override;
    [[nodiscard]] bool expose(std::span<const std::byte> memory, Access access, Exposure& out) override;
    [[nodiscard]] bool withdraw(std::uint32_t call, std::span<const Exposure> exposures,
                                std::uint32_t invalidated) override;
    void send(const OutgoingMessage& message) override;
    void read(std::uint32_t call, const Segment& from, std::span<std::byte> into) override;
    void write(std::span<const std::byte> from, const Segment& to) override;
    void resize_receives(std::uint32_t octets) override;
    void complete(std::uint64_t token, const Completion& completion) override {
        completed_(token, completion);
    }
    void execute(const IncomingCall& call) override { executed_(call); }
    void replied(std::uint32_t call) override { replied_(call); }
    void close(CloseReason reason) override;

  private:
    struct Exposed {
        std::span<std::byte> memory;
        Access access;
    };
    struct Arrival {
        Octets message;
        std::uint32_t invalidated;
    };
    /// Memory behind a segment, or none with a fault noted.
    [[nodiscard]] std::span<std::byte> reach(const Segment& segment, Access access);
    void carry_out(WorkRequest& work);
    void arrive(const WorkRequest& work);

    Config config_;
    Connection connection_;
    WalkEnd* peer_ = nullptr;
    Completed completed_;
    Executed executed_;
    Replied replied_;
    std::deque<WorkRequest> queue_;
    std::deque<Arrival> arrivals_;
    std::deque<std::uint32_t> withdrawing_;
    std::map<std::uint32_t, Exposed> exposed_;
    std::set<std::uint32_t> invalidated_;  ///< by the peer
    std::map<std::uint64_t, Octets> buffers_;
    std::uint64_t next_cookie_ = 1;
    std::uint32_t next_handle_;
    std::uint32_t receive_octets_;
    std::uint32_t resizing_to_ = 0;
    bool has_windows_;
    bool has_closed_ = false;
    bool has_failed_ = false;
    bool is_down_ = false;
    CloseReason reason_ = CloseReason::kNone;
};

}  // namespace urnic::rpcrdma::sim
