#include "dataplane/port/kernel/af_packet_queue.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <rte_memcpy.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "dataplane/port/frame_pool.h"
#include "dataplane/port/kernel/classic_bpf.h"
#include "os/setup_error.h"
#include "rnic/wire/layout.h"

namespace urnic::dataplane {

namespace {

/// A slot has the kernel's header, then the frame; longer frames are cut off, seen as such and dropped.
constexpr std::uint32_t kSlotBytes = TPACKET_ALIGN(TPACKET2_HDRLEN + 64 + kFrameRoomBytes);
constexpr std::uint32_t kBlockBytes = 65536;
constexpr std::uint32_t kSlotsPerBlock = kBlockBytes / kSlotBytes;
constexpr std::uint32_t kBlocks = 128;
constexpr std::uint32_t kSlots = kSlotsPerBlock * kBlocks;
constexpr std::size_t kRingBytes = std::size_t{kBlockBytes} * kBlocks;
/// Two MAC addresses: a VLAN tag goes behind them.
constexpr std::size_t kMacsBytes = 12;
constexpr int kSendBufferBytes = 4 << 20;

[[noreturn]] void fail(const char* what) {
    const int error = errno;
    throw SetupError(fmt::format("{}: {}{}", what, std::strerror(error),
                                 error == EPERM || error == EACCES
                                     ? ". Run urnicd as root, or with CAP_NET_RAW (in a container: --cap-add "
                                       "NET_RAW)"
                                     : ""));
}

template <typename Value>
void set_option(int fd, int level, int option, const Value& value, const char* what) {
    if (::setsockopt(fd, level, option, &value, sizeof value) != 0) {
        fail(what);
    }
}

sock_fprog program_of(std::vector<sock_filter>& code) {
    return {static_cast<unsigned short>(code.size()), code.data()};
}

tpacket2_hdr& header_of(std::byte* slot) { return *reinterpret_cast<tpacket2_hdr*>(slot); }

}  // namespace

AfPacketQueue::AfPacketQueue(Use use, int interface, rte_mempool* frames, Counters& counters)
    // Without a protocol nothing comes in before the filter is there.
    : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      frames_(frames),
      counters_(counters) {
    if (!socket_) {
        fail("cannot make a packet socket");
    }
    std::vector<sock_filter> filter = rdma_filter();
    set_option(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, program_of(filter), "cannot attach the filter");
    // The filter drops these as well; since Linux 4.20 they are not even offered.
    const int yes = 1;
    (void)::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof yes);
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kSendBufferBytes, sizeof kSendBufferBytes) !=
        0) {
        set_option(socket_.get(), SOL_SOCKET, SO_SNDBUF, kSendBufferBytes, "cannot set the send buffer");
    }
    if (use == Use::kBoth) {
        make_ring();
    }
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = use == Use::kBoth ? htons(ETH_P_ALL) : 0;
    address.sll_ifindex = interface;
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        const int error = errno;
        unmap();
        errno = error;
        fail("cannot bind a packet socket");
    }
    for (std::size_t i = 0; i < kBurst; ++i) {
        messages_[i].msg_hdr.msg_iov = &pieces_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
    }
}

AfPacketQueue::~AfPacketQueue() { unmap(); }

void AfPacketQueue::unmap() {
    if (ring_ != nullptr) {
        (void)::munmap(ring_, kRingBytes);
    }
}

void AfPacketQueue::make_ring() {
    const int version = TPACKET_V2;
    set_option(socket_.get(), SOL_PACKET, PACKET_VERSION, version, "cannot choose the ring's version");
    tpacket_req request{};
    request.tp_block_size = kBlockBytes;
    request.tp_block_nr = kBlocks;
    request.tp_frame_size = kSlotBytes;
    request.tp_frame_nr = kSlots;
    set_option(socket_.get(), SOL_PACKET, PACKET_RX_RING, request, "cannot make a receive ring");
    void* const ring =
        ::mmap(nullptr, kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket_.get(), 0);
    if (ring == MAP_FAILED) {
        fail("cannot map the receive ring");
    }
    ring_ = static_cast<std::byte*>(ring);
}

std::uint16_t AfPacketQueue::share(std::uint16_t group) {
    std::uint32_t mode =
        static_cast<std::uint32_t>(PACKET_FANOUT_CBPF | (group == 0 ? PACKET_FANOUT_FLAG_UNIQUEID : 0))
        << 16U;
    mode |= group;
    set_option(socket_.get(), SOL_PACKET, PACKET_FANOUT, mode, "cannot share an interface among workers");
    if (group == 0) {
        std::vector<sock_filter> steering = dest_qp_program();
        set_option(socket_.get(), SOL_PACKET, PACKET_FANOUT_DATA, program_of(steering),
                   "cannot steer packets to workers");
        socklen_t length = sizeof mode;
        if (::getsockopt(socket_.get(), SOL_PACKET, PACKET_FANOUT, &mode, &length) != 0) {
            fail("cannot share an interface among workers");
        }
    }
    return static_cast<std::uint16_t>(mode);
}

