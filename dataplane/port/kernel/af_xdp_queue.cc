#include "dataplane/port/kernel/af_xdp_queue.h"

#include <fmt/format.h>
#include <linux/if_xdp.h>
#include <rte_memcpy.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "dataplane/port/frame_pool.h"
#include "os/setup_error.h"
#include "os/unique_fd.h"

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kBurst = 32;
// The kernel gives a frame of 64 KB 18 slots.
constexpr std::uint32_t kMostSlots = 2 * kBurst;

// Of Linux 6.6; Debian 12's headers have them not.
constexpr std::uint16_t kUseFragments = 1U << 4U;  // XDP_USE_SG
constexpr std::uint32_t kContinues = 1U << 0U;     // XDP_PKT_CONTD: the next slot has more of the frame

[[noreturn]] void fail(const char* what, int error) {
    std::string hint;
    if (error == EPERM || error == EACCES) {
        hint =
            ". Run urnicd as root, or with CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF, or use port = "
            "\"af_packet\"";
    } else if (error == EBUSY) {
        hint = ". Another program has the interface by AF_XDP: end it first";
    } else if (error == ENOBUFS || error == ENOMEM) {
        hint = ". Allow more locked memory (ulimit -l unlimited, LimitMEMLOCK=infinity)";
    } else {
        hint = ". Use port = \"af_packet\"";
    }
    throw SetupError(fmt::format("{}: {}{}", what, std::strerror(error), hint));
}

}  // namespace

AfXdpQueue::AfXdpQueue(const std::string& interface, std::uint32_t queue, bool has_long_frames,
                       rte_mempool* frames, Counters& counters)
    : frames_(frames),
      counters_(counters),
      max_frame_bytes_(has_long_frames ? kFrameRoomBytes : kMaxBufferBytes) {
    constexpr std::size_t kBytes = std::size_t{2} * kRing * kChunkBytes;
    void* const memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        fail("no memory for AF_XDP", errno);
    }
    memory_ = static_cast<std::byte*>(memory);
    const xsk_umem_config umem_config{kRing, kRing, kChunkBytes, 0, 0};
    int error = xsk_umem__create(&umem_, memory_, kBytes, &fill_, &done_, &umem_config);
    if (error == 0) {
        xsk_socket_config config{};
        config.rx_size = kRing;
        config.tx_size = kRing;
        config.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD;
        config.bind_flags = XDP_USE_NEED_WAKEUP;
        if (has_long_frames) config.bind_flags |= kUseFragments;
        error = xsk_socket__create(&socket_, interface.c_str(), queue, umem_, &rx_, &tx_, &config);
    }
    if (error != 0) {
        (void)xsk_umem__delete(umem_);
        (void)::munmap(memory_, kBytes);
        fail("cannot make an AF_XDP socket", -error);
    }
    // The first half is received into, the second sent from.
    std::array<std::uint64_t, kRing> chunks;
    for (std::uint32_t i = 0; i < kRing; ++i) {
        chunks[i] = std::uint64_t{i} * kChunkBytes;
        free_[num_free_++] = std::uint64_t{kRing + i} * kChunkBytes;
    }
    give_back(chunks.data(), kRing);
}

AfXdpQueue::~AfXdpQueue() {
    xsk_socket__delete(socket_);
    (void)xsk_umem__delete(umem_);
    (void)::munmap(memory_, std::size_t{2} * kRing * kChunkBytes);
}

