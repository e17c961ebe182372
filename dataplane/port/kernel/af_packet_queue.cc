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
#include <optional>
#include <span>
#include <utility>
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
constexpr int kReceiveBufferBytes = 16 << 20;

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

/// 0: the slot has a frame as it is, not one that stands for several.
std::size_t segment_bytes_in(const std::byte* slot) {
    const auto& header = *reinterpret_cast<const tpacket2_hdr*>(slot);
    return wire::segment_bytes_of(std::span<const std::byte, wire::kVnetHeaderBytes>(
        slot + header.tp_mac - wire::kVnetHeaderBytes, wire::kVnetHeaderBytes));
}

/// Number of frames in a slot, headers taken for payload.
std::uint32_t frames_in(const std::byte* slot) {
    const std::size_t segment_bytes = segment_bytes_in(slot);
    const std::size_t frame_bytes = reinterpret_cast<const tpacket2_hdr*>(slot)->tp_len;
    return segment_bytes == 0 ? 1
                              : static_cast<std::uint32_t>(std::clamp<std::size_t>(
                                    frame_bytes / segment_bytes, 1, wire::kMaxSegmentsReceived));
}

std::size_t tag_bytes_of(const tpacket2_hdr& header) {
    return (header.tp_status & TP_STATUS_VLAN_VALID) != 0 ? wire::kVlanTagBytes : 0;
}

// The kernel strips the outermost VLAN tag; it is inserted again, as it was on the wire.
void copy_tagged(const tpacket2_hdr& header, const std::byte* from, std::size_t length, std::byte* to) {
    const std::size_t tag_bytes = tag_bytes_of(header);
    if (tag_bytes == 0) {
        rte_memcpy(to, from, length);
        return;
    }
    const std::uint16_t type =
        (header.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? header.tp_vlan_tpid : wire::kEtherTypeVlan;
    const std::array<std::uint16_t, 2> tag{htons(type), htons(header.tp_vlan_tci)};
    std::memcpy(to, from, kMacsBytes);
    std::memcpy(to + kMacsBytes, tag.data(), sizeof tag);
    rte_memcpy(to + kMacsBytes + tag_bytes, from + kMacsBytes, length - kMacsBytes);
}

/// The oldest frame that waits in the socket, behind an error of the interface's that nobody has asked for.
/// Returns its length, also where the pieces are shorter; -1: there is none.
ssize_t receive_copy(int fd, std::span<iovec> pieces) {
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t length = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC);
    return length < 0 && errno == ENETDOWN ? ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_TRUNC) : length;
}

}  // namespace

