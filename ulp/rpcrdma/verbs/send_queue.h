/// The send queue of a QP with a queue in front of it: what exceeds its depth waits. WQEs are posted in
/// chains, by flush(). Not for two threads at once.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace urnic::rpcrdma {

/// What follows the completion of a WQE.
enum class WqeKind : std::uint8_t { kMessage, kRead, kWrite, kBind, kInvalidate };

/// A request with what it holds until it is complete.
struct Wqe {
    WqeKind kind = WqeKind::kMessage;
    ibv_wr_opcode opcode = IBV_WR_SEND;
    bool is_signaled = false;
    ibv_sge sge{};
    std::uint64_t remote_address = 0;
    /// READ, WRITE: the remote key. SEND with Invalidate, LOCAL_INV: the key to invalidate. BIND: the new
    /// key.
    std::uint32_t key = 0;
    ibv_mw* window = nullptr;  ///< BIND, with the next two
    ibv_mr* window_region = nullptr;
    unsigned window_access = 0;
    /// Message: what on_sent() is told. Read: the call. Invalidate: the exposure.
    std::uint64_t token = 0;
    /// Invalidate: the withdrawal that ends with this one, + 1; 0: it does not.
    std::uint32_t withdrawal = 0;
    std::byte* block = nullptr;    ///< of the pool, freed with it
    ibv_mr* own_region = nullptr;  ///< deregistered with it
};

class SendQueue {
  public:
    /// Most WQEs that wait and are posted, together.
    static constexpr std::size_t kMaxWqes = 65536;

    void attach(ibv_qp* qp, std::uint32_t depth, std::uint32_t max_inline_octets);
    /// Returns false if too many wait.
    [[nodiscard]] bool push(const Wqe& wqe);
    /// Posts as many as the queue takes. An errno value; what was not posted stays.
    [[nodiscard]] int flush();
    /// Takes the oldest WQE out that is complete with the completion of `wr_id`, into `wqe`; false: none is
    /// left. Posted WQEs complete in order, so those before it are complete, too.
    [[nodiscard]] bool retire(std::uint64_t wr_id, Wqe& wqe);
    /// Takes the oldest out, complete or not: the QP has ended.
    [[nodiscard]] bool take(Wqe& wqe);
    [[nodiscard]] bool is_empty() const { return oldest_ == end_; }

  private:
    [[nodiscard]] Wqe& at(std::uint64_t number) { return ring_[number & (ring_.size() - 1)]; }
    void build(std::uint64_t number, ibv_send_wr& request);

    ibv_qp* qp_ = nullptr;
    std::uint32_t depth_ = 0;
    std::uint32_t max_inline_octets_ = 0;
    std::vector<Wqe> ring_;
    // Numbers of WQEs, also their wr_id: oldest_ <= posted_ <= end_.
    std::uint64_t oldest_ = 0;
    std::uint64_t posted_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace urnic::rpcrdma
