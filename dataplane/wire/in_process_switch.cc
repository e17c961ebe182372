#include "dataplane/wire/in_process_switch.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"
#include "dataplane/wire/local_frame.h"
#include "os/setup_error.h"
#include "rnic/wire/dissect/eth/headers.h"
#include "rnic/wire/frame.h"
#include "rnic/wire/ib_frame.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint64_t kNoMac = ~std::uint64_t{0};
constexpr std::uint32_t kNoPort = ~0U;

std::uint64_t mac_number(const std::uint8_t* mac) {
    std::uint64_t number = 0;
    std::memcpy(&number, mac, 6);
    return number;
}

/// The bit of a group filter that stands for this Ethernet address.
std::uint64_t filter_bit(const wire::Mac& mac) {
    std::uint32_t hash = 0;
    for (const std::uint8_t byte : mac) {
        hash = (hash ^ byte) * 0x01000193U;
    }
    return std::uint64_t{1} << (hash >> 26U);
}

/// The same for a multicast LID, whose numbers are mostly consecutive.
std::uint64_t filter_bit(std::uint16_t mlid) { return std::uint64_t{1} << (mlid % 64U); }

/// Frames for the only consumer.
std::uint32_t count_of(const rte_ring& ring) {
    return __atomic_load_n(&ring.prod.tail, __ATOMIC_ACQUIRE) - ring.cons.tail;
}

/// Room for the only producer; what the consumer takes meanwhile makes more.
bool has_room(const rte_ring& ring) {
    const std::uint32_t taken = __atomic_load_n(&ring.cons.tail, __ATOMIC_ACQUIRE);
    return ring.prod.head - taken < ring.capacity;
}

}  // namespace

