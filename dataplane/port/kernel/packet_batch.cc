#include "dataplane/port/kernel/packet_batch.h"

#include <rte_mbuf.h>

#include <numeric>

#include "base/check.h"
#include "dataplane/port/frame_pool.h"

namespace urnic::dataplane {

namespace {

constexpr std::array<std::byte, wire::kVnetHeaderBytes> kFrameAsItIs{};

}  // namespace

void PacketBatch::fill(std::span<rte_mbuf* const> frames, std::size_t max_segment_frame_bytes) {
    URNIC_CHECK(frames.size() <= kMaxFrames);
    count_ = 0;
    num_pieces_ = 0;
    num_runs_ = 0;
    for (std::size_t first = 0; first < frames.size();) {
        std::size_t end = first + 1;
        // The others of a run are no longer than its first.
        if (frames[first]->data_len <= max_segment_frame_bytes && run_.begin(frame_bytes(frames[first]))) {
            while (end < frames.size() && run_.extend(frame_bytes(frames[end]))) {
                ++end;
            }
        }
        add_message(frames.subspan(first, end - first));
        first = end;
    }
}

std::uint16_t PacketBatch::frames_in(std::size_t messages) const {
    return std::accumulate(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(messages),
                           std::uint16_t{0});
}

void PacketBatch::add_message(std::span<rte_mbuf* const> frames) {
    const std::size_t first_piece = num_pieces_;
    if (frames.size() == 1) {
        add_piece(kFrameAsItIs.data(), kFrameAsItIs.size());
        add_piece(rte_pktmbuf_mtod(frames[0], const std::byte*), frames[0]->data_len);
    } else {
        Run& run = runs_[num_runs_++];
        run_.write_vnet_header(run.vnet_header.data());
        run_.write_front(run.front.data());
        add_piece(run.vnet_header.data(), run.vnet_header.size());
        add_piece(run.front.data(), run_.front_bytes());
        for (const rte_mbuf* frame : frames) {
            const std::span<const std::byte> payload = frame_bytes(frame).subspan(run_.front_bytes());
            add_piece(payload.data(), payload.size());
        }
    }
    msghdr& header = messages_[count_].msg_hdr;
    header.msg_iov = &pieces_[first_piece];
    header.msg_iovlen = num_pieces_ - first_piece;
    frames_[count_++] = static_cast<std::uint16_t>(frames.size());
}

void PacketBatch::add_piece(const void* data, std::size_t length) {
    // The kernel only reads it.
    pieces_[num_pieces_++] = {const_cast<void*>(data), length};
}

}  // namespace urnic::dataplane
