// One side of many connections, made with stock libibverbs; for programs that run under `urnic run`.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace urnic::bench {

/// Ends the program with `what` and errno.
[[noreturn]] void give_up(const char* what);

/// Destroys by the function that the verbs name.
template <auto kDestroy>
struct Destroy {
    template <typename T>
    void operator()(T* object) const {
        (void)kDestroy(object);
    }
};
template <typename T, auto kDestroy>
using Owned = std::unique_ptr<T, Destroy<kDestroy>>;

/// Zeroed pages that are there already.
class Pages {
  public:
    explicit Pages(std::size_t length_bytes);
    ~Pages();
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] std::size_t size() const { return length_bytes_; }

  private:
    std::byte* data_;
    std::size_t length_bytes_;
};

/// What the peer has to know.
struct SideAddress {
    ibv_gid gid{};
    std::uint64_t buffer = 0;
    std::uint32_t rkey = 0;
};

class Side {
  public:
    static constexpr std::uint32_t kQueueDepth = 128;
    static constexpr std::size_t kBufferBytes = 1U << 20U;

    /// Opens the device and makes that many RC QPs on one CQ, with one registered buffer.
    Side(const std::string& device, std::uint32_t qps);

    [[nodiscard]] SideAddress address() const;
    [[nodiscard]] std::vector<std::uint32_t> numbers() const;
    /// Connects QP i to QP peers[i] of the peer, ready to send.
    void connect(const SideAddress& peer, std::span<const std::uint32_t> peers) const;

    [[nodiscard]] ibv_context* context() const { return context_.get(); }
    [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }
    [[nodiscard]] ibv_cq* cq() const { return cq_.get(); }
    [[nodiscard]] ibv_qp* qp(std::size_t index) const { return qps_[index].get(); }
    [[nodiscard]] std::size_t size() const { return qps_.size(); }
    [[nodiscard]] const ibv_mr& mr() const { return *mr_; }
    [[nodiscard]] std::byte* buffer() const { return buffer_.data(); }

  private:
    // In the order of their making: destroyed from the last to the first.
    Pages buffer_{kBufferBytes};
    Owned<ibv_context, ibv_close_device> context_;
    Owned<ibv_pd, ibv_dealloc_pd> pd_;
    Owned<ibv_mr, ibv_dereg_mr> mr_;
    Owned<ibv_cq, ibv_destroy_cq> cq_;
    std::vector<Owned<ibv_qp, ibv_destroy_qp>> qps_;
};

}  // namespace urnic::bench