class InProcessSwitch::SwitchPort final : public Port {
  public:
    SwitchPort(InProcessSwitch& of, std::uint32_t index) : switch_(of), index_(index) {}
    std::uint16_t rx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        return switch_.receive(index_, queue, frames, count);
    }
    std::uint16_t tx_burst(std::uint32_t queue, rte_mbuf** frames, std::uint16_t count) override {
        return switch_.transmit(queue, frames, count);
    }
    void set_multicast(std::span<const wire::Mac> groups) override {
        std::uint64_t filter = 0;
        for (const wire::Mac& group : groups) {
            filter |= filter_bit(group);
        }
        switch_.group_filters_[index_].store(filter, std::memory_order_relaxed);
    }
    void set_multicast_lids(std::span<const std::uint16_t> lids) override {
        std::uint64_t filter = 0;
        for (const std::uint16_t lid : lids) {
            filter |= filter_bit(lid);
        }
        switch_.group_filters_[index_].store(filter, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint32_t rx_waiting(std::uint32_t queue) override {
        std::uint32_t waiting = 0;
        for (std::uint32_t from = 0; from < switch_.handoff_.num_workers(); ++from) {
            waiting += count_of(*switch_.ring(from, index_, queue));
        }
        return waiting;
    }
    [[nodiscard]] std::uint32_t local_waiting(std::uint32_t queue) override {
        return count_of(*switch_.ring(queue, index_, queue));
    }
    [[nodiscard]] int wait_fd(std::uint32_t /*queue*/) const override { return -1; }

  private:
    InProcessSwitch& switch_;
    std::uint32_t index_;
};

InProcessSwitch::InProcessSwitch(const std::vector<PortSpec>& ports, WorkerHandoff& handoff)
    : handoff_(handoff), specs_(ports), macs_(ports.size()), group_filters_(ports.size()) {
    const std::uint32_t workers = handoff.num_workers();
    if (std::any_of(ports.begin(), ports.end(), [](const PortSpec& port) { return port.is_infiniband; })) {
        forwarding_ = std::vector<std::atomic<std::uint32_t>>(kLids);
        for (std::atomic<std::uint32_t>& port : forwarding_) {
            port.store(kNoPort, std::memory_order_relaxed);
        }
    }
    // Names of rings are the process's: several fabrics may live in one (tests do that).
    static std::atomic<std::uint32_t> instances{0};
    const std::uint32_t instance = instances.fetch_add(1);
    for (std::uint32_t index = 0; index < ports.size(); ++index) {
        if (!ports[index].is_infiniband) {
            set_mac(index, ports[index].mac);
        } else {
            // What stands in a packet's first six bytes is no MAC, and never equal to this.
            macs_[index].store(kNoMac, std::memory_order_relaxed);
            for (std::uint32_t path = 0; ports[index].lid != 0 && path < 1U << ports[index].lmc; ++path) {
                set_forwarding(static_cast<std::uint16_t>(ports[index].lid + path), index);
            }
        }
        ports_.push_back(std::make_unique<SwitchPort>(*this, index));
    }
    cursors_.resize(ports.size() * workers);
    rings_.resize(ports.size() * workers * workers);
    for (std::size_t i = 0; i < rings_.size(); ++i) {
        const std::string name = "wire" + std::to_string(instance) + "_" + std::to_string(i);
        // RING_F_EXACT_SZ: kRingFrames usable places.
        rings_[i] = rte_ring_create(name.c_str(), kRingFrames, SOCKET_ID_ANY,
                                    RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
        if (rings_[i] == nullptr) {
            const std::string why = rte_strerror(rte_errno);
            for (std::size_t made = 0; made < i; ++made) {
                rte_ring_free(rings_[made]);
            }
            throw SetupError("cannot make the rings of the in-process wire (" + why +
                             "): give the daemon more packet memory (eal_args = [\"-m\", \"MB\"])");
        }
    }
}

InProcessSwitch::~InProcessSwitch() {
    for (rte_ring* ring : rings_) {
        void* frame = nullptr;
        while (rte_ring_sc_dequeue(ring, &frame) == 0) {
            rte_pktmbuf_free(static_cast<rte_mbuf*>(frame));
        }
        rte_ring_free(ring);
    }
}

rte_ring* InProcessSwitch::ring(std::uint32_t from, std::uint32_t port, std::uint32_t to) const {
    const std::size_t workers = handoff_.num_workers();
    return rings_[(port * workers + to) * workers + from];
}

Port& InProcessSwitch::port(std::uint32_t index) {
    URNIC_CHECK(index < ports_.size());
    return *ports_[index];
}

std::optional<wire::Mac> InProcessSwitch::resolve(const wire::Gid& gid) const {
    for (const PortSpec& spec : specs_) {
        if (gid != wire::Gid{} && std::find(spec.gids.begin(), spec.gids.end(), gid) != spec.gids.end()) {
            return spec.mac;
        }
    }
    return std::nullopt;
}

std::uint64_t InProcessSwitch::unknown_mac_frames() const {
    return unknown_mac_frames_.load(std::memory_order_relaxed);
}

void InProcessSwitch::set_mac(std::uint32_t port, const wire::Mac& mac) {
    macs_[port].store(mac_number(mac.data()), std::memory_order_relaxed);
}

void InProcessSwitch::set_forwarding(std::uint16_t lid, std::optional<std::uint32_t> port) {
    forwarding_.at(lid).store(port.value_or(kNoPort), std::memory_order_relaxed);
}

std::optional<std::uint32_t> InProcessSwitch::port_of(std::span<const std::byte> frame) const {
    const std::uint64_t mac = mac_number(reinterpret_cast<const std::uint8_t*>(frame.data()));
    for (std::uint32_t port = 0; port < macs_.size(); ++port) {
        if (macs_[port].load(std::memory_order_relaxed) == mac) {
            return port;
        }
    }
    return std::nullopt;
}

rte_ring* InProcessSwitch::route(std::uint32_t from, const rte_mbuf& frame, std::uint32_t& worker) const {
    const std::span<const std::byte> bytes = frame_bytes(&frame);
    if (bytes.size() < 14) {
        return nullptr;
    }
    if (const auto port = port_of(bytes)) {
        // As a NIC's flow rules would: directly to the worker that owns the QP. ~0u (not RoCEv2) goes to one
        // of them, which counts and drops it.
        worker = handoff_.num_workers() == 1 ? 0
                 : is_local(frame)           ? from
                                             : handoff_.worker_of(wire::peek_dest_qp(bytes));
        return ring(from, *port, worker);
    }
    return forwarding_.empty() ? nullptr : route_by_lid(from, bytes, worker);
}

rte_ring* InProcessSwitch::route_by_lid(std::uint32_t from, std::span<const std::byte> frame,
                                        std::uint32_t& worker) const {
    const std::uint16_t lid = wire::peek_dlid(frame);
    const std::uint32_t port =
        lid < forwarding_.size() ? forwarding_[lid].load(std::memory_order_relaxed) : kNoPort;
    if (port >= ports_.size()) {
        return nullptr;
    }
    worker = handoff_.num_workers() == 1 ? 0 : handoff_.worker_of(wire::peek_ib_dest_qp(frame));
    return ring(from, port, worker);
}

bool InProcessSwitch::is_subscribed(std::uint32_t port, const wire::Mac& group) const {
    // Everybody is the other end of this wire's link.
    return group == wire::kMacControlAddress ||
           (group_filters_[port].load(std::memory_order_relaxed) & filter_bit(group)) != 0;
}

bool InProcessSwitch::is_member(std::uint32_t port, std::uint16_t mlid) const {
    return (group_filters_[port].load(std::memory_order_relaxed) & filter_bit(mlid)) != 0;
}

bool InProcessSwitch::is_group_frame(std::span<const std::byte> frame) const {
    if (!forwarding_.empty()) {
        return frame.size() >= wire::kLrhBytes && wire::is_multicast_lid(wire::peek_dlid(frame));
    }
    return frame.size() >= 14 && (frame[0] & std::byte{1}) != std::byte{0};
}

bool InProcessSwitch::is_receiver(std::uint32_t port, std::span<const std::byte> frame) const {
    if (!forwarding_.empty()) {
        return is_member(port, wire::peek_dlid(frame));
    }
    wire::Mac group{};
    std::memcpy(group.data(), frame.data(), group.size());
    return is_subscribed(port, group);
}

bool InProcessSwitch::deliver(std::uint32_t port, rte_mbuf* frame) {
    const std::uint32_t worker =
        handoff_.num_workers() == 1 ? 0 : handoff_.worker_of(wire::peek_ib_dest_qp(frame_bytes(frame)));
    if (rte_ring_sp_enqueue(ring(0, port, worker), frame) != 0) {
        return false;
    }
    if (worker != 0) {
        handoff_.wakeup().wake(worker);
    }
    return true;
}

bool InProcessSwitch::replicate(std::uint32_t from, rte_mbuf* frame, std::uint32_t& to_wake) {
    const std::span<const std::byte> bytes = frame_bytes(frame);
    const auto peek_qp = forwarding_.empty() ? wire::peek_dest_qp : wire::peek_ib_dest_qp;
    const std::uint32_t to = handoff_.num_workers() == 1 ? 0 : handoff_.worker_of(peek_qp(bytes));
    const auto ports = static_cast<std::uint32_t>(ports_.size());
    for (std::uint32_t port = 0; port < ports; ++port) {
        if (is_receiver(port, bytes) && !has_room(*ring(from, port, to))) {
            return false;
        }
    }
    for (std::uint32_t port = 0; port < ports; ++port) {
        if (!is_receiver(port, bytes)) {
            continue;
        }
        // The receivers share the bytes and only read them.
        rte_mbuf_refcnt_update(frame, 1);
        if (rte_ring_sp_enqueue(ring(from, port, to), frame) !=
            0) {  // it joined the group after the check, and is full
            free_frames({&frame, 1});
        }
        to_wake |= to != from ? 1U << to : 0U;
    }
    free_frames({&frame, 1});
    return true;
}

std::uint16_t InProcessSwitch::transmit(std::uint32_t worker, rte_mbuf** frames, std::uint16_t count) {
    std::uint16_t taken = 0;
    std::uint32_t to_wake = 0;  // bit mask of workers
    while (taken < count) {
        if (is_group_frame(frame_bytes(frames[taken]))) {
            if (!replicate(worker, frames[taken], to_wake)) {
                break;
            }
            ++taken;
            continue;
        }
        std::uint32_t to = 0;
        rte_ring* const ring = route(worker, *frames[taken], to);
        if (ring == nullptr) {
            unknown_mac_frames_.fetch_add(packets_in(*frames[taken]), std::memory_order_relaxed);
            free_frames({frames + taken, 1});
            ++taken;
            continue;
        }
        // Frames of one flow follow each other: find how many go the same way.
        std::uint16_t end = taken + 1;
        std::uint32_t next_to = 0;
        while (end < count && route(worker, *frames[end], next_to) == ring) {
            ++end;
        }
        const unsigned wanted = end - taken;
        const unsigned sent =
            rte_ring_sp_enqueue_burst(ring, reinterpret_cast<void**>(frames + taken), wanted, nullptr);
        taken = static_cast<std::uint16_t>(taken + sent);
        to_wake |= sent != 0 && to != worker ? 1U << to : 0U;
        if (sent < wanted) {
            break;
        }
    }
    for (std::uint32_t to = 0; to_wake != 0; ++to, to_wake >>= 1U) {
        if ((to_wake & 1U) != 0) {
            handoff_.wakeup().wake(to);
        }
    }
    return taken;
}

std::uint16_t InProcessSwitch::receive(std::uint32_t port, std::uint32_t worker, rte_mbuf** frames,
                                       std::uint16_t count) {
    const std::uint32_t workers = handoff_.num_workers();
    // Not always from the same sender first: one that keeps its ring full must not starve the others.
    std::uint32_t from = cursors_[port * workers + worker].next++ % workers;
    std::uint16_t taken = 0;
    for (std::uint32_t tried = 0; tried < workers && taken < count; ++tried) {
        taken = static_cast<std::uint16_t>(
            taken + rte_ring_sc_dequeue_burst(ring(from, port, worker),
                                              reinterpret_cast<void**>(frames + taken),
                                              static_cast<unsigned>(count - taken), nullptr));
        from = from + 1 == workers ? 0 : from + 1;
    }
    return taken;
}

}  // namespace urnic::dataplane
