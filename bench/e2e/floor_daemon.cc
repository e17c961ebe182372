#include "bench/e2e/floor_daemon.h"

#include <algorithm>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"
#include "rnic/wire/crc/copy_payload.h"
#include "rnic/wire/crc/crc32.h"

namespace urnic::bench {

void FloorDaemon::send(const std::byte* source, std::byte* target, std::uint32_t length_bytes) {
    Frame& frame = (*frames_)[in_flight_++];
    frame.target = target;
    frame.payload_bytes = length_bytes;
    std::byte* bytes = frame.bytes;
    std::memcpy(bytes, header_.data(), header_.size());
    wire::store_be16(bytes + kL2Bytes + 2, static_cast<std::uint16_t>(length_bytes));
    std::uint32_t crc = wire::crc32_update(~0U, bytes + kL2Bytes, kHeaderBytes - kL2Bytes);
    crc = wire::crc32_copy(crc, bytes + kHeaderBytes, source, length_bytes);
    wire::store_le32(bytes + kHeaderBytes + length_bytes, ~crc);
}

void FloorDaemon::receive_all() {
    for (std::uint32_t i = 0; i < in_flight_; ++i) {
        const Frame& frame = (*frames_)[i];
        const std::byte* end = frame.bytes + kHeaderBytes + frame.payload_bytes;
        const std::uint32_t crc =
            wire::crc32_update(~0U, frame.bytes + kL2Bytes, kHeaderBytes - kL2Bytes + frame.payload_bytes);
        URNIC_CHECK(~crc == wire::load_le32(end));
        wire::copy_payload(frame.target, frame.bytes + kHeaderBytes, frame.payload_bytes);
    }
    in_flight_ = 0;
}

// One burst from `app` to the other application.
bool FloorDaemon::serve(std::uint32_t app) {
    FloorApp& from = memory_.apps[app];
    FloorApp& to = memory_.apps[1 - app];
    Sender& sender = senders_[app];
    const std::uint32_t first = sender.taken;
    while (in_flight_ < kBurst) {
        const FloorWqe& wqe = from.sq[sender.taken % kRingEntries];
        if (wqe.seq.load(std::memory_order_acquire) != sender.taken + 1) {
            break;
        }
        const std::uint32_t length = std::min(wqe.length_bytes - sender.offset, kMtuBytes);
        send(from.source + sender.offset, to.target + sender.offset, length);
        sender.offset += length;
        if (sender.offset == wqe.length_bytes) {
            sender.offset = 0;
            ++sender.taken;
        }
    }
    const bool any = in_flight_ != 0;
    receive_all();
    for (std::uint32_t index = first; index != sender.taken; ++index) {
        if (from.sq[index % kRingEntries].signaled) {
            FloorCqe& cqe = from.cq[sender.completed % kRingEntries];
            cqe.wqe_index = index;
            cqe.seq.store(++sender.completed, std::memory_order_release);
        }
    }
    return any;
}

bool FloorDaemon::step() {
    const bool first = serve(0);
    const bool second = serve(1);
    return first || second;
}

void FloorDaemon::run(Miss miss) {
    while (!memory_.stop.load(std::memory_order_relaxed)) {
        if (!step()) {
            miss();
        }
    }
}

}  // namespace urnic::bench
