/// The receives of a QP: a fixed number, of one size; posted again when their message has been handled. Not
/// for two threads at once.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace urnic::rpcrdma {

class Device;

class ReceiveQueue {
  public:
    ReceiveQueue() = default;
    ~ReceiveQueue();
    ReceiveQueue(const ReceiveQueue&) = delete;
    ReceiveQueue& operator=(const ReceiveQueue&) = delete;

    /// Posts all of them. An errno value.
    [[nodiscard]] int start(ibv_qp* qp, const Device& device, std::uint32_t count, std::uint32_t octets);
    /// The message of a completion; not valid once repost() was called.
    [[nodiscard]] std::span<const std::byte> message(std::uint64_t wr_id, std::uint32_t octets) const;
    /// The receive of this completion may be posted again.
    void give_back(std::uint64_t wr_id) { idle_.push_back(static_cast<std::uint32_t>(wr_id)); }
    /// Posts what was given back. An errno value.
    [[nodiscard]] int repost();
    /// Receives that are posted from now on have this size. None becomes smaller.
    void resize(std::uint32_t octets);
    /// The size that all have by now, once after resize(); else 0.
    [[nodiscard]] std::uint32_t take_resized();

  private:
    struct Receive {
        std::span<std::byte> block;
        std::uint32_t octets = 0;
        std::uint32_t local_key = 0;
    };
    [[nodiscard]] bool fill(Receive& receive) const;

    ibv_qp* qp_ = nullptr;
    const Device* device_ = nullptr;
    std::vector<Receive> receives_;
    std::vector<std::uint32_t> idle_;
    std::uint32_t octets_ = 0;
    std::uint32_t smaller_ = 0;  ///< receives that are smaller than octets_
    bool is_resizing_ = false;
};

}  // namespace urnic::rpcrdma
