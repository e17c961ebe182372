// Any DPDK Ethernet device as a port: a NIC, af_packet, af_xdp, memif, or the drivers for tests.
#pragma once

#include <rte_dev.h>
#include <rte_ethdev.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/port/port.h"
#include "os/timer_fd.h"
#include "rnic/wire/packet_view.h"

struct rte_mempool;

namespace urnic::dataplane {

struct DpdkPortConfig {
    std::string name;              // DPDK's: a PCI address or a vdev's name
    std::string hint;              // what the operator can do when it is not there
    std::uint32_t num_queues = 1;  // one for each worker; a device with fewer gives the rest none
    std::uint16_t rx_descriptors = 512;
    std::uint16_t tx_descriptors = 512;
    std::uint32_t path_mtu_bytes = 0;  // required; 0: not checked, as af_packet and memif report too little
    bool promiscuous = false;          // where the device's MAC is not the port's own
    rte_mempool* frames = nullptr;     // received into
};

class DpdkPort final : public Port {
  public:
    /// Configures and starts the device. Throws SetupError: no such device, or it refuses. A device can be
    /// opened once in a process: DPDK forgets it when it is closed.
    explicit DpdkPort(const DpdkPortConfig& config);
    ~DpdkPort() override;
    DpdkPort(const DpdkPort&) = delete;
    DpdkPort& operator=(const DpdkPort&) = delete;

    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    [[nodiscard]] std::uint32_t rx_waiting(std::uint32_t queue) override;
    /// Returns whether the driver can count the frames that wait: else rx_waiting() is always 0.
    [[nodiscard]] bool can_count_waiting() const;
    void set_multicast(std::span<const wire::Mac> groups) override;
    /// Groups of the RNIC itself, in addition to those of set_multicast().
    void set_own_groups(std::vector<wire::Mac> groups);
    [[nodiscard]] std::uint64_t rx_missed() override;
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override;
    [[nodiscard]] bool must_be_polled(std::uint32_t queue) const override;

    [[nodiscard]] wire::Mac mac() const;
    [[nodiscard]] bool link_up() const;
    /// Returns whether the device was unplugged, requested back by the kernel, or lost its peer for good.
    /// Nothing is sent or received then.
    [[nodiscard]] bool removed() const { return removed_.load(std::memory_order_relaxed); }
    /// Becomes readable several times a second, until clear_changes(): time to poll the link's state and
    /// whether the device was removed.
    [[nodiscard]] int changes_fd() const { return changes_->fd(); }
    void clear_changes() const;
    /// Gives a removed() device back to the kernel, which waits for it. Every worker has passed a loop
    /// boundary since it was removed(), and no thread of DPDK's uses it. Returns false if it is still in use:
    /// call it again later.
    bool release_device();
    [[nodiscard]] bool has_device() const { return device_ != nullptr; }

  private:
    void close();
    void listen_to_events();
    static int on_event(std::uint16_t port, rte_eth_event_type type, void* self, void* unused);
    static void on_device_event(const char* device, rte_dev_event_type type, void* self);

    std::uint16_t port_id_ = 0;
    rte_device* device_ = nullptr;  // none once it was given back
    bool closed_ = false;
    std::uint32_t rx_queues_ = 0;
    std::uint32_t tx_queues_ = 0;
    std::vector<wire::Mac> own_groups_;
    std::optional<TimerFd> changes_;  // from listen_to_events() on
    std::atomic<bool> removed_{false};
};

}  // namespace urnic::dataplane
