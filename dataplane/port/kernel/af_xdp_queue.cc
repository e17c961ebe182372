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

namespace urnic::dataplane {

namespace {

constexpr std::uint32_t kBurst = 32;

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

AfXdpQueue::AfXdpQueue(const std::string& interface, std::uint32_t queue, rte_mempool* frames,
                       Counters& counters)
    : frames_(frames), counters_(counters) {
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

std::uint16_t AfXdpQueue::receive(rte_mbuf** frames, std::uint16_t count) {
    if (must_kick_) [[unlikely]] {
        kick();
    }
    std::uint32_t at = 0;
    const std::uint32_t filled = xsk_ring_cons__peek(&rx_, std::min<std::uint32_t>(count, kBurst), &at);
    if (filled == 0) {
        return 0;
    }
    if (!alloc_frames(frames_, {frames, filled})) {
        xsk_ring_cons__cancel(&rx_, filled);
        ++counters_.drop_no_mbuf;  // they wait in the ring
        return 0;
    }
    std::array<std::uint64_t, kBurst> chunks;
    for (std::uint32_t i = 0; i < filled; ++i) {
        const xdp_desc& slot = *xsk_ring_cons__rx_desc(&rx_, at + i);
        chunks[i] = slot.addr - slot.addr % kChunkBytes;
        // The kernel puts no more than a chunk there.
        rte_memcpy(rte_pktmbuf_mtod(frames[i], void*), memory_ + slot.addr, slot.len);
        frames[i]->data_len = static_cast<std::uint16_t>(slot.len);
        frames[i]->pkt_len = slot.len;
    }
    xsk_ring_cons__release(&rx_, filled);
    give_back(chunks.data(), filled);
    return static_cast<std::uint16_t>(filled);
}

std::uint32_t AfXdpQueue::waiting() { return xsk_cons_nb_avail(&rx_, kRing); }

std::uint64_t AfXdpQueue::take_missed() {
    xdp_statistics stats{};
    socklen_t length = sizeof stats;
    if (::getsockopt(fd(), SOL_XDP, XDP_STATISTICS, &stats, &length) != 0) {
        return 0;
    }
    return stats.rx_dropped + stats.rx_ring_full -
           std::exchange(missed_, stats.rx_dropped + stats.rx_ring_full);
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

std::uint16_t AfXdpQueue::transmit(rte_mbuf** frames, std::uint16_t count) {
    reclaim();
    std::uint16_t taken = 0;
    std::uint32_t sent = 0;
    for (; taken < count && num_free_ != 0; ++taken) {
        const rte_mbuf& frame = *frames[taken];
        std::uint32_t at = 0;
        if (frame.data_len > kMaxFrameBytes) {
            ++counters_.drop_tx_full;
            continue;
        }
        if (xsk_ring_prod__reserve(&tx_, 1, &at) != 1) {
            break;
        }
        const std::uint64_t chunk = free_[--num_free_];
        rte_memcpy(memory_ + chunk, rte_pktmbuf_mtod(&frame, const void*), frame.data_len);
        *xsk_ring_prod__tx_desc(&tx_, at) = {chunk, frame.data_len, 0};
        ++sent;
    }
    if (sent != 0) {
        xsk_ring_prod__submit(&tx_, sent);
    }
    free_frames({frames, taken});
    if (sent != 0 || taken < count) {
        kick();
    }
    return taken;
}

}  // namespace urnic::dataplane
