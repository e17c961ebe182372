/// The RC QPs of a link in connected mode, on stock libibverbs: one shared receive queue, send slots that all
/// QPs share, one CQ.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ulp/ipoib/engine/connections.h"
#include "ulp/ipoib/verbs/ud_endpoint.h"

namespace urnic::ipoib {

class RcEndpoint : public RcPort {
  public:
    /// Receives, and send slots, of 64 KiB each, on the device of `ud`, which outlives it. Throws SetupError.
    RcEndpoint(const UdEndpoint& ud, std::uint16_t pkey_index, std::uint32_t depth);
    ~RcEndpoint() override;

    /// Of the port: 1: 256 octets ... 5: 4096.
    [[nodiscard]] std::uint8_t path_mtu() const { return path_mtu_; }
    /// Readable when there are completions.
    [[nodiscard]] int completion_fd() const { return channel_->fd; }
    /// Who is told of what poll() takes.
    class Listener {
      public:
        virtual ~Listener() = default;
        Listener() = default;
        Listener(const Listener&) = delete;
        Listener& operator=(const Listener&) = delete;
        /// The memory stays as it is until release_receives().
        virtual void on_connected(std::uint32_t qpn, ConstOctets payload) = 0;
        virtual void on_acknowledged(std::uint32_t qpn) = 0;
        virtual void on_broken(std::uint32_t qpn) = 0;
    };
    /// Takes completions, at most `most` and a few more. Returns how many there were.
    std::size_t poll(std::size_t most, Listener& listener);
    /// Posts the receives again that poll() has taken.
    void release_receives();
    /// Asks for the next event, and takes those that are there.
    void arm();
    /// Ends QPs that have waited long enough for what the device was doing with them.
    void advance(std::uint64_t now_ms);
    /// An event of the device. Returns whether it is about one of these QPs.
    bool take_event(const ibv_async_event& event, Listener& listener);
    [[nodiscard]] std::uint64_t failed_completions() const { return failed_completions_; }

    [[nodiscard]] std::uint32_t create_qp() override;
    [[nodiscard]] bool connect_qp(std::uint32_t qpn, const RemoteQp& remote) override;
    void destroy_qp(std::uint32_t qpn) override;
    [[nodiscard]] bool send(std::uint32_t qpn, ConstOctets header, ConstOctets payload) override;
    [[nodiscard]] std::size_t free_slots() const override { return free_.size(); }

  private:
    template <class T>
    using Owned = std::unique_ptr<T, int (*)(T*)>;
    struct Qp {
        Owned<ibv_qp> qp{nullptr, ibv_destroy_qp};
        std::uint32_t outstanding = 0;
        bool is_retired = false;
        std::uint64_t end_ms = 0;  ///< of a retired QP
    };
    struct Slot {
        std::uint32_t generation = 0;
        std::uint32_t qpn = 0;  ///< 0: free
    };
    void create_queues();
    [[nodiscard]] std::byte* slot_memory(std::size_t slot) { return memory_.data() + slot * kSlotOctets; }
    void on_received(const ibv_wc& completion, Listener& listener);
    void on_sent(const ibv_wc& completion, Listener& listener);
    void free_slot(std::uint32_t slot);
    void end(std::uint32_t qpn);
    /// A QP in error whose connection lives.
    void report_broken(std::uint32_t qpn, Listener& listener);

    /// The largest message: an encapsulation header and 65,520 octets; slots begin at lines of the cache.
    static constexpr std::size_t kSlotOctets = 65536;
    const UdEndpoint& ud_;
    std::uint16_t pkey_index_;
    std::uint32_t depth_;
    std::uint8_t path_mtu_ = 0;
    std::uint64_t now_ms_ = 0;
    Owned<ibv_comp_channel> channel_{nullptr, ibv_destroy_comp_channel};
    Owned<ibv_cq> cq_{nullptr, ibv_destroy_cq};
    Owned<ibv_srq> srq_{nullptr, ibv_destroy_srq};
    std::vector<std::byte> memory_;  ///< receives, then send slots
    Owned<ibv_mr> mr_{nullptr, ibv_dereg_mr};
    std::unordered_map<std::uint32_t, Qp> qps_;
    std::vector<Slot> slots_;
    std::vector<std::uint32_t> free_;   ///< send slots
    std::vector<std::uint32_t> taken_;  ///< receives that are not posted
    std::vector<ibv_sge> receive_sges_;
    std::vector<ibv_recv_wr> receives_;
    std::uint64_t failed_completions_ = 0;
};

}  // namespace urnic::ipoib
