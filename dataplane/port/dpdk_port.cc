#include "dataplane/port/dpdk_port.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "dataplane/port/frame_pool.h"
#include "os/net_interface.h"
#include "os/setup_error.h"

namespace urnic::dataplane {

namespace {

[[noreturn]] void fail(const DpdkPortConfig& config, const char* what, int error) {
    throw SetupError("port " + config.name + ": " + what + " (" + rte_strerror(-error) + "). " + config.hint);
}

std::uint16_t find_port(const DpdkPortConfig& config) {
    std::uint16_t id = 0;
    if (rte_eth_dev_get_port_by_name(config.name.c_str(), &id) == 0) {
        return id;
    }
    throw SetupError("port " + config.name + ": DPDK has no such device. " + config.hint);
}

/// Spreads flows over the queues, by their addresses and UDP ports; WorkerHandoff does the rest.
void set_rss(const rte_eth_dev_info& info, std::uint32_t queues, rte_eth_conf& conf) {
    constexpr std::uint64_t kUdp = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
    if (queues > 1 && (info.flow_type_rss_offloads & kUdp) != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & kUdp;
    }
}

/// The MTU to set: what the largest path MTU needs, or the device's maximum. Not what fits into a
/// buffer: drivers put headers of their own before the frame there. Throws SetupError: it does not carry
/// config.path_mtu_bytes.
std::uint32_t mtu_for(const DpdkPortConfig& config, const rte_eth_dev_info& info) {
    constexpr std::uint32_t kOverhead = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
    const std::uint32_t most = std::min<std::uint32_t>(
        info.max_mtu, std::max<std::uint32_t>(info.max_rx_pktlen, kOverhead) - kOverhead);
    const std::uint32_t wanted = interface_mtu_for(config.path_mtu_bytes);
    if (config.path_mtu_bytes != 0 && most < wanted) {
        throw SetupError("port " + config.name + ": mtu = " + std::to_string(config.path_mtu_bytes) +
                         " needs an MTU of " + std::to_string(wanted) + " and this NIC goes up to " +
                         std::to_string(most) + ": mtu = " + std::to_string(path_mtu_within(most)));
    }
    return std::min(most, interface_mtu_for(4096));
}

}  // namespace

DpdkPort::DpdkPort(const DpdkPortConfig& config) : port_id_(find_port(config)) {
    rte_eth_dev_info info{};
    int error = rte_eth_dev_info_get(port_id_, &info);
    if (error != 0) {
        fail(config, "the device does not answer", error);
    }
    device_ = info.device;
    tx_queues_ = config.num_queues;
    rx_queues_ = std::min<std::uint32_t>(config.num_queues, info.max_rx_queues);
    if (info.max_tx_queues < config.num_queues) {
        throw SetupError("port " + config.name + ": has " + std::to_string(info.max_tx_queues) +
                         " transmit queues and each of the " + std::to_string(config.num_queues) +
                         " workers needs one: configure fewer workers");
    }
    rte_eth_conf conf{};
    conf.rxmode.mtu = mtu_for(config, info);
    conf.intr_conf.rmv = (*info.dev_flags & RTE_ETH_DEV_INTR_RMV) != 0 ? 1 : 0;
    set_rss(info, rx_queues_, conf);
    error = rte_eth_dev_configure(port_id_, static_cast<std::uint16_t>(rx_queues_),
                                  static_cast<std::uint16_t>(tx_queues_), &conf);
    if (error != 0) {
        fail(config, "the device refuses its configuration", error);
    }
    std::uint16_t rx_descriptors = config.rx_descriptors;
    std::uint16_t tx_descriptors = config.tx_descriptors;
    (void)rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &rx_descriptors, &tx_descriptors);
    for (std::uint16_t queue = 0; queue < rx_queues_ && error == 0; ++queue) {
        error = rte_eth_rx_queue_setup(port_id_, queue, rx_descriptors,
                                       static_cast<unsigned>(rte_eth_dev_socket_id(port_id_)), nullptr,
                                       config.frames);
    }
    for (std::uint16_t queue = 0; queue < tx_queues_ && error == 0; ++queue) {
        error = rte_eth_tx_queue_setup(port_id_, queue, tx_descriptors,
                                       static_cast<unsigned>(rte_eth_dev_socket_id(port_id_)), nullptr);
    }
    if (error != 0) {
        fail(config, "cannot set up its queues", error);
    }
    error = rte_eth_dev_start(port_id_);
    if (error != 0) {
        fail(config, "cannot start", error);
    }
    // Drivers that know no such mode pass every frame anyway.
    const int mode = config.promiscuous ? rte_eth_promiscuous_enable(port_id_) : 0;
    if (mode != 0 && mode != -ENOTSUP) {
        rte_eth_dev_stop(port_id_);
        fail(config, "cannot receive for a MAC that is not its own", mode);
    }
    listen_to_events();
}

