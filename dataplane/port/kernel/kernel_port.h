// A network interface of the kernel as a port: a queue for each worker (packet sockets, or AF_XDP), in any
// network namespace. Survives the removal of the interface and its return.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "abi/queues.h"
#include "base/function_ref.h"
#include "dataplane/port/kernel/kernel_queue.h"
#include "dataplane/port/kernel/segmentation_offload.h"
#include "dataplane/port/kernel/udp_port_sink.h"
#include "dataplane/port/port.h"
#include "os/net_interface.h"
#include "os/net_namespace.h"
#include "rnic/device/counters.h"

struct rte_mempool;

namespace urnic::dataplane {

class XdpProgram;

struct KernelPortConfig {
    std::string interface;
    std::string netns;              // as NetNamespace takes it
    bool xdp = false;               // AF_XDP; else packet sockets
    std::uint32_t num_queues = 1;   // one for each worker
    std::optional<wire::Mac> mac;   // the RNIC's; absent: the interface's own
    rte_mempool* frames = nullptr;  // received into
    std::array<Counters, abi::kMaxWorkers>* counters = nullptr;
    /// Of packet sockets: kOff stays, else the port says.
    std::atomic<SegmentationOffload>* segmentation = nullptr;
};

class KernelPort final : public Port {
  public:
    /// Opens the interface if it is up. Throws SetupError: what is wrong and what mends it.
    explicit KernelPort(const KernelPortConfig& config);
    ~KernelPort() override;
    KernelPort(const KernelPort&) = delete;
    KernelPort& operator=(const KernelPort&) = delete;

    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override;
    [[nodiscard]] std::uint32_t rx_waiting(std::uint32_t queue) override;
    [[nodiscard]] std::uint64_t rx_missed() override;
    void set_multicast(std::span<const wire::Mac> groups) override;
    [[nodiscard]] int wait_fd(std::uint32_t queue) const override;

    [[nodiscard]] wire::Mac mac() const { return mac_; }
    [[nodiscard]] const NetInterface& interface() const { return interface_; }
    /// As it was when it was opened.
    [[nodiscard]] std::uint32_t mtu_bytes() const { return opened_.mtu_bytes; }
    /// The largest path MTU that the kind of port and the interface's MTU allow.
    [[nodiscard]] std::uint32_t max_path_mtu() const;

    /// Why a larger path MTU cannot be had, and what mends it.
    [[nodiscard]] std::string explain_mtu_limit(std::uint32_t path_mtu_bytes) const;
    /// The command as it is to be typed for the interface's network namespace.
    [[nodiscard]] std::string command_in_netns(const std::string& command) const;

    /// Runs `function` on the thread that stays in the interface's network namespace, or on this one.
    void run_in_netns(FunctionRef function) const { netns_.run(function); }

    // When the interface was removed, or another of its name has appeared, the control thread opens queues,
    // lets each worker use() its own, then destroys the old ones.

    /// 0: the queues in use belong to no interface any more.
    [[nodiscard]] int opened_index() const { return opened_.index; }
    struct Queues {
        std::vector<std::unique_ptr<KernelQueue>> of_worker;
        UniqueFd xdp_link;  // leads frames to them
    };
    /// Throws SetupError.
    [[nodiscard]] Queues open(const InterfaceFacts& facts);
    /// In Worker::call() of each worker.
    void use(std::uint32_t queue, KernelQueue* now) { live_.at(queue) = now; }
    /// Changes while frames are sent. Frames that the interface would not take alone do not leave together.
    void set_interface_mtu(std::uint32_t mtu_bytes);
    /// Returns whether the kernel has refused frames that leave together, once.
    [[nodiscard]] bool take_segmentation_refusal();
    /// The interface's MTU for which the last warning was written.
    [[nodiscard]] std::uint32_t warned_mtu() const { return warned_mtu_; }
    void set_warned_mtu(std::uint32_t mtu_bytes) { warned_mtu_ = mtu_bytes; }
    /// When all workers use `queues`. The caller gets what was there before.
    void adopt(Queues& queues, int index);

  private:
    [[nodiscard]] Queues open_packet(const InterfaceFacts& facts);
    void choose_segmentation();
    [[nodiscard]] Queues open_xdp(int index);
    /// Calls `function` in the interface's network namespace; its SetupError names the interface.
    template <typename Function>
    auto run_for_interface(Function function) const;
    /// A socket for what the interface is to receive besides frames to its own MAC.
    void open_groups(int index);
    bool change_membership(int change, int index, std::uint16_t type, const wire::Mac& mac) const;
    void change_groups(int change, int index, std::span<const wire::Mac> groups);

    KernelPortConfig config_;
    NetNamespace netns_;
    NetInterface interface_;
    InterfaceFacts opened_;
    wire::Mac mac_{};
    std::uint32_t warned_mtu_ = 0;
    bool segmentation_refusal_taken_ = false;
    UdpPortSink udp_port_sink_;
    std::vector<wire::Mac> groups_;  // sorted, none twice
    UniqueFd groups_socket_;         // receives nothing; its memberships make the interface take more frames
    bool all_multicast_ = false;     // there was no room for each of them
    bool has_long_xdp_frames_ = false;  // of several buffers
    std::unique_ptr<XdpProgram> xdp_program_;
    Queues queues_;
    std::uint64_t missed_ = 0;  // by queues_ and those before them, as far as it was read
    std::array<KernelQueue*, abi::kMaxWorkers> live_{};
};

}  // namespace urnic::dataplane
