#include "dataplane/port/kernel/kernel_port.h"

#include <fmt/format.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/kernel/af_packet_queue.h"
#include "dataplane/port/kernel/af_xdp_queue.h"
#include "dataplane/port/kernel/udp_port_sink.h"
#include "dataplane/port/kernel/xdp_program.h"
#include "os/setup_error.h"
#include "rnic/wire/dissect/eth/headers.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kMaxXdpPathMtu = 2048;         // of frames of one buffer
constexpr std::uint32_t kMostBytesBesidesIp = 14 + 4;  // Ethernet header, VLAN tag
constexpr const char* kVeth = "veth";                  // as ethtool -i has it

std::string in_namespace(const KernelPortConfig& config, const std::string& command) {
    if (config.netns.empty()) {
        return command;
    }
    const bool is_path = config.netns.find('/') != std::string::npos;
    return (is_path ? "nsenter --net=" : "ip netns exec ") + config.netns + " " + command;
}

InterfaceFacts look_for(const NetInterface& interface, const KernelPortConfig& config) {
    InterfaceFacts facts = interface.look();
    if (facts.index == 0) {
        throw SetupError(fmt::format("there is no network interface \"{}\"{}: see {}", config.interface,
                                     config.netns.empty() ? "" : " in the network namespace " + config.netns,
                                     in_namespace(config, "ip link")));
    }
    if (path_mtu_within(facts.mtu_bytes) == 0) {
        throw SetupError(fmt::format(
            "the MTU of {} is {}, too small for RoCEv2: {}", config.interface, facts.mtu_bytes,
            in_namespace(config,
                         fmt::format("ip link set {} mtu {}", config.interface, interface_mtu_for(1024)))));
    }
    return facts;
}

}  // namespace

template <typename Function>
auto KernelPort::run_for_interface(Function function) const {
    try {
        return netns_.run(function);
    } catch (const SetupError& error) {
        throw SetupError(fmt::format("interface {}: {}", config_.interface, error.what()));
    }
}

KernelPort::KernelPort(const KernelPortConfig& config)
    : config_(config),
      netns_(config.netns),
      interface_(netns_.run([&] { return NetInterface(config.interface); })) {
    const InterfaceFacts facts = look_for(interface_, config);
    mac_ = config.mac.value_or(facts.mac);
    // Not on others: a NIC's driver would put frames together whose identifications nobody can tell then.
    const bool is_veth = interface_.look_up_driver() == kVeth;
    udp_port_sink_ = netns_.run([is_veth] { return UdpPortSink::open(is_veth); });
    opened_ = facts;
    opened_.index = 0;
    warned_mtu_ = facts.mtu_bytes;
    if (config.xdp) {
        // Only where they are needed: with them a NIC may copy what it need not copy otherwise.
        has_long_xdp_frames_ = facts.mtu_bytes > AfXdpQueue::kMaxBufferBytes - kMostBytesBesidesIp &&
                               run_for_interface([] { return can_have_long_frames(); });
        xdp_program_ =
            run_for_interface([this] { return std::make_unique<XdpProgram>(has_long_xdp_frames_); });
    }
    if (facts.is_up) {
        Queues queues = open(facts);
        for (std::uint32_t i = 0; i < queues.of_worker.size(); ++i) {
            use(i, queues.of_worker[i].get());
        }
        adopt(queues, facts.index);
    }
}

KernelPort::~KernelPort() = default;

/// A veth hands frames over as they are, so that those which left together arrive together. Elsewhere they
/// would be cut, and get UDP checksums that RoCEv2 need not have.
void KernelPort::choose_segmentation() {
    using enum SegmentationOffload;
    std::atomic<SegmentationOffload>& chosen = *config_.segmentation;
    if (const SegmentationOffload before = chosen; before != kOff && before != kRefused) {
        chosen = interface_.look_up_driver() == kVeth ? kOn : kNotVeth;
    }
}

KernelPort::Queues KernelPort::open_packet(const InterfaceFacts& facts) {
    Queues queues;
    choose_segmentation();
    std::uint16_t group = 0;
    for (std::uint32_t i = 0; i < config_.num_queues; ++i) {
        auto queue = std::make_unique<AfPacketQueue>(AfPacketQueue::Use::kBoth, facts.index, config_.frames,
                                                     (*config_.counters)[i], *config_.segmentation);
        queue->set_mtu(facts.mtu_bytes);
        group = config_.num_queues > 1 ? queue->share(group) : group;
        queues.of_worker.push_back(std::move(queue));
    }
    return queues;
}

KernelPort::Queues KernelPort::open_xdp(int index) {
    const std::uint32_t receivers = receive_queues(config_.interface);
    if (receivers > config_.num_queues) {
        throw SetupError(fmt::format(
            "it receives by {} queues and there are {} workers, each of which can look at one: {}, or "
            "configure {} workers",
            receivers, config_.num_queues,
            in_namespace(config_,
                         fmt::format("ethtool -L {} combined {}", config_.interface, config_.num_queues)),
            receivers));
    }
    Queues queues;
    queues.xdp_link = xdp_program_->attach(config_.interface, index);
    for (std::uint32_t i = 0; i < config_.num_queues; ++i) {
        Counters& counters = (*config_.counters)[i];
        if (i < receivers) {
            auto queue = std::make_unique<AfXdpQueue>(config_.interface, i, has_long_xdp_frames_,
                                                      config_.frames, counters);
            xdp_program_->redirect(i, queue->fd());
            queues.of_worker.push_back(std::move(queue));
        } else {
            // One socket has a queue of the NIC: who has none sends as programs do.
            queues.of_worker.push_back(std::make_unique<AfPacketQueue>(
                AfPacketQueue::Use::kSend, index, config_.frames, counters, *config_.segmentation));
        }
    }
    return queues;
}