// Interrupts would report link changes sooner, but not all drivers that claim them deliver them (Intel's for
// the 82574 with MSI-X does not), and with interrupts DPDK does not read the link's state when it is asked.
void DpdkPort::listen_to_events() {
    constexpr TimeNs kLookNs = 200'000'000;
    try {
        changes_.emplace().set_every(kLookNs);
    } catch (const std::system_error& problem) {
        rte_eth_dev_stop(port_id_);
        throw SetupError(std::string("cannot watch a port: ") + problem.what());
    }
    (void)rte_eth_dev_callback_register(port_id_, RTE_ETH_EVENT_INTR_RMV, on_event, this);
    (void)rte_dev_event_callback_register(rte_dev_name(device_), on_device_event, this);
}

// On a thread of DPDK's, as the next one.
int DpdkPort::on_event(std::uint16_t /*port*/, rte_eth_event_type /*type*/, void* self, void* /*unused*/) {
    static_cast<DpdkPort*>(self)->removed_.store(true, std::memory_order_relaxed);
    return 0;
}

// vfio requests a PCI device back in this way.
void DpdkPort::on_device_event(const char* /*device*/, rte_dev_event_type type, void* self) {
    if (type == RTE_DEV_EVENT_REMOVE) {
        static_cast<DpdkPort*>(self)->removed_.store(true, std::memory_order_relaxed);
    }
}

void DpdkPort::clear_changes() const { changes_->acknowledge(); }

DpdkPort::~DpdkPort() { close(); }

void DpdkPort::close() {
    if (closed_) {
        return;
    }
    closed_ = true;
    (void)rte_eth_dev_callback_unregister(port_id_, RTE_ETH_EVENT_INTR_RMV, on_event, this);
    (void)rte_dev_event_callback_unregister(rte_dev_name(device_), on_device_event, this);
    (void)rte_eth_dev_stop(port_id_);
    (void)rte_eth_dev_close(port_id_);
}

bool DpdkPort::release_device() {
    close();
    if (device_ != nullptr && rte_dev_remove(device_) != 0) {
        return false;
    }
    device_ = nullptr;
    return true;
}

std::uint16_t DpdkPort::rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    if (queue >= rx_queues_ || removed()) {
        return 0;
    }
    const std::uint16_t got = rte_eth_rx_burst(port_id_, static_cast<std::uint16_t>(queue), frames, count);
    for (std::uint16_t i = 0; i < got; ++i) {
        note_acquired(frames[i]);
        if (frames[i]->nb_segs != 1) [[unlikely]] {
            // A NIC counts the size of its buffers in powers of two or in whole KB, and continues in the next
            // where ours has room left. What is longer than that room stays in pieces, which the receiver
            // drops.
            (void)rte_pktmbuf_linearize(frames[i]);
        }
    }
    return got;
}

std::uint16_t DpdkPort::tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    if (removed()) [[unlikely]] {
        free_frames({frames, count});
        return count;
    }
    for (std::uint16_t i = 0; i < count; ++i) {
        note_released(frames[i]);
    }
    return rte_eth_tx_burst(port_id_, static_cast<std::uint16_t>(queue), frames, count);
}

std::uint32_t DpdkPort::rx_waiting(std::uint32_t queue) {
    const int count = queue < rx_queues_ && !removed()
                          ? rte_eth_rx_queue_count(port_id_, static_cast<std::uint16_t>(queue))
                          : 0;
    return count > 0 ? static_cast<std::uint32_t>(count) : 0;
}

bool DpdkPort::can_count_waiting() const { return rte_eth_rx_queue_count(port_id_, 0) >= 0; }

void DpdkPort::set_own_groups(std::vector<wire::Mac> groups) {
    own_groups_ = std::move(groups);
    set_multicast({});
}

void DpdkPort::set_multicast(std::span<const wire::Mac> groups) {
    if (removed()) {
        return;
    }
    static_assert(sizeof(wire::Mac) == sizeof(rte_ether_addr));
    std::vector<wire::Mac> all = own_groups_;
    all.insert(all.end(), groups.begin(), groups.end());
    auto* list = reinterpret_cast<rte_ether_addr*>(all.data());
    if (rte_eth_dev_set_mc_addr_list(port_id_, list, static_cast<std::uint32_t>(all.size())) != 0) {
        // No such filter, or not room for all. Drivers that know neither mode pass every frame anyway.
        (void)rte_eth_allmulticast_enable(port_id_);
    }
}

std::uint64_t DpdkPort::rx_missed() {
    rte_eth_stats stats{};
    return !removed() && rte_eth_stats_get(port_id_, &stats) == 0 ? stats.imissed + stats.ierrors : 0;
}

int DpdkPort::wait_fd(std::uint32_t /*queue*/) const { return -1; }

bool DpdkPort::must_be_polled(std::uint32_t queue) const { return queue < rx_queues_; }

wire::Mac DpdkPort::mac() const {
    rte_ether_addr address{};
    wire::Mac mac{};
    if (rte_eth_macaddr_get(port_id_, &address) == 0) {
        std::memcpy(mac.data(), address.addr_bytes, mac.size());
    }
    return mac;
}

bool DpdkPort::link_up() const {
    rte_eth_link link{};
    return !removed() && rte_eth_link_get_nowait(port_id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace urnic::dataplane