void AfXdpQueue::give_back(const std::uint64_t* chunks, std::uint32_t count) {
    std::uint32_t at = 0;
    // There is room: as many chunks go round as the ring has places.
    if (xsk_ring_prod__reserve(&fill_, count, &at) != count) {
        return;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        *xsk_ring_prod__fill_addr(&fill_, at + i) = chunks[i];
    }
    xsk_ring_prod__submit(&fill_, count);
    if (xsk_ring_prod__needs_wakeup(&fill_) != 0) {
        (void)::recvfrom(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
    }
}

std::uint32_t AfXdpQueue::take_frame(std::uint32_t at, rte_mbuf* frame) {
    auto* const to = rte_pktmbuf_mtod(frame, std::byte*);
    std::uint32_t length = 0;
    std::uint32_t slots = 0;
    for (bool continues = true; continues; ++slots) {
        const xdp_desc& slot = *xsk_ring_cons__rx_desc(&rx_, at + slots);
        if (length + slot.len <= kFrameRoomBytes) rte_memcpy(to + length, memory_ + slot.addr, slot.len);
        length += slot.len;
        continues = (slot.options & kContinues) != 0;
    }
    frame->data_len = static_cast<std::uint16_t>(length <= kFrameRoomBytes ? length : 0);
    frame->pkt_len = frame->data_len;
    return slots;
}

std::uint16_t AfXdpQueue::receive(rte_mbuf** frames, std::uint16_t count) {
    if (must_kick_) [[unlikely]] {
        kick();
    }
    std::uint32_t at = 0;
    const std::uint32_t filled = xsk_ring_cons__peek(&rx_, kMostSlots, &at);
    const std::uint32_t most = std::min<std::uint32_t>(count, kBurst);
    std::uint32_t whole = 0;
    std::uint32_t slots = 0;
    std::array<std::uint64_t, kMostSlots> chunks;
    for (std::uint32_t i = 0; i < filled && whole < most; ++i) {
        const xdp_desc& slot = *xsk_ring_cons__rx_desc(&rx_, at + i);
        chunks[i] = slot.addr - slot.addr % kChunkBytes;
        if ((slot.options & kContinues) == 0) {
            ++whole;
            slots = i + 1;
        }
    }
    // What is behind them waits, the beginning of a frame, too.
    xsk_ring_cons__cancel(&rx_, filled - slots);
    if (whole == 0) {
        return 0;
    }
    if (!alloc_frames(frames_, {frames, whole})) {
        xsk_ring_cons__cancel(&rx_, slots);
        ++counters_.drop_no_mbuf;  // they wait in the ring
        return 0;
    }
    std::uint16_t got = 0;
    for (std::uint32_t i = 0; i < whole; ++i) {
        at += take_frame(at, frames[i]);
        if (frames[i]->data_len == 0) [[unlikely]] {
            ++too_long_;
            free_frames({&frames[i], 1});
        } else {
            frames[got++] = frames[i];
        }
    }
    xsk_ring_cons__release(&rx_, slots);
    give_back(chunks.data(), slots);
    return got;
}

std::uint32_t AfXdpQueue::waiting() { return xsk_cons_nb_avail(&rx_, kRing); }

std::uint64_t AfXdpQueue::take_missed() {
    xdp_statistics stats{};
    socklen_t length = sizeof stats;
    if (::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &stats, &length) != 0) {
        return 0;
    }
    const std::uint64_t missed = stats.rx_dropped + stats.rx_ring_full + too_long_.value();
    return missed - std::exchange(missed_, missed);
}

void AfXdpQueue::reclaim() {
    std::uint32_t at = 0;
    const std::uint32_t done = xsk_ring_cons__peek(&done_, kRing - num_free_, &at);
    for (std::uint32_t i = 0; i < done; ++i) {
        free_[num_free_++] = *xsk_ring_cons__comp_addr(&done_, at + i);
    }
    xsk_ring_cons__release(&done_, done);
}

void AfXdpQueue::kick() {
    must_kick_ = xsk_ring_prod__needs_wakeup(&tx_) != 0 &&
                 ::sendto(fd(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 &&
                 (errno == EAGAIN || errno == EBUSY || errno == ENOBUFS);
}

std::uint32_t AfXdpQueue::put_frame(const rte_mbuf& frame) {
    const std::uint32_t slots = (frame.data_len + kChunkBytes - 1) / kChunkBytes;
    std::uint32_t at = 0;
    if (num_free_ < slots || xsk_ring_prod__reserve(&tx_, slots, &at) != slots) {
        return 0;
    }
    const auto* const from = rte_pktmbuf_mtod(&frame, const std::byte*);
    for (std::uint32_t i = 0; i < slots; ++i) {
        const std::uint32_t done = i * kChunkBytes;
        const std::uint32_t length = std::min(frame.data_len - done, kChunkBytes);
        const std::uint64_t chunk = free_[--num_free_];
        rte_memcpy(memory_ + chunk, from + done, length);
        *xsk_ring_prod__tx_desc(&tx_, at + i) = {chunk, length, i + 1 < slots ? kContinues : 0};
    }
    return slots;
}

std::uint16_t AfXdpQueue::transmit(rte_mbuf** frames, std::uint16_t count) {
    reclaim();
    std::uint16_t taken = 0;
    std::uint32_t filled = 0;
    for (; taken < count; ++taken) {
        if (frames[taken]->data_len > max_frame_bytes_) {
            ++counters_.drop_tx_full;
            continue;
        }
        const std::uint32_t slots = put_frame(*frames[taken]);
        if (slots == 0) {
            break;
        }
        filled += slots;
    }
    if (filled != 0) {
        xsk_ring_prod__submit(&tx_, filled);
    }
    free_frames({frames, taken});
    if (filled != 0 || taken < count) {
        kick();
    }
    return taken;
}

bool can_have_long_frames() {
    const UniqueFd socket(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
    sockaddr_xdp nowhere{};
    nowhere.sxdp_family = AF_XDP;
    nowhere.sxdp_flags = kUseFragments;
    // One that does not know the flag refuses it before it looks for the interface.
    return socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&nowhere), sizeof nowhere) != 0 &&
           errno == ENODEV;
}

}  // namespace urnic::dataplane
