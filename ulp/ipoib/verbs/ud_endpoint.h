/// The UD QP of a link, on stock libibverbs: receives, send slots, address handles, groups.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ulp/ipoib/codec/frame.h"
#include "ulp/ipoib/engine/outbox.h"
#include "ulp/ipoib/verbs/addressing.h"
#include "ulp/ipoib/verbs/kernel_memberships.h"
#include "ulp/ipoib/verbs/rdma_port.h"

namespace urnic::ipoib {

struct UdConfig {
    std::uint32_t qkey = 0x80001B0B;  ///< controlled (RFC 4391, 13); not the GSI's
    std::uint16_t pkey_index = 0;
    std::uint32_t mtu = kDefaultMtu;
    std::uint32_t depth = 512;  ///< receives, and send slots
};

class UdEndpoint : public Outbox {
  public:
    /// Takes the QP to RTS with all receives posted; port and addressing outlive it. Throws SetupError.
    UdEndpoint(const RdmaPort& port, Addressing& addressing, const UdConfig& config);
    ~UdEndpoint() override;

    [[nodiscard]] std::uint32_t qpn() const;
    [[nodiscard]] const RdmaPort& port() const { return port_; }
    [[nodiscard]] Addressing& addressing() const { return addressing_; }
    [[nodiscard]] ibv_pd* pd() const { return pd_.get(); }
    /// Readable when there are completions.
    [[nodiscard]] int completion_fd() const;
    /// Readable when there are events of the device.
    [[nodiscard]] int event_fd() const;
    /// Takes events of the device; throws SetupError when the device is lost. Those that `is_taken` returns
    /// true for are another's.
    void take_events(const std::function<bool(const ibv_async_event&)>& is_taken);
    /// Takes completions, at most `most` and a few more; on_datagram(GRH room, source QPN, payload) for each
    /// receive, whose memory stays as it is until release_receives(). Returns how many there were.
    using OnDatagram = std::function<void(ConstOctets, std::uint32_t, ConstOctets)>;
    std::size_t poll(std::size_t most, const OnDatagram& on_datagram);
    /// Posts the receives again that poll() has taken.
    void release_receives();
    /// Asks for the next event, and takes those that are there.
    void arm();
    /// SENDs that send() takes now.
    [[nodiscard]] std::size_t free_slots() const {
        return config_.depth - static_cast<std::size_t>(sent_ - complete_);
    }
    /// Posts what send() has collected.
    void flush();
    /// Frames for the TAP device go there.
    using OnFrame = std::function<void(ConstOctets, ConstOctets)>;
    void on_frame(OnFrame callback) { deliver_ = std::move(callback); }
    [[nodiscard]] std::uint64_t failed_completions() const { return failed_completions_; }

    [[nodiscard]] AddressHandle create_handle(const Gid& destination) override;
    void destroy_handle(AddressHandle handle) override;
    [[nodiscard]] bool send(AddressHandle handle, std::uint32_t qpn, ConstOctets header,
                            ConstOctets payload) override;
    void deliver(ConstOctets header, ConstOctets payload) override { deliver_(header, payload); }
    [[nodiscard]] Progress join(const Gid& group) override;
    void leave(const Gid& group) override;

  private:
    template <class T>
    using Owned = std::unique_ptr<T, int (*)(T*)>;
    struct Retired {
        std::uint64_t after;  ///< SENDs that have to be complete first
        ibv_ah* handle;
    };
    void check_mtu() const;
    void create_qp();
    void start_qp();
    void on_received(const ibv_wc& completion, const OnDatagram& on_datagram);
    void on_sent(const ibv_wc& completion);
    void end_retired();
    void recover_send_queue();

    const RdmaPort& port_;
    Addressing& addressing_;
    UdConfig config_;
    Owned<ibv_pd> pd_{nullptr, ibv_dealloc_pd};
    Owned<ibv_comp_channel> channel_{nullptr, ibv_destroy_comp_channel};
    Owned<ibv_cq> cq_{nullptr, ibv_destroy_cq};
    Owned<ibv_qp> qp_{nullptr, ibv_destroy_qp};
    std::size_t slot_octets_ = 0;
    std::vector<std::byte> memory_;  ///< receives, then send slots
    Owned<ibv_mr> mr_{nullptr, ibv_dereg_mr};
    std::vector<ibv_recv_wr> receives_;  ///< of each slot
    std::vector<ibv_sge> receive_sges_;
    std::vector<std::uint32_t> taken_;  ///< slots of receives that are not posted
    std::vector<ibv_send_wr> wrs_;
    std::vector<ibv_sge> sges_;
    std::uint64_t sent_ = 0;  ///< given to send()
    std::uint64_t posted_ = 0;
    std::uint64_t complete_ = 0;
    std::deque<Retired> retired_;
    std::map<Gid, std::uint16_t> groups_;  ///< attached, with their LIDs
    KernelMemberships memberships_;
    std::uint64_t failed_completions_ = 0;
    OnFrame deliver_;
};

}  // namespace urnic::ipoib
