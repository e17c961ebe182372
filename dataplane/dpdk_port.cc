#include "dataplane/dpdk_port.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dataplane/eal.h"
#include "dataplane/frame_pool.h"

namespace urnic::dataplane {

namespace {

[[noreturn]] void fail(const DpdkPortConfig& config, const char* what, int error) {
    throw EalError("port " + config.name + ": " + what + " (" + rte_strerror(-error) + ")");
}

std::uint16_t find_port(const DpdkPortConfig& config) {
    std::uint16_t id = 0;
    if (rte_eth_dev_get_port_by_name(config.name.c_str(), &id) == 0) {
        return id;
    }
    std::string known;
    RTE_ETH_FOREACH_DEV(id) {
        std::array<char, RTE_ETH_NAME_MAX_LEN> name{};
        if (rte_eth_dev_get_name_by_port(id, name.data()) == 0) {
            known += std::string(known.empty() ? "" : ", ") + name.data();
        }
    }
    throw EalError("port " + config.name +
                   ": DPDK has no such device. It has: " + (known.empty() ? "none" : known) +
                   ". Bind the NIC to a driver that DPDK can use (dpdk-devbind.py), or name a vdev");
}

/// Spreads flows over the queues, by their addresses and UDP ports; steering does the rest.
void set_rss(const rte_eth_dev_info& info, std::uint32_t queues, rte_eth_conf& conf) {
    constexpr std::uint64_t kUdp = RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;
    if (queues > 1 && (info.flow_type_rss_offloads & kUdp) != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & kUdp;
    }
}

}  // namespace

DpdkPort::DpdkPort(const DpdkPortConfig& config) : port_id_(find_port(config)) {
    rte_eth_dev_info info{};
    int error = rte_eth_dev_info_get(port_id_, &info);
    if (error != 0) {
        fail(config, "the device does not answer", error);
    }
    tx_queues_ = config.num_queues;
    rx_queues_ = std::min<std::uint32_t>(config.num_queues, info.max_rx_queues);
    if (info.max_tx_queues < config.num_queues) {
        throw EalError("port " + config.name + ": has " + std::to_string(info.max_tx_queues) +
                       " transmit queues and each of the " + std::to_string(config.num_queues) +
                       " workers needs one: configure fewer workers");
    }
    rte_eth_conf conf{};
    // af_packet and memif name no largest MTU and a largest frame of 1518 bytes, but take what the
    // interface's MTU lets through.
    if (info.max_mtu >= kFrameRoomBytes && info.min_mtu <= kFrameRoomBytes &&
        info.max_rx_pktlen >= kFrameRoomBytes) {
        conf.rxmode.mtu = kFrameRoomBytes - RTE_ETHER_HDR_LEN - RTE_ETHER_CRC_LEN;
    }
    const bool tells_link = (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
    conf.intr_conf.lsc = tells_link ? 1 : 0;
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
    listen_to_events(tells_link);
}

void DpdkPort::listen_to_events(bool driver_tells) {
    constexpr long kLookNs = 200'000'000;
    const itimerspec every{{0, kLookNs}, {0, kLookNs}};
    changes_ = UniqueFd(driver_tells ? ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
                                     : ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (!changes_ || (!driver_tells && ::timerfd_settime(changes_.get(), 0, &every, nullptr) != 0)) {
        const int error = errno;
        rte_eth_dev_stop(port_id_);
        throw EalError(std::string("cannot watch a port: ") + std::strerror(error));
    }
    for (const rte_eth_event_type type : {RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_INTR_RMV}) {
        (void)rte_eth_dev_callback_register(port_id_, type, on_event, this);
    }
}

// On a thread of DPDK's.
int DpdkPort::on_event(std::uint16_t /*port*/, rte_eth_event_type type, void* self, void* /*unused*/) {
    auto& port = *static_cast<DpdkPort*>(self);
    if (type == RTE_ETH_EVENT_INTR_RMV) {
        port.removed_.store(true, std::memory_order_relaxed);
    }
    (void)::eventfd_write(port.changes_.get(), 1);
    return 0;
}

void DpdkPort::forget_changes() const {
    std::uint64_t ignored = 0;
    (void)!::read(changes_.get(), &ignored, sizeof ignored);
}

DpdkPort::~DpdkPort() {
    for (const rte_eth_event_type type : {RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_INTR_RMV}) {
        (void)rte_eth_dev_callback_unregister(port_id_, type, on_event, this);
    }
    (void)rte_eth_dev_stop(port_id_);
    (void)rte_eth_dev_close(port_id_);
}

std::uint16_t DpdkPort::rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    if (queue >= rx_queues_ || removed()) {
        return 0;
    }
    const std::uint16_t got = rte_eth_rx_burst(port_id_, static_cast<std::uint16_t>(queue), frames, count);
    for (std::uint16_t i = 0; i < got; ++i) {
        note_acquired(frames[i]);
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

void DpdkPort::set_multicast(std::span<const wire::Mac> groups) {
    static_assert(sizeof(wire::Mac) == sizeof(rte_ether_addr));
    auto* list = reinterpret_cast<rte_ether_addr*>(const_cast<wire::Mac*>(groups.data()));
    if (rte_eth_dev_set_mc_addr_list(port_id_, list, static_cast<std::uint32_t>(groups.size())) != 0) {
        // No such filter, or not room for all. Drivers that know neither mode pass every frame anyway.
        (void)rte_eth_allmulticast_enable(port_id_);
    }
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
    return rte_eth_link_get_nowait(port_id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

}  // namespace urnic::dataplane