AfPacketQueue::AfPacketQueue(Use use, int interface, rte_mempool* frames, Counters& counters,
                             std::atomic<SegmentationOffload>& segmentation)
    // Without a protocol nothing comes in before the filter is there.
    : socket_(::socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
      frames_(frames),
      counters_(counters),
      segmentation_(segmentation) {
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
    set_option(socket_.get(), SOL_PACKET, PACKET_VNET_HDR, yes,
               "cannot have the kernel say what segments a frame has");
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
}

AfPacketQueue::~AfPacketQueue() {
    free_frames({segments_.data() + next_segment_, num_segments_ - next_segment_});
    unmap();
}

void AfPacketQueue::unmap() {
    if (ring_ != nullptr) {
        (void)::munmap(ring_, kRingBytes);
    }
}

void AfPacketQueue::make_ring() {
    const int version = TPACKET_V2;
    set_option(socket_.get(), SOL_PACKET, PACKET_VERSION, version, "cannot choose the ring's version");
    // A frame that is longer than a slot waits in the socket besides; its beginning is in the slot.
    const int copy = 1;
    set_option(socket_.get(), SOL_PACKET, PACKET_COPY_THRESH, copy, "cannot keep frames of several segments");
    if (::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kReceiveBufferBytes,
                     sizeof kReceiveBufferBytes) != 0) {
        set_option(socket_.get(), SOL_SOCKET, SO_RCVBUF, kReceiveBufferBytes,
                   "cannot set the receive buffer");
    }
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

bool AfPacketQueue::has_filled(std::uint32_t index) const {
    return (__atomic_load_n(&header_of(slot(index)).tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER) != 0;
}

bool AfPacketQueue::copy_out(const std::byte* slot, rte_mbuf& frame) {
    const auto& header = *reinterpret_cast<const tpacket2_hdr*>(slot);
    const std::size_t length = header.tp_snaplen;
    const std::size_t tag_bytes = tag_bytes_of(header);
    if (header.tp_len != header.tp_snaplen || length < wire::kEthernetBytes ||
        length + tag_bytes > kFrameRoomBytes || header.tp_mac + length > kSlotBytes) {
        return false;
    }
    copy_tagged(header, slot + header.tp_mac, length, rte_pktmbuf_mtod(&frame, std::byte*));
    frame.data_len = static_cast<std::uint16_t>(length + tag_bytes);
    frame.pkt_len = frame.data_len;
    return true;
}

/// Of a frame that nobody gets.
void AfPacketQueue::discard_copy(const std::byte* slot) const {
    if ((reinterpret_cast<const tpacket2_hdr*>(slot)->tp_status & TP_STATUS_COPY) != 0) {
        std::array<std::byte, wire::kVnetHeaderBytes> ignored;  // it is not taken by less
        iovec piece{ignored.data(), ignored.size()};
        (void)receive_copy(socket_.get(), {&piece, 1});
    }
}

void AfPacketQueue::give_back_slot() {
    std::byte* const done = slot(next_);
    if (counted_slots_ != 0) {
        --counted_slots_;
        counted_frames_ -= frames_in(done);
    }
    __atomic_store_n(&header_of(done).tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    next_ = next_ + 1 == kSlots ? 0 : next_ + 1;
}

std::uint16_t AfPacketQueue::receive(rte_mbuf** frames, std::uint16_t count) {
    count = std::min(count, kBurst);
    std::uint16_t got = take_segments(frames, count);
    // Of bad ones, too, only so many: the worker has other work.
    std::uint32_t slots = ring_ == nullptr ? 0 : count;
    while (got < count && slots != 0 && has_filled(next_)) {
        const auto room = static_cast<std::uint16_t>(std::min<std::uint32_t>(count - got, slots));
        std::uint32_t emptied = 0;
        if (segment_bytes_in(slot(next_)) == 0) {
            got = static_cast<std::uint16_t>(got + receive_single(frames + got, room, emptied));
        } else if (cut()) {
            emptied = 1;
            got = static_cast<std::uint16_t>(
                got + take_segments(frames + got, static_cast<std::uint16_t>(count - got)));
        }
        if (emptied == 0) {
            ++counters_.drop_no_mbuf;  // they wait in the ring
            break;
        }
        slots -= emptied;
    }
    return got;
}

std::uint16_t AfPacketQueue::receive_single(rte_mbuf** frames, std::uint16_t count, std::uint32_t& emptied) {
    std::uint16_t filled = 0;
    for (std::uint32_t at = next_; filled < count && has_filled(at) && segment_bytes_in(slot(at)) == 0;
         at = at + 1 == kSlots ? 0 : at + 1) {
        ++filled;
    }
    if (!alloc_frames(frames_, {frames, filled})) {
        return 0;
    }
    emptied = filled;
    std::uint16_t got = 0;
    std::array<rte_mbuf*, kBurst> unused;
    std::uint32_t spoilt = 0;
    for (; filled != 0; --filled) {
        rte_mbuf* const frame = frames[got + spoilt];
        if (copy_out(slot(next_), *frame)) {
            frames[got++] = frame;
        } else {
            ++counters_.drop_malformed;
            unused[spoilt++] = frame;
        }
        discard_copy(slot(next_));
        give_back_slot();
    }
    if (spoilt != 0) {
        free_frames({unused.data(), spoilt});
    }
    return got;
}

bool AfPacketQueue::cut() {
    const std::byte* const at = slot(next_);
    const auto& header = *reinterpret_cast<const tpacket2_hdr*>(at);
    const std::size_t tag_bytes = tag_bytes_of(header);
    std::array<std::byte, wire::UdpFront::kMaxBytes + wire::kVlanTagBytes> beginning;
    const std::size_t seen = std::min<std::size_t>(header.tp_snaplen, wire::UdpFront::kMaxBytes);
    std::optional<wire::SegmentedFrame> whole;
    if (seen >= wire::kEthernetBytes) {
        copy_tagged(header, at + header.tp_mac, seen, beginning.data());
        whole = wire::SegmentedFrame::parse({beginning.data(), seen + tag_bytes}, header.tp_len + tag_bytes,
                                            segment_bytes_in(at));
    }
    if (!whole || whole->front_bytes() + whole->payload_bytes(0) > kFrameRoomBytes) {
        ++counters_.drop_malformed;
        discard_copy(at);
        give_back_slot();
        return true;
    }
    if (header.tp_snaplen != header.tp_len && (header.tp_status & TP_STATUS_COPY) == 0) {
        cut_off_.add(whole->count());
        give_back_slot();
        return true;
    }
    if (!alloc_frames(frames_, {segments_.data(), whole->count()})) {
        return false;
    }
    num_segments_ = whole->count();
    next_segment_ = 0;
    for (std::uint32_t i = 0; i < num_segments_; ++i) {
        rte_mbuf& frame = *segments_[i];
        whole->write_front(i, rte_pktmbuf_mtod(&frame, std::byte*));
        frame.data_len = static_cast<std::uint16_t>(whole->front_bytes() + whole->payload_bytes(i));
        frame.pkt_len = frame.data_len;
    }
    if (!read_payload(at, *whole, tag_bytes)) {
        ++counters_.drop_malformed;
        free_frames({segments_.data(), std::exchange(num_segments_, 0)});
    }
    give_back_slot();
    return true;
}

// A short one lies in the slot, a long one waits in the socket: the kernel copies it to where it is to be.
bool AfPacketQueue::read_payload(const std::byte* slot, const wire::SegmentedFrame& whole,
                                 std::size_t tag_bytes) {
    const auto& header = *reinterpret_cast<const tpacket2_hdr*>(slot);
    const std::byte* const frame = slot + header.tp_mac;
    const std::size_t front_bytes = whole.front_bytes() - tag_bytes;  // there, without the tag
    std::array<std::byte, wire::kVnetHeaderBytes> vnet_header;
    std::array<std::byte, wire::UdpFront::kMaxBytes> front;
    payloads_[0] = {vnet_header.data(), vnet_header.size()};
    payloads_[1] = {front.data(), front_bytes};
    for (std::uint32_t i = 0; i < whole.count(); ++i) {
        auto* const to = rte_pktmbuf_mtod(segments_[i], std::byte*) + whole.front_bytes();
        payloads_[2 + i] = {to, whole.payload_bytes(i)};
        if (header.tp_snaplen == header.tp_len) {
            rte_memcpy(to, frame + front_bytes + whole.payload_offset(i), whole.payload_bytes(i));
        }
    }
    if ((header.tp_status & TP_STATUS_COPY) == 0) {
        return true;
    }
    return receive_copy(socket_.get(), {payloads_.data(), 2 + whole.count()}) ==
               static_cast<ssize_t>(wire::kVnetHeaderBytes + header.tp_len) &&
           std::memcmp(front.data(), frame, front_bytes) == 0;
}

std::uint16_t AfPacketQueue::take_segments(rte_mbuf** frames, std::uint16_t count) {
    const std::uint32_t taken = std::min<std::uint32_t>(count, num_segments_ - next_segment_);
    std::copy_n(segments_.begin() + next_segment_, taken, frames);
    next_segment_ += taken;
    return static_cast<std::uint16_t>(taken);
}

/// Looks at each slot once, however often it is asked.
std::uint32_t AfPacketQueue::waiting() {
    while (ring_ != nullptr && counted_slots_ < kSlots) {
        const std::uint32_t index = (next_ + counted_slots_) % kSlots;
        if (!has_filled(index)) {
            break;
        }
        ++counted_slots_;
        counted_frames_ += frames_in(slot(index));
    }
    return counted_frames_ + num_segments_ - next_segment_;
}

std::uint64_t AfPacketQueue::take_missed() {
    tpacket_stats stats{};
    socklen_t length = sizeof stats;
    // The kernel begins again with each question.
    const bool is_known = ::getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &length) == 0;
    const std::uint64_t cut_off = cut_off_.value();
    return (is_known ? stats.tp_drops : 0) + cut_off - std::exchange(cut_off_told_, cut_off);
}

std::uint16_t AfPacketQueue::transmit(rte_mbuf** frames, std::uint16_t count) {
    std::uint16_t done = 0;
    while (done < count) {
        const std::uint16_t burst =
            std::min<std::uint16_t>(PacketBatch::kMaxFrames, static_cast<std::uint16_t>(count - done));
        const bool is_on = segmentation_.load(std::memory_order_relaxed) == SegmentationOffload::kOn;
        batch_.fill({frames + done, burst},
                    is_on ? mtu_bytes_.load(std::memory_order_relaxed) + wire::kEthernetBytes : 0);
        const std::span<mmsghdr> messages = batch_.messages();
        int sent =
            ::sendmmsg(socket_.get(), messages.data(), static_cast<unsigned>(messages.size()), MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) {
            break;  // they stay the caller's
        }
        if (sent < 0 && errno == EINVAL && batch_.frames_in(1) > 1) {
            segmentation_.store(SegmentationOffload::kRefused, std::memory_order_relaxed);
            continue;
        }
        if (sent < 0) {
            // The first cannot be sent: too long, no link, the interface's queue full. A wire may lose it.
            counters_.drop_tx_full.add(batch_.frames_in(1));
            sent = 1;
        }
        const std::uint16_t num_sent = batch_.frames_in(static_cast<std::size_t>(sent));
        free_frames({frames + done, num_sent});
        done = static_cast<std::uint16_t>(done + num_sent);
    }
    return done;
}

}  // namespace urnic::dataplane