KernelPort::Queues KernelPort::open(const InterfaceFacts& facts) {
    return run_for_interface([&] { return config_.xdp ? open_xdp(facts.index) : open_packet(facts); });
}

void KernelPort::adopt(Queues& queues, int index) {
    (void)rx_missed();
    std::swap(queues_, queues);
    opened_.index = index;
    groups_socket_ = UniqueFd();
    if (index != 0) {
        open_groups(index);
    }
}

void KernelPort::set_interface_mtu(std::uint32_t mtu_bytes) {
    for (const auto& queue : queues_.of_worker) {
        queue->set_mtu(mtu_bytes);
    }
}

bool KernelPort::take_segmentation_refusal() {
    return *config_.segmentation == SegmentationOffload::kRefused &&
           !std::exchange(segmentation_refusal_taken_, true);
}

void KernelPort::open_groups(int index) {
    groups_socket_ = netns_.run([] { return UniqueFd(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)); });
    all_multicast_ = false;
    if (mac_ != interface_.look().mac) {
        (void)change_membership(PACKET_ADD_MEMBERSHIP, index, PACKET_MR_PROMISC, {});
    }
    // Where the interface's hardware leaves pause frames to others.
    (void)change_membership(PACKET_ADD_MEMBERSHIP, index, PACKET_MR_MULTICAST, wire::kMacControlAddress);
    change_groups(PACKET_ADD_MEMBERSHIP, index, groups_);
}

bool KernelPort::change_membership(int change, int index, std::uint16_t type, const wire::Mac& mac) const {
    packet_mreq request{};
    request.mr_ifindex = index;
    request.mr_type = type;
    request.mr_alen = static_cast<unsigned short>(mac.size());
    std::copy(mac.begin(), mac.end(), std::begin(request.mr_address));
    return ::setsockopt(groups_socket_.get(), SOL_PACKET, change, &request, sizeof request) == 0;
}

void KernelPort::change_groups(int change, int index, std::span<const wire::Mac> groups) {
    for (const wire::Mac& group : groups) {
        if (all_multicast_) {
            return;
        }
        if (!change_membership(change, index, PACKET_MR_MULTICAST, group) &&
            change == PACKET_ADD_MEMBERSHIP) {
            // No room for that many.
            all_multicast_ = change_membership(change, index, PACKET_MR_ALLMULTI, {});
        }
    }
}

// For each change the kernel walks all memberships: only differences are passed on.
void KernelPort::set_multicast(std::span<const wire::Mac> groups) {
    std::vector<wire::Mac> wanted(groups.begin(), groups.end());
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    if (opened_.index != 0) {
        std::vector<wire::Mac> gone;
        std::vector<wire::Mac> come;
        std::set_difference(groups_.begin(), groups_.end(), wanted.begin(), wanted.end(),
                            std::back_inserter(gone));
        std::set_difference(wanted.begin(), wanted.end(), groups_.begin(), groups_.end(),
                            std::back_inserter(come));
        change_groups(PACKET_DROP_MEMBERSHIP, opened_.index, gone);
        change_groups(PACKET_ADD_MEMBERSHIP, opened_.index, come);
    }
    groups_ = std::move(wanted);
}

std::uint32_t KernelPort::max_path_mtu() const {
    const std::uint32_t fits = path_mtu_within(opened_.mtu_bytes);
    return config_.xdp && !has_long_xdp_frames_ ? std::min(fits, kMaxXdpPathMtu) : fits;
}

std::string KernelPort::explain_mtu_limit(std::uint32_t path_mtu_bytes) const {
    const bool fits = path_mtu_bytes <= path_mtu_within(opened_.mtu_bytes);
    if (config_.xdp && fits && path_mtu_bytes > kMaxXdpPathMtu) {
        return fmt::format(
            "this kernel's AF_XDP carries frames of at most {} bytes: Linux 6.6 or later, mtu = {} or port = "
            "\"af_packet\"",
            AfXdpQueue::kMaxBufferBytes, kMaxXdpPathMtu);
    }
    return fmt::format("mtu = {} needs an MTU of {} and {} has {}: {}", path_mtu_bytes,
                       interface_mtu_for(path_mtu_bytes), config_.interface, opened_.mtu_bytes,
                       in_namespace(config_, fmt::format("ip link set {} mtu {}", config_.interface,
                                                         interface_mtu_for(path_mtu_bytes))));
}

std::string KernelPort::command_in_netns(const std::string& command) const {
    return in_namespace(config_, command);
}

std::uint64_t KernelPort::rx_missed() {
    for (const auto& queue : queues_.of_worker) {
        missed_ += queue->take_missed();
    }
    return missed_;
}

std::uint16_t KernelPort::rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    KernelQueue* const live = live_[queue];
    return live != nullptr ? live->receive(frames, count) : 0;
}

std::uint16_t KernelPort::tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) {
    KernelQueue* const live = live_[queue];
    if (live != nullptr) {
        return live->transmit(frames, count);
    }
    free_frames({frames, count});  // the interface was deleted
    return count;
}

std::uint32_t KernelPort::rx_waiting(std::uint32_t queue) {
    KernelQueue* const live = live_[queue];
    return live != nullptr ? live->waiting() : 0;
}

int KernelPort::wait_fd(std::uint32_t queue) const {
    const KernelQueue* const live = live_[queue];
    return live != nullptr ? live->fd() : -1;
}

}  // namespace urnic::dataplane