std::byte* AfPacketQueue::slot(std::uint32_t index) const {
    return ring_ + std::size_t{index / kSlotsPerBlock} * kBlockBytes +
           std::size_t{index % kSlotsPerBlock} * kSlotBytes;
}

// The kernel strips the outermost VLAN tag; it is inserted again, as it was on the wire.
bool AfPacketQueue::copy_out(const std::byte* slot, rte_mbuf& frame) {
    const auto& header = *reinterpret_cast<const tpacket2_hdr*>(slot);
    const bool tagged = (header.tp_status & TP_STATUS_VLAN_VALID) != 0;
    const std::size_t tag_bytes = tagged ? wire::kVlanTagBytes : 0;
    const std::size_t length = header.tp_snaplen;
    if (header.tp_len != header.tp_snaplen || length < wire::kEthernetBytes ||
        length + tag_bytes > kFrameRoomBytes || header.tp_mac + length > kSlotBytes) {
        return false;
    }
    auto* const to = rte_pktmbuf_mtod(&frame, std::byte*);
    const std::byte* const from = slot + header.tp_mac;
    if (tagged) {
        const std::uint16_t type =
            (header.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? header.tp_vlan_tpid : wire::kEtherTypeVlan;
        const std::array<std::uint16_t, 2> tag{htons(type), htons(header.tp_vlan_tci)};
        std::memcpy(to, from, kMacsBytes);
        std::memcpy(to + kMacsBytes, tag.data(), sizeof tag);
        rte_memcpy(to + kMacsBytes + tag_bytes, from + kMacsBytes, length - kMacsBytes);
    } else {
        rte_memcpy(to, from, length);
    }
    frame.data_len = static_cast<std::uint16_t>(length + tag_bytes);
    frame.pkt_len = frame.data_len;
    return true;
}

std::uint16_t AfPacketQueue::receive(rte_mbuf** frames, std::uint16_t count) {
    count = std::min(count, kBurst);
    std::uint16_t filled = 0;
    std::uint32_t end = next_;
    if (ring_ == nullptr) {
        return 0;
    }
    while (filled < count &&
           (__atomic_load_n(&header_of(slot(end)).tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0) {
        ++filled;
        end = end + 1 == kSlots ? 0 : end + 1;
    }
    if (filled == 0) {
        return 0;
    }
    if (!alloc_frames(frames_, {frames, filled})) {
        ++counters_.drop_no_mbuf;  // they wait in the ring
        return 0;
    }
    std::uint16_t got = 0;
    std::array<rte_mbuf*, kBurst> unused;
    std::uint32_t spoilt = 0;
    for (; next_ != end; next_ = next_ + 1 == kSlots ? 0 : next_ + 1) {
        rte_mbuf* const frame = frames[got + spoilt];
        if (copy_out(slot(next_), *frame)) {
            frames[got++] = frame;
        } else {
            ++counters_.drop_malformed;
            unused[spoilt++] = frame;
        }
        __atomic_store_n(&header_of(slot(next_)).tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
    if (spoilt != 0) {
        free_frames({unused.data(), spoilt});
    }
    return got;
}

// The kernel fills the slots in their order: those that it has filled lie side by side.
std::uint32_t AfPacketQueue::waiting() {
    std::uint32_t filled = 0;
    std::uint32_t end = ring_ == nullptr ? 0 : kSlots;
    while (filled < end) {
        const std::uint32_t middle = filled + (end - filled) / 2;
        const tpacket2_hdr& header = header_of(slot((next_ + middle) % kSlots));
        if ((__atomic_load_n(&header.tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0) {
            filled = middle + 1;
        } else {
            end = middle;
        }
    }
    return filled;
}

std::uint64_t AfPacketQueue::take_missed() {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    // The kernel begins again with each question.
    return ::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0 ? stats.tp_drops
                                                                                            : 0;
}

std::uint16_t AfPacketQueue::transmit(rte_mbuf** frames, std::uint16_t count) {
    std::uint16_t done = 0;
    while (done < count) {
        const std::uint16_t burst = std::min<std::uint16_t>(kBurst, static_cast<std::uint16_t>(count - done));
        for (std::uint16_t i = 0; i < burst; ++i) {
            pieces_[i] = {rte_pktmbuf_mtod(frames[done + i], void*), frames[done + i]->data_len};
        }
        int sent = ::sendmmsg(socket_.get(), messages_.data(), burst, MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            break;  // they stay the caller's
        }
        if (sent < 0) {
            // The first cannot be sent: too long, no link, the interface's queue full. A wire may lose it.
            ++counters_.drop_tx_full;
            sent = 1;
        }
        free_frames({frames + done, static_cast<std::size_t>(sent)});
        done = static_cast<std::uint16_t>(done + sent);
    }
    return done;
}

}  // namespace urnic::dataplane
